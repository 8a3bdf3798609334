import numpy as np
import pytest
from scipy import stats

import bqrl
from bqrl.errors import ArgumentError, SizeError
from bqrl.mdp.cells import cells_of
from bqrl.mdp.grid_affine import _ends


@pytest.mark.parametrize("law", [stats.norm(1.0, 2.0), stats.uniform(-1.0, 3.0), stats.expon(2.0)])
def test_the_ends_of_the_cells_keep_mass_and_mean(law):
    (cells,), _ = cells_of(law, 1, 30)
    assert cells.mean @ cells.probability == pytest.approx(law.mean(), abs=1e-7)
    assert np.all((cells.low <= cells.mean) & (cells.mean <= cells.high))
    ends, chance, missing = _ends(cells)
    assert np.isfinite(ends).all()
    assert chance.sum() == pytest.approx(1.0)
    assert abs(chance @ ends - law.mean()) <= missing + 1e-7
    assert missing < 1e-5


def rule(state, action, event):
    return (0.5 * state[0] + event,), action * state[0]


def build(**options):
    given = {"grid": {"x": np.linspace(-2.0, 2.0, 5)}, "lipschitz": (0.5, 1.0), "affine": ["x"]} | options
    return bqrl.from_step(rule, [0, 1], {-0.25: 0.5, 0.75: 0.5}, 2, given.pop("start", (1.0,)), **given)


def test_rows_by_hand():
    """From 1 the events lead to 0.25 and 1.25: to 0 and 1 below, with errors 0.25 each, and between 0, 1 and 2 above."""
    model = build()
    assert repr(model) == "GridModel(5 grid points of x, H=2, affine)"
    s = model.lower.state_names.index("(1)")
    begin, end = model.lower.row_start[2 * s : 2 * s + 2]
    assert model.lower.successor[begin:end].tolist() == [2, 3]
    assert model.lower.row_reward[0, s].tolist() == [-0.25, 0.75]  # slope 1 times (0.25 + 0.25) / 2
    begin, end = model.upper.row_start[2 * s : 2 * s + 2]
    assert model.upper.successor[begin:end].tolist() == [2, 3, 4]
    assert model.upper.probability[begin:end].tolist() == [0.375, 0.5, 0.125]
    assert model.upper.row_reward[0, s].tolist() == [0.0, 1.0]
    plan = bqrl.solve(model, bqrl.Mean())
    assert plan.value <= 1.0 + 0.75 <= plan.upper  # action 1 twice; the mean of the next state is 0.75


def test_a_start_between_grid_points_and_too_many_outcomes_are_refused():
    with pytest.raises(ArgumentError, match=r"start must be a grid point with affine, got .*; add it to the grid"):
        build(start=(0.9,))
    with pytest.raises(SizeError, match="at most max_transitions=7 outcomes"):
        build(max_transitions=7)
