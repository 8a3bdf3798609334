import numpy as np
import pytest
from actor_critic_batch import EVERYWHERE, SIZE, A, B, H, S, policy, random_batch

from bqrl.loops.actor_critic import add_parts, advantages, collect_parts, fit_values


def test_collecting_is_the_transpose_of_adding():
    rng = np.random.default_rng(0)
    x, table, image, back = rng.normal(size=SIZE), rng.normal(size=(H * S, A)), np.zeros((H * S, A)), np.zeros(SIZE)
    add_parts(x, 0.7, EVERYWHERE, image)
    collect_parts(table, 0.7, EVERYWHERE, back)
    assert np.sum(image * table) == pytest.approx(x @ back)


def test_softmax_gives_nothing_to_actions_that_do_not_exist():
    *_, old, available = random_batch()[1]
    assert np.allclose(old.sum(axis=2), 1.0)
    assert not old[~available].any()
    lonely = np.zeros((H, S, A), bool)
    assert not policy(np.zeros(SIZE), 1.0, lonely).any()


@pytest.mark.parametrize("trace", [0.0, 0.6, 1.0])
def test_generalized_advantages_by_hand(trace):
    rng = np.random.default_rng(1)
    states, rewards, V = rng.integers(0, S, (B, H + 1)), rng.normal(size=(B, H)), rng.normal(size=(H, S))
    found, target = np.zeros((B, H)), np.zeros((B, H))
    advantages(states, rewards, V, 0.9, trace, found, target)
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
