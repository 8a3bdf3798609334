"""Quantile levels as states: the values at all levels are the best quantiles."""

import numpy as np
import pytest

import bqrl
from bqrl.learners.run import Run, learn


def two_gambles():
    """Two rounds, each a sure 1 or a gamble for 3 or 0; the best quantiles differ by level."""
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.6, 3.0), (0, 1, 0, 0.4, 0.0)]
    return bqrl.MDP(rows, horizon=2)


def test_the_values_at_the_start_are_the_best_quantiles():
    mdp = two_gambles()
    run = Run(mdp, "var-q", 0.5, 8000, 1, epsilon=(1.0, 1.0), learning_rate=1e-3, levels=20)
    for _ in range(run.total):
        run.step()
    levels = (np.arange(20) + 0.5) / 20
    found = run.learner.J[0, 0].max(axis=0)
    curve = bqrl.guarantee_curve(mdp)
    clear = [j for j, u in enumerate(levels) if curve(max(u - 0.06, 0.001)) == curve(min(u + 0.06, 0.999))]
    assert len(clear) > 10  # away from jumps of the curve
    assert np.round(found[clear]).tolist() == [curve(levels[j]) for j in clear]


@pytest.mark.parametrize("tau", [0.1, 0.3, 0.55, 0.8])
def test_the_policy_reaches_the_best_quantile(tau):
    record = learn(two_gambles(), "var-q", tau, 4000, 2, epsilon=(1.0, 1.0), learning_rate=2e-3)
    assert record.gap()[-1] == 0.0


def test_the_policy_keeps_its_quantile_where_the_greedy_level_does_not():
    record = learn("SafeOrRisky", "var-q", 0.1, 2000, 1)
    assert record.gap()[-1] == 0.0


def test_first_states_are_weighed_by_their_probabilities():
    P, R = np.zeros((1, 3, 1, 3)), np.array([[[0.0], [5.0], [9.0]]])
    P[..., 0] = 1.0
    mdp = bqrl.MDP(P, R, start=[0.2, 0.5, 0.3])
    for tau, best in ((0.1, 0.0), (0.3, 5.0), (0.8, 9.0)):
        run = Run(mdp, "var-q", tau, 200, 1)
        for _ in range(200):
            run.step()
        assert run.learner.evaluated().target == best
