"""The betting game against a recursion in exact fractions."""

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from zoo_checks import best

import bqrl
from bqrl.envs import make


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.3, 0.5])
def test_betting_game_by_an_independent_recursion(tau):
    p = Fraction(22, 25)

    @cache
    def miss(bets, capital, target):
        """Smallest probability of ending below the target."""
        if bets == 0:
            return Fraction(capital < target)
        return min(
            p * miss(bets - 1, capital + stake, target) + (1 - p) * miss(bets - 1, capital - stake, target)
            for stake in range(min(capital, 32 - capital) + 1)
        )

    found = best(make("BettingGame", bets=4, start=5, cap=32), tau)
    reached = [target for target in range(33) if miss(4, 5, target) < Fraction(str(tau))]
    assert found == max(reached) - 5


def eighths_by_value_iteration(p, bets):
    """All final gains z, with the least P(gain < z) and the least mean of (z - gain)^+, in plain NumPy."""
    unit = 8**bets
    stages = [[16 * unit]]
    for _ in range(bets):
        won = {c + sign * min(c * k // 8, 256 * unit - c) for c in stages[-1] for k in range(9) for sign in (-1, 1)}
        stages.append(sorted(won))
    final = np.array(stages[-1]) / unit - 16
    found = []
    for cost in (lambda z: (final[:, None] < z).astype(float), lambda z: np.maximum(z - final[:, None], 0.0)):
        parts = []
        for z in np.array_split(final, max(1, final.size // 500)):
            after = cost(z[None, :])
            for h in range(bets - 1, -1, -1):
                place = {c: i for i, c in enumerate(stages[h + 1])}
                now = np.full((len(stages[h]), z.size), np.inf)
                for k in range(9):
                    stake = [min(c * k // 8, 256 * unit - c) for c in stages[h]]
                    up, down = (
                        [place[c + sign * s] for c, s in zip(stages[h], stake, strict=True)] for sign in (1, -1)
                    )
                    now = np.minimum(now, p * after[up] + (1 - p) * after[down])
                after = now
            parts.append(after[0])
        found.append(np.concatenate(parts))
    return final, *found


@pytest.mark.parametrize("bets", [3, pytest.param(6, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("p", [0.8, 0.88])
def test_stakes_in_eighths_by_value_iteration_over_all_targets(p, bets):
    final, short, missing = eighths_by_value_iteration(p, bets)
    assert bets != 6 or final.size == 6662
    mdp = make("BettingGame", stakes="eighths", win_probability=p, bets=bets)
    for tau in (0.05, 0.2, 0.25):
        assert bqrl.solve(mdp, tau).value == final[short < tau - 1e-12].max()
        assert bqrl.solve(mdp, bqrl.CVaR(tau)).value == pytest.approx((final - missing / tau).max(), abs=1e-9)


@pytest.mark.parametrize(("tau", "regret"), [(0.2, 0.0078125), (0.25, 0.0046875)])
def test_choosing_by_cvar_state_by_state_is_worth_nothing(tau, regret):
    """Each eighth staked first costs the regret (of the gain over 256) that the result files of catso-patso show."""

    def cvar(law):
        mass = np.diff(np.minimum(np.cumsum([0.0, *law.values()]), tau))
        return float(mass @ list(law)) / tau

    def stake(bets, capital, k):
        """Law of the gain to come if k eighths are staked now."""
        amount, law = min(capital * k / 8, 256 - capital), {}
        for sign, q in ((1, 0.8), (-1, 0.2)):
            for gain, w in choose(bets - 1, capital + sign * amount).items():
                law[gain + sign * amount] = law.get(gain + sign * amount, 0.0) + q * w
        return dict(sorted(law.items()))

    @cache
    def choose(bets, capital):
        """Law of the gain to come if every state maximises its CVaR; ties go to the smaller stake."""
        laws = [stake(bets, capital, k) for k in range(9)] if bets else [{0.0: 1.0}]
        return max(laws, key=lambda law: round(cvar(law), 9))

    assert [cvar(stake(6, 16.0, k)) / 256 for k in range(9)] == pytest.approx(
        [-k * regret for k in range(9)], abs=1e-12
    )
    assert bqrl.solve(make("BettingGame", stakes="eighths", win_probability=0.8, bets=4), bqrl.CVaR(tau)).value > 2.0
