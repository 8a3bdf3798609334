"""What a long search for states tells: its progress, what is to be expected of it, and that it will not fit."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import COIN, assert_same, walk

import bqrl.mdp.search
from bqrl import from_step
from bqrl.errors import SizeError
from bqrl.mdp.search import Progress, Scout, Size


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_long_search_for_states_is_shown_to_a_person(monkeypatch, stream, shown):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(bqrl.mdp.search, "PATIENCE", 0.0)
    from_step(lambda s, a, e: (min(s + a * e, 9), 0.0), [0, 1, 2], {0: 0.5, 1: 0.5}, 6, 0)
    assert ("states" in stream.getvalue()) == shown
    assert stream.getvalue().endswith("\r\x1b[K") == shown  # the line is removed at the end


def test_nothing_is_said_before_two_seconds_and_then_twice_per_second(monkeypatch):
    now = [10.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with Progress("counting") as progress:
        for now[0] in (10.1, 11.9, 12.0, 12.1, 12.4, 12.6):
            progress.say(f"at {now[0]}")
    assert stream.getvalue() == "\r\x1b[Kcounting: at 12.0\r\x1b[Kcounting: at 12.6\r\x1b[K"


def test_a_table_that_the_machine_cannot_hold_is_refused_before_it_is_built(monkeypatch):
    monkeypatch.setattr("bqrl.mdp.search.machine_memory", lambda: 1e5)
    step = lambda s, a, e: (np.minimum(s + a + e, 500), a)  # noqa: E731
    with pytest.raises(
        SizeError, match=r"must fit into the memory of this machine, 0.0001 GB, got .*; pass stored=False"
    ):
        from_step(step, range(5), {0: 0.5, 1: 0.5}, 400, 0, vectorized=True)
    assert from_step(step, range(5), {0: 0.5, 1: 0.5}, 400, 0, vectorized=True, stored=False).S == 501


# -- what is to be expected ----------------------------------------------------------------------------------------------


def two_products(states, actions, events):
    """Two stocks of at most 29, orders of 0 to 2 and demands of 0 or 1 of each."""
    after = np.minimum(states + np.stack([actions // 3, actions % 3], axis=1), 29)
    left = np.maximum(after - np.stack([events // 2, events % 2], axis=1), 0)
    return left, (after - left).sum(axis=1) * 5.0


def one_by_one(state, action, event):
    found = two_products(np.array([state]), np.array([action]), np.array([event]))
    return tuple(found[0][0].tolist()), float(found[1][0])


LAW = dict.fromkeys(range(4), 0.25)
FORMS = [(two_products, True, True), (two_products, True, False), (one_by_one, False, True)]


@pytest.mark.parametrize(("step", "vectorized", "stored"), FORMS)
def test_a_search_forecasts_states_time_and_memory_from_walks(monkeypatch, step, vectorized, stored):
    sizes, said = [], []
    monkeypatch.setattr(bqrl.mdp.search, "AFTER", 0.0)
    monkeypatch.setattr(Progress, "say", lambda self, text: said.append(text))
    report = Scout.report
    monkeypatch.setattr(Scout, "report", lambda self, *found: (report(self, *found), sizes.append(self.size)))
    model = from_step(step, range(9), LAW, 40, (0, 0), vectorized=vectorized, stored=stored)
    assert {size.states for size in sizes} == {model.S} == {900}  # the estimate is made once
    assert sizes[0].transitions == 900 * 9 * 4
    assert sizes[0].returns == 40 * 2 + 1  # rewards 0, 5 and 10
    assert " of about 900 states, about " in said[0]
    assert ("about 32,400 transitions in 0.0052 GB" in said[0]) == stored
    assert "a plan then takes about" in said[0]


def test_a_search_that_will_not_fit_is_refused_by_its_walks_or_says_so(monkeypatch):
    monkeypatch.setattr(bqrl.mdp.search, "AFTER", 0.0)
    monkeypatch.setattr(bqrl.mdp.search, "machine_memory", lambda: 5.1e6)
    with pytest.raises(SizeError, match="32400 transitions must fit into the memory of this machine"):
        from_step(two_products, range(9), LAW, 40, (0, 0), vectorized=True)
    scout = Scout(None, None)
    scout.size = Size(states=900, transitions=32_400, returns=0)
    assert scout.text(9, 3_240, 1.0) == (
        "9 of about 900 states, about 9 s left; about 32,400 transitions in 0.0052 GB, more than the 0.0051 GB of this machine"
    )


@given(
    st.integers(1, 8), st.sampled_from([("max_states", 10), ("max_states", 30), ("max_transitions", 80)]), st.booleans()
)
def test_walks_refuse_only_what_the_search_would_refuse_and_change_no_model(H, limit, per_stage):
    laws = [COIN] * H if per_stage else COIN
    found = []
    for after in (0.0, 1e9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(bqrl.mdp.search, "AFTER", after)
            try:
                found.append(from_step(walk, [0, 1, 2], laws, H, (0, 0), **dict([limit])))
            except SizeError as fault:
                found.append((fault.name, fault.needed > fault.limit))
    if isinstance(found[0], tuple):
        assert found[0] == found[1] == (limit[0], True)
    else:
        assert_same(*found)


def test_a_table_that_is_too_large_is_refused_after_a_second_of_search(monkeypatch):
    followed = []

    def step(states, actions, events):
        followed.append(len(states))
        return two_products(states, actions, events)

    monkeypatch.setattr(bqrl.mdp.search, "AFTER", 0.0)
    with pytest.raises(SizeError, match="at most max_states=100 states"):
        from_step(step, range(9), LAW, 40, (0, 0), vectorized=True, max_states=100)
    assert followed[:2] == [36, 36]  # the first state, asked twice; then the walks
    assert len(followed) == 2 + 40
