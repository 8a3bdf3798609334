"""The forward pass of a policy against single steps and all paths."""

import numpy as np
import pytest
from policy_kinds import followed

import bqrl
from bqrl import MixturePolicy
from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.expected import best_mean
from bqrl.policies import pairs as unrolled
from bqrl.policies.forward import play_shares


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
    with pytest.raises(ValueError, match="the policy must have H=10 and S=26 as the problem, got H="):
        play_shares(bqrl.envs.make("AssetSelling"), best_mean(walk)[1])


def test_a_saved_policy_is_followed_without_the_rewards_of_its_problem(walk, tmp_path):
    policy = bqrl.solve(walk, 0.3).policy
    bqrl.save(policy, tmp_path / "policy.npz")
    saved = bqrl.load(tmp_path / "policy.npz")
    np.testing.assert_array_equal(play_shares(walk, saved), play_shares(walk, policy))
    assert saved.table(walk) == policy.table(walk)


def other_problem(kind):
    """A problem with the stages and states of `many_actions` in which most of its actions do not exist."""
    rng = np.random.default_rng(1)
    if kind == "fewer actions":
        return bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.integers(0, 5, (3, 2)).astype(float), horizon=4)
    mask = np.eye(60, dtype=bool)[[3, 7, 9]]
    P, R = rng.dirichlet(np.ones(3), (3, 60)), rng.integers(0, 5, (3, 60)).astype(float)
    return bqrl.MDP(P, R, horizon=4, available=mask)


@pytest.mark.parametrize("kind", ["fewer actions", "actions that are not available"])
@pytest.mark.parametrize(
    "options", [{}, {"planner": "expected"}, {"planner": "greedy"}, {"points": 30}, {"planner": "capped-frontier"}]
)
def test_a_policy_of_a_problem_with_other_actions_is_refused_and_reads_no_foreign_memory(kind, options):
    rng = np.random.default_rng(0)
    P, R = rng.dirichlet(np.ones(3), (3, 60)), rng.integers(0, 5, (3, 60)).astype(float)
    policy = bqrl.solve(bqrl.MDP(P, R, horizon=4), 0.3, **options).policy
    other = other_problem(kind)
    calls = [
        lambda: bqrl.evaluate(other, policy, rewards="this model"),
        lambda: bqrl.simulate(other, policy, 20, 0, rewards="this model"),
        lambda: policy.table(other, rewards="this model"),
        lambda: policy.table(other, wide=True, rewards="this model"),
        lambda: play_shares(other, policy),
    ]
    for call in calls:
        with pytest.raises(PolicyError, match="the policy must play"):
            call()


def test_an_action_that_does_not_exist_is_harmless_where_no_episode_comes():
    model = bqrl.MDP([[[1.0, 0.0]], [[0.0, 1.0]]], [[1.0], [2.0]], horizon=2)  # state 1 is never met
    policy = bqrl.MarkovPolicy(np.array([[0, 5], [0, 5]]))
    assert bqrl.evaluate(model, policy).mean() == 2.0
    assert play_shares(model, policy).tolist() == [[[1.0], [0.0]], [[1.0], [0.0]]]
    assert [row["state"] for row in policy.table(model)] == ["0", "0"]


def table_shares(mdp, policy):
    """Occupancies (H, S, A) that the decision table states; a row of a label policy is repeated for every outcome."""
    shares, counted = np.zeros((mdp.H, mdp.S, mdp.A)), set()
    for row in policy.table(mdp):
        if (row["stage"], row.get("label")) not in counted:
            counted |= {(row["stage"], row["label"])} if "label" in row else set()
            shares[row["stage"] - 1, int(row["state"]), int(row["action"])] += row["probability"]
    return shares


@pytest.mark.parametrize("options", [{}, {"points": 40}, {"beta": 0.1}])
@pytest.mark.parametrize(("planned", "played"), [(1.0, 0.5), (0.5, 1.0), (0.9, 0.5)])
def test_a_policy_planned_with_another_discount_is_evaluated_as_it_acts(planned, played, options):
    if planned < 1.0 and "beta" in options:  # there is no lattice
        options = options | {"points": 100}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        P, R = rng.dirichlet(np.ones(2), (2, 2)), rng.integers(0, 4, (2, 2, 2)).astype(float)
        mdp = bqrl.MDP(P, R, horizon=4, discount=planned)
        policy, other = bqrl.solve(mdp, 0.3, **options).policy, mdp.replace(discount=played)
        law, shares = followed(other, policy)
        assert bqrl.evaluate(other, policy).wasserstein(law) < 1e-9
        np.testing.assert_allclose(play_shares(other, policy), shares, atol=1e-12)
        np.testing.assert_allclose(table_shares(other, policy), shares, atol=1e-12)
        np.testing.assert_allclose(play_shares(mdp, policy), shares, atol=1e-12)  # the memory keeps its own discount


def test_occupancies_count_the_rewards_of_a_problem_without_a_grid():
    rng = np.random.default_rng(1)
    P, R = rng.dirichlet(np.ones(2), (2, 2)), rng.random((9, 2, 2, 2))
    mdp, coarse = bqrl.MDP(P, R, horizon=9), bqrl.MDP(P, R.round(1), horizon=9)
    policy = bqrl.solve(coarse, 0.1).policy
    assert returns_grid(mdp) is None
    shares = followed(mdp, policy)[1]
    assert np.abs(play_shares(coarse, policy) - shares).max() > 0.01
    np.testing.assert_allclose(play_shares(mdp, policy), shares, atol=1e-9)


def test_a_policy_on_a_grid_of_tiny_steps_is_followed_in_a_problem_of_large_returns():
    P = [[[1.0, 0.0]], [[0.5, 0.5]]]
    mdp = bqrl.MDP(P, [[0.0], [100.0]], horizon=3, start=0)  # every return from state 0 is 0
    policy, other = bqrl.solve(mdp, 0.3, points=50).policy, mdp.replace(start=1)
    law, shares = followed(other, policy)
    np.testing.assert_allclose(play_shares(other, policy), shares)
    np.testing.assert_allclose(table_shares(other, policy), shares)
    assert bqrl.evaluate(other, policy).equals(law)


def test_occupancies_with_too_many_needs_are_refused_with_a_remedy(monkeypatch):
    rng = np.random.default_rng(1)
    P, R = rng.dirichlet(np.ones(2), (2, 2)), rng.random((9, 2, 2, 2))
    mdp, coarse = bqrl.MDP(P, R, horizon=9), bqrl.MDP(P, R.round(1), horizon=9)
    policy = bqrl.solve(coarse, 0.1).policy
    monkeypatch.setattr(unrolled, "MAX_LABELS", 20)
    with pytest.raises(
        SizeError, match=r"at most 20 labels .*, got \d+ by stage \d; plan on this problem or use simulate"
    ):
        play_shares(mdp, policy)


def test_the_occupancy_of_a_stochastic_policy_is_the_mean_over_its_deterministic_policies():
    mdp = bqrl.MDP(np.random.default_rng(0).dirichlet([1, 1], (2, 2)), [[0.0, 1.0], [2.0, 3.0]], horizon=2)
    shares = np.random.default_rng(1).dirichlet([1, 1], (2, 2))
    expected = np.zeros((2, 2, 2))
    for actions in np.ndindex(2, 2, 2, 2):
        table = np.reshape(actions, (2, 2))
        weight = np.prod([shares[h, s, table[h, s]] for h in range(2) for s in range(2)])
        expected += weight * play_shares(mdp, bqrl.MarkovPolicy(table))
    np.testing.assert_allclose(play_shares(mdp, bqrl.StochasticPolicy(shares)), expected)
