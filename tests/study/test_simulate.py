import gymnasium as gym
import numpy as np
import pytest

import bqrl
from bqrl.errors import ArgumentError, PolicyError


def stick_at_17(hand):
    return int(hand[0] < 17)


class Unpicklable(gym.Env):
    """Pays a normal draw; it holds a generator object, which no pickle can send."""

    observation_space = action_space = gym.spaces.Discrete(1)

    def __init__(self):
        self.frozen = (x for x in ())

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 0, float(self.np_random.normal()), True, False, {}


def test_the_same_seed_gives_the_same_bits_whatever_the_number_of_workers():
    env = gym.make("Blackjack-v1")
    one = bqrl.simulate(env, stick_at_17, 60, seed=3)
    assert isinstance(one, bqrl.Sample)
    assert bqrl.simulate(env, stick_at_17, 60, seed=3, workers=2).tobytes() == one.tobytes()
    assert bqrl.simulate("Blackjack-v1", stick_at_17, 60, seed=3).tobytes() == one.tobytes()
    assert bqrl.simulate(env, stick_at_17, 25, seed=3).tolist() == one[:25].tolist()
    assert bqrl.simulate(env, stick_at_17, 60, seed=4).tobytes() != one.tobytes()
    assert bqrl.simulate(env, stick_at_17, 5, seed=np.random.default_rng(1)).size == 5


def test_returns_follow_the_law_of_the_table():
    """2000 games, exact law from the table: every probability within 5 standard errors."""
    mdp = bqrl.envs.make("Blackjack")

    def rule(h, s):
        name = mdp.state_names[s]
        return "Hit" if name != "over" and int(name.split()[1]) < 17 else "Stick"

    law, sample = bqrl.evaluate(mdp, rule), bqrl.simulate("Blackjack-v1", stick_at_17, 2000, seed=1)
    for x in (0.0, 1.0):
        p = law.shortfall(x)
        assert (sample < x).mean() == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 2000))
    assert (sample.cut, sample.unknown) == (0, 0)


def test_a_plan_for_the_table_keeps_its_law_in_the_environment():
    mdp = bqrl.from_gymnasium("FrozenLake-v1", horizon=12)
    plan = bqrl.solve(mdp, tau=0.9)
    for options in ({}, {"states": mdp}):
        sample = bqrl.simulate("FrozenLake-v1", plan.policy, 800, seed=2, **options)
        p = plan.law.shortfall(1.0)
        assert (sample < 1.0).mean() == pytest.approx(p, abs=5 * np.sqrt(p * (1 - p) / 800))
        assert sample.cut > 0


def test_states_unknown_to_the_policy_are_counted():
    names = ["(20, 10, 0)"]
    sample = bqrl.simulate("Blackjack-v1", bqrl.MarkovPolicy(np.zeros((20, 1), int)), 50, seed=1, states=names)
    assert 0 < sample.unknown <= 50
    assert "with states unknown to the policy" in repr(sample)


def test_models_and_names_of_problems_are_simulated_as_before():
    mdp = bqrl.envs.make("AssetSelling")
    one = bqrl.simulate(mdp, "always:Stop", 10, seed=1, workers=3)
    assert one.tolist() == bqrl.simulate("AssetSelling", "always:Stop", 10, seed=1).tolist()
    assert bqrl.simulate("bqrl/AssetSelling-v0", "always:Stop", 3, seed=1).tolist() == one[:3].tolist()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bqrl.simulate(Unpicklable(), "random", 9, workers=2), ArgumentError,
         "problem must be an id or an environment that can be pickled if there are several workers, got Unpicklable; pass work"),
        (lambda: bqrl.simulate("SafeOrRisky", [0], horizon=2), ArgumentError, "horizon must be None for a model, got 2"),
        (lambda: bqrl.simulate("FrozenLake-v1", "random", labels=True), ArgumentError, "labels must be left out for an environ"),
        (lambda: bqrl.simulate("FrozenLake-v1", bqrl.MarkovPolicy(np.zeros((3, 16), int)), horizon=4), PolicyError,
         "the policy must have at least 4 stages, got H=3; lower horizon"),
        (lambda: bqrl.evaluate("Blackjack-v1", "random"), ArgumentError, "else score the policy with bqrl.simulate"),
    ],
)  # fmt: skip
def test_bad_arguments_get_one_line(call, error, message):
    with pytest.raises(error, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert bqrl.simulate(Unpicklable(), "random", 9, seed=1).size == 9


def test_evaluate_of_an_environment_points_to_simulate():
    with pytest.raises(TypeError, match=r"mdp must be an MDP, got .*; .* else score the policy with bqrl.simulate"):
        bqrl.evaluate(gym.make("Blackjack-v1"), stick_at_17)
