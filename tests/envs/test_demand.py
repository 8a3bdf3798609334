"""The Poisson law of demand."""

import math

import pytest
from scipy import stats

from bqrl.envs.demand import poisson


def test_poisson_law_is_cut_where_said():
    law = poisson(3.0, 0.999)
    exact = stats.poisson(3.0)
    assert list(law) == list(range(int(exact.ppf(0.999)) + 1))
    assert list(law.values()) == pytest.approx(exact.pmf(list(law)) / exact.cdf(max(law)), abs=1e-15)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-15)
