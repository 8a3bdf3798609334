import numpy as np
from actor_critic_batch import SIZE, B, H, everywhere, policy, random_batch

from bqrl.loops.ppo import Adam, Rule, ppo_epochs


def test_the_first_step_of_ppo_follows_the_slope_of_its_objective():
    parts, (states, actions, advantage, old, available), batch = random_batch()
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
    steps = ppo_epochs(moved, batch, orders, Rule(0.7, B * H, 0.2, 0.05, 0.01), Adam(mean, square), 0)
    assert steps == 1
    assert np.allclose(mean, 0.1 * slope, atol=1e-7)
    assert np.allclose((moved - away)[np.abs(slope) > 1e-4], 0.01 * np.sign(slope[np.abs(slope) > 1e-4]), atol=1e-4)


def test_rows_that_no_episode_visits_change_nothing():
    parts, played, batch = random_batch()
    orders, found = np.tile(np.arange(B * H), (3, 1)), []
    for each in (batch, everywhere(played, batch)):
        moved, mean, square = parts.copy(), np.zeros(SIZE), np.zeros(SIZE)
        ppo_epochs(moved, each, orders, Rule(0.7, 5, 0.2, 0.05, 0.01), Adam(mean, square), 0)
        found.append((moved, mean, square))
    assert (found[0][0] != parts).any()
    assert np.array_equal(found[0], found[1])
