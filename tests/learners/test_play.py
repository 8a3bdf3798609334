import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Discrete
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl.errors import ArgumentTypeError, EpisodeError, PolicyError
from bqrl.learners.play import GymWorld, ModelWorld, blank_episode
from bqrl.learners.run import learn
from bqrl.policies.stochastic import StochasticPolicy


class Scripted(gym.Env):
    """Returns what it is told at the third step of the second episode; observations 0..3, two actions."""

    observation_space, action_space = Discrete(4), Discrete(2)

    def __init__(self, observation=1, reward=0.0, first=0):
        self.observation, self.reward, self.first, self.episode = observation, reward, first, -1

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.steps = self.episode + 1, 0
        return (self.first if self.episode == 1 else 0), {}

    def step(self, action):
        self.steps += 1
        now = self.episode == 1 and self.steps == 3
        return (self.observation if now else 2), (self.reward if now else 1.0), False, False, {}


@given(small_mdps(), st.floats(0.05, 0.95), st.integers(0, 10**6))
def test_compiled_episodes_of_a_target_policy_are_those_of_its_methods(mdp, tau, seed):
    policy = bqrl.guarantee_curve(mdp).policy(tau)
    world = ModelWorld(mdp, np.random.default_rng(0))
    u = np.random.default_rng(seed).random(mdp.H + 1)
    quick, slow = blank_episode(mdp.H), blank_episode(mdp.H)
    world.follow(policy, u, slow)
    assert world.follower.fits(policy)
    world.follower.play(policy, u, *quick[:3])
    for a, b in zip(quick, slow, strict=True):
        assert np.array_equal(a, b)
    for h in range(mdp.H):
        after, p, r = mdp.outcomes(h, slow.states[h], slow.actions[h])
        assert any(
            s == slow.states[h + 1] and q > 0 and x == slow.rewards[h] for s, q, x in zip(after, p, r, strict=True)
        )


@pytest.mark.parametrize("problem", ["RiverSwim", "AssetSelling"])
def test_episodes_played_at_once_are_those_played_one_by_one(problem):
    mdp = bqrl.envs.make(problem)
    policy, chance = bqrl.solve(mdp, 0.3).policy, np.random.default_rng(1)
    one, many = (ModelWorld(mdp, np.random.default_rng(0)) for _ in range(2))
    for episode, same in zip(
        many.play_many(policy, 6, chance), [one.play(policy, chance) for _ in range(6)], strict=True
    ):
        assert all(np.array_equal(a, b) for a, b in zip(episode, same, strict=True))
    assert one.state() == many.state()


def test_a_stochastic_policy_is_played_with_its_probabilities():
    mdp = bqrl.MDP(np.ones((1, 3, 1)), [[0.0, 1.0, 2.0]], horizon=1)
    world, chance = ModelWorld(mdp, np.random.default_rng(0)), np.random.default_rng(1)
    behaviour = StochasticPolicy(np.array([[[0.2, 0.0, 0.8]]]))
    played = [int(world.play(behaviour, chance).actions[0]) for _ in range(4000)]
    assert 1 not in played
    assert np.mean(np.array(played) == 2) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 4000))


def test_a_mixture_is_played_with_its_weights():
    mdp = bqrl.MDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=1)
    mix = bqrl.MixturePolicy([bqrl.MarkovPolicy([[0]]), bqrl.MarkovPolicy([[1]])], [0.2, 0.8])
    for world in (
        ModelWorld(mdp, np.random.default_rng(0)),
        GymWorld(mdp.as_env(), 1, np.random.default_rng(0), np.zeros(1, int)),
    ):
        chance = np.random.default_rng(1)
        played = [int(world.play(mix, chance).actions[0]) for _ in range(2000)]
        assert np.mean(played) == pytest.approx(0.8, abs=5 * np.sqrt(0.16 / 2000))


def test_each_episode_takes_the_same_number_of_uniforms():
    mdp = bqrl.envs.make("AssetSelling", offers=4, start=1)
    worlds = [ModelWorld(mdp, np.random.default_rng(0)) for _ in range(2)]
    worlds[0].play(bqrl.MarkovPolicy(np.zeros((mdp.H, mdp.S), int)), np.random.default_rng(1))
    worlds[1].play(StochasticPolicy(np.full((mdp.H, mdp.S, 2), 0.5)), np.random.default_rng(1))
    assert worlds[0].state() == worlds[1].state()


@pytest.mark.parametrize("observation", [-1, 1.7, 4, 99, np.nan, None, True, np.array([1, 2])])
def test_fault_7_an_observation_outside_the_space_is_refused(observation):
    with pytest.raises(EpisodeError, match="episode 1, step 3: expected an observation from 0 to 3, got") as caught:
        learn(Scripted(observation), "q-learning", 0.5, 5, 0, horizon=4)
    error = caught.value
    assert (error.episode, error.step) == (1, 3)
    assert error.value is observation
    assert "\n" not in str(error)


@pytest.mark.parametrize("reward", [np.nan, np.inf, -np.inf, None, "x"])
def test_fault_7_a_reward_that_is_not_finite_is_refused(reward):
    with pytest.raises(EpisodeError, match="episode 1, step 3: expected a finite reward, got") as caught:
        learn(Scripted(1, reward), "q-learning", 0.5, 5, 0, horizon=4)
    assert (caught.value.episode, caught.value.step) == (1, 3)
    assert caught.value.value is reward


def test_fault_7_the_first_observation_is_checked():
    with pytest.raises(EpisodeError) as caught:
        learn(Scripted(first=7), "q-learning", 0.5, 5, 0, horizon=4)
    assert (caught.value.episode, caught.value.step, caught.value.value) == (1, 0, 7)


def test_an_environment_of_the_interface_before_gymnasium_is_refused_in_one_line():
    env = Scripted()
    env.step = lambda action: (0, 1.0, False, {})  # four parts: one flag for the end
    with pytest.raises(
        EpisodeError, match=r"episode 0, step 1: expected the tuple \(observation, reward, terminated.* got"
    ) as caught:
        learn(env, "q-learning", 0.5, 5, 0, horizon=4)
    assert caught.value.value == (0, 1.0, False, {})
    env.reset = lambda seed=None: 0
    with pytest.raises(EpisodeError, match=r"episode 0, step 0: expected the tuple \(observation, info\) .*, got 0"):
        learn(env, "q-learning", 0.5, 5, 0, horizon=4)


@pytest.mark.parametrize("observation", [np.int64(1), np.array(1), 1])
def test_whole_observations_of_every_type_are_accepted(observation):
    assert learn(Scripted(observation), "q-learning", 0.5, 3, 0, horizon=4).returns.tolist() == [4.0, 3.0, 4.0]


def test_a_gym_world_continues_its_stream():
    one, other = (GymWorld(Scripted(), 4, np.random.default_rng(0), np.arange(4)) for _ in range(2))
    policy, chance = bqrl.MarkovPolicy(np.zeros((4, 4), int)), np.random.default_rng(0)
    one.play(policy, chance)
    other.restore(one.state())
    assert other.state() == one.state()
    assert other.rng.random() == one.rng.random()


def plans(make):
    """A learner of the caller's own that always plans what `make` makes of its task."""

    class Own(bqrl.Learner):
        def plan(self):
            return make(self.task)

        def observe(self, episode):
            pass

    return Own


WRONG = {
    "got 3 in state": lambda task: bqrl.MarkovPolicy(np.full((task.H, task.S), 3)),
    "got 99 in state": lambda task: bqrl.MarkovPolicy(np.full((task.H, task.S), 99)),
    "must have H=15 and S=6 as the task, got H=16": lambda task: bqrl.MarkovPolicy(np.zeros((task.H + 1, task.S), int)),
    "must sum to 1, got -3": lambda task: StochasticPolicy(np.full((task.H, task.S, task.A), -1.0)),
    "must sum to 1, got nan in state 0 at stage 1": lambda task: StochasticPolicy(
        np.full((task.H, task.S, task.A), np.nan)
    ),
    "must have shape": lambda task: StochasticPolicy(np.ones((task.H, task.S))),
}


@pytest.mark.parametrize("message", WRONG)
def test_what_a_learner_of_ones_own_plans_is_checked(message):
    with pytest.raises(PolicyError, match=message):
        learn("MachineReplacement", plans(WRONG[message]), tau=0.1, episodes=3, seed=1)


def test_an_action_that_a_state_does_not_have_is_refused():
    rows = [(0, 0, 1, 1.0, 1.0), (0, 1, 1, 1.0, 2.0), (1, 0, 0, 1.0, 0.0)]
    mdp = bqrl.MDP(rows, horizon=3)
    with pytest.raises(PolicyError, match="must play an available action, got 1 in state"):
        learn(mdp, plans(lambda task: bqrl.MarkovPolicy(np.ones((task.H, task.S), int))), tau=0.5, episodes=2, seed=1)
    both = StochasticPolicy(np.full((3, 2, 2), 0.5))
    with pytest.raises(
        PolicyError, match=r"be 0 where the action is not available, got 0\.5 for action 1 in state 1 at stage 2"
    ):
        learn(mdp, plans(lambda task: both), tau=0.5, episodes=2, seed=1)


def test_an_environment_is_not_asked_for_actions_that_it_does_not_have():
    own = plans(lambda task: bqrl.MarkovPolicy(np.full((task.H, task.S), 2)))
    with pytest.raises(PolicyError, match="at stage 1 must be from 0 to 1, got"):
        learn(Scripted(), own, tau=0.5, episodes=2, seed=1, horizon=3)


def test_rewards_as_text_and_rewards_with_an_infinite_sum_are_refused():
    with pytest.raises(EpisodeError, match=r"episode 1, step 3: expected a finite reward, got '1\.0'"):
        learn(Scripted(1, "1.0"), "q-learning", 0.5, 5, 0, horizon=4)
    env = Scripted()
    env.step = lambda action: (0, 1e308, False, False, {})
    with pytest.raises(EpisodeError, match=r"episode 0, step 2: expected rewards with a finite sum, got 1e\+308"):
        learn(env, "q-learning", 0.5, 5, 0, horizon=4)


def test_flags_of_an_environment_must_be_true_or_false():
    env = Scripted()
    env.step = lambda action: (0, 1.0, np.array([True, False]), False, {})
    with pytest.raises(
        EpisodeError, match="episode 0, step 1: expected terminated and truncated as True or False, got"
    ):
        learn(env, "q-learning", 0.5, 5, 0, horizon=4)


@pytest.mark.parametrize("chances", [[[["half", 0.5]]], None, np.array([["a"]])])
def test_probabilities_must_be_an_array_of_numbers(chances):
    with pytest.raises(ArgumentTypeError, match="probabilities must be an array of numbers, got"):
        learn("MachineReplacement", plans(lambda task: StochasticPolicy(chances)), tau=0.1, episodes=3, seed=1)


@pytest.mark.parametrize("action", [0.9, True, "x", None])
def test_an_action_that_is_no_whole_number_is_refused_while_learning(action):
    class Own(bqrl.Policy):
        def act(self, h, s, memory):
            return action

    for problem, options in (("SafeOrRisky", {}), (Scripted(), {"horizon": 3})):
        with pytest.raises(PolicyError, match="the action in state 0 at stage 1 must be a whole number, got"):
            learn(problem, plans(lambda task: Own()), tau=0.5, episodes=2, seed=1, **options)


def test_a_mixture_with_a_stochastic_part_draws_from_the_learners_stream():
    mdp = bqrl.MDP(np.ones((1, 3, 1)), [[0.0, 1.0, 2.0]], horizon=1)
    mix = bqrl.MixturePolicy([StochasticPolicy([[[0.5, 0.0, 0.5]]]), bqrl.MarkovPolicy([[1]])], [0.5, 0.5])
    runs = []
    for world in (
        ModelWorld(mdp, np.random.default_rng(0)),
        ModelWorld(mdp, np.random.default_rng(0)),
        GymWorld(mdp.as_env(), 1, np.random.default_rng(0), np.zeros(1, int)),
    ):
        chance = np.random.default_rng(1)
        runs.append([int(world.play(mix, chance).actions[0]) for _ in range(4000)])
    assert runs[0] == runs[1] == runs[2]
    shares = np.bincount(runs[0]) / 4000
    assert shares == pytest.approx([0.25, 0.5, 0.25], abs=5 * np.sqrt(0.25 / 4000))
