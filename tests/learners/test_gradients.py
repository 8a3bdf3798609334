import numpy as np
import pytest

from bqrl.learners.actor_critic_loops import add_parts, advantages, collect_parts, fit_values, softmax_table
from bqrl.learners.ppo_loops import ppo_epochs
from bqrl.learners.trpo_loops import fisher_product, natural_direction, trust_region_step

H, S, A, B = 3, 4, 3, 6
SIZE = H * S * A + S * A + H * A


@pytest.fixture
def batch():
    rng = np.random.default_rng(3)
    available = rng.random((H, S, A)) < 0.8
    available[:, :, 0] = True
    parts = rng.normal(size=SIZE)
    old = policy(parts, 0.7, available)
    states = rng.integers(0, S, (B, H + 1))
    actions = np.array([[rng.choice(A, p=old[h, states[b, h]]) for h in range(H)] for b in range(B)])
    return parts, available, old, states, actions, rng.normal(size=(B, H))


def policy(parts, sharing, available):
    logits, chances = np.zeros((H, S, A)), np.zeros((H, S, A))
    add_parts(parts, sharing, logits)
    softmax_table(logits, available, chances)
    return chances


def test_collecting_is_the_transpose_of_adding():
    rng = np.random.default_rng(0)
    x, table, image, back = rng.normal(size=SIZE), rng.normal(size=(H, S, A)), np.zeros((H, S, A)), np.zeros(SIZE)
    add_parts(x, 0.7, image)
    collect_parts(table, 0.7, back)
    assert np.sum(image * table) == pytest.approx(x @ back)


def test_softmax_gives_nothing_to_actions_that_do_not_exist(batch):
    _, available, old, *_ = batch
    assert np.allclose(old.sum(axis=2), 1.0)
    assert not old[~available].any()
    lonely = np.zeros((H, S, A), bool)
    assert not policy(np.zeros(SIZE), 1.0, lonely).any()


@pytest.mark.parametrize("trace", [0.0, 0.6, 1.0])
def test_generalized_advantages_by_hand(trace):
    rng = np.random.default_rng(1)
    states, rewards, V = rng.integers(0, S, (B, H + 1)), rng.normal(size=(B, H)), rng.normal(size=(H, S))
    found, target = np.zeros((B, H)), np.zeros((B, H))
    advantages(states, np.zeros((B, H), np.int64), rewards, V, 0.9, trace, found, target)
    for b in range(B):
        after = [V[h, states[b, h]] for h in range(H)] + [0.0]
        delta = [rewards[b, h] + 0.9 * after[h + 1] - after[h] for h in range(H)]
        for h in range(H):
            expected = sum((0.9 * trace) ** (k - h) * delta[k] for k in range(h, H))
            assert found[b, h] == pytest.approx(expected)
            assert target[b, h] == pytest.approx(expected + after[h])


def test_values_go_to_their_targets():
    parts, V = np.zeros(H * S + S + H), np.zeros((H, S))
    states = np.array([[0, 1, 2, 3], [1, 2, 3, 0], [3, 0, 1, 2], [2, 3, 0, 1]])
    goal = np.random.default_rng(0).normal(size=(H, S))
    target = np.array([[goal[h, states[b, h]] for h in range(H)] for b in range(4)])
    fit_values(parts, 1.5, 1.0, states[:1], target[:1], V)
    assert [V[h, states[0, h]] for h in range(2, H)] == pytest.approx(target[0, 2:])  # a full step hits the last one
    for _ in range(400):
        fit_values(parts, 1.5, 0.5, states, target, V)
    assert np.allclose(V, goal, atol=1e-6)


def test_the_first_step_of_ppo_follows_the_slope_of_its_objective(batch):
    parts, available, old, states, actions, advantage = batch
    away = parts + 0.3 * np.random.default_rng(9).normal(size=SIZE)  # some ratios are outside the clip by now

    def objective(x):
        new, total = policy(x, 0.7, available), 0.0
        for b in range(B):
            for h in range(H):
                p = new[h, states[b, h]]
                ratio = p[actions[b, h]] / old[h, states[b, h], actions[b, h]]
                total += min(ratio * advantage[b, h], np.clip(ratio, 0.8, 1.2) * advantage[b, h])
                total -= 0.05 * np.sum(p[p > 0] * np.log(p[p > 0]))
        return total / (B * H)

    slope = np.array([(objective(away + step) - objective(away - step)) / 2e-6 for step in 1e-6 * np.eye(SIZE)])
    moved, mean, square = away.copy(), np.zeros(SIZE), np.zeros(SIZE)
    orders = np.arange(B * H).reshape(1, -1)
    steps = ppo_epochs(
        moved, 0.7, available, old, states, actions, advantage, orders, B * H, 0.2, 0.05, 0.01, mean, square, 0
    )
    assert steps == 1
    assert np.allclose(mean, 0.1 * slope, atol=1e-7)
    assert np.allclose((moved - away)[np.abs(slope) > 1e-4], 0.01 * np.sign(slope[np.abs(slope) > 1e-4]), atol=1e-4)


def test_the_natural_direction_solves_the_damped_fisher_system(batch):
    _, _, old, states, _, _ = batch
    share = np.zeros((H, S))
    for b in range(B):
        for h in range(H):
            share[h, states[b, h]] += 1 / (B * H)
    table, column = np.zeros((H, S, A)), np.zeros(SIZE)
    matrix = np.zeros((SIZE, SIZE))
    for i, unit in enumerate(np.eye(SIZE)):
        fisher_product(unit, 0.7, share, old, 0.1, table, column)
        matrix[:, i] = column
    assert np.allclose(matrix, matrix.T)
    assert np.linalg.eigvalsh(matrix).min() > 0.099
    gradient = np.random.default_rng(2).normal(size=SIZE)
    x, curvature = natural_direction(gradient, 0.7, share, old, 0.1, 200, table)
    assert np.allclose(x, np.linalg.solve(matrix, gradient), atol=1e-4)
    assert curvature == pytest.approx(x @ matrix @ x)


@pytest.mark.parametrize("radius", [1e-4, 0.01, 0.3])
def test_a_trust_region_step_gains_and_stays_inside(batch, radius):
    parts, available, old, states, actions, advantage = batch
    moved = parts.copy()
    assert trust_region_step(moved, 0.7, available, old, states, actions, advantage, radius, 0.01, 30, 0.8, 20)
    new, gain, divergence = policy(moved, 0.7, available), 0.0, 0.0
    for b in range(B):
        for h in range(H):
            s, a = states[b, h], actions[b, h]
            gain += advantage[b, h] * (new[h, s, a] / old[h, s, a] - 1)
            p = old[h, s] > 0
            divergence += np.sum(old[h, s, p] * np.log(old[h, s, p] / new[h, s, p])) / (B * H)
    assert gain > 0
    assert 0.05 * radius < divergence <= radius * (1 + 1e-12)


def test_nothing_moves_without_advantages(batch):
    parts, available, old, states, actions, advantage = batch
    moved = parts.copy()
    assert not trust_region_step(moved, 0.7, available, old, states, actions, 0 * advantage, 0.01, 0.1, 10, 0.8, 10)
    assert np.array_equal(moved, parts)
