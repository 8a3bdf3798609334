import numpy as np
import pytest

from bqrl.planners.affine import lowered, raised

STEP = 0.02
NEEDS = np.arange(-150, 151) * STEP
COST = 2.0 * np.maximum(NEEDS, 0.0)


def spread_laws(rng, m, v):
    """Laws of mean zero within the bounds: draws between two points, and three points."""
    for _ in range(200):
        below, above = rng.uniform(0.0, m, 2)
        size = min(1.0, np.sqrt(v / max(below * above, 1e-12)))
        values, p = np.array([-below, above, 0.0]) * size, above / (below + above)
        idle = rng.choice([0.0, rng.random()])
        yield values, np.array([p * (1.0 - idle), (1.0 - p) * (1.0 - idle), idle])


@pytest.mark.parametrize(("m", "v"), [(0.3, 0.0225), (0.3, 0.005), (0.07, 0.001)])
def test_no_spread_lifts_the_lowered_or_exceeds_the_raised_cost(m, v):
    rng = np.random.default_rng(0)
    up, down = raised(COST, STEP, m, v, (0.0, 2.0)), lowered(COST, STEP, [(m, v)], (0.0, 2.0))
    assert np.all(up >= COST)
    assert np.all(down <= COST)
    assert max((up - COST).sum(), (COST - down).sum()) * STEP < 20.0 * v  # local: the bracket closes with the variance
    for values, p in spread_laws(rng, m, v):
        n = rng.uniform(-1.0, 1.0, 50)
        lifted = sum(q * np.interp(n + x, NEEDS, down) for x, q in zip(values, p, strict=True))
        assert np.all(lifted <= 2.0 * np.maximum(n, 0.0) + 1e-12)
        mean = sum(q * 2.0 * np.maximum(n + x, 0.0) for x, q in zip(values, p, strict=True))
        assert np.all(mean <= np.interp(n, NEEDS, up) + 1e-12)


def test_a_law_without_spread_changes_nothing():
    assert np.array_equal(raised(COST, STEP, 0.0, 0.0, (0.0, 2.0)), COST)
    assert np.array_equal(lowered(COST, STEP, [(0.0, 0.0)], (0.0, 2.0)), COST)
