import pickle

import numpy as np
import pytest
from oracles import random_mdp

from bqrl import MDP
from bqrl.theory import TotalVariation, total_variation_consequence
from bqrl.theory.total_variation import rows_inside, total_variation


def moved(mdp, rng, share):
    """The problem with every row moved towards a random law on its own support."""
    p = mdp.probability.copy()
    for begin, end in zip(mdp.row_start[:-1], mdp.row_start[1:], strict=True):
        if end > begin:
            p[begin:end] = (1 - share) * p[begin:end] + share * rng.dirichlet(np.full(end - begin, 0.3))
    return mdp.with_probability(p)


def test_total_variation_consequence():
    rng = np.random.default_rng(8)
    covered = 0
    for _ in range(30):
        mdp = random_mdp(rng, plain=True).staged()
        sizes = np.diff(mdp.row_start)

        def near(mdp=mdp, sizes=sizes):
            noise = np.concatenate([rng.dirichlet(np.ones(k)) for k in sizes if k])
            share = rng.random() * 0.3
            return mdp.with_probability((1 - share) * mdp.probability + share * noise)

        estimate, optimistic = near(), near()
        radius = rng.uniform(0.0, 0.4, size=(mdp.H, mdp.S, mdp.A))
        found = total_variation_consequence(mdp, optimistic, estimate, radius)
        assert found.holds
        covered += int(found.covered.sum())
        assert np.array_equal(
            found.covered, rows_inside(mdp, estimate, radius) & rows_inside(optimistic, estimate, radius)
        )
    assert covered > 100


def test_a_violated_bound_is_reported():
    rows = np.ones((1, 2, 1))
    assert not TotalVariation(variation=0.3 * rows, bound=0.2 * rows, covered=rows > 0).holds
    assert TotalVariation(variation=0.3 * rows, bound=0.2 * rows, covered=rows < 0).holds


def test_consequence_is_tight():
    def coin(p):
        return MDP([[[1 - p, p]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=1)

    found = total_variation_consequence(coin(0.4), coin(0.6), coin(0.5), 0.2)
    assert found.variation[0, 0, 0] == pytest.approx(found.bound[0, 0, 0])
    assert found.covered.all()
    assert not rows_inside(coin(0.4), coin(0.5), 0.19)[0, 0, 0]


def test_twins_and_strangers_are_measured_alike():
    rng = np.random.default_rng(9)
    for _ in range(40):
        mdp = random_mdp(rng)
        twin = moved(mdp, rng, 0.4)
        stranger = pickle.loads(pickle.dumps(twin))  # the same problem, which shares no array
        assert total_variation(mdp, twin) == pytest.approx(total_variation(mdp, stranger), abs=1e-15)


def test_rewards_of_every_stage_are_compared():
    rewards = np.zeros((2, 2, 1))
    other = rewards.copy()
    other[1] = 1.0
    kernel = np.full((2, 1, 2), 0.5)
    with pytest.raises(ValueError, match="different rewards at stage 1"):
        total_variation(MDP(kernel, rewards, horizon=2), MDP(kernel, other, horizon=2))
