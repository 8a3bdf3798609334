"""Policies that keep a promise: proofs against the true model, and the choice among them."""

import numpy as np
import pytest
from log_oracle import exact_law, log_of, random_problem, tightened
from logged_problems import coin, simulated, study

import bqrl
from bqrl.laws.law import Law
from bqrl.logs.candidates import PLUG_IN, usual_actions
from bqrl.logs.fit import fit
from bqrl.planners.facts import SamePromise, WorthMore


def problem_and_estimate(seed):
    """A random problem, and an estimate with the smallest balls that contain the true rows."""
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    pooled = len(problem.rows) == 1 and problem.H > 1
    log = log_of(problem, 60, rng)
    estimate = fit(log, horizon=problem.H, start=problem.start, stationary=pooled, reward_range=(-3, 3))
    return problem, tightened(problem, estimate)


@pytest.mark.parametrize("seed", range(30))
def test_every_policy_keeps_what_it_is_proven_to_promise(seed):
    problem, estimate = problem_and_estimate(seed)
    for tau in (0.1, 0.4):
        plan, plain = estimate.solve(tau), estimate.plug_in(tau)
        for policy in (plan.policy, plain.policy, usual_actions(estimate.mdp, estimate.tries)):
            law = exact_law(problem, estimate, policy)
            truth = Law(np.array([*law]), np.array([*law.values()])).quantile(tau)
            assert estimate.promise_of(policy, tau) <= truth + 1e-9
        if not estimate.trivial(plan.value):
            assert estimate.promise_of(plan, tau) == pytest.approx(plan.value)
        assert estimate.promise_of(plain, tau) <= plan.value + 1e-9  # the robust plan has the highest promise


def gamble(n):
    """Safe pays 1; gamble pays 5 in 19 of 20 episodes and else 1, so that both are proven to pay 1 at least."""
    rows = [("safe", 1.0)] * n + [("gamble", 1.0 if i % 20 == 0 else 5.0) for i in range(n)]
    names = ("action", "reward")
    return {"episode": range(2 * n), "state": ["s"] * (2 * n)} | dict(zip(names, zip(*rows, strict=True), strict=True))


def test_of_two_policies_with_one_promise_the_better_one_is_handed_out():
    """The robust plan for 1 was to play safe, although the gamble keeps that promise, too."""
    support = [("s", "safe", "(end)", 1.0), ("s", "gamble", "(end)", 1.0), ("s", "gamble", "(end)", 5.0)]
    log = gamble(60) | {"next_state": ["(end)"] * 120}
    plan = fit(log, support=support, reward_range=(1, 5)).solve(0.1)
    assert (plan.value, plan.nominal) == (1.0, 5.0)
    assert plan.law.mean() == pytest.approx(4.8)


def test_without_a_useful_promise_the_plug_in_plan_is_handed_out():
    """Its value in the empirical model was once far below that of the plug-in plan."""
    mdp, log = simulated("inventory", 30)
    estimate = study.fitted(mdp, log, "nothing known")
    plan = estimate.solve(0.1)
    assert estimate.trivial(plan.value)
    assert plan.nominal == estimate.plug_in(0.1).value
    (fact,) = (note for note in plan.notes if isinstance(note, SamePromise))
    assert (fact.name, fact.useless) == (PLUG_IN, True)
    assert any(text.lower().startswith("as nothing useful is promised") for text in plan.remarks)


@pytest.mark.parametrize("name", ["machine", "inventory"])
def test_the_chosen_policy_is_worth_at_least_the_robust_plan_and_keeps_its_promise(name):
    mdp, log = simulated(name, 600)
    estimate = fit(log, model=mdp.with_noise(None))
    plan = estimate.solve(0.1)
    radius, missing = estimate._ball(1)
    robust = bqrl.solve(estimate.mdp, tau=0.1, radius=radius, attitude="robust", missing=missing)
    assert plan.value == robust.value
    assert plan.nominal >= robust.nominal
    assert estimate.promise_of(plan, 0.1) == pytest.approx(plan.value)


def test_buffered_promises_of_a_policy_are_below_those_of_the_plan():
    estimate = fit(coin(400, 380), reward_range=(0, 1))
    assert estimate.promise_of(estimate.plug_in(0.3, 0.2), 0.3, 0.2) == pytest.approx(estimate.solve(0.3, 0.2).value)


@pytest.mark.parametrize("seed", range(15))
def test_a_plan_for_a_lower_promise_keeps_it_and_is_worth_no_less(seed):
    problem, estimate = problem_and_estimate(seed)
    best = estimate.solve(0.4)
    for lower in (best.value, best.value - 1.0, best.value - 3.0):
        if estimate.trivial(best.value):
            continue
        plan = estimate.solve(0.4, at_least=lower)
        law = exact_law(problem, estimate, plan.policy)
        assert lower <= plan.value <= Law(np.array([*law]), np.array([*law.values()])).quantile(0.4) + 1e-9
        assert plan.value == pytest.approx(estimate.promise_of(plan, 0.4))
        assert plan.nominal >= best.nominal


def test_the_highest_promise_of_a_machine_does_not_hide_a_better_plan():
    """The highest promise, -15, comes from a plan worth -15, where the plug-in plan is worth 41 and promises -36."""
    mdp, log = simulated("machine", 1000)
    estimate = study.fitted(mdp, log, "nothing known")
    plan, plain = estimate.solve(0.1), estimate.plug_in(0.1)
    (fact,) = (note for note in plan.notes if isinstance(note, WorthMore))
    assert (fact.chosen, fact.value) == (plan.nominal, plain.value)
    assert fact.promise == estimate.promise_of(plain, 0.1)
    assert estimate.old_promise(0.1) < fact.promise < plan.value
    assert any(f"use at_least={fact.promise:g}" in text for text in plan.remarks)
    other = estimate.solve(0.1, at_least=fact.promise)
    assert (other.nominal, other.details["chosen"]) == (plain.value, PLUG_IN)
    assert other.value >= fact.promise
    assert bqrl.evaluate(mdp, other, rewards="this model").quantile(0.1) >= other.value


def test_no_more_than_the_highest_promise_can_be_asked_for():
    estimate = fit(coin(400, 380), reward_range=(0, 1))
    with pytest.raises(bqrl.errors.ArgumentError, match="at_least must be at most 0, the highest promise, got 2"):
        estimate.solve(0.1, at_least=2.0)
    with pytest.raises(bqrl.errors.ArgumentError, match="at_least must be given for a quantile without buffer"):
        estimate.solve(0.3, 0.2, at_least=0.0)


def test_the_promise_of_a_policy_follows_names_where_two_logs_number_states_differently():
    def log(order):
        rows = [(i, s, a, float(s == a)) for i in range(300) for s in order for a in "xy"]
        parts = ([f"{i}{s}{a}" for i, s, a, _ in rows], *([row[k] for row in rows] for k in (1, 2, 3)))
        return dict(zip(("episode", "state", "action", "reward"), parts, strict=True))

    start, given = {"x": 0.5, "y": 0.5}, {"reward_range": (0, 1), "adaptive": False}
    one, other = (bqrl.fit(log(order), start=start, **given) for order in ("xy", "yx"))
    assert one.mdp.state_names != other.mdp.state_names
    plan = other.solve(0.3)
    assert one.promise_of(plan, 0.3) == one.promise_of(plan.policy, 0.3) == plan.value == 1.0
    assert one.promise_of({"x": "x", "y": "y"}, 0.3) == 1.0
    assert one.promise_of("always:x", 0.3) == 0.0
    with pytest.raises(TypeError, match="policy must choose one action"):
        one.promise_of("random", 0.3)
    with pytest.raises(TypeError, match="policy must be a Policy"):
        one.promise_of(None, 0.3)


def test_a_plug_in_plan_without_a_useful_promise_is_named_too():
    """Nothing was said where its promise was trivial, although it was worth four times as much as the new plan."""
    support = [("s", "safe", "(end)", 1.0), *(("s", "gamble", "(end)", r) for r in (0.0, 5.0))]
    log = gamble(30) | {"next_state": ["(end)"] * 60}
    log["reward"] = [max(r, 0.0) if a == "safe" else 5.0 for a, r in zip(log["action"], log["reward"], strict=True)]
    estimate = fit(log, support=support, reward_range=(0, 5))
    plan = estimate.solve(0.1)
    assert (plan.value, plan.nominal, estimate.promise_of(estimate.plug_in(0.1), 0.1)) == (1.0, 1.0, 0.0)
    (fact,) = (note for note in plan.notes if isinstance(note, WorthMore))
    assert (fact.value, fact.promise) == (5.0, None)
    assert any(text.endswith("5 instead of 1, but nothing useful is promised for it") for text in plan.remarks)
