import numpy as np
import pytest
from actor_critic_batch import SIZE, A, B, H, S, everywhere, policy, random_batch

from bqrl.loops.trpo import Region, fisher_product, natural_direction, trust_region_step


def test_the_natural_direction_solves_the_damped_fisher_system():
    _, played, batch = random_batch()
    share = np.random.default_rng(4).dirichlet(np.ones(H * S))
    batch = everywhere(played, batch)
    table, column = np.zeros((H * S, A)), np.zeros(SIZE)
    matrix = np.zeros((SIZE, SIZE))
    for i, unit in enumerate(np.eye(SIZE)):
        fisher_product(unit, 0.7, share, batch, 0.1, table, column)
        matrix[:, i] = column
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0.099
    gradient = np.random.default_rng(2).normal(size=SIZE)
    x, curvature = natural_direction(gradient, 0.7, share, batch, 0.1, 200, table)
    assert np.allclose(x, np.linalg.solve(matrix, gradient), atol=1e-4)
    assert curvature == pytest.approx(x @ matrix @ x)


@pytest.mark.parametrize("radius", [1e-4, 0.01, 0.3])
def test_a_trust_region_step_gains_and_stays_inside(radius):
    parts, (states, actions, advantage, old, available), batch = random_batch()
    moved = parts.copy()
    assert trust_region_step(moved, batch, Region(0.7, radius, 0.01, 30, 0.8, 20))
    new, gain, divergence = policy(moved, 0.7, available), 0.0, 0.0
    for b in range(B):
        for h in range(H):
            s, a = states[b, h], actions[b, h]
            gain += advantage[b, h] * (new[h, s, a] / old[h, s, a] - 1)
            p = old[h, s] > 0
            divergence += np.sum(old[h, s, p] * np.log(old[h, s, p] / new[h, s, p])) / (B * H)
    assert gain > 0
    assert 0.05 * radius < divergence <= radius * (1 + 1e-12)


def test_nothing_moves_without_advantages():
    parts, _, batch = random_batch()
    moved = parts.copy()
    assert not trust_region_step(
        moved, batch._replace(advantage=0 * batch.advantage), Region(0.7, 0.01, 0.1, 10, 0.8, 10)
    )
    assert np.array_equal(moved, parts)


def test_rows_that_no_episode_visits_change_nothing():
    parts, played, batch = random_batch()
    found = [parts.copy(), parts.copy()]
    for moved, each in zip(found, (batch, everywhere(played, batch)), strict=True):
        assert trust_region_step(moved, each, Region(0.7, 0.01, 0.1, 10, 0.8, 10))
    assert np.array_equal(*found)
