# ruff: noqa: E501  (a row of the table of bad inputs is one line)
"""Models from step functions: what is found, both forms alike, laws of noise, and one line for every fault."""

import doctest
import io
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import laws
from scipy import stats

import bqrl
import bqrl.mdp.progress
import bqrl.mdp.step
from bqrl import from_step
from bqrl.errors import SizeError

ARRAYS = ("mu", "row_start", "successor", "probability", "reward", "available", "known")
COIN = {0: 0.5, 1: 0.5}


def inventory(stock, order, demand):
    sold = min(stock + order, demand)
    return stock + order - sold, 5 * sold - 2 * order


def inventory_arrays(stock, order, demand):
    sold = np.minimum(stock + order, demand)
    return stock + order - sold, 5 * sold - 2 * order


def walk(state, action, event):
    """A position and a parity, clipped."""
    x, y = state
    return (min(max(x + action - event, 0), 5), (y + event) % 3), float(x * action)


def walk_arrays(states, actions, events):
    x, y = states.T
    return np.stack([np.clip(x + actions - events, 0, 5), (y + events) % 3], axis=1), (x * actions).astype(float)


def assert_same(one, other):
    for field in ("H", "S", "A", "state_names", "action_names"):
        assert getattr(one, field) == getattr(other, field), field
    for field in ARRAYS:
        assert np.array_equal(getattr(one, field), getattr(other, field)), field
    for field in ("row_law", "pair_start", "pair_outcome"):
        assert np.array_equal(getattr(one.noise, field), getattr(other.noise, field)), field


def test_it_is_the_model_written_by_hand():
    mdp = from_step(inventory, lambda stock: range(3 - stock), {0: 0.25, 1: 0.5, 2: 0.25}, 4, 1)
    rows = []
    for stock in range(3):
        for order in range(3 - stock):
            for demand, p in ((0, 0.25), (1, 0.5), (2, 0.25)):
                after, reward = inventory(stock, order, demand)
                rows.append((stock, order, after, p, reward))
    by_hand = bqrl.MDP(rows, horizon=4, start=1)
    for field in ARRAYS:
        assert np.array_equal(getattr(mdp, field), getattr(by_hand, field)), field
    assert mdp.state_names == ("0", "1", "2")
    assert mdp.noise.states == (0, 1, 2)
    assert mdp.noise.actions == (0, 1, 2)


@given(st.integers(1, 6), st.booleans(), st.integers(1, 3), st.data())
def test_both_forms_give_the_same_model(H, per_stage, E, data):
    noise = [dict(enumerate(data.draw(laws(E)).tolist())) for _ in range(H)] if per_stage else None
    noise = noise or dict(enumerate(data.draw(laws(E)).tolist()))
    one = from_step(walk, [0, 1, 2], noise, H, (2, 0))
    other = from_step(walk_arrays, [0, 1, 2], noise, H, (2, 0), vectorized=True)
    assert_same(one, other)
    assert np.array_equal(np.array(one.noise.states), other.noise.states)


def test_states_are_followed_no_further_than_the_horizon():
    mdp = from_step(lambda s, a, e: (s + 1, 1.0), ["go"], {0: 1.0}, 5, 0)
    assert mdp.noise.states == (0, 1, 2, 3, 4, 5)
    assert mdp.available[0].any(axis=1).tolist() == [True] * 5 + [False]


def test_a_law_per_stage_drives_its_own_stage_and_finds_only_its_own_states():
    mdp = from_step(lambda s, a, e: (s + e, float(e)), ["wait"], [{0: 0.5, 1: 0.5}, {5: 1.0}, {0: 0.1, 9: 0.9}], 3, 0)
    assert not mdp.stationary
    assert mdp.noise.states == (0, 1, 5, 6, 14, 15)
    assert [len(events) for events in mdp.noise.events] == [2, 1, 2]
    assert mdp.noise.row_law[0, 0, 0] == 0
    assert mdp.noise.row_law[1].max() == -1  # one outcome: nothing is random
    assert mdp.noise.row_law[2, 2:4, 0].tolist() == [2, 2]
    law = bqrl.evaluate(mdp, bqrl.solve(mdp, 0.5).policy)
    assert dict(zip(law.values, law.probabilities, strict=True)) == pytest.approx(
        {5: 0.05, 6: 0.05, 14: 0.45, 15: 0.45}
    )


def test_any_hashable_state_and_a_law_of_first_states():
    def step(state, action, event):
        return ("done" if action == "stop" else (state, event) if isinstance(state, str) else state), float(event)

    mdp = from_step(step, ["stop", "go"], COIN, 2, {"a": 0.25, frozenset({1}): 0.75})
    assert mdp.noise.states[0] == "a"  # kinds that do not compare stay as they were found
    assert mdp.mu[mdp.noise.states.index("a")] == 0.25
    assert mdp.state_names[0] == "a"


def test_names_of_equal_text_stay_distinct():
    mdp = from_step(lambda s, a, e: ("1" if e else 1, 0.0), ["go"], COIN, 2, 1)
    assert set(mdp.state_names) == {"1", "'1'"}


def test_actions_of_a_state_are_numbered_in_order():
    mdp = from_step(lambda s, a, e: (s, float(a)), lambda s: [7, 3], COIN, 1, 0)
    assert mdp.action_names == ("3", "7")
    listed = from_step(lambda s, a, e: (s, float(a)), [7, 3], COIN, 1, 0)
    assert listed.action_names == ("7", "3")


def test_a_scipy_distribution_is_cut_where_said_and_never_silently():
    mdp = from_step(inventory, range(3), stats.poisson(2), 3, 0, mass=0.99)
    top = int(stats.poisson(2).ppf(0.99))
    assert mdp.noise.events == (tuple(range(top + 1)),)
    assert mdp.noise.cut[0] == pytest.approx(stats.poisson(2).sf(top))
    assert math.fsum(mdp.noise.probabilities[0]) == pytest.approx(1.0, abs=1e-15)
    assert f"at most {mdp.noise.cut[0]:.3g} of a law's mass cut off" in repr(mdp.noise)
    whole = from_step(inventory, range(3), stats.binom(4, 0.5), 3, 0)
    assert whole.noise.cut == (0.0,)
    assert whole.noise.probabilities[0] == pytest.approx(np.array([1, 4, 6, 4, 1]) / 16)
    newer = from_step(inventory, range(3), stats.Binomial(n=4, p=0.5), 3, 0)
    assert newer.noise.probabilities[0] == pytest.approx(whole.noise.probabilities[0])
    both = from_step(lambda s, a, e: (0, float(e)), range(2), stats.skellam(2, 3), 1, 0, mass=0.9)
    assert both.noise.events[0][0] < 0 < both.noise.events[0][-1]
    assert both.noise.cut[0] <= 0.1


def test_an_event_of_probability_zero_stays_possible():
    mdp = from_step(lambda s, a, e: (e, 0.0), ["go"], {0: 1.0, 1: 0.0}, 2, 0)
    assert mdp.structure.support_size[0, 0, 0] == 2
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [1.0, 0.0]


def test_outcomes_that_differ_in_their_reward_alone_are_told_apart():
    mdp = from_step(lambda s, a, e: (0, float(e)), ["go"], {-1: 0.25, 0: 0.25, 1: 0.5}, 2, 0)
    assert mdp.outcomes(0, 0, 0)[2].tolist() == [-1.0, 0.0, 1.0]
    assert mdp.noise.reveals(0)


def test_minus_zero_is_zero():
    mdp = from_step(lambda s, a, e: (0, -0.0 if e else 0.0), ["go"], COIN, 1, 0)
    assert mdp.successor.size == 1


def test_available_masks_actions_of_the_vectorised_form():
    noise = {0: 0.2, 1: 0.5, 2: 0.3}
    one = from_step(inventory, lambda stock: range(4 - stock), noise, 8, 0)
    other = from_step(
        inventory_arrays, range(4), noise, 8, 0, vectorized=True, available=lambda stock, order: stock + order < 4
    )
    assert_same(one, other)


def test_progress_is_shown_to_a_person_after_two_seconds(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr(bqrl.mdp.progress, "PATIENCE", 0.0)
        from_step(walk, [0, 1, 2], COIN, 6, (2, 0))
        assert ("states" in stream.getvalue()) == shown
        assert stream.getvalue().endswith("\r\x1b[K") == shown  # and the line is removed at the end


@pytest.mark.slow
def test_a_million_transitions_in_seconds():
    def step(states, actions, events):
        x, y = states.T
        return np.stack([np.clip(x + actions - events, 0, 299), np.clip(y + events - 2, 0, 99)], axis=1), actions * 1.0

    begun = time.perf_counter()
    mdp = from_step(step, [0, 1, 2], {e: 1 / 12 for e in range(12)}, 500, (0, 0), vectorized=True)
    assert mdp.noise.pair_event.size > 800_000
    assert time.perf_counter() - begun < 20.0  # about two on an idle core


# -- bad input -------------------------------------------------------------------------------------------------------


class Box:
    """A hashable state that can be changed."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return self.x == other.x

    def __hash__(self):
        return 0

    def __repr__(self):
        return f"Box({self.x})"


def mutating(state, action, event):
    state.x += 1
    return Box(0), 0.0


def random_step(state, action, event):
    return 0, float(np.random.default_rng().random())


def changing_arrays(states, actions, events):
    states += 1
    return states, actions * 1.0


def failing_arrays(states, actions, events):
    if np.any((states == 3) & (events == 1)):
        raise RuntimeError("boom")
    return np.minimum(states + events, 4), actions * 1.0


def good(state, action, event):
    return state, float(event)


def model(step=good, actions=("go",), noise=None, horizon=2, start=0, **options):
    return from_step(step, actions, COIN if noise is None else noise, horizon, start, **options)


def arrays(step=lambda s, a, e: (s, a * 1.0), actions=(0, 1), noise=None, horizon=6, start=0, **options):
    return from_step(step, actions, COIN if noise is None else noise, horizon, start, vectorized=True, **options)


BAD = [
    ("step is no function", lambda: model(step=3), TypeError, "step must be a function (state, action, event), got 3"),
    ("noise as percentages", lambda: model(noise={0: 40, 1: 60}), ValueError, "noise must sum to 1, got 100: percentages? divide them by 100"),
    ("step takes two arguments", lambda: model(step=lambda s, a: (s, 0)), ValueError, "takes 2 positional arguments but 3 were given"),
    ("arrays: available raises", lambda: arrays(available=lambda s, a: 1 // 0), ValueError, "available raised ZeroDivisionError: "),
    ("step raises", lambda: model(step=lambda s, a, e: 1 // e), ValueError, "step(0, 'go', 0) raised ZeroDivisionError: "),
    ("reward is NaN", lambda: model(step=lambda s, a, e: (s, math.nan)), ValueError, "step(0, 'go', 0) must return a finite reward, got nan"),
    ("reward is a word", lambda: model(step=lambda s, a, e: (s, "x")), ValueError, "step(0, 'go', 0) must return a finite reward, got 'x'"),
    ("next state is NaN", lambda: model(step=lambda s, a, e: (math.nan, 0.0)), ValueError, "step(0, 'go', 0) must return a next state that equals itself, got nan"),
    ("wrong shape", lambda: model(step=lambda s, a, e: s), ValueError, "step(0, 'go', 0) must return (next_state, reward), got 0"),
    ("three results", lambda: model(step=lambda s, a, e: (s, 0.0, {})), ValueError, "must return (next_state, reward), got (0, 0.0, {})"),
    ("random", lambda: model(step=random_step), ValueError, "it must be deterministic: put what is random into noise"),
    ("mutates", lambda: model(step=mutating, start=Box(0)), ValueError, "step(Box(0), 'go', 0) changed its state; return a new state instead"),
    ("unhashable next state", lambda: model(step=lambda s, a, e: ([1], 0.0)), TypeError, "the next state of step(0, 'go', 0) must be hashable, got [1]; use a tuple"),
    ("unhashable start", lambda: model(start=[1]), TypeError, "start must be hashable, got [1]; use a tuple instead of a list or an array"),
    ("start sums to 2", lambda: model(start={0: 1.0, 1: 1.0}), ValueError, "start must sum to 1, got 2"),
    ("start is empty", lambda: model(start={}), ValueError, "start must name at least one state, got {}"),
    ("noise sums to 0.9", lambda: model(noise={0: 0.4, 1: 0.5}), ValueError, "noise must sum to 1, got 0.9; divide by the sum if it holds weights"),
    ("negative probability", lambda: model(noise={0: -0.5, 1: 1.5}), ValueError, "noise[0] must be a number of at least 0, got -0.5"),
    ("noise is a word", lambda: model(noise="coin"), TypeError, "noise must be {event: probability} or a frozen discrete SciPy distribution, got 'coin'"),
    ("noise has no events", lambda: model(noise={}), ValueError, "noise must have at least one event, got none"),
    ("noise is continuous", lambda: model(noise=stats.norm(), mass=0.9), TypeError, "noise must be {event: probability} or a frozen discrete SciPy distribution"),
    ("noise is not frozen", lambda: model(noise=stats.poisson, mass=0.9), TypeError, "noise must be {event: probability} or a frozen discrete SciPy distribution"),
    ("noise without end", lambda: model(noise=stats.poisson(2)), ValueError, "noise has infinitely many events and must be cut; give mass, e.g. mass=0.9999"),
    ("mass for a dict", lambda: model(mass=0.9), ValueError, "mass cuts a SciPy distribution; leave it out where noise lists its events"),
    ("mass above 1", lambda: model(noise=stats.poisson(2), mass=1.5), ValueError, "mass must be a number in (0, 1), got 1.5"),
    ("laws for other stages", lambda: model(noise=[COIN] * 3), ValueError, "noise must be one law or 2 laws, one per stage, got 3"),
    ("bad law of a stage", lambda: model(noise=[COIN, {0: 0.5}]), ValueError, "noise[1] must sum to 1, got 0.5"),
    ("no actions", lambda: model(actions=[]), ValueError, "actions must not be empty; give one, e.g. one that does nothing"),
    ("no actions in a state", lambda: model(actions=lambda s: []), ValueError, "actions(0) must not be empty"),
    ("actions are one", lambda: model(actions=3), TypeError, "actions must be a list, got 3"),
    ("actions are a word", lambda: model(actions="go"), TypeError, "actions must be a list, got 'go'"),
    ("actions raise", lambda: model(actions=lambda s: [1 // s]), ValueError, "actions(0) raised ZeroDivisionError"),
    ("actions twice", lambda: model(actions=["a", "a"]), ValueError, "actions must be distinct, got ['a', 'a']"),
    ("unhashable action", lambda: model(actions=[[1]]), TypeError, "actions must be hashable, got [1]"),
    ("horizon 0", lambda: model(horizon=0), ValueError, "horizon must be "),
    ("too many states", lambda: model(step=lambda s, a, e: (2 * s + e, 0.0), start=1, horizon=30, max_states=1000), SizeError, "step reaches more than max_states=1000 states by stage 9, e.g. 1001; bound the state"),
    ("available for the plain form", lambda: model(available=lambda s, a: s), ValueError, "available requires vectorized=True; give actions as a function of the state instead"),
    ("arrays: raises", lambda: arrays(failing_arrays), ValueError, "step(3, 0, 1) raised RuntimeError: boom"),
    ("arrays: mutates", lambda: arrays(changing_arrays), ValueError, "step must not change its arguments"),
    ("arrays: random", lambda: arrays(lambda s, a, e: (s, np.random.default_rng().random(s.size))), ValueError, "it must be deterministic: put what is random into noise"),
    ("arrays: NaN", lambda: arrays(lambda s, a, e: (s, np.where(e == 1, np.nan, 0.0))), ValueError, "step(0, 0, 1) must return a finite reward, got nan"),
    ("arrays: wrong shape", lambda: arrays(lambda s, a, e: (s[:1], a * 1.0)), ValueError, "step must return next states of shape (4,) and rewards of shape (4,), got (1,) and (4,)"),
    ("arrays: no pair", lambda: arrays(lambda s, a, e: s), ValueError, "step must return (next_states, rewards), got "),
    ("arrays: real states", lambda: arrays(lambda s, a, e: (s * 0.5, a * 1.0)), ValueError, "step must return whole numbers as next states, got float64; use astype(int)"),
    ("arrays: words as rewards", lambda: arrays(lambda s, a, e: (s, a.astype(str))), ValueError, "step must return numbers as rewards, got <U"),
    ("arrays: words as actions", lambda: arrays(actions=["a"]), TypeError, "actions must be numbers if vectorized=True, got ['a']"),
    ("arrays: actions by state", lambda: arrays(actions=lambda s: [1]), TypeError, "actions must be a list of numbers if vectorized=True; say which exist with available(states, actions)"),
    ("arrays: words as events", lambda: arrays(noise={"a": 1.0}), TypeError, "events must be numbers if vectorized=True"),
    ("arrays: a word as start", lambda: arrays(start="a"), TypeError, "start must be a whole number or a tuple of whole numbers if vectorized=True, got 'a'"),
    ("arrays: no action", lambda: arrays(available=lambda s, a: s > 0), ValueError, "actions of state 0 must not be empty"),
    ("arrays: a mask of numbers", lambda: arrays(available=lambda s, a: s), ValueError, "available must return 2 booleans, got shape (2,) of int64"),
    ("arrays: too many states", lambda: arrays(lambda s, a, e: (2 * s + e, a * 1.0), start=1, horizon=30, max_states=1000), SizeError, "step reaches 1023 states by stage 9, more than max_states=1000"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "exception", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_gets_one_clear_line(call, exception, message):
    with pytest.raises(exception) as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_fault_of_step_stays_the_cause():
    with pytest.raises(ValueError, match="raised ZeroDivisionError") as caught:
        model(step=lambda s, a, e: 1 // e)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_doctests():
    assert doctest.testmod(bqrl.mdp.step).failed == 0
