"""The gambler's problem: the listed kernel, and bold play."""

import numpy as np
import pytest
from zoo_checks import same_kernel

import bqrl
from bqrl.envs import make


def test_gambler_is_the_listed_kernel():
    rows = []
    for capital in range(11):
        for stake in range(min(capital, 10 - capital) + 1):
            if stake == 0:
                rows.append((capital, 0, capital, 1.0, 0.0))
            else:
                rows += [
                    (capital, stake, capital + stake, 0.45, stake),
                    (capital, stake, capital - stake, 0.55, -stake),
                ]
    same_kernel(make("Gambler"), rows, 8, 5)


def test_bold_play_is_the_gamblers_best_chance_of_the_goal():
    """From half of the goal one bold stake wins with probability p, and no other play reaches the goal more often."""
    for p in (0.3, 0.45):
        curve = bqrl.guarantee_curve(make("Gambler", win_probability=p))
        reached = 1.0 - curve.shortfall[np.flatnonzero(curve.points == 5.0)[0]]
        assert reached == pytest.approx(p)
