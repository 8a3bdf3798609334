"""Strategies side by side against brute force in fractions, closed forms, and every error line."""

from fractions import Fraction
from itertools import product
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import achievable_laws, best_objective, exact_mean, exact_objective, exact_outcomes, fraction, small_mdps

import bqrl
from bqrl import sensitivity, solve, strategies
from bqrl.errors import ArgumentError, ArgumentTypeError, PolicyError
from bqrl.planners.expected import risk_neutral
from bqrl.planners.strategies import beside_plans

SAFE = bqrl.envs.make("SafeOrRisky")
TAU = Fraction(1, 4)


def law_of(mdp, shares):
    """The law of action probabilities shares(h, s) -> {action: probability}, history by history."""
    found = {}
    histories = [((s, Fraction(0)), fraction(float(p))) for s, p in enumerate(mdp.mu) if p]
    for h in range(mdp.H):
        after = {}
        for (s, total), mass in histories:
            for a, share in shares(h, s).items():
                for s_next, p, reward in exact_outcomes(mdp, h, s, a):
                    key = s_next, total + reward
                    after[key] = after.get(key, 0) + mass * share * p
        histories = list(after.items())
    for (_, total), mass in histories:
        found[total] = found.get(total, 0) + mass
    return tuple(sorted(found.items()))


@settings(max_examples=60)
@given(small_mdps(horizon=3), st.integers(0, 2**9 - 1))
def test_every_number_agrees_with_brute_force(mdp, bits):
    """Mean, quantile, CVaR, chance of a low return, and both distances, for a drawn rule and for random play."""
    laws = achievable_laws(mdp)
    if laws is None:
        return

    def actions(h, s):
        return np.flatnonzero(mdp.stage(h).available[s]).tolist()

    rule = [actions(0, s)[(bits >> s) % len(actions(0, s))] if actions(0, s) else 0 for s in range(mdp.S)]
    if any(mdp.reachable[h, s] and rule[s] not in actions(h, s) for h, s in product(range(mdp.H), range(mdp.S))):
        return
    below = float(laws[0][-1][0])
    table = strategies(mdp, {"rule": rule, "random": "random"}, tau=float(TAU), below=below)
    plays = {
        "rule": law_of(mdp, lambda h, s: {rule[s]: Fraction(1)}),
        "random": law_of(mdp, lambda h, s: {a: Fraction(1, len(actions(h, s))) for a in actions(h, s)}),
    }
    best, most = best_objective(laws, TAU), max(map(exact_mean, laws))
    for row in table.rows():
        law = plays[row["strategy"]]
        assert row["exact"]
        assert row["mean"] == pytest.approx(float(exact_mean(law)), abs=1e-9)
        assert row["behind_mean"] == pytest.approx(float(most - exact_mean(law)), abs=1e-9)
        assert row["quantile_0.25"] == pytest.approx(float(exact_objective(law, TAU)), abs=1e-9)
        assert row["cvar_0.25"] == pytest.approx(float(exact_objective(law, TAU, TAU)), abs=1e-9)
        assert row["behind_0.25"] == pytest.approx(float(best - exact_objective(law, TAU)), abs=1e-9)
        short = sum(p for x, p in law if x < laws[0][-1][0])
        assert row["chance_below"] == pytest.approx(float(short), abs=1e-9)


def test_rows_by_level_and_their_closed_form():
    """Ten risky rounds of safe-or-risky pay 3 with probability p, else 0: a binomial law."""
    _, chances, rewards = SAFE.outcomes(0, 0, SAFE.action_names.index("Risky"))
    p, pay = float(chances[rewards.argmax()]), float(rewards.max())
    mass = [comb(10, k) * p**k * (1 - p) ** (10 - k) for k in range(11)]
    low = float(rewards.min())
    values = [k * pay + (10 - k) * low for k in range(11)]
    (row,) = strategies(SAFE, {"risky": "always:Risky"}, tau=[0.1, 0.5], below=values[3]).rows()
    assert row["mean"] == pytest.approx(np.dot(mass, values))
    for tau in (0.1, 0.5):
        k = int(np.searchsorted(np.cumsum(mass), tau))
        short = sum(mass[:k])
        assert row[f"quantile_{tau:g}"] == pytest.approx(values[k])
        assert row[f"cvar_{tau:g}"] == pytest.approx((np.dot(mass[:k], values[:k]) + (tau - short) * values[k]) / tau)
        assert row[f"behind_{tau:g}"] == pytest.approx(solve(SAFE, tau).value - values[k])
    assert row["chance_below"] == pytest.approx(sum(mass[:3]))
    assert list(row) == [
        "strategy", "mean", "behind_mean", "quantile_0.1", "cvar_0.1", "behind_0.1", "quantile_0.5", "cvar_0.5", "behind_0.5",
        "chance_below", "exact",
    ]  # fmt: skip


def test_a_plan_has_its_own_law_and_is_at_most_its_gap_behind():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(6), (6, 2)), rng.random((6, 2, 6)), horizon=12, discount=0.95)
    plan = solve(mdp, 0.3, points=300)
    table = strategies(mdp, {"plan": plan, "first": "always:0"}, tau=0.3, below=4.0)
    assert table.scenarios[0].laws["plan"] == (plan.law, plan.law_upper)
    for row in table.rows():
        lower, upper = table.scenarios[0].laws[row["strategy"]]
        assert not row["exact"]  # bounds, on the proven side
        draws = bqrl.simulate(mdp, plan if row["strategy"] == "plan" else "always:0", 40_000, seed=1)
        assert lower.quantile(0.3) <= np.quantile(draws, 0.31)
        assert upper.quantile(0.3) >= np.quantile(draws, 0.29)
        assert row["quantile_0.3"] == lower.quantile(0.3) <= upper.quantile(0.3)
        assert row["cvar_0.3"] == lower.cvar(0.3) <= upper.cvar(0.3)
        assert row["chance_below"] == lower.shortfall(4.0) >= upper.shortfall(4.0)
        assert row["mean"] == pytest.approx(draws.mean(), abs=0.02)
    assert table.rows()[0]["behind_0.3"] <= plan.gap + 1e-12
    assert not table.exact


def two_states(p):
    """Earn 1 a stage until the second state, which is entered with probability p; no choice."""
    return bqrl.MDP([[[1.0 - p, p]], [[0.0, 1.0]]], [[1.0], [0.0]], horizon=3)


def test_several_models_give_a_column_and_each_its_own_optimum():
    table = strategies({"base": two_states(0.0), "low": two_states(0.5)}, {"only": [0, 0]}, tau=0.4)
    assert [(row["model"], row["strategy"], row["mean"], row["quantile_0.4"]) for row in table.rows()] == [
        ("base", "only", 3.0, 3.0), ("low", "only", 1.75, 1.0),
    ]  # fmt: skip
    assert all(row["behind_0.4"] == 0.0 for row in table.rows())
    assert next(iter(table.rows()[0])) == "model"


def test_in_other_models_a_plan_follows_their_rewards():
    names = {"state_names": ["in"], "action_names": ["safe", "risky"]}
    base = bqrl.MDP([(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.5, 3.0), (0, 1, 0, 0.5, 0.0)], horizon=4, **names)
    other = bqrl.MDP([(0, 0, 0, 1.0, 2.0), (0, 1, 0, 0.5, 3.0), (0, 1, 0, 0.5, 0.0)], horizon=4, **names)
    plan = solve(base, 0.3)
    with pytest.raises(PolicyError, match="strategy 'plan': the policy must meet the rewards that it was planned for"):
        strategies(other, {"plan": plan}, tau=0.3)
    rows = strategies({"base": base, "other": other}, {"plan": plan}, tau=0.3).rows()
    assert rows[1]["quantile_0.3"] == bqrl.evaluate(other, plan, rewards="this model").quantile(0.3)
    (alone,) = strategies(other, {"plan": plan}, tau=0.3, rewards="this model").rows()
    assert alone["quantile_0.3"] == rows[1]["quantile_0.3"]


def test_a_policy_of_a_model_with_other_names_is_refused_and_a_rule_by_names_is_not():
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 1, 1.0, 2.0), (1, 0, 1, 1.0, 0.0), (1, 1, 0, 1.0, 0.0)]
    turned = [(1 - s, a, 1 - t, p, r) for s, a, t, p, r in rows]
    one = bqrl.MDP(rows, horizon=3, state_names=["in", "out"], action_names=["stay", "go"], start=0)
    two = bqrl.MDP(turned, horizon=3, state_names=["out", "in"], action_names=["stay", "go"], start=1)
    models, rule = {"one": one, "two": two}, {"in": "go", "out": "stay"}
    first, second = strategies(models, {"rule": rule}, tau=0.5).rows()
    assert first["mean"] == second["mean"] == 2.0
    message = "strategy 'plan' in model 'two': the states of the model must be those that the policy was made for, in"
    with pytest.raises(PolicyError, match=message):
        strategies(models, {"plan": solve(one, 0.5)}, tau=0.5)
    with pytest.raises(PolicyError, match="in model 'two': the states of the model"):
        strategies(models, {"plan": solve(one, 0.5).policy}, tau=0.5)


def test_sensitivity_is_the_grid_of_all_values():
    def build(mean, pay=1.0):
        return bqrl.MDP([[[1.0 - mean, mean]], [[0.0, 1.0]]], [[pay], [0.0]], horizon=3)

    table = sensitivity(build, {"mean": [0.0, 0.5], "pay": np.array([1.0, 2.0])}, {"only": [0, 0]}, tau=0.4)
    assert [(row["parameter_mean"], row["pay"], row["model"], row["mean"]) for row in table.rows()] == [
        (0.0, 1.0, "mean=0.0, pay=1.0", 3.0), (0.0, 2.0, "mean=0.0, pay=2.0", 6.0),
        (0.5, 1.0, "mean=0.5, pay=1.0", 1.75), (0.5, 2.0, "mean=0.5, pay=2.0", 3.5),
    ]  # fmt: skip
    assert "model" not in str(table).splitlines()[0]
    assert table.to_frame().shape == (4, 10)


def test_it_prints_as_a_table():
    table = strategies(SAFE, {"safe": "always:Safe", "random": "random"}, tau=0.1)
    lines = str(table).splitlines()
    assert lines[0].split() == ["strategy", "mean", "behind_mean", "quantile_0.1", "cvar_0.1", "behind_0.1", "exact"]
    assert lines[1].split()[:4] == ["safe", "10", "6.5", "10"]
    assert repr(table) == "Strategies(safe, random)"
    assert len(table.to_frame()) == 2


def test_beside_plans_stand_the_risk_neutral_and_the_three_best_constant_policies():
    mdp = bqrl.envs.make("Staffing")
    plan = solve(mdp, 0.25)
    neutral = risk_neutral(mdp, 0)
    table = beside_plans([plan], neutral, {"rule": "random"}, curve=plan.details["curve"])
    names = [f"always:{name}" for name in mdp.action_names]
    ranked = sorted(names, key=lambda name: (bqrl.evaluate(mdp, name).quantile(0.25), bqrl.evaluate(mdp, name).mean()))
    assert table.names == ("plan", "risk-neutral", *reversed(ranked[-3:]), "rule")
    assert beside_plans([plan], neutral, {"rule": "random"}, usual=False).names == ("plan", "rule")
    with pytest.raises(
        ArgumentError, match="policies must have names that are not in the table yet, got 'plan'; choose another name"
    ):
        beside_plans([plan], neutral, {"plan": "random"})
    two = beside_plans([plan, solve(mdp, 0.5)], neutral, {}, usual=False)
    assert (two.names, two.taus) == (("plan 0.25", "plan 0.5"), (0.25, 0.5))


def test_constant_policies_that_are_not_possible_are_left_out():
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 1.0, 2.0), (0, 2, 1, 1.0, 3.0), (1, 0, 0, 1.0, 0.0), (1, 1, 0, 1.0, 0.0)]
    mdp = bqrl.MDP(rows, horizon=3, action_names=["a", "b", "c"])
    plan = solve(mdp, 0.5)
    assert beside_plans([plan], None, {}).names == ("plan", "always:b", "always:a")  # c leads to a choice without c


FAULTS = {
    "no strategies": (
        lambda: strategies(SAFE, {}),
        ArgumentTypeError,
        "policies must be a dict of strategies, such as",
    ),
    "a list": (lambda: strategies(SAFE, ["random"]), ArgumentTypeError, "policies must be a dict of strategies"),
    "a level": (
        lambda: strategies(SAFE, {"a": "random"}, tau=0.0),
        ArgumentError,
        r"tau must be a number in \(0, 1\], got 0",
    ),
    "levels twice": (
        lambda: strategies(SAFE, {"a": "random"}, tau=[0.1, 0.1]),
        ArgumentError,
        "tau must hold different levels",
    ),
    "a limit": (
        lambda: strategies(SAFE, {"a": "random"}, below="x"),
        ArgumentTypeError,
        "below must be a number, got 'x'",
    ),
    "a strategy": (
        lambda: strategies(SAFE, {"a": "always:No"}),
        PolicyError,
        "strategy 'a': expected the name of an action, got 'No'",
    ),
    "no form": (
        lambda: strategies(SAFE, {"a": 3}),
        ArgumentTypeError,
        "strategy 'a': policy must be a Policy, a Plan, ",
    ),
    "no models": (lambda: strategies({}, {"a": "random"}), ArgumentError, "mdp must hold at least one model, got none"),
    "no model": (lambda: strategies({"a": 3}, {"a": "random"}), TypeError, "mdp"),
    "rewards": (
        lambda: strategies(SAFE, {"a": "random"}, rewards="x"),
        ArgumentError,
        "rewards must be one of 'planned', 'this model', got 'x'",
    ),
    "no function": (
        lambda: sensitivity(SAFE, {"p": [1]}, {"a": "random"}),
        ArgumentTypeError,
        "build must be a function that returns a model",
    ),
    "no parameters": (
        lambda: sensitivity(two_states, {}, {"a": "random"}),
        ArgumentTypeError,
        "parameters must be a dict of values, such as",
    ),
    "one value": (
        lambda: sensitivity(two_states, {"p": 0.1}, {"a": "random"}),
        ArgumentTypeError,
        "hold a list of values for p, got 0.1; write {'p'",
    ),
    "a value twice": (
        lambda: sensitivity(two_states, {"p": [0.1, 0.1]}, {"a": "random"}),
        ArgumentError,
        "different values, got p=0.1 twice",
    ),
    "no MDP": (
        lambda: sensitivity(lambda p: p, {"p": [0.1]}, {"a": "random"}),
        ArgumentTypeError,
        "build must return an MDP, got float for p=0.1",
    ),
    "too many": (
        lambda: sensitivity(two_states, {"p": list(range(101)), "q": list(range(101))}, {"a": "random"}),
        ArgumentError,
        "parameters must have at most 10000 combinations, got 10201",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_has_its_line(name):
    call, kind, message = FAULTS[name]
    with pytest.raises(kind, match=message) as fault:
        call()
    assert "\n" not in str(fault.value)


def test_every_strategy_has_the_exact_mean_of_each_outcome():
    mdp = bqrl.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [1.0, 0.0]]], [[1, 0], [0, -1]], 0, 3,
        outcomes={"cost": [[2.0, 5.0], [1.0, 7.0]]}, action_names=["wait", "repair"])  # fmt: skip
    given = {"wait": "always:wait", "random": "random", "plan": bqrl.solve(mdp, tau=0.3)}
    for row in bqrl.strategies(mdp, given, tau=0.3).rows():
        assert row["mean_cost"] == bqrl.expected_outcomes(mdp, given[row["strategy"]])["cost"]
    assert "mean_cost" not in bqrl.strategies("SafeOrRisky", {"safe": "always:Safe"}).rows()[0]


def test_a_list_of_models_is_refused_with_the_remedy():
    with pytest.raises(TypeError, match=r"mdp must be an MDP, or a dict of models by name, got list; write \{"):
        bqrl.strategies([bqrl.envs.make("SafeOrRisky")], {"safe": "always:Safe"}, tau=0.1)


def test_functions_receive_the_states_of_the_step_function_with_labels():
    def step(pair, order, demand):
        return (pair[1], order), float(min(sum(pair), demand)) - 0.5 * order

    mdp = bqrl.from_step(step, [0, 1], {0: 0.5, 1: 0.5}, horizon=3, start=(0, 0))
    rule = lambda stage, pair: 1 - pair[1]  # noqa: E731
    by_value = {pair: 1 - pair[1] for pair in mdp.state_values}
    rows = bqrl.strategies(mdp, {"function": rule}, labels=True).rows()
    assert rows == bqrl.strategies(mdp, {"function": by_value}).rows()
    assert (
        bqrl.sensitivity(lambda x: mdp, {"x": [1]}, {"function": rule}, labels=True).rows()[0]["mean"]
        == rows[0]["mean"]
    )
    with pytest.raises(TypeError) as fault:
        bqrl.strategies(mdp, {"function": rule})
    assert "with labels=True it receives (0, 0)" in fault.value.__notes__[0]
    plan = bqrl.solve(mdp, 0.3)
    named = plan.outlook(mdp, stage=2, state=str(mdp.state_values[1]), earned=0.0)
    assert str(plan.outlook(mdp, stage=2, state=mdp.state_values[1], earned=0.0)) == str(named)
