import gc
import threading
import time
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest

from bqrl.envs import asset_selling
from bqrl.errors import ArgumentError
from bqrl.learners.run import Run, learn
from bqrl.learners.sb3 import find_algorithm
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import evaluate
from bqrl.policies.stochastic import StochasticPolicy


class Greedy:
    """An algorithm with the calls of Stable-Baselines3: a table over observations, learned by averages of what came after."""

    def __init__(self, policy, env, seed, fault=None):
        self.env, self.rng, self.fault = env, np.random.default_rng(seed), fault
        self.value, self.steps, self.episodes = {}, 0, 0

    def learn(self, total_timesteps):
        seen, _ = self.env.reset()
        while self.steps < total_timesteps:
            if self.steps == self.fault:
                raise ArithmeticError("a fault inside")
            allowed = np.flatnonzero(self.env.action_masks())
            a = int(self.rng.choice(allowed))
            after, reward, terminated, truncated, _ = self.env.step(a)
            self.steps += 1
            best = max((self.value.get((after.tobytes(), b), 0.0) for b in range(2)), default=0.0)
            old = self.value.get((seen.tobytes(), a), 0.0)
            self.value[seen.tobytes(), a] = old + 0.3 * (reward + (0.0 if terminated else best) - old)
            seen = after
            if terminated or truncated:
                self.episodes += 1
                seen, _ = self.env.reset()

    def predict(self, observations, deterministic):
        assert deterministic
        rows = [[self.value.get((x.tobytes(), a), 0.0) for a in range(2)] for x in observations]
        return np.argmax(rows, axis=1), None


def alternating(start=0):
    rewards = np.zeros((4, 2, 2))
    rewards[[0, 1, 2, 3], :, [0, 1, 0, 1]] = 1.0
    return MDP(np.full((2, 2, 2), 0.5), rewards, start=start, horizon=4)


@pytest.mark.parametrize("start", [0, [0.5, 0.5]])
@pytest.mark.parametrize("encoding", ["one-hot", "numbers"])
def test_an_outside_algorithm_learns_what_changes_with_the_stage(start, encoding):
    record = learn(alternating(start), "sb3", 0.5, 120, 1, algorithm=Greedy, encoding=encoding)
    assert record.means()[-1] == pytest.approx(4.0)
    assert record.means()[0] < 4.0


class Sampling(Greedy):
    """The same with the policy of Stable-Baselines3, which draws its actions."""

    class policy:  # noqa: N801  its name there
        """Prefers action 1 where it has the larger value."""

        values: ClassVar = {}

        @classmethod
        def get_distribution(cls, observations):
            rows = np.array([[cls.values.get((x.tobytes(), a), 0.0) for a in range(2)] for x in observations])
            shares = np.exp(3.0 * rows)
            return SimpleNamespace(distribution=SimpleNamespace(probs=shares / shares.sum(axis=1, keepdims=True)))

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.policy.values = self.value


def test_the_probabilities_of_an_outside_algorithm_are_scored_exactly():
    mdp = alternating()
    record = learn(mdp, "sb3", 0.5, 60, 1, algorithm=Sampling, deterministic=False)
    assert isinstance(record.final_policy, StochasticPolicy)
    assert record.scores == "exact"
    assert record.means()[-1] == pytest.approx(evaluate(mdp, record.final_policy).exact_mean)
    assert 2.0 < record.means()[-1] < 4.0
    assert record.means()[0] == pytest.approx(2.0)  # nothing is known: a fair coin
    with pytest.raises(
        ArgumentError, match="algorithm must have a policy with get_distribution if deterministic is False"
    ):
        learn(mdp, "sb3", 0.5, 2, 1, algorithm=Greedy, deterministic=False)


def test_the_budget_counts_episodes_of_h_steps():
    work = Run(asset_selling(offers=4, start=1), "sb3", 0.5, 30, 1, algorithm=Greedy)
    for t in range(30):
        work.step()
        work.learner.evaluated()
        assert work.learner._model.steps == 10 * (t + 1)
        assert work.learner._model.episodes == t + 1


def test_the_same_seed_gives_the_same_bits():
    one, other = (learn(alternating(), "sb3", 0.5, 40, 3, algorithm=Greedy) for _ in range(2))
    assert one.returns.tobytes() == other.returns.tobytes()
    assert one.law_of.tobytes() == other.law_of.tobytes()


def test_the_world_does_not_depend_on_the_algorithm():
    works = [Run(alternating(), "sb3", 0.5, 20, 3, algorithm=Greedy), Run(alternating(), "sarsa", 0.5, 20, 3)]
    for work in works:
        for _ in range(20):
            work.step()
    assert works[0].world.state() == works[1].world.state()


def test_a_fault_inside_the_algorithm_reaches_the_caller():
    with pytest.raises(ArithmeticError, match="a fault inside"):
        learn(alternating(), "sb3", 0.5, 20, 0, algorithm=Greedy, options={"fault": 7})


def test_the_thread_ends_with_its_learner():
    before = threading.active_count()
    work = Run(alternating(), "sb3", 0.5, 20, 0, algorithm=Greedy)
    work.step()
    assert threading.active_count() == before + 1
    del work
    gc.collect()
    for _ in range(100):
        if threading.active_count() == before:
            break
        time.sleep(0.02)
    assert threading.active_count() == before


def test_refusals():
    with pytest.raises(ArgumentError, match="MaskablePPO") as caught:
        learn(asset_selling(stop_at_end=True), "sb3", 0.5, 5, 0, algorithm=Greedy)
    assert (caught.value.name, caught.value.value) == ("algorithm", Greedy)
    with pytest.raises(ArgumentError, match="encoding must be one of 'one-hot', 'numbers', got 'pixels'"):
        learn(alternating(), "sb3", 0.5, 5, 0, algorithm=Greedy, encoding="pixels")
    with pytest.raises(ValueError, match=r"algorithm must fit this problem, got Greedy \(.*unexpected keyword"):
        learn(alternating(), "sb3", 0.5, 5, 0, algorithm=Greedy, options={"no_such_option": 1})
    with pytest.raises(
        ValueError,
        match="without memory, got RecurrentGreedy; use PPO",
    ):
        learn(alternating(), "sb3", 0.5, 5, 0, algorithm=type("RecurrentGreedy", (Greedy,), {}))
    with pytest.raises(ValueError, match="learner must not be an sb3 algorithm if the run is checkpointed, got"):
        Run(alternating(), "sb3", 0.5, 5, 0, algorithm=Greedy).learner.state()


def test_stable_baselines_where_it_is_installed():
    pytest.importorskip("stable_baselines3")
    with pytest.raises(ValueError, match="algorithm must be"):
        find_algorithm("NoSuchAlgorithm")
    record = learn(alternating(), "sb3", 0.5, 100, 1, algorithm="PPO", options={"n_steps": 40, "batch_size": 20})
    assert record.means()[-1] > 3.0
    assert record.returns.size == 100
    with pytest.raises(ValueError, match="SAC cannot be set up on this problem: The algorithm only supports"):
        learn(alternating(), "sb3", 0.5, 5, 1, algorithm="SAC")


def test_sb3_contrib_where_it_is_installed():
    pytest.importorskip("sb3_contrib")
    mdp = asset_selling(offers=4, start=1, horizon=4, stop_at_end=True)
    record = learn(mdp, "sb3", 0.5, 60, 1, algorithm="MaskablePPO", options={"n_steps": 40, "batch_size": 20})
    assert record.returns.size == 60
