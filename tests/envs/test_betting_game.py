"""The betting game against a recursion in exact fractions."""

from fractions import Fraction
from functools import cache

import pytest
from zoo_checks import best

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
