import numpy as np
import pytest
from policy_kinds import COINS, Alternating, six_kinds

import bqrl
from bqrl import MarkovPolicy, MixturePolicy, evaluate, load
from bqrl.errors import PolicyError

MODEL = bqrl.envs.make("AssetSelling")


def test_no_kind_acts_where_there_is_nothing():
    for policy in six_kinds(MODEL):
        memory = policy.start(0.5)
        for h, s, message in (
            (-1, 5, "h must be a whole number from 0 to 9, got -1"),
            (10, 5, "h must be a whole number from 0 to 9, got 10"),
            (0, -1, "s must be a whole number from 0 to 25, got -1"),
            (0, "5", "s must be a whole number from 0 to 25, got '5'"),
            (0.5, 5, "h must be a whole number from 0 to 9, got 0.5"),
            (0, 26, "s must be a whole number from 0 to 25, got 26"),
        ):
            with pytest.raises(ValueError, match=message):
                policy.act(h, s, memory)
        if policy.kind not in ("markov", "stochastic"):
            for nothing in (None, float("nan")):
                with pytest.raises(ValueError, match=r"expected a memory of this policy, got .*; begin with memory"):
                    policy.act(0, 5, nothing)


def test_a_plan_stands_for_its_policy():
    plan = bqrl.solve(MODEL, 0.1)
    assert evaluate(MODEL, plan).equals(plan.law)
    assert np.array_equal(bqrl.simulate(MODEL, plan, 5, seed=1), bqrl.simulate(MODEL, plan.policy, 5, seed=1))
    with pytest.raises(TypeError, match=r"got Plan; pass plan\.policy"):  # tables take policies
        bqrl.policies.tables.decision_rows(plan, MODEL)


def test_forty_thousand_actions_do_not_overflow(tmp_path):
    mdp = bqrl.MDP([(0, a, 0, 1.0, float(a % 39_999 == 39_998)) for a in range(40_000)], horizon=2)
    for plan in (bqrl.solve(mdp, 0.5), bqrl.solve(mdp, 0.5, planner="expected")):
        assert plan.value == 2.0
        policy = plan.policy
        assert policy.act(0, 0, policy.start()) == 39_998
        policy.save(tmp_path / "p.npz")
        assert load(tmp_path / "p.npz").act(0, 0, policy.start()) == 39_998


def test_tables_of_a_policy_are_read_only():
    for policy in six_kinds(MODEL):
        arrays = [policy.actions] if policy.kind == "markov" else list(getattr(policy, "actions", []))
        arrays += [getattr(policy, name) for name in ("root", "action", "child", "weights") if hasattr(policy, name)]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_errors_carry_stage_and_state():
    with pytest.raises(PolicyError) as caught:
        MarkovPolicy([[0, 0]]).act(3, 0)
    assert caught.value.stage == 3
    with pytest.raises(PolicyError) as caught:
        MarkovPolicy([[0, 0]]).act(0, 5)
    assert caught.value.state == 5


def test_a_custom_policy_needs_no_more_than_the_methods_of_an_episode():
    policy, law = Alternating(), evaluate(COINS, Alternating())
    assert law.equals(evaluate(COINS, lambda h, s: h % 2))
    mixture = MixturePolicy([policy, MarkovPolicy(np.zeros((3, 1), int))], [0.5, 0.5])
    assert (mixture.H, mixture.S) == (3, 1)
    assert evaluate(COINS, mixture).mean() == (law.mean() + 3.0) / 2
    assert evaluate(COINS, MixturePolicy([policy, policy], [0.5, 0.5])).equals(law)
    assert policy.kind == "custom"
    policy.H = 4
    with pytest.raises(PolicyError, match="must have H=3 and S=1"):
        evaluate(COINS, policy)


def test_a_subclass_of_a_stored_kind_may_not_override_what_its_tables_say():
    """Every pass follows the table of a Markov policy, so an `act` of its own was ignored without a word."""

    class Second(bqrl.MarkovPolicy):
        def act(self, h, s, memory=None):
            return 1

    class Named(bqrl.MarkovPolicy):
        pass

    mdp = bqrl.envs.make("SafeOrRisky")
    for call in (bqrl.evaluate, bqrl.simulate, lambda mdp, policy: policy.table(mdp)):
        with pytest.raises(
            PolicyError, match=r"must derive from bqrl\.Policy, got Second, which overrides act of MarkovPolicy"
        ):
            call(mdp, Second(np.zeros((10, 1), int)))
    assert bqrl.evaluate(mdp, Named(np.zeros((10, 1), int))).mean() == 10.0
