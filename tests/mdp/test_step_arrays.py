# ruff: noqa: E501  (a row of the table of bad inputs is one line)
"""The vectorised form of a step function: the same model as the plain form, and one line for every fault."""

import time

import numpy as np
import pytest
from helpers import assert_one_line
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import COIN, assert_same, assert_same_noise, inventory, laws, walk

from bqrl import from_step
from bqrl.errors import SizeError


def inventory_arrays(stock, order, demand):
    sold = np.minimum(stock + order, demand)
    return stock + order - sold, 5 * sold - 2 * order


def walk_arrays(states, actions, events):
    x, y = states.T
    return np.stack([np.clip(x + actions - events, 0, 5), (y + events) % 3], axis=1), (x * actions).astype(float)


@given(st.integers(1, 6), st.booleans(), st.integers(1, 3), st.data())
def test_both_forms_give_the_same_model(H, per_stage, E, data):
    noise = [dict(enumerate(data.draw(laws(E)).tolist())) for _ in range(H)] if per_stage else None
    noise = noise or dict(enumerate(data.draw(laws(E)).tolist()))
    one = from_step(walk, [0, 1, 2], noise, H, (2, 0))
    other = from_step(walk_arrays, [0, 1, 2], noise, H, (2, 0), vectorized=True)
    assert_same(one, other)
    assert_same_noise(one, other)
    assert np.array_equal(np.array(one.noise.states), other.noise.states)


def test_available_masks_actions_of_the_vectorised_form():
    noise = {0: 0.2, 1: 0.5, 2: 0.3}
    one = from_step(inventory, lambda stock: range(4 - stock), noise, 8, 0)
    other = from_step(
        inventory_arrays, range(4), noise, 8, 0, vectorized=True, available=lambda stock, order: stock + order < 4
    )
    assert_same(one, other)
    assert_same_noise(one, other)


@pytest.mark.parametrize("masked", [False, True])
def test_too_many_transitions_are_refused_before_the_states_are_followed(masked):
    followed = []

    def step(s, a, e):
        followed.append(s.size)
        return (s + 1) * 100 + a * 10 + e, a * 1.0  # every (action, event) leads to a new state

    options = {"available": lambda s, a: a < 9} if masked else {}
    law = dict.fromkeys(range(10), 0.1)
    with pytest.raises(SizeError) as caught:
        from_step(step, range(10), law, 4, 0, vectorized=True, max_transitions=5000, **options)
    rows = 9 if masked else 10
    assert (caught.value.needed, caught.value.limit) == (10 * rows + 10 * rows * 10 * rows, 5000)
    assert followed == [10 * rows] * 2  # the first state, asked twice


@pytest.mark.slow
def test_a_million_transitions_in_seconds():
    def step(states, actions, events):
        x, y = states.T
        return np.stack([np.clip(x + actions - events, 0, 299), np.clip(y + events - 2, 0, 99)], axis=1), actions * 1.0

    begun = time.perf_counter()
    mdp = from_step(step, [0, 1, 2], {e: 1 / 12 for e in range(12)}, 500, (0, 0), vectorized=True)
    assert mdp.noise.pair_event.size > 800_000
    assert time.perf_counter() - begun < 20.0  # about two on an idle core


def changing_arrays(states, actions, events):
    states += 1
    return states, actions * 1.0


def failing_arrays(states, actions, events):
    if np.any((states == 3) & (events == 1)):
        raise RuntimeError("boom")
    return np.minimum(states + events, 4), actions * 1.0


def arrays(step=lambda s, a, e: (s, a * 1.0), actions=(0, 1), noise=None, horizon=6, start=0, **options):
    return from_step(step, actions, COIN if noise is None else noise, horizon, start, vectorized=True, **options)


BAD = [
    ("available raises", lambda: arrays(available=lambda s, a: [][0]), ValueError, "available must return booleans, got IndexError: list index out of range"),
    ("raises", lambda: arrays(failing_arrays), ValueError, "step(3, 0, 1) must return (next_states, rewards), got RuntimeError: boom"),
    ("mutates", lambda: arrays(changing_arrays), ValueError, "must return (next_states, rewards), got ValueError: output array is read-only"),
    ("random", lambda: arrays(lambda s, a, e: (s, np.random.default_rng().random(s.size))), ValueError, "step(0, 0, 0) must be deterministic, got"),
    ("NaN", lambda: arrays(lambda s, a, e: (s, np.where(e == 1, np.nan, 0.0))), ValueError, "step(0, 0, 1) must return a finite reward, got nan"),
    ("wrong shape", lambda: arrays(lambda s, a, e: (s[:1], a * 1.0)), ValueError, "step must return next states of shape (4,) and rewards of shape (4,), got (1,) and (4,)"),
    ("no pair", lambda: arrays(lambda s, a, e: s), ValueError, "step must return (next_states, rewards), got "),
    ("real states", lambda: arrays(lambda s, a, e: (s * 0.5, a * 1.0)), ValueError, "step must return whole numbers as next states, got float64; use astype(int)"),
    ("words as rewards", lambda: arrays(lambda s, a, e: (s, a.astype(str))), ValueError, "step must return numbers as rewards, got <U"),
    ("words as actions", lambda: arrays(actions=["a"]), TypeError, "actions must be numbers if vectorized=True, got ['a']"),
    ("actions by state", lambda: arrays(actions=lambda s: [1]), TypeError, "actions must be a list of numbers if vectorized=True, got a function; say which exist with available(states, actions)"),
    ("words as events", lambda: arrays(noise={"a": 1.0}), TypeError, "events must be numbers if vectorized=True"),
    ("a word as start", lambda: arrays(start="a"), TypeError, "start must be a whole number or a tuple of whole numbers if vectorized=True, got 'a'"),
    ("no action", lambda: arrays(available=lambda s, a: s > 0), ValueError, "available must leave state 0 an action, got none"),
    ("a mask of numbers", lambda: arrays(available=lambda s, a: s), ValueError, "available must return 2 booleans, got shape (2,) of int64"),
    ("too many transitions", lambda: arrays(lambda s, a, e: (2 * s + e, a * 1.0), start=1, horizon=30, max_transitions=1000), SizeError, "the states must have at most max_transitions=1000 transitions, one per action and event, got at least 1020 by stage 8; use fewer states, actions or events, pass stored=False, or raise max_transitions"),
    ("too many states", lambda: arrays(lambda s, a, e: (2 * s + e, a * 1.0), start=1, horizon=30, max_states=1000), SizeError, "step must reach at most max_states=1000 states, got 1023 by stage 9"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "exception", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_gets_one_clear_line(call, exception, message):
    assert_one_line(call, exception, message)


def test_randomness_in_a_single_triple_is_found():
    rng = np.random.default_rng(0)

    def step(states, actions, events):
        rare = (states == 4) & (actions == 1) & (events == 2)
        return np.minimum(states + actions, 6), np.where(rare, rng.random(states.size), 0.0)

    with pytest.raises(ValueError, match=r"step\(4, 1, 2\) must be deterministic"):
        from_step(step, [0, 1], {0: 0.5, 1: 0.25, 2: 0.25}, 9, 0, vectorized=True)
