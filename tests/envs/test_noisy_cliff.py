"""The noisy cliff against value iteration on the remaining need, in plain NumPy."""

import numpy as np
import pytest

import bqrl
from bqrl.envs.noisy_cliff import noisy_cliff


def shortfalls(rows, columns, horizon, noise):
    """Least probability of a return below each of 11 - horizon .. 10, by value iteration; x to the right, y upwards."""
    needs = np.arange(11 - horizon, 11)
    after = np.repeat((needs > 0).astype(float)[None, None], columns, 0).repeat(rows, 1)

    def moved(values, gain):
        place = np.arange(needs.size) - gain
        return np.where(place < 0, 0.0, np.where(place >= needs.size, 1.0, values[np.clip(place, 0, needs.size - 1)]))

    for h in range(horizon - 1, -1, -1):
        now = np.empty_like(after)
        for x in range(columns):
            for y in range(rows):
                if (x, y) == (columns - 1, 0):
                    now[x, y] = after[x, y]
                    continue
                ends = []
                for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                    u, v = min(max(x + dx, 0), columns - 1), min(max(y + dy, 0), rows - 1)
                    gain = 10 if (u, v) == (columns - 1, 0) else -1 if v == 0 and u > 0 and h < horizon - 1 else 0
                    ends.append(moved(after[u, v], gain))
                now[x, y] = noise * np.mean(ends, axis=0) + (1 - noise) * np.min(ends, axis=0)
        after = now
    return needs, after[0, 0]


def test_the_quantiles_are_those_stated_and_those_of_value_iteration():
    needs, short = shortfalls(4, 8, 50, 0.5)
    for tau, stated in ((0.05, 7), (0.1, 8), (0.25, 9), (0.5, 10)):
        plan = bqrl.solve(noisy_cliff(), tau)
        assert plan.value == stated == needs[short < tau].max()
        assert plan.certain
        assert plan.upper == plan.value


def test_the_mean_is_that_of_value_iteration_with_a_last_move_that_costs_nothing():
    mdp = noisy_cliff(rows=2, columns=3, horizon=3)
    # From (0, 0): right onto the cliff costs 1, then the goal pays 10; the last move is free.
    value = {(x, y): 0.0 for x in range(3) for y in range(2)}
    for h in (2, 1, 0):
        now = {}
        for x, y in value:
            options = []
            for dx, dy in ((0, 1), (1, 0), (0, -1), (-1, 0)):
                u, v = min(max(x + dx, 0), 2), min(max(y + dy, 0), 1)
                gain = 10.0 if (u, v) == (2, 0) else -1.0 if v == 0 and u > 0 and h < 2 else 0.0
                options.append(gain + value[u, v])
            now[x, y] = 0.0 if (x, y) == (2, 0) else 0.5 * np.mean(options) + 0.5 * max(options)
        value = now
    assert bqrl.solve(mdp, bqrl.Mean()).value == pytest.approx(value[0, 0], abs=1e-12)
