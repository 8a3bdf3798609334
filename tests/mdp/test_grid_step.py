import numpy as np
import pytest

import bqrl
from bqrl.errors import ModelError
from bqrl.mdp.grid_step import round_states

POINTS = [np.array([0.0, 1.0, 3.0])]


@pytest.mark.parametrize(
    ("sign", "side", "codes", "out"),
    [
        (1, "down", [-1, 0, 0, 1, 1, 2, 2], [1, 0, 0, 0, 0, 0, 0]),
        (1, "up", [0, 0, 1, 1, 2, 2, 3], [0, 0, 0, 0, 0, 0, 1]),
        (-1, "down", [0, 0, 1, 1, 2, 2, 3], [0, 0, 0, 0, 0, 0, 1]),
        (-1, "up", [-1, 0, 0, 1, 1, 2, 2], [1, 0, 0, 0, 0, 0, 0]),
        (1, "nearest", [0, 0, 0, 1, 2, 2, 2], [1, 0, 0, 0, 0, 0, 1]),
    ],
)
def test_rounding_towards_each_side(sign, side, codes, out):
    states = np.array([[-0.6], [0.0], [0.4], [1.0], [2.5], [3.0], [4.5]])
    found, left, moved = round_states(states, POINTS, np.array([float(sign)]), side)
    assert found[:, 0].tolist() == codes
    assert left.tolist() == [bool(x) for x in out]
    assert moved[2, 0] == pytest.approx(min(0.4, 0.6) if found[2, 0] == 0 else 0.6)


def test_rounding_errors_of_the_step_function_are_no_steps_down():
    grid = [np.linspace(0.0, 1.0, 11)]
    found, _, _ = round_states(np.array([[0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1]]), grid, np.ones(1), "down")
    assert found[0, 0] == 8  # the sum is 0.7999999999999999


def steps(state, action, event):
    x, price = state
    return (max(0.0, 0.9 * x + action), {1.0: 2.0, 2.0: 1.0}[price] if event else price), 0.1 * x * price


def test_a_coordinate_without_a_sign_is_a_finite_chain():
    grid = {"x": np.linspace(0.0, 20.0, 41), "price": [1.0, 2.0]}
    model = bqrl.from_step(steps, [0, 1], {0: 0.5, 1: 0.5}, 3, (1.0, 1.0), grid=grid, monotone={"x": 1})
    assert model.lower.S == 82
    assert repr(model) == "GridModel(41 x 2 grid points of x, price, H=3, monotone)"
    assert model.lower.state_names[model.lower.start] == "(1, 1)"
    finer = model.refined()
    assert [p.size for p in finer.grid.values()] == [81, 2]
    grid["price"] = [1.0, 2.5]
    with pytest.raises((ModelError, KeyError), match=r"must stay on its grid points|KeyError"):
        bqrl.from_step(steps, [0, 1], {0: 0.5, 1: 0.5}, 3, (1.0, 1.0), grid=grid, monotone={"x": 1})
