"""Mean-reverting trading against a recursion over the rewards as published, and the price chain against its moments."""

import itertools
import math

import numpy as np
import pytest

import bqrl
from bqrl.envs.mean_reversion import mean_reversion, price_chain
from bqrl.planners.expected import best_mean

RHO, ETA = math.exp(-0.2), math.sqrt((1.0 - math.exp(-0.4)) / 4.0)  # of one of ten periods


@pytest.mark.parametrize("step", [0.1, 0.25])
def test_moves_have_the_moments_of_the_continuous_price(step):
    prices, P = price_chain(2.0, 1.0, 0.1, step, 6.0)
    inner = np.abs(prices - 1.0) < 1.5  # away from the ends
    mean = P @ prices
    assert mean[inner] == pytest.approx((1.0 + RHO * (prices - 1.0))[inner], abs=1e-6)
    assert (P @ prices**2 - mean**2)[inner] == pytest.approx(ETA**2, rel=1e-4)


def best_by_recursion(prices, P, periods, units, unit, most, terminal):
    """Least expected terminal(return) over policies that see price, stock and earnings; rewards as published."""

    def value(h, i, q, earned):
        costs = []
        for u in units:
            if abs(q + u) > most:
                continue
            paid = earned - prices[i] * u * unit - 0.005 * (u * unit) ** 2
            stock, total = (q + u) * unit, 0.0
            for k in np.flatnonzero(P[i] > 1e-12):
                if h == periods - 1:
                    total += P[i, k] * terminal(paid + stock * prices[k] - 0.5 * stock**2)
                else:
                    total += P[i, k] * value(h + 1, k, q + u, paid)
            costs.append(total)
        return min(costs)

    return value(0, prices.size // 2, 0, 0.0)


def test_mean_quantile_and_cvar_are_those_of_the_published_rewards():
    setting = dict(periods=2, years=0.2, trades=3, largest=2.0, limit=None, price_step=0.5, ends=2.0)
    mdp = mean_reversion(**setting)
    prices, P = price_chain(2.0, 1.0, 0.1, 0.5, 2.0)

    def least(terminal):
        return best_by_recursion(prices, P, 2, (-1, 0, 1), 2.0, 2, terminal)

    assert best_mean(mdp)[0] == pytest.approx(-least(lambda g: -g), abs=1e-12)
    possible = set()
    for (u, v), (i, k) in itertools.product(
        itertools.product((-2, 0, 2), repeat=2), itertools.product(prices, repeat=2)
    ):
        possible.add(-u - 0.005 * u**2 - i * v - 0.005 * v**2 + (u + v) * k - 0.5 * (u + v) ** 2)
    targets = sorted(possible)
    for tau in (0.2, 0.5):
        quantile = max(x for x in targets if least(lambda g, x=x: float(g < x - 1e-9)) < tau)
        cvar = max(z - least(lambda g, z=z: max(z - g, 0.0)) / tau for z in targets)
        assert bqrl.solve(mdp, tau).value == pytest.approx(quantile, abs=1e-9)
        assert bqrl.solve(mdp, bqrl.CVaR(tau)).value == pytest.approx(cvar, abs=1e-9)


def test_the_best_means_of_the_published_problem_hardly_depend_on_the_grid():
    for limit, stated in ((5.0, 1.49), (None, 1.71)):
        coarse, fine = (best_mean(mean_reversion(trades=21, limit=limit, price_step=step))[0] for step in (0.25, 0.2))
        assert (coarse, fine) == pytest.approx((stated, stated), abs=0.01)
        assert coarse == pytest.approx(fine, abs=0.005)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"trades": 4}, "trades must be odd, so that 0 is among them, got 4"),
        ({"price_step": 2.0}, "price_step must be smaller than the moves of the price, got 2"),
    ],
)
def test_bad_parameters_get_one_line(given, message):
    with pytest.raises(ValueError, match=message):
        mean_reversion(**given)
