import numpy as np
import pytest

from bqrl.theory import loglog_slope


def test_slope_of_a_power_law_and_its_error():
    x = np.array([1.0, 2.0, 4.0, 8.0])
    exact = loglog_slope(x, 3.0 * x**-2)
    assert exact.slope == pytest.approx(-2.0)
    assert exact.error == pytest.approx(0.0, abs=1e-12)
    assert exact.factor == pytest.approx(3.0)
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        y = 3.0 * x**1.5 * np.exp(0.01 * rng.standard_normal(4))
        fit = loglog_slope(x, y, error=0.01 * y)
        hits += abs(fit.slope - 1.5) <= 2.0 * fit.error
    assert 0.9 <= hits / 400 <= 0.99  # two standard errors: 95.4 %, off by 0.04 with probability below 1e-4
