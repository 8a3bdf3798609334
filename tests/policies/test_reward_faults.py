"""Policies that track rewards, in models that pay otherwise than the one of the plan."""

import numpy as np
import pytest

import bqrl
from bqrl import MixturePolicy, evaluate, simulate
from bqrl.errors import PolicyError
from bqrl.planners.curve import guarantee_curve


def benefit_and_quality(H=4):
    """A problem in money, and the same transitions with rewards from 0 to 0.9."""
    rng = np.random.default_rng(5)
    P, quality = rng.dirichlet(np.ones(3), (3, 2)), rng.integers(0, 10, (3, 2, 3)) / 10
    return bqrl.MDP(P, 50.0 * quality - rng.integers(0, 9, (3, 2, 1)), horizon=H), bqrl.MDP(P, quality, horizon=H)


def test_a_policy_that_tracks_rewards_is_refused_where_the_same_transition_pays_otherwise(tmp_path):
    money, quality = benefit_and_quality()
    plan = bqrl.solve(money, 0.3)
    level = guarantee_curve(money, keep=True).level_policy(0.3)
    mixed = MixturePolicy([bqrl.solve(money, 0.3, planner="expected").policy, plan.policy], [0.5, 0.5])
    plan.policy.save(tmp_path / "p.npz")
    message = (
        r"^the policy must meet the rewards that it was planned for, [\d.-]+ from \d to \d with \d at stage 1, got 0\.?\d*; "
        r"evaluate it in a model with these, or pass rewards='this model' to let it follow the rewards of this one$"
    )
    for policy in (plan.policy, level, mixed, bqrl.load(tmp_path / "p.npz")):
        evaluate(money, policy)
        for call in (evaluate, lambda mdp, policy: simulate(mdp, policy, 10, 0)):
            with pytest.raises(PolicyError, match=message):
                call(quality, policy)
        assert 0.0 <= evaluate(quality, policy, rewards="this model").mean() <= 3.6
        assert simulate(quality, policy, 10, 0, rewards="this model").shape == (10,)
    with pytest.raises(ValueError, match="rewards must be one of 'planned', 'this model', got 'mine'"):
        evaluate(money, plan.policy, rewards="mine")


def test_a_policy_of_labels_follows_the_states_into_a_model_with_other_rewards():
    """Rewards that are not random need no look-up, so the labels play as in the model of the plan."""
    money, quality = benefit_and_quality()
    labels = bqrl.solve(money, 0.3).policy.to_labels(money)
    both = bqrl.MDP(
        [(s, a, t, p, float(r) + 1e-4 * float(q)) for s in range(3) for a in range(2)
         for t, p, r, q in zip(*money.outcomes(0, s, a), quality.outcomes(0, s, a)[2], strict=True)], horizon=4,
    )  # fmt: skip
    joint = evaluate(both, labels)
    assert evaluate(quality, labels).mean() == pytest.approx(
        1e4 * (joint.mean() - evaluate(money, labels).mean()), abs=1e-6
    )


def test_labels_that_look_rewards_up_are_refused_in_a_model_without_these():
    rows = [(0, a, 0, 0.5, r) for a in range(2) for r in (a * 1.0, 2.0 * a + 1.0)]
    mdp = bqrl.MDP(rows, horizon=3)
    labels = bqrl.solve(mdp, 0.3).policy.to_labels(mdp)
    other = bqrl.MDP([(s, a, t, p, 2.0 * r + 0.25) for s, a, t, p, r in rows], horizon=3)
    evaluate(mdp.with_probability(np.array([0.1, 0.9, 0.3, 0.7])), labels)
    with pytest.raises(PolicyError, match="the policy must meet the rewards that it was planned for"):
        evaluate(other, labels)
    evaluate(other, labels, rewards="this model")


def test_other_probabilities_and_other_outcomes_are_not_other_rewards():
    money, _ = benefit_and_quality()
    policy = bqrl.solve(money, 0.3).policy
    P = np.random.default_rng(1).dirichlet(np.ones(3), (3, 2))
    evaluate(bqrl.MDP(P, money.reward.reshape(3, 2, 3), horizon=4), policy)
    evaluate(money.staged(), policy)
    evaluate(money.replace(start=1), policy)
    fewer = P * (np.arange(3) != 2)
    fitted = bqrl.MDP(
        fewer / fewer.sum(axis=2, keepdims=True), money.reward.reshape(3, 2, 3) * (np.arange(3) != 2), horizon=4
    )
    evaluate(fitted, policy)
    evaluate(money, bqrl.solve(fitted, 0.3).policy)


def test_tables_and_conversions_need_the_rewards_of_the_plan_as_laws_do():
    """Labels made with the wrong model play another policy, which `evaluate` cannot know afterwards."""
    money, quality = benefit_and_quality()
    policy = bqrl.solve(money, 0.3).policy
    for call in ("to_labels", "to_markov", "table"):
        with pytest.raises(PolicyError, match="the policy must meet the rewards that it was planned for"):
            getattr(policy, call)(quality)
    for wide in (False, True):
        with pytest.raises(PolicyError, match="the policy must meet the rewards that it was planned for"):
            policy.table(quality, reachable=False, wide=wide)
    followed = policy.to_labels(quality, rewards="this model")
    assert evaluate(quality, followed).equals(evaluate(quality, policy, rewards="this model"))
    assert policy.table(quality, rewards="this model") != policy.table(money)
