"""Means and laws of further outcomes, against a walk through every history; terminal values against an extra stage."""

import numpy as np
import pytest
from helpers import assert_one_line
from oracles import random_mdp
from outcome_models import shop, with_an_extra_stage
from policy_kinds import Alternating, six_kinds

import bqrl
from bqrl import MixturePolicy, StochasticPolicy
from bqrl.mdp.outcomes import Outcomes
from bqrl.policies.forward import expected_rewards
from bqrl.policies.shares import uniform


def with_outcomes(mdp, rng):
    """The model with one or two cases per transition and two further outcomes of few values."""
    counts = rng.integers(1, 3, mdp.successor.size)
    start = np.r_[0, np.cumsum(counts)]
    weight = rng.integers(1, 4, start[-1]).astype(float)
    share = weight / np.repeat(np.add.reduceat(weight, start[:-1]), counts)
    stages = mdp.H if mdp.stationary and rng.integers(2) else 1
    values = {name: rng.integers(-1, 3, (stages, start[-1])) * unit for name, unit in (("cost", 10.0), ("qaly", 0.1))}
    return mdp._twin(further=Outcomes(start=start, mass=np.repeat(mdp.probability, counts) * share, values=values))


def histories(mdp, policy, name, discount):
    """Sums of an outcome with their probabilities, from the methods of the policy alone, case by case."""
    if isinstance(policy, MixturePolicy):
        return [
            (total, w * p)
            for w, part in zip(policy.weights, policy.policies, strict=True)
            for total, p in histories(mdp, part, name, discount)
        ]
    share, values = mdp.further.share(), mdp.further.values[name]
    found, ahead = [], [(0, int(s), policy.start(), 0.0, float(mdp.mu[s])) for s in np.flatnonzero(mdp.mu)]
    while ahead:
        h, s, memory, total, chance = ahead.pop()
        if h == mdp.H:
            found.append((total, chance))
            continue
        drawn = policy.probabilities[h, s] if isinstance(policy, StochasticPolicy) else None
        played = [(policy.act(h, s, memory), 1.0)] if drawn is None else list(enumerate(drawn.tolist()))
        for a, weight in played:
            q = ((0 if mdp.stationary else h) * mdp.S + s) * mdp.A + a
            first = mdp.row_start[q]
            for i, (t, p, r) in enumerate(zip(*mdp.outcomes(h, s, a), strict=True)):
                if p == 0.0:  # possible, but never drawn
                    continue
                after = None if drawn is not None else policy.next(memory, h, s, a, float(r), int(t))
                for j in range(mdp.further.start[first + i], mdp.further.start[first + i + 1]):
                    gain = discount**h * values[h if len(values) > 1 else 0, j]
                    ahead.append((h + 1, int(t), after, total + gain, chance * weight * p * share[j]))
    return [(total, p) for total, p in found if p > 0.0]


@pytest.mark.parametrize("seed", range(25))
def test_means_and_laws_equal_those_of_all_histories(seed):
    rng = np.random.default_rng(seed)
    mdp = with_outcomes(random_mdp(rng), rng)
    policies = six_kinds(mdp) + ([Alternating()] if mdp.A == 2 and mdp.available.all() else [])
    for policy in policies:
        means = bqrl.expected_outcomes(mdp, policy, discounts={"qaly": 0.5})
        assert means["reward"] == pytest.approx(bqrl.evaluate(mdp, policy).mean(), abs=1e-12)
        for name, discount in (("cost", mdp.discount), ("qaly", 0.5)):
            all_of_them = histories(mdp, policy, name, discount)
            law = bqrl.outcome_law(mdp, policy, name, discount)
            assert means[name] == pytest.approx(sum(x * p for x, p in all_of_them), abs=1e-12)
            assert law.wasserstein(bqrl.Law(*zip(*all_of_them, strict=True))) == pytest.approx(0.0, abs=1e-11)


@pytest.mark.parametrize("seed", range(12))
def test_plans_with_terminal_values_equal_those_with_an_extra_stage(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng, plain=True)._twin(discount=float(rng.choice([1.0, 0.5])))
    mdp = mdp._twin(terminal=rng.integers(-2, 3, mdp.S) * 0.5 + 0.25)
    oracle = with_an_extra_stage(mdp)
    for tau in (0.2, 0.5, 0.8):
        for settings in ({}, {"beta": tau}, {"planner": "frontier"}):
            value, other = (bqrl.solve(model, tau=tau, **settings).value for model in (mdp, oracle))
            assert value == pytest.approx(other, abs=1e-9)
    robust, other = (bqrl.solve(model, 0.4, radius=0.2, attitude="robust").value for model in (mdp, oracle))
    assert robust == pytest.approx(other, abs=1e-9)


def test_a_plan_on_rounded_returns_has_exact_means():
    def step(wealth, stake, wins):
        return min(8, max(0, wealth + stake * (1 if wins else -1))), 0.1234567 * wealth**0.5, {"staked": stake}

    mdp = bqrl.from_step(step, lambda w: range(min(w, 2) + 1), {0: 0.6, 1: 0.4}, 6, 3, discount=0.9)
    plan = bqrl.solve(mdp, tau=0.2, points=50)
    sample = bqrl.simulate(mdp, plan.policy, 40_000, seed=1, outcome="staked")
    assert bqrl.expected_outcomes(mdp, plan)["reward"] == pytest.approx(plan.law.exact_mean, abs=1e-9)
    assert bqrl.expected_outcomes(mdp, plan)["staked"] == pytest.approx(sample.mean(), abs=5 * sample.std() / 200)


def test_simulated_outcomes_follow_their_law_and_leave_returns_unchanged():
    mdp = shop()
    plan = bqrl.solve(mdp, tau=0.2)
    law = bqrl.outcome_law(mdp, plan, "lost")
    sample = bqrl.simulate(mdp, plan.policy, 40_000, seed=2, outcome="lost")
    for limit in (0.0, 2.0, 4.0):
        assert np.mean(sample <= limit) == pytest.approx(law.cdf(limit), abs=0.015)
    mixed = MixturePolicy([plan.policy, bqrl.solve(mdp, 0.8).policy], [0.5, 0.5])
    drawn = bqrl.simulate(mdp, mixed, 40_000, seed=3, outcome="lost")
    assert drawn.mean() == pytest.approx(bqrl.expected_outcomes(mdp, mixed)["lost"], abs=0.1)
    assert np.array_equal(
        bqrl.simulate(mdp, uniform(mdp), 10, seed=4), bqrl.simulate(mdp._twin(further=None), uniform(mdp), 10, seed=4)
    )


def test_expected_outcomes_of_every_action():
    mdp = shop()
    lost = expected_rewards(mdp, 0, "lost")
    assert lost[0, 0] == pytest.approx(0.5 * 1 + 0.1 * 3 + 0.2 * 4)  # no stock, no order: all demand is lost
    assert expected_rewards(mdp, 3)[2, 0] == pytest.approx(
        0.5 * (5 + 1.5) + 0.2 * 3.0 + 0.3 * 10
    )  # with terminal values


def test_bad_requests_get_one_clear_line():
    mdp, plain = shop(), bqrl.envs.make("SafeOrRisky")
    plan = bqrl.solve(mdp, tau=0.2)
    for call, error, message in (
        (
            lambda: bqrl.outcome_law(mdp, plan, "lots"),
            ValueError,
            "outcome must be an outcome of the model, got 'lots'; did you",
        ),
        (lambda: bqrl.outcome_law(plain, "always:Safe", "cost"), ValueError, "give the model some with outcomes="),
        (
            lambda: bqrl.outcome_law(mdp, plan, "lost", max_sums=2),
            ValueError,
            "raise max_sums or use simulate(..., outcome=...)",
        ),
        (
            lambda: bqrl.expected_outcomes(mdp, plan, {"reward": 0.9}),
            ValueError,
            "set it with mdp.replace(discount=...)",
        ),
        (
            lambda: bqrl.expected_outcomes(mdp, plan, {"cost": 0.9}),
            ValueError,
            "discounts must be an outcome of the model",
        ),
        (lambda: bqrl.expected_outcomes(mdp, plan, 0.9), TypeError, "discounts must be a dict such as {'cost': 0.97}"),
        (
            lambda: bqrl.simulate(mdp, plan.policy, 5, outcome="x"),
            ValueError,
            "outcome must be an outcome of the model",
        ),
    ):
        assert_one_line(call, error, message)
