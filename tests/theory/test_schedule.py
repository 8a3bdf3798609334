import math

import numpy as np
import pytest

from bqrl.planners.confidence import constant_buffer, log_buffer, power_buffer
from bqrl.theory import buffer_horizon, buffering_sum


@pytest.mark.parametrize("schedule", [None, log_buffer(0.3), power_buffer(0.3, 0.25), power_buffer(0.3, 1.0)])
@pytest.mark.parametrize("rho", [0.3, 0.2, 0.0999, 0.03])
def test_horizon_is_the_first_episode_below(schedule, rho):
    beta = log_buffer(0.3) if schedule is None else schedule
    K = buffer_horizon(0.3, rho, schedule)
    assert isinstance(K, int)
    assert beta(K) <= rho + 1e-12
    assert K == 0 or beta(K - 1) > rho


def test_horizon_in_closed_form():
    assert buffer_horizon(0.5, 0.1) == math.ceil(math.exp(5) - math.e)
    assert buffer_horizon(0.5, 0.02) == math.ceil(math.exp(25) - math.e)
    assert buffer_horizon(0.5, 0.1, power_buffer(0.5, 0.5)) == 24
    assert buffer_horizon(0.5, 0.25, lambda t: 0.5 / (1 + t)) == 1
    assert buffer_horizon(0.5, 0.25, [0.5, 0.3, 0.3, 0.25, 0.1]) == 3
    assert buffer_horizon(0.5, 0.01, [0.5, 0.3]) == math.inf
    assert buffer_horizon(0.5, 0.3, constant_buffer(0.3)) == 0
    assert buffer_horizon(0.5, 0.2, constant_buffer(0.3)) == math.inf
    assert buffer_horizon(0.5, 0.2, 0.3) == math.inf
    assert buffer_horizon(0.3, 0.3, 0.1 + 0.2) == 0  # a constant of tau, up to rounding
    assert buffer_horizon(0.9, 1e-4) == math.inf  # exp(9000) episodes
    assert buffer_horizon(0.1, 0.015409356153421871) == 656


def test_sum_is_exact_for_few_episodes_and_never_too_small_for_many():
    def gap(beta):
        return np.maximum(beta - 0.05, 0.0)

    t = np.arange(300_000.0)
    for schedule in (None, power_buffer(0.5, 0.1)):
        beta = log_buffer(0.5)(t) if schedule is None else schedule(t)
        for T in (1, 17, 4096):
            assert buffering_sum(gap, 0.5, T, schedule) == pytest.approx(gap(beta[:T]).sum())
        for T in (4097, 300_000):
            true = gap(beta[:T]).sum()
            assert true - 1e-6 <= buffering_sum(gap, 0.5, T, schedule) <= 1.005 * true
            assert buffering_sum(gap, 0.5, T, schedule, rho=0.05) <= 1.005 * true
    assert buffering_sum(gap, 0.5, 3, [0.5, 0.4, 0.3]) == pytest.approx(1.05)
    assert buffering_sum(gap, 0.5, 10**80, rho=0.05) == pytest.approx(
        buffering_sum(gap, 0.5, 22024, rho=0.05), rel=0.01
    )
    assert buffering_sum(gap, 0.5, 5, constant_buffer(0.05), rho=0.05) == 0.0


@pytest.mark.parametrize("last", [10, 4_096, 4_100, 20_000, 300_000])
@pytest.mark.parametrize("T", [5_000, 50_000, 400_000])
def test_a_long_sum_is_too_large_by_at_most_one_percent(last, T):
    threshold = log_buffer(0.5)(last)

    def gap(beta):
        return (beta >= threshold).astype(float)  # 1 up to episode `last`

    assert min(T, last + 1) <= buffering_sum(gap, 0.5, T) <= 1.01 * min(T, last + 1)
