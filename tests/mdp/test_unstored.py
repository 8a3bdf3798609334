"""Models without a table: the same states and transitions as the stored model, computed again when needed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.errors import GridError, ModelError, SizeError
from bqrl.mdp.model import check_mdp
from bqrl.mdp.unstored import Box, StepModel

NOISE = {0: 0.2, 1: 0.5, 2: 0.3}


def stock(states, orders, demands):
    """Stock and a counter of lost sales, both bounded; a reward of 5 per sale minus the cost of orders."""
    held, lost = states.T
    sold = np.minimum(held + orders, demands)
    after = np.minimum(held + orders - sold, 4), np.minimum(lost + demands - sold, 2)
    return np.stack(after, axis=1), 5 * sold - 2 * orders


def both(step=stock, actions=(0, 1, 2), noise=NOISE, horizon=5, start=(1, 0), **options):
    """The stored model and the one without a table."""
    return [
        bqrl.from_step(step, list(actions), noise, horizon, start, vectorized=True, stored=stored, **options)
        for stored in (True, False)
    ]


def assert_same_outcomes(table, model):
    """Assert that every state that can be acted in has the same outcomes in both models."""
    order = {state: s for s, state in enumerate(table.state_values)}
    s = np.arange(model.count[model.H - 1])
    found, E = model.outcomes(s), model.events.size
    for i, state in enumerate(model.states(s).tolist()):
        there = order[tuple(state) if isinstance(state, list) else state]
        for a in range(model.A):
            here = slice(found.start[i * model.A + a], found.start[i * model.A + a + 1])
            law = {}
            for t, p, unit in zip(found.successor[here], found.probability[here], found.unit[here], strict=True):
                to = model.states(np.array([t])).tolist()[0]
                key = order[tuple(to) if isinstance(to, list) else to], float(model.grid.steps_value(unit, 0, 1))
                law[key] = law.get(key, 0.0) + p
            successor, p, r = table.outcomes(0, there, a)
            stored = {(int(t), float(x)): float(q) for t, q, x in zip(successor, p, r, strict=True)}
            assert law.keys() == stored.keys()
            assert all(abs(law[key] - stored[key]) < 1e-12 for key in law)
            assert (here.stop - here.start) in (0, E)


def test_states_and_outcomes_are_those_of_the_table():
    table, model = both()
    assert isinstance(model, StepModel)
    assert model.S == table.S
    assert model.count[0] == 1
    assert model.count[-1] == model.S
    assert_same_outcomes(table, model)


def test_plain_numbers_several_first_states_and_actions_that_do_not_exist():
    table, model = both(
        lambda s, a, e: (np.clip(s + a - e, -20, 20), a * e), [0, 1, 3], NOISE, 4, {3: 0.25, -2: 0.75},
        available=lambda s, a: (a < 3) | (s < 0),
    )  # fmt: skip
    assert model.S == table.S
    assert model.mu[model.mu > 0].tolist() == [0.75, 0.25]
    assert_same_outcomes(table, model)
    assert model.state_label(0) == "-2"
    assert model.action_label(2) == "3"


def test_blocks_cover_the_states_in_order(monkeypatch):
    _, model = both()
    monkeypatch.setattr("bqrl.mdp.unstored.CHUNK", 20)
    parts = list(model.blocks(0, 11))
    assert [(part.start, part.stop) for part, _ in parts][:2] == [(0, 2), (2, 4)]
    assert parts[-1][0].stop == 11
    joined = np.concatenate([out.successor for _, out in parts])
    assert np.array_equal(joined, model.outcomes(np.arange(11)).successor)


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5), st.integers(-3, 3)), min_size=1, max_size=20))
def test_boxes_number_their_states(points):
    states = np.array(points)
    box = Box(states.min(axis=0), states.max(axis=0))
    codes = box.encode(states)
    assert np.array_equal(box.decode(codes), states)
    assert codes.min() >= 0
    assert codes.max() < box.cells
    wider = box.wider(states + np.array([40, 0, -7]))
    assert wider.holds(states)
    assert wider.holds(states + np.array([40, 0, -7]))
    assert not box.holds(states + np.array([40, 0, 0]))


REFUSED = [
    ("not vectorised", {"vectorized": False}, ValueError, "stored must be True without vectorized=True"),
    ("a discount", {"discount": 0.9}, ValueError, "discount must be 1 if stored=False"),
    ("terminal values", {"terminal": {0: 1.0}}, ValueError, "terminal must be omitted if stored=False"),
    ("outcomes", {"step": lambda s, a, e: (s, a, {"cost": e})}, ModelError, "alone if stored=False, got further outcomes"),
    ("a law per stage", {"noise": [NOISE] * 3}, ValueError, "stored must be True with one law of events per stage"),
    ("no lattice", {"step": lambda s, a, e: (s, np.where(e == 1, np.pi, e * np.sqrt(2)))}, GridError, "on a lattice"),
    ("too many states", {"max_states": 3}, SizeError, "at most max_states=3 states, got"),
    ("a huge box", {"step": lambda s, a, e: (s * 0 + e * 2**40, a * 1.0)}, SizeError, "at most 1073741824 combinations"),
    ("stored in words", {"stored": "no"}, TypeError, "stored must be"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "kind", "text"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_what_cannot_go_without_a_table_is_refused(change, kind, text):
    step = lambda s, a, e: (np.clip(s + a - e, 0, 9), a * e)  # noqa: E731
    given = {"step": step, "actions": [0, 1], "noise": NOISE, "horizon": 3, "start": 4} | change
    with pytest.raises(kind, match=text):
        bqrl.from_step(**{"vectorized": True, "stored": False} | given)


def test_a_step_function_that_draws_is_found_out():
    rng = np.random.default_rng(0)
    with pytest.raises(ModelError, match="must be deterministic"):
        both(lambda s, a, e: (np.clip(s + rng.integers(0, 50, s.size), 0, 99), a * e), [0, 1], NOISE, 3, 0)


def test_functions_that_need_the_transitions_say_so():
    _, model = both()
    for call in (
        lambda: bqrl.solve(model, tau=0.1, beta=0.05),
        lambda: bqrl.solve(model, bqrl.Mean()),
        lambda: bqrl.solve(model, tau=0.1, radius=0.1, attitude="robust"),
        lambda: bqrl.learn(model, "psrl", tau=0.1, episodes=3),
    ):
        with pytest.raises(TypeError, match=r"got (a )?StepModel"):
            call()
    with pytest.raises(TypeError, match="this function needs the transitions; build the model with stored=True"):
        check_mdp(model)
