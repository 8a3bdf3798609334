import gymnasium as gym
import pytest

from bqrl.errors import ArgumentError, ArgumentTypeError, EpisodeError
from bqrl.mdp.stepping import Stepper, make_environment


class Faulty(gym.Env):
    """Returns what it is told; tests/learners/test_play.py checks every fault through a learner."""

    def __init__(self, returned):
        self.returned = returned

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return self.returned


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ((0, 1.0, False, {}), r"expected the tuple \(observation, reward, terminated, truncated, info\) as in Gymnasium, got"),
        ((0, "1", False, False, {}), "expected a finite reward, got '1'"),
        ((0, float("inf"), False, False, {}), "expected a finite reward, got inf"),
    ],
)  # fmt: skip
def test_a_fault_names_the_episode_and_the_step(returned, message):
    steps = Stepper(Faulty(returned))
    steps.episode = 4
    steps.reset(1)
    with pytest.raises(EpisodeError, match=f"^episode 4, step 2: {message}") as caught:
        steps.step(0, 2)
    assert (caught.value.episode, caught.value.step) == (4, 2)


def test_the_sum_of_the_rewards_starts_anew_with_each_episode():
    steps = Stepper(Faulty((0, 1e308, False, False, {})))
    for _ in range(3):
        steps.reset(1)
        assert steps.step(0, 1) == (0, 1e308, False, False)
    with pytest.raises(EpisodeError, match="expected rewards with a finite sum"):
        steps.step(0, 2)


def test_environments_are_made_from_their_id():
    assert type(make_environment("FrozenLake-v1", "env").unwrapped).__name__ == "FrozenLakeEnv"
    env = Faulty(())
    assert make_environment(env, "env") is env
    with pytest.raises(ArgumentError, match="env must be a known environment, got 'NoLake-v1'"):
        make_environment("NoLake-v1", "env")
    with pytest.raises(ArgumentTypeError, match="env must be an MDP or a Gymnasium environment, got list"):
        make_environment([], "env")
