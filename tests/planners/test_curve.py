import numpy as np
import pytest

import bqrl


def step(state, action, event):
    return (max(0.0, min(3.0, state[0] + action * event)),), round(0.5 * state[0], 9)


def model(points):
    grid = {"x": np.linspace(0.0, 3.0, points)}
    return bqrl.from_step(step, [0.0, 0.7], {-1.0: 0.4, 1.0: 0.6}, 4, (1.0,), grid=grid, monotone={"x": 1})


def test_the_two_ends_hold_the_curve_of_the_truth():
    exact = bqrl.guarantee_curve(bqrl.from_step(step, [0.0, 0.7], {-1.0: 0.4, 1.0: 0.6}, 4, (1.0,)))
    curve = bqrl.guarantee_curve(model(31))
    for tau in np.linspace(0.03, 0.97, 30):
        assert curve(tau) - 1e-9 <= exact(tau) <= curve.upper(tau) + 1e-9
    for row in curve.rows():
        assert row["value"] <= row["upper"]
    assert curve.policy(0.3).inner.target == curve(0.3)
    assert repr(curve) == "GridCurve(GridModel(31 grid points of x, H=4, monotone))"


def test_chances_of_targets():
    curve = bqrl.guarantee_curve(model(31))
    exact = bqrl.from_step(step, [0.0, 0.7], {-1.0: 0.4, 1.0: 0.6}, 4, (1.0,))
    for target in (1.0, 2.0, 2.5, 3.3):
        low, high, _ = curve.chance(target)
        assert low - 1e-9 <= bqrl.solve(exact, bqrl.Chance(target)).value <= high + 1e-9


def test_its_chart_and_its_notebook_view():
    pytest.importorskip("altair")
    curve = bqrl.guarantee_curve(model(7))
    assert "Best quantile at each level" in str(curve.chart().to_dict()["title"])
    assert "<table" in curve._repr_html_()
