"""Episodes of environments with Box observations."""

import gymnasium as gym
import numpy as np
import pytest
from box_envs import Walk

from bqrl.errors import EpisodeError
from bqrl.learners.box_world import ENDED, BoxWorld
from bqrl.policies.protocol import Policy


class Always(Policy):
    def __init__(self, action):
        self.action, self.masks = action, []

    def act(self, h, s, memory, mask=None):
        self.masks.append(None if mask is None else mask.tolist())
        return self.action

    def act_many(self, h, s, memory, mask=None):
        return np.full(len(s), self.action)


def test_an_episode_is_extended_to_the_horizon():
    policy = Always(1)
    episode = BoxWorld(Walk(), 4, np.random.default_rng(0)).play(policy, np.random.default_rng(1))
    assert episode.states.tolist() == [[0, 0], [1, 1], [2, 2], [2, 2], [2, 2]]
    assert episode.actions.tolist() == [1, 1, ENDED, ENDED]
    assert episode.rewards.tolist() == [1.0, 2.0, 0.0, 0.0]
    assert episode.masks[:3].tolist() == [[True] * 3, [True, True, False], [True, True, False]]
    assert policy.masks == [[True] * 3, [True, True, False]]


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("action", [0, 1])
def test_copies_play_the_episodes_of_one_environment(masked, action):
    copies = gym.vector.SyncVectorEnv([lambda: Walk(masked=masked)] * 2)
    found = BoxWorld(copies, 4, np.random.default_rng(0)).play_many(Always(action), 3, np.random.default_rng(1))
    one = BoxWorld(Walk(masked=masked), 4, np.random.default_rng(0)).play(Always(action), np.random.default_rng(1))
    for episode in found:
        assert all(np.array_equal(a, b) for a, b in zip(episode[:3], one[:3], strict=True))
        assert np.array_equal(episode.masks[:2], one.masks[:2])
    assert len(found) == 3


def test_without_masks_every_action_is_allowed():
    policy = Always(2)
    episode = BoxWorld(Walk(masked=False), 3, np.random.default_rng(0)).play(policy, np.random.default_rng(1))
    assert episode.masks.size == 0
    assert policy.masks == [None] * 3
    assert episode.actions.tolist() == [2, 2, 2]


@pytest.mark.parametrize(
    ("fault", "match"),
    [
        ("nan", "episode 0, step 1: expected an observation of finite numbers"),
        ("shape", r"episode 0, step 0: expected an observation of shape \(2,\)"),
        ("mask", "episode 0, step 0: expected an action_mask that allows at least one of 3 actions"),
    ],
)
def test_invalid_results_are_refused_in_one_line(fault, match):
    with pytest.raises(EpisodeError, match=match) as caught:
        BoxWorld(Walk(fault), 3, np.random.default_rng(0)).play(Always(1), np.random.default_rng(1))
    assert "\n" not in str(caught.value)
    if fault == "nan":
        copies = BoxWorld(gym.vector.SyncVectorEnv([lambda: Walk(fault)] * 2), 3, np.random.default_rng(0))
        with pytest.raises(EpisodeError, match="episode 0, step 1: expected observations of finite numbers"):
            copies.play_many(Always(1), 2, np.random.default_rng(1))
