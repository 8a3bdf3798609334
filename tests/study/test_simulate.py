import gymnasium as gym
import numpy as np
import pytest

import bqrl
from bqrl.errors import ArgumentError, EpisodeError, PolicyError


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
        (lambda: bqrl.simulate("Blackjack-v9", "random", horizon=2), ArgumentError,
         "problem must be a known environment, got 'Blackjack-v9'"),
        (lambda: bqrl.simulate("Blackjak", "random"), ArgumentError, "did you mean 'Blackjack'"),
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


class Masked(gym.Env):
    """Two actions, of which info["action_mask"] allows one, drawn anew in every step; it pays 1 for an allowed action."""

    observation_space, action_space = gym.spaces.Discrete(1), gym.spaces.Discrete(2, start=3)

    def __init__(self, mask=None):
        self.mask = mask

    def info(self):
        self.open = int(self.np_random.integers(2))
        return {"action_mask": np.eye(2, dtype=np.int8)[self.open] if self.mask is None else self.mask}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, self.info()

    def step(self, action):
        paid = float(action - 3 == self.open)
        return 0, paid, False, False, self.info()


class Predicting:
    """An object as in Stable-Baselines3; it returns arrays, and only some versions of it take masks."""

    def predict(self, observation, state=None, deterministic=False, action_masks=None):
        return np.array([3 + int(action_masks[1])]), state


class PredictingOnly:
    def predict(self, observation):
        return 4


def test_random_actions_are_allowed_ones_and_other_policies_are_played_as_they_are():
    assert bqrl.simulate(Masked(), "random", 20, seed=1, horizon=5).tolist() == [5.0] * 20
    assert bqrl.simulate(Masked(), Predicting(), 20, seed=1, horizon=5).tolist() == [5.0] * 20
    same = [
        bqrl.simulate(Masked(), policy, 50, seed=1, horizon=5)
        for policy in (lambda seen: 4, PredictingOnly(), bqrl.MarkovPolicy(np.ones((5, 1), int)))
    ]
    assert 1.5 < same[0].mean() < 3.5  # a masked action is played, and this environment pays nothing for it
    assert all(sample.tobytes() == same[0].tobytes() for sample in same)
    unknown = bqrl.simulate(Masked(), bqrl.MarkovPolicy(np.ones((5, 1), int)), 20, seed=1, states=["elsewhere"])
    assert (unknown.unknown, unknown.tolist()) == (20, [5.0] * 20)
    for mask in (np.zeros(2, np.int8), np.ones(3, np.int8), "both"):
        with pytest.raises(
            EpisodeError, match="episode 0, step 0: expected an action_mask that allows at least one of 2"
        ):
            bqrl.simulate(Masked(mask), "random", 1, horizon=2)


class Seen(gym.Env):
    """Shows a coin in any space, and pays 1 if the action names it."""

    action_space = gym.spaces.Discrete(2)

    def __init__(self, space, show):
        self.observation_space, self.show = space, show

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.coin = int(self.np_random.integers(2))
        return self.show(self.coin), {}

    def step(self, action):
        paid = float(action == self.coin)
        self.coin = int(self.np_random.integers(2))
        return self.show(self.coin), paid, False, False, {}


SPACES = {
    "discrete": (gym.spaces.Discrete(2, start=5), lambda c: 5 + c, None),
    "binary": (gym.spaces.MultiBinary(2), lambda c: np.array([1, c], np.int8), None),
    "multi": (gym.spaces.MultiDiscrete([3, 2]), lambda c: np.array([2, c]), None),
    "tuple": (gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiBinary(1)]), lambda c: (c, np.array([1], np.int8)), None),
    "dict": (gym.spaces.Dict(a=gym.spaces.Discrete(2), b=gym.spaces.Discrete(3)), lambda c: {"a": c, "b": 2}, None),
    "box": (gym.spaces.Box(-1.0, 1.0, (2,)), lambda c: np.array([c - 0.5, 0.1], np.float32), 2),
    "mixed": (gym.spaces.Dict(a=gym.spaces.Box(0.0, 1.0, ()), b=gym.spaces.Discrete(1)), lambda c: {"a": 0.9 * c, "b": 0}, 3),
}  # fmt: skip


@pytest.mark.parametrize("kind", SPACES)
def test_observations_of_every_kind_are_learned_simulated_and_fitted(kind):
    space, show, bins = SPACES[kind]
    env = gym.wrappers.TimeLimit(Seen(space, show), 2)
    record = bqrl.learn(env, "thompson", tau=0.4, episodes=40, seed=1, horizon=2, bins=bins)
    sample = bqrl.simulate(env, record.final_policy, 30, seed=2, states=record.states, bins=bins)
    assert sample.tolist() == [2.0] * 30  # it has learned to name the coin
    assert (sample.unknown, sample.cut) == (0, 30)
    estimate = bqrl.fit(env, episodes=200, seed=3, bins=bins, stationary=True)
    assert estimate.mdp.H == 2
    assert len([name for name in estimate.mdp.state_names if "end" not in name]) >= 2


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (max(name for name in gym.registry if name.startswith("Taxi-")), {}),
        ("FrozenLake-v1", {}),
        ("CliffWalking-v1", {"horizon": 50}),
        ("Blackjack-v1", {}),
        ("CartPole-v1", {"bins": [[0.0], [0.0], [-0.05, 0.0, 0.05], [-0.5, 0.0, 0.5]]}),
    ],
)
def test_stock_environments_are_played_and_learned(name, options):
    bins, horizon = options.get("bins"), options.get("horizon", 30)
    random = bqrl.simulate(name, "random", 40, seed=1, horizon=horizon)
    assert (len(random), np.isfinite(random).all()) == (40, True)
    record = bqrl.learn(name, "psrl", tau=0.4, episodes=5, seed=1, horizon=horizon, bins=bins)
    states = record.states if record.mdp is None else None
    sample = bqrl.simulate(name, record.final_policy, 10, seed=1, states=states, bins=bins)
    assert len(sample) == 10
    assert sample.tobytes() == bqrl.simulate(name, record.final_policy, 10, seed=1, states=states, bins=bins).tobytes()
