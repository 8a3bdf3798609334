import numpy as np
import pytest

import bqrl
from bqrl.mdp.policy import MixturePolicy
from bqrl.planners.expected import best_mean
from bqrl.planners.occupancy import play_shares


@pytest.fixture(scope="module")
def walk():
    """A small problem with random rewards on which what to do depends on what was collected."""
    rng = np.random.default_rng(3)
    S, A, H = 4, 3, 4
    P = rng.dirichlet(np.ones(S), (S, A))
    return bqrl.MDP(P, rng.integers(0, 4, (S, A, S)).astype(float), horizon=H)


def by_paths(mdp, policy):
    """Every path, one by one."""
    shares = np.zeros((mdp.H, mdp.S, mdp.A))

    def go(h, s, memory, p):
        if h == mdp.H:
            return
        a = policy.act(h, s, memory)
        shares[h, s, a] += p
        for t, q, r in zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True):
            go(h + 1, t, policy.next(memory, h, s, a, r, t), p * q)

    for s in np.flatnonzero(mdp.mu):
        go(0, int(s), policy.start(), float(mdp.mu[s]))
    return shares


def test_shares_are_those_of_all_paths(walk):
    target = bqrl.solve(walk, 0.3).policy
    for policy in (target, best_mean(walk)[1], target.to_labels(walk), bqrl.solve(walk, 0.3, points=40).policy):
        shares = play_shares(walk, policy)
        np.testing.assert_allclose(shares, by_paths(walk, policy), atol=1e-12)
        np.testing.assert_allclose(shares.sum(axis=(1, 2)), 1.0)
    assert np.any(np.count_nonzero(play_shares(walk, target), axis=2) > 1)  # memory matters here


def test_a_mixture_plays_its_parts_by_their_weights(walk):
    parts = [bqrl.solve(walk, 0.3).policy, best_mean(walk)[1]]
    mixed = play_shares(walk, MixturePolicy(parts, [0.25, 0.75]))
    np.testing.assert_allclose(mixed, 0.25 * play_shares(walk, parts[0]) + 0.75 * play_shares(walk, parts[1]))


def test_a_policy_for_another_problem_is_refused(walk):
    with pytest.raises(ValueError, match="the policy is for"):
        play_shares(bqrl.envs.make("AssetSelling"), best_mean(walk)[1])


def test_a_saved_policy_is_followed_without_the_rewards_of_its_problem(walk, tmp_path):
    policy = bqrl.solve(walk, 0.3).policy
    bqrl.save(policy, tmp_path / "policy.npz")
    saved = bqrl.load(tmp_path / "policy.npz")
    np.testing.assert_array_equal(play_shares(walk, saved), play_shares(walk, policy))
    assert saved.table(walk) == policy.table(walk)
