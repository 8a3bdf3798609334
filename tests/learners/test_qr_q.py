"""Distributional Q-learning: it finds the policy with the best mean and the law of its return."""

import numpy as np
import pytest
from learner_problems import chain, optimal_values, two_arms

from bqrl.learners.run import Run, learn
from bqrl.planners.expected import best_mean


@pytest.mark.parametrize("problem", [chain, two_arms])
def test_the_means_are_those_of_the_best_policy(problem):
    mdp = problem()
    run = Run(mdp, "qr-q", 0.5, 6000, 2, epsilon=(1.0, 1.0), discount=1.0, learning_rate=1e-3)
    for _ in range(run.total):
        run.step()
    assert run.learner.Q[0, 0].max() == pytest.approx(optimal_values(mdp)[0, 0], rel=0.05)
    assert run.learner.Q == pytest.approx(run.learner.Z.mean(axis=3))


def test_the_quantiles_are_those_of_the_return():
    run = Run(two_arms(), "qr-q", 0.5, 4000, 1, epsilon=(1.0, 1.0), levels=10, learning_rate=1e-3)
    for _ in range(run.total):
        run.step()
    first, second = np.round(run.learner.Z[0, 0]).tolist()
    assert first == [0.0] * 7 + [1.0] * 3
    assert second == [0.0] * 3 + [1.0] * 7


def test_it_is_greedy_in_the_mean_whatever_the_level():
    one, other = (learn(chain(), "qr-q", tau, 300, 4).returns for tau in (0.1, 0.9))
    assert np.array_equal(one, other)
    assert learn(chain(), "qr-q", 0.1, 2000, 4).means()[-1] > 0.97 * best_mean(chain())[0]
