# ruff: noqa: E501  (a row of the table of bad inputs is one line)
"""Models from step functions: what is found, and one line for every fault."""

import doctest
import math

import numpy as np
import pytest
from helpers import assert_one_line
from mdp_strategies import COIN, assert_same, inventory

import bqrl
import bqrl.mdp.step
from bqrl import from_step
from bqrl.errors import SizeError


def test_it_is_the_model_written_by_hand():
    mdp = from_step(inventory, lambda stock: range(3 - stock), {0: 0.25, 1: 0.5, 2: 0.25}, 4, 1)
    rows = []
    for stock in range(3):
        for order in range(3 - stock):
            for demand, p in ((0, 0.25), (1, 0.5), (2, 0.25)):
                after, reward = inventory(stock, order, demand)
                rows.append((stock, order, after, p, reward))
    by_hand = bqrl.MDP(rows, horizon=4, start=1)
    assert_same(mdp, by_hand, but=("state_names", "action_names"))
    assert mdp.state_names == ("0", "1", "2")
    assert mdp.noise.states == (0, 1, 2)
    assert mdp.noise.actions == (0, 1, 2)


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


def good(state, action, event):
    return state, float(event)


def model(step=good, actions=("go",), noise=None, horizon=2, start=0, **options):
    return from_step(step, actions, COIN if noise is None else noise, horizon, start, **options)


BAD = [
    ("step is no function", lambda: model(step=3), TypeError, "step must be a function (state, action, event), got 3"),
    ("step takes two arguments", lambda: model(step=lambda s, a: (s, 0)), ValueError, "takes 2 positional arguments but 3 were given"),
    ("step raises", lambda: model(step=lambda s, a, e: [][e]), ValueError, "step(0, 'go', 0) must return (next_state, reward), got IndexError: list index out of range"),
    ("reward is NaN", lambda: model(step=lambda s, a, e: (s, math.nan)), ValueError, "step(0, 'go', 0) must return a finite reward, got nan"),
    ("reward is a word", lambda: model(step=lambda s, a, e: (s, "x")), ValueError, "step(0, 'go', 0) must return a finite reward, got 'x'"),
    ("next state is NaN", lambda: model(step=lambda s, a, e: (math.nan, 0.0)), ValueError, "step(0, 'go', 0) must return a next state that equals itself, got nan"),
    ("wrong shape", lambda: model(step=lambda s, a, e: s), ValueError, "step(0, 'go', 0) must return (next_state, reward), got 0"),
    ("four results", lambda: model(step=lambda s, a, e: (s, 0.0, {}, {})), ValueError, "must return (next_state, reward), got (0, 0.0, {}, {})"),
    ("random", lambda: model(step=random_step), ValueError, "step(0, 'go', 0) must be deterministic, got"),
    ("mutates", lambda: model(step=mutating, start=Box(0)), ValueError, "step(Box(0), 'go', 0) must leave its state unchanged, got a changed one; return a new state"),
    ("unhashable next state", lambda: model(step=lambda s, a, e: ([1], 0.0)), TypeError, "the next state of step(0, 'go', 0) must be hashable, got [1]; use a tuple"),
    ("unhashable start", lambda: model(start=[1]), TypeError, "start must be hashable, got [1]; use a tuple instead of a list or an array"),
    ("start sums to 2", lambda: model(start={0: 1.0, 1: 1.0}), ValueError, "start must sum to 1, got 2"),
    ("start is empty", lambda: model(start={}), ValueError, "start must name at least one state, got {}"),
    ("no actions", lambda: model(actions=[]), ValueError, "actions must not be empty, got none; give one, e.g. one that does nothing"),
    ("no actions in a state", lambda: model(actions=lambda s: []), ValueError, "actions must not be empty, got none in state 0"),
    ("actions are one", lambda: model(actions=3), TypeError, "actions must be a list, got 3"),
    ("actions are a word", lambda: model(actions="go"), TypeError, "actions must be a list, got 'go'"),
    ("actions raise", lambda: model(actions=lambda s: [][s]), ValueError, "actions(0) must return a list, got IndexError: list index out of range"),
    ("actions twice", lambda: model(actions=["a", "a"]), ValueError, "actions must be distinct, got ['a', 'a']"),
    ("unhashable action", lambda: model(actions=[[1]]), TypeError, "actions must be hashable, got [1]"),
    ("horizon 0", lambda: model(horizon=0), ValueError, "horizon must be "),
    ("too many transitions", lambda: model(step=lambda s, a, e: (2 * s + e, 0.0), start=1, horizon=30, max_transitions=1000), SizeError, "the states must have at most max_transitions=1000 transitions, one per action and event, got at least 1022 by stage 9; use fewer states, actions or events, pass stored=False, or raise max_transitions"),
    ("too many states", lambda: model(step=lambda s, a, e: (2 * s + e, 0.0), start=1, horizon=30, max_states=1000), SizeError, "step must reach at most max_states=1000 states, got more by stage 9"),
    ("available for the plain form", lambda: model(available=lambda s, a: s), ValueError, "available must be given with vectorized=True only, got vectorized=False; give actions as a function of the state instead"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "exception", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_gets_one_clear_line(call, exception, message):
    assert_one_line(call, exception, message)


def test_a_fault_of_step_stays_the_cause():
    with pytest.raises(ValueError, match=r"must return \(next_state, reward\), got ZeroDivisionError") as caught:
        model(step=lambda s, a, e: 1 // e)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_doctests():
    assert doctest.testmod(bqrl.mdp.step).failed == 0
