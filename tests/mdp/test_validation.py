"""Checks of what a model has beside its transitions: horizon, start and numbers of any size."""

import numpy as np
import pytest
from mdp_strategies import P, R

from bqrl import MDP
from bqrl.errors import ArgumentError, SizeError


def test_start_is_a_state_a_name_or_a_law():
    names = ["a", "b", "c"]
    assert MDP(P, R, start=np.int64(2), horizon=1).start == 2
    assert MDP(P, R, start="b", horizon=1, state_names=names).start == 1
    assert MDP(P, R, start="2", horizon=1).start == 2  # without names a state's label is its number
    spread = MDP(P, R, start=[0.5, 0.0, 0.5], horizon=1)
    assert spread.mu.tolist() == [0.5, 0.0, 0.5]
    with pytest.raises(ValueError, match="expected a fixed first state, got a law over states"):
        _ = spread.start


def test_a_start_is_a_law_of_names_or_indices():
    names = ["a", "b", "c"]
    assert MDP(P, R, start={"a": 0.25, "c": 0.75}, horizon=1, state_names=names).mu.tolist() == [0.25, 0.0, 0.75]
    assert MDP(P, R, start={0: 0.25, 2: 0.75}, horizon=1).mu.tolist() == [0.25, 0.0, 0.75]
    mdp = MDP(P, R, horizon=1, state_names=names)
    assert mdp.replace(start={"b": 1}).start == 1
    with pytest.raises(ArgumentError, match="start must name a state, got 'd'") as caught:
        mdp.replace(start={"d": 1.0})
    assert caught.value.name == "start"


def test_sizes_are_checked_where_a_model_is_built():
    with pytest.raises(SizeError, match="horizon must be at most 1000000, got 1000000000") as caught:
        MDP(P, R, horizon=10**9)
    assert (caught.value.needed, caught.value.limit) == (10**9, 10**6)
    with pytest.raises(SizeError, match="horizon must be at most 1000000, got 1000000000"):
        MDP(P, R, horizon=10).replace(horizon=10**9)
    long = MDP(P, R, horizon=10**6)
    assert long.H == 10**6
    wide = MDP([(0, 0, 0, 1.0, 0.0), (300, 0, 0, 1.0, 0.0)], horizon=2)
    with pytest.raises(SizeError, match="horizon must be at most 332225 with 301 states, got 400000"):
        wide.replace(horizon=400_000)


@pytest.mark.parametrize("option", ["horizon", "start", "discount"])
def test_numbers_of_thousands_of_digits_get_one_line(option):
    with pytest.raises((ValueError, TypeError), match=rf"^{option}[^\n]*$"):
        MDP(P, R, **{"horizon": 2} | {option: 10**5000})


def test_a_tuple_that_names_a_state_is_not_a_law():
    """With two states (1, 0) has the form of two probabilities."""
    moves = [((0, 0), "go", (1, 0), 1.0, 1.0), ((1, 0), "go", (1, 0), 1.0, 0.0)]
    table = [dict(zip(("state", "action", "next_state", "probability", "reward"), move, strict=True)) for move in moves]
    for start in ((1, 0), {(1, 0): 1.0}, "(1, 0)"):
        assert MDP(table, horizon=2, start=start).mu.tolist() == [0.0, 1.0]
    assert MDP(table, horizon=2, start=(0.5, 0.5)).mu.tolist() == [0.5, 0.5]
