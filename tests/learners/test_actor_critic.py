import numpy as np
import pytest
from learner_problems import episodes, finished

from bqrl.envs import asset_selling
from bqrl.learners.run import Run

MDP = asset_selling(offers=4, start=1, stop_at_end=True)
LEARNERS = ["ppo", "trpo"]


@pytest.mark.parametrize("name", LEARNERS)
def test_the_first_policy_is_uniform_over_the_actions_that_exist(name):
    learner = Run(MDP, name, 0.5, 5, 0).learner
    chances = learner.plan().probabilities
    assert np.array_equal(chances > 0, learner.task.available)
    assert np.allclose(chances, learner.task.available / learner.task.available.sum(axis=2, keepdims=True))
    assert not learner.evaluated().actions.any()  # the lowest of equal actions


@pytest.mark.parametrize("name", LEARNERS)
def test_the_policy_changes_after_a_full_batch_only(name):
    learner = Run(MDP, name, 0.5, 50, 0, batch=4).learner
    first = learner.chances.copy()
    for i, episode in enumerate(episodes(MDP, 8)):
        before = learner.chances.copy()
        learner.observe(episode)
        assert np.array_equal(learner.chances, before) == (i % 4 != 3)
        assert learner.filled == (i + 1) % 4
    assert not np.array_equal(learner.chances, first)
    assert np.array_equal(learner.evaluated().actions, learner.chances.argmax(axis=2))
    assert not learner.chances[~learner.task.available].any()


@pytest.mark.parametrize("name", LEARNERS)
def test_actions_with_the_same_rewards_stay_equally_probable(name):
    """Without any reward all advantages are 0, and nothing is learned."""
    silent = asset_selling(offers=4, start=1)
    silent = type(silent)(silent.dense(0).reshape(5, 2, 5), np.zeros((5, 2)), start=1, horizon=3)
    run = finished(silent, name, 10, batch=5)
    assert np.allclose(run.learner.chances, 0.5)
    assert not run.learner.V.any()
