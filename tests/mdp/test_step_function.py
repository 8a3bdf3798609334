import numpy as np
import pytest
from scipy import stats

import bqrl
from bqrl.errors import ArgumentError, ArgumentTypeError, ModelError

GRID = {"x": np.linspace(-1.0, 1.0, 11)}
COIN = {-0.1: 0.5, 0.1: 0.5}


def build(step, actions=(0, 1), noise=COIN, grid=GRID, monotone=None, **options):
    if "lipschitz" not in options and monotone is None:
        monotone = {"x": 1}
    return bqrl.from_step(step, actions, noise, 2, (0.0,), grid=grid, monotone=monotone, **options)


def test_a_reward_that_falls_with_the_state_is_shown():
    with pytest.raises(
        ModelError, match=r"^monotone must hold: a better state must have a reward that is at least as high, got step\("
    ):
        build(lambda s, a, e: ((0.5 * s[0],), -s[0]))


def test_a_next_state_that_falls_with_the_state_is_shown():
    with pytest.raises(ModelError, match="must have a next state that is at least as good, got step"):
        build(lambda s, a, e: ((-0.5 * s[0],), 0.0))


def test_a_local_counterexample_is_found():
    def step(state, action, event):
        x = state[0]
        return (x - 0.3 if 0.4 < x < 0.5 else x,), 0.0  # falls on a tenth of the grid only

    with pytest.raises(ModelError, match="at least as good"):
        build(step)


def test_actions_that_better_states_lack_are_shown():
    with pytest.raises(
        ModelError,
        match=r"^monotone must hold for the actions: 1 exists in \(.*and must also exist in the better state",
    ):
        build(lambda s, a, e: ((0.5 * s[0],), 0.0), lambda state: [0, 1] if state[0] < 0.3 else [0])


def test_the_order_of_continuous_events_is_checked():
    def step(state, action, event):
        return (0.5 * state[0],), -event

    with pytest.raises(ArgumentError, match=r"^monotone must state the sign of a continuous event"):
        build(step, noise=stats.norm())
    with pytest.raises(ModelError, match="at least as high"):
        build(step, noise=stats.norm(), monotone={"x": 1, "event": 1})
    assert build(step, noise=stats.norm(), monotone={"x": 1, "event": -1}).infinite == (True, True)


def test_a_constant_that_is_too_small_is_shown():
    with pytest.raises(ModelError, match=r"^lipschitz must bound these two steps, got step\(.* raise it$"):
        build(lambda s, a, e: ((0.5 * s[0] + e,), 2.0 * s[0]), lipschitz=(0.5, 1.9))
    with pytest.raises(ModelError, match="lipschitz must bound"):
        build(lambda s, a, e: ((0.5 * s[0] + e,), 2.0 * s[0]), lipschitz=(0.4, 2.0))
    with pytest.raises(ModelError, match="lipschitz requires the same actions in every state"):
        build(lambda s, a, e: ((0.5 * s[0],), 0.0), lambda s: [0, 1] if s[0] > 0 else [0], lipschitz=(1.0, 1.0))


def test_bad_results_of_the_step_function():
    with pytest.raises(
        ModelError, match=r"must return \(next_state, reward\) with a tuple as next state, got TypeError"
    ):
        build(lambda s, a, e: (s[0], 0.0))
    with pytest.raises(ModelError, match=r"must return 1 coordinates \(x\), got"):
        build(lambda s, a, e: ((s[0], 1.0), 0.0))
    with pytest.raises(ModelError, match="must return finite numbers, got"):
        build(lambda s, a, e: ((float("nan"),), 0.0))
    with pytest.raises(ModelError, match="return next states of shape"):
        build(lambda s, a, e: (s[:, 0], np.zeros(len(a))), vectorized=True)
    with pytest.raises(ArgumentTypeError, match="actions must be a list if vectorized=True"):
        build(lambda s, a, e: (s, e), lambda s: [0], vectorized=True)
    with pytest.raises(ArgumentError, match="actions must not be empty"):
        build(lambda s, a, e: (s, 0.0), [])


def test_both_forms_of_a_step_function_build_the_same_models():
    def one(state, action, event):
        return (min(1.0, max(-1.0, state[0] + action * event)),), 0.5 * state[0]

    def many(states, actions, events):
        return np.clip(states + (actions * events)[:, None], -1.0, 1.0), 0.5 * states[:, 0]

    first, second = build(one), build(many, vectorized=True)
    for side in ("lower", "upper"):
        x, y = getattr(first, side), getattr(second, side)
        assert np.array_equal(x.successor, y.successor)
        assert np.array_equal(x.reward, y.reward)


def test_a_single_grid_point_that_breaks_the_order_is_found():
    """Random pairs would miss one action, one event and one of 400 points; all neighbours on the grid are compared."""

    def step(state, action, event):
        (x,) = state
        return (min(4.0, x + 0.01),), x - 0.05 * (action == 2 and event == 1 and abs(x - 2.4) < 1e-3)

    grid = {"x": np.linspace(0.0, 4.0, 401)}
    with pytest.raises(
        ModelError, match=r"a reward that is at least as high, got step\(\(2.39,\), 2, 1\) = .* and step\(\(2.4,\), 2"
    ):
        bqrl.from_step(step, [0, 1, 2], {0: 0.5, 1: 0.5}, 2, (1.0,), grid=grid, monotone={"x": 1})

    def steep(state, action, event):
        (x,) = state
        return (0.5 * x,), x + 0.05 * (action == 2 and event == 1 and abs(x - 2.4) < 1e-3)

    with pytest.raises(ModelError, match="lipschitz must bound these two steps"):
        bqrl.from_step(steep, [0, 1, 2], {0: 0.5, 1: 0.5}, 2, (1.0,), grid=grid, lipschitz=(0.5, 1.0))


@pytest.mark.parametrize(
    "step",
    [
        lambda s, a, e: ((0.5 * s[0], s[1]), s[0] ** 2),
        lambda s, a, e: ((abs(s[0] - 0.3), s[1]), s[0]),
        lambda s, a, e: ((0.5 * s[0], s[0]), s[0]),
    ],
)
def test_what_is_not_affine_is_shown(step):
    grid = {"x": np.linspace(0.0, 1.0, 11), "side": [0.0, 1.0]}
    options = {"grid": grid, "lipschitz": ([[1.0, 0.0], [1.0, 1.0]], [2.0, 2.0]), "affine": ["x"]}
    with pytest.raises(ModelError, match=r"affine must hold: .*, got step\(.* and step\(.*; omit affine"):
        bqrl.from_step(step, [0], {0: 1.0}, 2, (0.0, 0.0), **options)
    for bad, message in (
        ("x", "affine must be a list of coordinates"),
        (["y"], "coordinates of the grid"),
        ([], "a list"),
    ):
        with pytest.raises(ArgumentError, match=message):
            bqrl.from_step(step, [0], {0: 1.0}, 2, (0.0, 0.0), **options | {"affine": bad})
    with pytest.raises(ArgumentError, match="affine must be given with lipschitz and with one law of events"):
        bqrl.from_step(step, [0], {0: 1.0}, 2, (0.0, 0.0), grid=grid, monotone={"x": 1}, affine=["x"])
