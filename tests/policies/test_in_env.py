import gymnasium as gym
import numpy as np
import pytest

import bqrl
from bqrl import simulate
from bqrl.errors import ArgumentError, ArgumentTypeError, EpisodeError, PolicyError
from bqrl.mdp.stepping import Stepper
from bqrl.policies import in_env
from bqrl.policies.in_env import play_steps, player_of, state_names


def episode(env, policy, seed=1, number=0, horizon=None, **options):
    return list(play_steps(Stepper(env), player_of(env, policy, **options), seed, number, horizon))


def test_our_policy_tracks_its_need_in_the_rewards_of_the_environment():
    mdp = bqrl.envs.make("MachineReplacement")
    policy, env = bqrl.solve(mdp, tau=0.1).policy, mdp.as_env()
    for number in range(20):
        memory = policy.start()
        for h, step in enumerate(episode(env, policy, number=number, horizon=mdp.H)):
            assert step.action == policy.act(h, int(step.observation), memory)
            memory = policy.next(memory, h, int(step.observation), int(step.action), step.reward, int(step.after))
        assert h == mdp.H - 1


def test_the_streams_of_the_environment_and_of_the_policy_are_independent():
    """With one seed for both, the uniform action would be a function of the first card."""
    env = gym.make("Blackjack-v1")
    steps, player = Stepper(env), player_of(env, "random")
    first = [next(play_steps(steps, player, 1, number, None)) for number in range(1500)]
    low = np.array([step.observation[0] <= 12 for step in first])
    hit = np.array([int(step.action) == 1 for step in first])
    assert abs(hit[low].mean() - hit[~low].mean()) < 4 * 0.5 * np.sqrt(1 / low.sum() + 1 / (~low).sum())


def test_an_episode_depends_only_on_the_seed_and_its_number():
    env = gym.make("Blackjack-v1")
    one = episode(env, "random", number=7)
    episode(env, "random", number=3)
    assert episode(env, "random", number=7) == one
    assert any(episode(env, "random", seed=2, number=n) != episode(env, "random", number=n) for n in range(5))


def test_states_are_found_by_their_names():
    env = gym.make("Blackjack-v1")
    names = ["(20, 10, 0)", "(13, 2, 0)"]
    player = player_of(env, bqrl.MarkovPolicy([[0, 1]]), names)
    player.begin(1)
    assert [player.act(0, observation, None) for observation in ((20, 10, 0), (13, 2, 0))] == [0, 1]
    assert not player.unknown
    drawn = {player.act(0, (12, 1, 1), None) for _ in range(40)}
    assert drawn == {0, 1}
    assert player.unknown
    mdp = bqrl.envs.make("Blackjack")
    assert state_names(mdp) == mdp.state_names
    assert state_names(bqrl.MDP(np.ones((2, 1, 2)) / 2, np.zeros((2, 1)), horizon=1)) == ("0", "1")


def test_a_cut_is_not_an_end():
    lake = gym.make("FrozenLake-v1", is_slippery=False, max_episode_steps=5)
    assert [(step.ended, step.cut) for step in episode(lake, lambda s: 0)] == [(False, False)] * 4 + [(False, True)]
    assert [step.cut for step in episode(lake, lambda s: 0, horizon=3)] == [False, False, True]
    down = episode(lake, lambda s: 2 if s % 4 == 0 else 1)  # right, then down into the hole at 5
    assert (down[-1].ended, down[-1].cut) == (True, False)


def test_an_episode_without_an_end_is_stopped(monkeypatch):
    monkeypatch.setattr(in_env, "LONGEST", 30)
    lake = gym.make("FrozenLake-v1", max_episode_steps=-1, is_slippery=False)
    with pytest.raises(EpisodeError, match=r"step 30: expected an end of the episode, got 'none'; pass horizon="):
        episode(lake, lambda s: 0)


class Predicts:
    def predict(self, observation, deterministic):
        assert deterministic
        return np.array(1), None


def test_objects_with_predict_are_policies():
    assert [step.action for step in episode(gym.make("FrozenLake-v1"), Predicts(), horizon=2)] == [1, 1]


PLAN = bqrl.solve("SafeOrRisky", tau=0.1)


@pytest.mark.parametrize(
    ("env", "policy", "options", "error", "message"),
    [
        ("Blackjack-v1", PLAN.policy, {}, ArgumentError, "states must name the states of the policy, because the obs"),
        ("Blackjack-v1", PLAN, {}, ArgumentTypeError, "or 'random', got Plan; pass plan.policy"),
        ("Blackjack-v1", "always", {}, ArgumentTypeError, "policy must be a Policy, a function of the observation, an object"),
        ("Blackjack-v1", "random", {"states": ["a"]}, ArgumentError, "states must be None unless the policy is a bqrl.Policy"),
        ("Blackjack-v1", PLAN.policy, {"states": "a"}, ArgumentTypeError, "states must be an MDP or a list of names, got 'a'"),
        ("Pendulum-v1", PLAN.policy, {"bins": [3, 3, 3]}, ArgumentError, "states must name the states"),
        ("Pendulum-v1", PLAN.policy, {"bins": 3, "states": ["a"]}, ArgumentError, "env must have Discrete actions for a Policy"),
    ],
)  # fmt: skip
def test_bad_policies_get_one_line(env, policy, options, error, message):
    with pytest.raises(error, match=message) as caught:
        player_of(gym.make(env), policy, **options)
    assert "\n" not in str(caught.value)


def test_an_action_that_the_environment_does_not_have_is_refused():
    with pytest.raises(PolicyError, match="the action in state 0 at stage 1 must be from 0 to 3, got 9"):
        episode(gym.make("FrozenLake-v1"), bqrl.MarkovPolicy(np.full((2, 16), 9)), horizon=2)
    for answer in (9, -1, 0.5, "stick", None, np.array([9])):  # once a bare AssertionError of the environment
        with pytest.raises(PolicyError, match="the action at stage 1 must be a whole number from 0 to 1, got "):
            simulate("Blackjack-v1", lambda hand, answer=answer: answer, episodes=1, seed=4)


def test_a_function_of_the_observation_may_return_probabilities():
    lean = lambda hand: [0.25, 0.75]  # noqa: E731
    one, other = (simulate("Blackjack-v1", lean, episodes=300, seed=4) for _ in range(2))
    assert np.array_equal(one, other)
    always = simulate("Blackjack-v1", lambda hand: [0.0, 1.0], episodes=300, seed=4)
    assert np.array_equal(always, simulate("Blackjack-v1", lambda hand: 1, episodes=300, seed=4))
    assert not np.array_equal(one, always)
    with pytest.raises(PolicyError, match=r"must sum to 1, got 1.5 in state \(.*\) at stage 1"):
        simulate("Blackjack-v1", lambda hand: [0.5, 1.0], episodes=3, seed=4)


def test_predict_draws_in_an_environment_on_request():
    class Model:
        def predict(self, observation, deterministic=True):
            return int(not deterministic), None

    class Known(Model):
        def policy_probabilities(self, observation):
            return np.array([0.0, 1.0])

    hit = simulate("Blackjack-v1", lambda hand: 1, episodes=100, seed=4)
    stick = simulate("Blackjack-v1", lambda hand: 0, episodes=100, seed=4)
    for model in (Model(), Known()):
        assert np.array_equal(simulate("Blackjack-v1", model, episodes=100, seed=4), stick)
        assert np.array_equal(simulate("Blackjack-v1", model, episodes=100, seed=4, deterministic=False), hit)
