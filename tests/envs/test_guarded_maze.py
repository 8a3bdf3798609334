"""The guarded maze: two ways by closed forms, and the best quantile and CVaR by value iteration on amounts."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import bqrl
from bqrl.envs.guarded_maze import MAP, guarded_maze, rounded_normal


def test_the_two_ways_have_the_values_of_the_description():
    mdp = guarded_maze()
    short = dict.fromkeys([(6, c) for c in range(1, 6)], "Right") | {(6, 6): "Up"}
    long = {(r, 1): "Up" for r in range(2, 7)} | {(1, c): "Right" for c in range(1, 6)}
    long |= {(r, 6): "Down" for r in range(1, 5)}

    def follow(rule):
        some = mdp.available[0].argmax(axis=1)  # where the way does not lead
        cells = enumerate(mdp.state_values)
        actions = [mdp.action_names.index(rule[cell]) if cell in rule else some[s] for s, cell in cells]
        return bqrl.evaluate(mdp, bqrl.MarkovPolicy([actions] * mdp.H))

    assert follow(long).values.tolist() == [-4.0]
    law = follow(short)
    assert law.mean() == pytest.approx(4.0, abs=1e-9)
    tail = 4.0 - 30.0 * norm.pdf(norm.ppf(0.2)) / 0.2  # of the continuous guard
    assert tail == pytest.approx(-37.99, abs=0.01)
    assert law.cvar(0.2) == pytest.approx(tail, abs=0.5)  # rounding moves one visit by at most half a step


def test_the_rounded_guard_has_the_normal_law():
    law = rounded_normal(30.0, 1.0)
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    assert sum(x * p for x, p in law.items()) == pytest.approx(0.0, abs=1e-12)
    below = np.cumsum(list(law.values()))
    assert below == pytest.approx(norm.cdf((np.array(list(law)) + 0.5) / 30.0), abs=1e-8)
    assert rounded_normal(0.0, 1.0) == {0.0: 1.0}


def value_iteration(step, horizon, terminal, lowest, highest):
    """Least expected terminal cost over needs lowest..highest, in plain NumPy; rows and columns of the map as given."""
    needs = np.arange(lowest, highest + 1)
    amounts = rounded_normal(30.0, step)
    cells = {(r, c): mark for r, row in enumerate(MAP) for c, mark in enumerate(row) if mark != "#"}
    after = dict.fromkeys(cells, terminal(needs.astype(float)))

    def moved(values, gain):  # values at need - gain; beyond the ends the end value
        return values[np.clip(needs - lowest - round(gain), 0, needs.size - 1)]

    for _ in range(horizon):
        now = {}
        for cell, mark in cells.items():
            if mark == "$":
                now[cell] = after[cell]
                continue
            options = []
            for to in ((cell[0] + 1, cell[1]), (cell[0] - 1, cell[1]), (cell[0], cell[1] + 1), (cell[0], cell[1] - 1)):
                if to not in cells:
                    continue
                base = -1 + (10 if cells[to] == "$" else 0)
                law = amounts if cells[to] == "!" else {0.0: 1.0}
                options.append(sum(p * moved(after[to], base + x) for x, p in law.items()))
            now[cell] = np.min(options, axis=0)
        after = now
    return needs, after[6, 1]


def test_the_best_quantile_is_that_of_value_iteration():
    mdp = guarded_maze(horizon=24, step=30.0)
    needs, short = value_iteration(30.0, 24, lambda n: (n > 0).astype(float), -2100, 2100)
    for tau in (0.05, 0.2, 0.5):
        assert bqrl.solve(mdp, tau).value == needs[short < tau - 1e-12].max()


def test_the_best_cvar_is_that_of_value_iteration():
    mdp = guarded_maze(horizon=16, step=30.0)
    needs, missing = value_iteration(30.0, 16, lambda n: np.maximum(n, 0.0), -1400, 1400)
    inner = np.abs(needs) < 300  # far from the ends, where needs are cut
    for tau in (0.2, 0.9):
        assert bqrl.solve(mdp, bqrl.CVaR(tau)).value == pytest.approx((needs - missing / tau)[inner].max(), abs=1e-9)
    assert bqrl.solve(guarded_maze(), bqrl.CVaR(0.2)).value == -4.0


def test_a_maze_without_a_guard_returns_four():
    assert bqrl.solve(guarded_maze(spread=0.0), 0.01).value == 4.0
    assert math.isclose(bqrl.solve(guarded_maze(), bqrl.Mean()).value, 4.0, abs_tol=1e-9)
