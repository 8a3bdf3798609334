import re

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from bqrl.envs import asset_selling
from bqrl.errors import ArgumentError, ArgumentTypeError, EpisodeError, SizeError
from bqrl.laws.objectives import Quantile
from bqrl.learners.open_world import OpenWorld
from bqrl.learners.run import LEARNERS, Run, learn
from bqrl.learners.task import open_structure, pose
from bqrl.mdp.from_gymnasium import from_gymnasium

MODEL_FREE = ("q-learning", "sarsa", "ppo", "trpo")


class Corridor(gym.Env):
    """Observations 3..6, actions 1..2: action 2 walks right with probability 0.9, and the right end pays 1 and ends."""

    observation_space = Discrete(4, start=3)
    action_space = Discrete(2, start=1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 3
        return self.place, {}

    def step(self, action):
        assert action in (1, 2)
        if action == 2 and self.np_random.random() < 0.9:
            self.place += 1
        else:
            self.place = max(3, self.place - 1)
        return self.place, float(self.place == 6), self.place == 6, False, {}


def lake(**options):
    return gym.make("FrozenLake-v1", **({"is_slippery": False} | options))


@pytest.mark.parametrize("name", ["ucbvi", "thompson"])
def test_planning_learners_cross_the_frozen_lake(name):
    record = learn(lake(is_slippery=True), name, 0.5, 500, 1, horizon=20, stationary=True)
    assert record.expected_regret()[-1] < 0.05 < record.means()[-1] < 0.2


@pytest.mark.parametrize("name", MODEL_FREE)
def test_model_free_learners_cross_the_frozen_lake(name):
    short = gym.make("FrozenLake-v1", is_slippery=False, desc=["SF", "FG"])
    assert learn(short, name, 0.5, 200, 1, horizon=6).means()[-1] == 1.0


@pytest.mark.parametrize("name", ["ucbvi", "q-learning"])
def test_the_table_scores_what_the_environment_plays(name):
    record = learn(lake(is_slippery=True), name, 0.5, 400, 2, horizon=15)
    realised, exact = record.returns[200:].mean(), record.means()[200:].mean()
    if name == "ucbvi":  # it plays what is evaluated
        assert abs(realised - exact) < 0.1
    assert record.mdp is not None
    assert record.mdp.H == 15


def test_the_model_and_the_environment_have_the_same_law():
    env, mdp = lake(is_slippery=True, desc=["SFF", "FHF", "FFG"]), None
    play, plan = [], []
    for problem in (env, from_gymnasium(env, horizon=8)):
        work = Run(problem, "q-learning", 0.5, 1500, 3, horizon=8, epsilon=(1.0, 1.0))
        mdp = work.mdp
        returns = [work.world.play(work.learner.plan(), work.chance).rewards.sum() for _ in range(1500)]
        (play if problem is env else plan).append(np.mean(returns))
    assert mdp is not None
    assert abs(play[0] - plan[0]) < 0.04


def test_an_episode_that_ends_stays_where_the_model_says():
    work = Run(lake(desc=["SF", "FG"]), "q-learning", 0.5, 50, 0, horizon=6, epsilon=(1.0, 1.0))
    for _ in range(50):
        states, actions, rewards = work.world.play(work.learner.plan(), work.chance)[:3]
        for h in range(6):
            after, p, r = work.mdp.outcomes(h, states[h], actions[h])
            assert (states[h + 1], rewards[h]) in [(s, x) for s, q, x in zip(after, p, r, strict=True) if q > 0]
            if states[h] == 3:
                assert states[h + 1] == 3


@pytest.mark.parametrize("name", MODEL_FREE)
def test_plain_discrete_environments_learn_through_the_same_loop(name):
    record = learn(Corridor(), name, 0.5, 400, 1, horizon=8)
    assert record.optimum is None
    assert record.returns[-100:].mean() > record.returns[:40].mean()
    assert all(record.final_policy.act(h, s) == 1 for h, s in ((0, 0), (1, 1), (2, 2)))
    with pytest.raises(ValueError, match="environment whose kernel is unknown"):
        record.means()


def test_the_last_state_of_a_plain_environment_means_over():
    work = Run(Corridor(), "q-learning", 0.5, 30, 0, horizon=9, epsilon=(1.0, 1.0))
    assert work.learner.task.S == 5
    ended = 0
    for _ in range(30):
        states, _, rewards = work.world.play(work.learner.plan(), work.chance)[:3]
        assert rewards.sum() <= 1.0
        if rewards.any():
            end = int(rewards.argmax())
            assert np.all(states[end + 1 :] == 4)
            ended += 1
        assert np.all((states == 4) | (states < 3))
    assert ended


def test_start_needs_a_transition_table():
    with pytest.raises(ArgumentError, match=r"start must be None for Corridor, which does not expose .*, got 1"):
        learn(Corridor(), "sarsa", 0.5, 5, 0, horizon=5, start=1)


def test_learners_that_need_rewards_get_no_task_but_a_world_without_a_table():
    facts = {"objective": Quantile(0.5), "episodes": 5, "delta": 0.05}
    mdp, task, world = pose(Corridor(), LEARNERS["ucbvi"], 5, None, np.random.default_rng(0), facts, None)
    assert (mdp, task) == (None, None)
    assert isinstance(world, OpenWorld)


def test_bins_are_for_boxes():
    with pytest.raises(ArgumentError, match="bins must be None for a model, whose states are numbered, got 3"):
        learn("SafeOrRisky", "sarsa", 0.5, 5, 0, bins=3)
    with pytest.raises(ArgumentError, match="bins must be None for Corridor, whose observations have no Box, got 3"):
        learn(Corridor(), "sarsa", 0.5, 5, 0, horizon=3, bins=3)


def test_our_own_environment_is_its_model():
    mdp = asset_selling(offers=6, start=1)
    for env in (mdp.as_env(), gym.make("bqrl/AssetSelling-v0", offers=6, start=1)):
        for name in ("ucbvi", "ppo"):
            one, other = learn(mdp, name, 0.5, 40, 9), learn(env, name, 0.5, 40, 9)
            assert one.returns.tobytes() == other.returns.tobytes()
            assert one.pmf.tobytes() == other.pmf.tobytes()
    assert learn(mdp.as_env(), "ucbvi", 0.5, 5, 0, horizon=4).mdp.H == 4
    assert learn("bqrl/AssetSelling-v0", "ucbvi", 0.5, 5, 0).mdp.S == 26


def test_a_wrapper_that_may_change_things_hides_the_model():
    env = gym.wrappers.TransformReward(asset_selling(offers=4, start=1).as_env(), lambda r: 2 * r)
    record = learn(env, "q-learning", 0.5, 60, 0, horizon=10)
    assert record.optimum is None
    assert record.returns.max() > 1.0


def test_the_same_seed_gives_the_same_bits_and_the_same_chance_to_all():
    one, other = (learn(lake(is_slippery=True), "ppo", 0.5, 60, 4, horizon=10) for _ in range(2))
    assert one.returns.tobytes() == other.returns.tobytes()
    worlds = []
    for name in ("ppo", "ucbvi", "sarsa"):
        work = Run(lake(is_slippery=True), name, 0.5, 20, 4, horizon=10)
        for _ in range(20):
            work.step()
        worlds.append(work.world.state())
    assert worlds[0] == worlds[1] == worlds[2]


def test_a_run_in_an_environment_resumes_with_the_same_bits():
    whole, first, second = (Run(lake(is_slippery=True), "sarsa", 0.5, 40, 4, horizon=10) for _ in range(3))
    for _ in range(40):
        whole.step()
    for _ in range(17):
        first.step()
    second.restore(first.state())
    for _ in range(23):
        second.step()
    assert whole.returns.tobytes() == second.returns.tobytes()


def test_the_horizon_comes_from_the_argument_or_the_time_limit():
    assert Run(lake(max_episode_steps=7), "sarsa", 0.5, 5, 0).mdp.H == 7
    assert Run(lake(max_episode_steps=7), "sarsa", 0.5, 5, 0, horizon=3).mdp.H == 3
    with pytest.raises(
        ArgumentError, match=r"at most 7, .* got 9; pass horizon=7, or make .* with max_episode_steps=9"
    ) as caught:
        Run(lake(max_episode_steps=7), "sarsa", 0.5, 5, 0, horizon=9)
    assert (caught.value.name, caught.value.value) == ("horizon", 9)
    with pytest.raises(ArgumentError, match="horizon must be given for Corridor, which has no time limit, got None"):
        Run(Corridor(), "sarsa", 0.5, 5, 0)


def test_what_is_no_discrete_environment_is_refused():
    env = Corridor()
    env.observation_space = Box(0.0, 1.0)
    with pytest.raises(ArgumentError, match=r"Tuple or Dict observations, got Box in Corridor; pass bins=") as caught:
        learn(env, "sarsa", 0.5, 5, 0, horizon=3)
    assert caught.value.name == "problem"
    env.action_space = Box(0.0, 1.0)
    with pytest.raises(ArgumentError, match="problem must have Discrete actions, got Box in Corridor"):
        learn(env, "psrl", 0.5, 5, 0, horizon=3, bins=2)
    with pytest.raises(ArgumentTypeError, match="got list"):
        learn([1, 2], "sarsa", 0.5, 5, 0)
    with pytest.raises(ArgumentError, match="got 'NoSuchLake-v1'"):
        learn("NoSuchLake-v1", "sarsa", 0.5, 5, 0)
    with pytest.raises(SizeError, match="at most 100000000 possible transitions, got 20000 states") as large:
        open_structure(20_000, 4, 10)
    assert (large.value.needed, large.value.limit) == (20_001 * 20_000 * 4, 100_000_000)


def test_the_open_structure_knows_only_that_the_end_absorbs():
    structure = open_structure(2, 2, 3)
    assert structure.support_size.reshape(-1).tolist() == [3, 3, 3, 3, 1, 1]
    assert structure.successor.tolist() == [0, 1, 2] * 4 + [2, 2]
    assert structure.known.reshape(-1).tolist() == [False] * 4 + [True] * 2
    facts = {"objective": Quantile(0.5), "episodes": 5, "delta": 0.05}
    mdp, task, _ = pose(Corridor(), LEARNERS["sarsa"], 3, None, np.random.default_rng(0), facts, None)
    assert mdp is None
    assert task.model is None


class Tabled(gym.Env):
    """Two states with a transition table; the environment names no first state, and truncates after `cut` steps."""

    observation_space, action_space = Discrete(2), Discrete(2)
    P = {s: {a: [(0.5, 0, 1.0 * a, False), (0.5, 1, 0.0, False)] for a in (0, 1)} for s in (0, 1)}  # noqa: RUF012

    def __init__(self, cut=99, first=None):
        self.cut = cut
        if first is not None:
            self.initial_state_distrib = np.array(first)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        _, self.place, reward, _ = self.P[self.place][int(action)][int(self.np_random.integers(2))]
        return self.place, reward, False, self.steps >= self.cut, {}


@pytest.mark.parametrize("name", ["psrl", "q-learning"])
def test_a_given_start_serves_an_environment_that_names_none(name):
    record = learn(Tabled(), name, 0.5, 5, 1, horizon=4, start=1)
    assert record.mdp.mu.tolist() == [0.0, 1.0]
    with pytest.raises(ArgumentError, match="start must be given for Tabled, which does not expose its first state"):
        learn(Tabled(), name, 0.5, 5, 1, horizon=4)


def test_a_time_limit_by_hand_is_the_limit():
    core = gym.make("FrozenLake-v1", is_slippery=False).unwrapped
    core.spec = None
    short = gym.wrappers.TimeLimit(gym.wrappers.TimeLimit(core, 3), 50)
    assert learn(short, "q-learning", 0.5, 5, 1).mdp.H == 3
    assert learn(short, "psrl", 0.5, 5, 1, horizon=2).mdp.H == 2
    for name in ("q-learning", "psrl"):
        with pytest.raises(
            ArgumentError, match=r"horizon must be at most 3, the time limit .*, got 20; pass horizon=3"
        ):
            learn(short, name, 0.5, 5, 1, horizon=20)
    assert learn(gym.wrappers.TimeLimit(Corridor(), 6), "sarsa", 0.5, 5, 1).final_policy.H == 6


@pytest.mark.parametrize("name", ["psrl", "q-learning"])
def test_an_environment_that_truncates_where_its_table_does_not_is_refused_with_the_remedy(name):
    with pytest.raises(
        EpisodeError, match=r"step 3: expected truncated=False before step 6, .*; pass horizon=3$"
    ) as caught:
        learn(Tabled(cut=3, first=[1.0, 0.0]), name, 0.5, 5, 1, horizon=6)
    assert (caught.value.episode, caught.value.step) == (0, 3)
    assert learn(Tabled(cut=3, first=[1.0, 0.0]), name, 0.5, 5, 1, horizon=3).scores == "exact"


class Shaped(Tabled):
    """An environment whose steps may differ from its table: `change` maps (state, reward, ended) to what they return."""

    def __init__(self, change, first=(1.0, 0.0)):
        super().__init__(first=first)
        self.change = change

    def step(self, action):
        place, reward, ended, cut, info = super().step(action)
        return *self.change(place, reward, ended), cut, info


LISTED = "step 1: expected a state and a reward that the table P lists for action [01] in state 0, got "
DIFFERENT = {
    "reward": (Shaped(lambda s, r, ended: (s, r + 0.99, ended)), LISTED + r"\([01], "),
    "end": (Shaped(lambda s, r, ended: (s, r, True)), LISTED + r"\('an end', "),
    "start": (
        Shaped(lambda *same: same, first=(0.0, 1.0)),
        "step 0: expected a first state of positive probability in .* own law, got 0",
    ),
}


@pytest.mark.parametrize("what", DIFFERENT)
@pytest.mark.parametrize("name", ["psrl", "q-learning"])
def test_an_environment_that_differs_from_its_table_is_not_scored_by_it(name, what):
    env, message = DIFFERENT[what]
    with pytest.raises(EpisodeError, match=message + ".*; correct P, or make the change in a wrapper$"):
        learn(env, name, 0.5, 20, 1, horizon=6)


@pytest.mark.parametrize("name", ["psrl", "q-learning"])
def test_an_environment_may_number_more_states_than_its_table_lists(name):
    env = Tabled(first=[1.0, 0.0])
    env.observation_space = Discrete(5)
    assert learn(env, name, 0.5, 5, 1, horizon=6).scores == "exact"


@pytest.mark.parametrize("name", ["psrl", "q-learning"])
def test_rewards_in_single_precision_are_those_of_the_table(name):
    single = Shaped(lambda s, r, ended: (s, np.float32(r) * np.float32(1 + 1e-7), ended))
    assert learn(single, name, 0.5, 5, 1, horizon=6).scores == "exact"


@pytest.mark.parametrize("attribute", [0.3, np.eye(4), [[0.5, 0.5]]])
def test_an_attribute_named_p_that_is_no_table_is_not_read(attribute):
    env = Corridor()
    env.P = attribute
    record, plain = (learn(one, "sarsa", 0.5, 20, 1, horizon=8) for one in (env, Corridor()))
    assert record.scores == "none"
    assert record.returns.tobytes() == plain.returns.tobytes()


@pytest.mark.parametrize(
    ("name", "remedy"), [("Inventry", "did you mean 'Inventory'?"), ("rule.csv", "pass bqrl.load(path)")]
)
def test_an_unknown_name_gets_the_nearest_one_or_the_way_to_a_file(name, remedy):
    with pytest.raises(ArgumentError, match=re.escape(remedy)):
        learn(name, episodes=1)
