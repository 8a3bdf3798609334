"""One suite over all named problems: what everybody may rely on, whatever the problem is."""

import inspect
import re
from importlib import import_module

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import bqrl
from bqrl.envs import about, make, names
from bqrl.problems import PROBLEMS

ARRAYS = ("mu", "row_start", "successor", "probability", "reward", "available", "known")
SHARED = [
    name for name in names() if name != "ICUSepsis" and "shared" in inspect.signature(about(name).build).parameters
]


def built(name, **params):
    """The problem, or a skip that says what is missing."""
    try:
        return make(name, **params)
    except FileNotFoundError as fault:
        pytest.skip(str(fault))


@pytest.fixture(params=names())
def name(request):
    return request.param


def test_there_are_at_least_fifteen_problems_and_all_are_registered():
    assert len(names()) >= 15
    assert names() == sorted(names(), key=str.lower)
    assert list(PROBLEMS) == names()
    assert {f"bqrl/{name}-v0" for name in names()} == {key for key in gym.registry if key.startswith("bqrl/")}


def test_a_problem_has_one_file_with_a_story_units_and_a_documented_builder(name):
    problem = about(name)
    module = import_module(f"bqrl.envs.{PROBLEMS[name]}")
    assert inspect.getmodule(problem.build) is module
    assert problem.unit
    assert problem.stage
    assert len(problem.story.split("\n\n")) >= 2  # what it is, then the story and the source of the numbers
    assert re.search(r"\b(19|20)\d\d\b|of our own|\(paper, Section", problem.story)
    assert len(problem.summary) <= 120
    documented = inspect.getdoc(problem.build)
    for parameter in inspect.signature(problem.build).parameters.values():
        assert parameter.default is not inspect.Parameter.empty
        assert parameter.name in documented
    assert "Returns\n-------" in documented


def test_it_builds_twice_the_same_with_names_and_rows_that_sum_to_1(name):
    one, two = built(name), built(f"bqrl/{name}-v0")
    for field in ("H", "S", "A", "discount", "state_names", "action_names"):
        assert getattr(one, field) == getattr(two, field), field
    for field in ARRAYS:
        assert np.array_equal(getattr(one, field), getattr(two, field)), field
    assert len(one.state_names) == one.S
    assert len(one.action_names) == one.A
    rows = np.flatnonzero(np.diff(one.row_start))
    assert np.allclose(np.add.reduceat(one.probability, one.row_start[rows]), 1.0, rtol=0, atol=1e-12)
    assert (one.probability > 0).all() or name == "AssetSelling"
    assert one.unreachable_states == []


def test_gymnasiums_checker_passes_and_a_seed_fixes_every_bit(name):
    built(name)
    env = gym.make(f"bqrl/{name}-v0")
    check_env(env.unwrapped)

    def rollout():
        env.action_space.seed(3)
        state, info = env.reset(seed=3)
        seen, ended = [int(state)], False
        while not ended:
            state, reward, ended, _, info = env.step(env.unwrapped.action_space.sample(info["action_mask"]))
            seen.append((int(state), reward))
        return seen

    assert rollout() == rollout()


def test_simulation_agrees_with_exact_evaluation(name):
    mdp = built(name)
    plan = bqrl.solve(mdp, 0.1, planner="expected")
    episodes = 20_000
    returns = bqrl.simulate(mdp, plan.policy, episodes=episodes, seed=11)
    assert np.array_equal(returns, bqrl.simulate(mdp, plan.policy, episodes=episodes, seed=11))
    second = float(plan.law.probabilities @ (plan.law.values - plan.law.mean()) ** 2)
    assert abs(returns.mean() - plan.law.mean()) <= 5.0 * np.sqrt(second / episodes) + 1e-9  # five standard errors
    assert plan.law.values.min() - 1e-9 <= returns.min()
    assert returns.max() <= plan.law.values.max() + 1e-9


@pytest.mark.parametrize("name", SHARED)
def test_shared_noise_changes_nothing_but_what_is_known(name):
    plain, shared = make(name), make(name, shared=True)
    assert plain.noise is None
    for field in ARRAYS:
        assert np.array_equal(getattr(plain, field), getattr(shared, field)), field
    noise = shared.noise
    assert noise.events_observed
    assert len(noise.events) == 1
    assert np.array_equal(noise.row_law >= 0, shared.available & ~shared.known)
    assert np.allclose(noise.image(noise.probabilities), shared.probability, rtol=0, atol=1e-15)


def test_the_problems_that_have_one_law_of_events_offer_it():
    assert set(names()) - set(SHARED) == {
        "Bandit", "Blackjack", "Garnet", "ICUSepsis", "MeanReversion", "NoisyCliff", "QuantileDomain", "RiverSwim",
        "TreatmentChoice",
    }  # fmt: skip
