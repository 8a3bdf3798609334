"""Values and greedy actions of learners that plan for the mean."""

import numpy as np
import pytest
from learner_problems import optimal_values
from oracles import random_mdp

from bqrl.envs import make
from bqrl.learners.run import Run, learn
from bqrl.loops.model_based import Model, best_action, sampled_values


@pytest.mark.parametrize(("values", "best"), [([1.0, 2.0], 1), ([1.0, 1.0 + 1e-13], 0), ([-np.inf, -np.inf], 0)])
def test_the_first_of_equal_actions_is_best(values, best):
    assert best_action(np.array(values)) == best


@pytest.mark.parametrize("name", ["ucbvi", "thompson", "q-learning"])
def test_states_without_the_first_action_can_be_learned(name):
    """A value of -inf for an action that does not exist once made every comparison with it false."""
    assert np.all(learn(make("AmericanPut", steps=4), name, 0.5, 20, 1).gap() >= -1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_sampled_values_are_those_of_the_drawn_kernel(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng).staged()
    sizes = np.diff(mdp.row_start)
    drawn = (sizes > 0) & (rng.random(sizes.size) < 0.7)
    place = np.where(drawn, np.cumsum(np.where(drawn, sizes, 0)) - sizes, -1)
    gammas = rng.random(int(sizes[drawn].sum())) + 0.1
    kernel = mdp.probability.copy()
    rows = np.repeat(np.arange(sizes.size), sizes)
    kernel[np.repeat(drawn, sizes)] = gammas
    kernel /= np.bincount(rows, kernel, minlength=sizes.size)[rows]
    H, S, A = mdp.H, mdp.S, mdp.A
    V = np.zeros((H + 1, S))
    model = Model(
        mdp.row_start, mdp.successor, np.array(mdp.probability), np.array(mdp.reward), mdp.known, mdp.discount
    )
    sampled_values(tuple(model), place, gammas, np.full((H, S, A), -np.inf), V, np.zeros((H, S), np.int64))
    assert np.allclose(V, optimal_values(mdp.with_probability(kernel)), atol=1e-12)


def test_bounds_hold_the_values_of_every_kernel():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        mdp = random_mdp(rng)
        learner = Run(mdp, "ucbvi", 0.5, 5, 0).learner
        for _ in range(5):
            weights = rng.random(mdp.successor.size) + 1e-3
            rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
            drawn = weights / np.bincount(rows, weights, mdp.row_start.size - 1)[rows]
            known = np.repeat(mdp.known.reshape(-1), np.diff(mdp.row_start))
            other = mdp.with_probability(np.where(known, mdp.probability, drawn))
            V = optimal_values(other)
            for h, s, a in np.argwhere(np.isfinite(learner.ceiling)):
                after, p, r = other.outcomes(h, s, a)
                value = p @ (r + other.discount * V[h + 1, after])
                assert learner.floor[h, s, a] - 1e-9 <= value <= learner.ceiling[h, s, a] + 1e-9


def test_an_action_that_does_not_exist_is_never_best():
    assert best_action(np.array([-np.inf, -3.0, -2.0])) == 2
    assert best_action(np.array([-np.inf, 0.0])) == 1


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6])
def test_ties_do_not_depend_on_the_scale_of_rewards(scale):
    assert best_action(scale * np.array([1.0, 1.0 + 1e-9])) == 1
    assert best_action(scale * np.array([1.0, 1.0 + 1e-14])) == 0
