import numpy as np
import pytest
from scipy import stats

import bqrl
from bqrl.errors import ArgumentError, ArgumentTypeError, SizeError


def test_the_error_of_each_stage():
    def step(state, action, event):
        return (0.5 * state[0] + event,), 2.0 * state[0]

    grid = {"x": np.linspace(-4.0, 4.0, 33)}  # steps of 0.25
    model = bqrl.from_step(step, ["go"], {0.0: 0.5, 0.1: 0.5}, 3, (0.1,), grid=grid, lipschitz=(0.5, 2.0))
    distance, expected = 0.1, []
    rounding = 0.125  # 0.5 x on a grid of quarters lies at most half a step away
    for _ in range(3):
        expected.append(2.0 * distance)
        distance = 0.5 * distance + rounding
    assert np.all(model.error <= np.array(expected) + 1e-12)
    assert model.error[0] == pytest.approx(0.2)
    assert model.total_error == pytest.approx(model.error.sum())
    by_axis = bqrl.from_step(step, ["go"], {0.0: 0.5, 0.1: 0.5}, 3, (0.1,), grid=grid, lipschitz=([[0.5]], [2.0]))
    assert np.array_equal(by_axis.error, model.error)


def test_a_continuous_event_adds_its_own_error():
    def step(state, action, event):
        return (0.5 * state[0] + event,), event

    options = {"grid": {"x": np.linspace(-3.0, 3.0, 61)}, "lipschitz": (0.5, 0.0)}
    with pytest.raises(ArgumentError, match=r"^event_lipschitz must be given with a continuous event"):
        bqrl.from_step(step, ["go"], stats.uniform(-1.0, 2.0), 2, (0.0,), **options)
    model = bqrl.from_step(
        step, ["go"], stats.uniform(-1.0, 2.0), 2, (0.0,), cells=10, event_lipschitz=(1.0, 1.0), **options
    )
    assert model.error == pytest.approx([0.1, 0.1])  # half a cell, although the reward does not depend on the state


def test_misses_outside_the_grid_end_below_every_other_return():
    def step(state, action, event):
        return (state[0] + event,), state[0]

    model = bqrl.from_step(step, ["go"], {-1: 0.5, 1: 0.5}, 3, (0.0,), grid={"x": [-1.0, 0.0, 1.0]}, monotone={"x": 1})
    law = bqrl.evaluate(model.lower, "always:go")
    lowest = -3.0
    assert law.values[0] < lowest  # 0 + (-1), then lost
    assert law.shortfall(lowest) == pytest.approx(0.25)  # leaving with the last step costs nothing
    assert bqrl.evaluate(model.upper, "always:go").values[-1] > 3.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"grid": {"x": [0.0]}}, r"^grid\['x'\] must be at least two increasing numbers"),
        ({"grid": {}}, "^grid must be a dict such as"),
        ({"grid": {"event": [0.0, 1.0]}}, "^grid must name coordinates by words other than 'event'"),
        ({"monotone": {"y": 1}}, r"^monotone must name coordinates of the grid \(x\) or 'event'"),
        ({"monotone": {"x": 2}}, r"^monotone\['x'\] must be 1 \(more never hurts\)"),
        ({"monotone": None}, "^monotone must be given with grid, or lipschitz instead"),
        ({"start": 0.5}, r"^start must be a tuple of 1 numbers \(x\)"),
        ({"start": (5.0,)}, r"^start must be a number in \[0, 1\], got 5"),
        ({"reward_range": (1.0, 0.0)}, "^reward_range must be a pair of numbers"),
        ({"reward_range": (0.5, 1.0)}, "^reward_range must hold every reward, got rewards from 0 to 0"),
        ({"max_states": 1}, "^the grid must have at most max_states=1 points, got 2"),
        ({"invert": 3}, "^invert must be a function"),
    ],
)
def test_bad_arguments(options, message):
    given = {"start": (0.0,), "grid": {"x": [0.0, 1.0]}, "monotone": {"x": 1}} | options
    start = given.pop("start")
    with pytest.raises((ArgumentError, ArgumentTypeError, SizeError), match=message):
        bqrl.from_step(lambda s, a, e: (s, 0.0), ["go"], {0: 1.0}, 2, start, **given)


def test_the_order_requires_a_grid():
    with pytest.raises(ArgumentError, match="monotone must be given with grid only"):
        bqrl.from_step(lambda s, a, e: (s, 0.0), ["go"], {0: 1.0}, 2, 0, monotone={"x": 1})


def test_a_law_of_first_states():
    def step(state, action, event):
        return state, state[0]

    start = {(0.2,): 0.5, (0.8,): 0.5}
    model = bqrl.from_step(step, ["go"], {0: 1.0}, 2, start, grid={"x": [0.0, 0.5, 1.0]}, monotone={"x": 1})
    plan = bqrl.solve(model, bqrl.Mean())
    assert (plan.value, plan.upper) == (0.5, 1.5)
    assert set(bqrl.simulate(model, plan.policy, 50, seed=0).tolist()) == {0.4, 1.6}
