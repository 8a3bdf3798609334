"""Policies along the trade-off on the page of a plan: sentence, law, map, table and red point belong to one policy."""

import pytest

import bqrl
from bqrl.planners.curve import guarantee_curve
from bqrl.results import steps
from bqrl.results.plans import plan_files, plan_result
from bqrl.results.result import is_shown
from bqrl.results.solved import collect_plans, with_chart_data
from bqrl.results.steps import STEPS, quick_trades
from bqrl.results.words import Words

WORDS = Words(title="Shop", unit="EUR")


def shop():
    return bqrl.envs.make("Inventory")


def page_of(mdp, *taus):
    return plan_result(with_chart_data(collect_plans([bqrl.solve(mdp, tau) for tau in taus], WORDS)))


def test_every_step_of_the_slider_has_its_own_sentence_law_map_table_and_point(embedded):
    mdp = shop()
    result = page_of(mdp, 0.1)
    level, policy = result.choices
    assert (policy.values[0], policy.values[-1]) == ("best", "risk-neutral")
    names = list(policy.values[1:-1])
    assert 2 <= len(names) <= STEPS
    points = {row["policy"]: row for row in embedded(result.charts["tradeoff"], "tau", "policy", "x", "y")}
    assert set(points) == {"best", *names, "risk-neutral"}
    for i, name in enumerate(names):
        chosen = {"tau": 0.1, "policy": name}
        lines = [line.text for line in result.lines if is_shown(line.when, chosen) and not line.aside]
        (said,) = [line for line in lines if "less than that of the risk-neutral policy" in line]
        shown = [table for table, one in result.tables.items() if one.when and is_shown(one.when, chosen)]
        assert shown == [f"policy_tau0p1_step{i + 1}"]
        bars = [row for row in embedded(result.charts["return_law"], "share") if row["policy"] == name]
        assert {row["tau"] for row in bars} == {"0.1"}
        mean, low = float(points[name]["y"]), float(points[name]["x"])
        assert f"at least {low:g} EUR" in said
        short = sum(float(row["share"]) for row in bars if row["kind"] == "below the promise")
        assert short < 0.1
        assert mean <= float(points["risk-neutral"]["y"])
        cells = [row for row in embedded(result.charts["policy_map"], "part", "met") if row["policy"] == name]
        assert cells
        assert {row["tau"] for row in cells} == {"0.1"}
    means = [float(points[name]["y"]) for name in ["best", *names, "risk-neutral"]]
    assert means == sorted(means)
    others = [tau for tau in level.values if tau != 0.1]
    assert all(one == {"tau": [0.1]} for one in policy.needs[1:-1])
    assert others, "the page has further levels, at which there are no steps"
    announced = plan_files([bqrl.Quantile(0.1)])
    assert {f"{name}.csv" for name in result.tables} | set(result.files) <= set(announced)


def test_the_plan_is_not_repeated_as_a_step_and_several_levels_share_the_slider():
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    plans = [bqrl.solve(mdp, tau, margin=0.0) for tau in (0.2, 0.5)]
    trades = quick_trades(mdp, plans, guarantee_curve(mdp), WORDS)
    for plan in plans:
        _, some = trades.get(plan.tau, (None, ()))
        for step in some:
            law = bqrl.evaluate(mdp, step.policy)
            assert law.quantile(plan.tau) >= step.guarantee - 1e-9
            assert law.mean() == pytest.approx(step.mean)
            assert step.mean > plan.mean + 1e-12 or step.guarantee > plan.value


@pytest.mark.parametrize(
    ("mdp", "goal"),
    [
        (shop(), bqrl.CVaR(0.1)),
        (bqrl.envs.make("SafeOrRisky", horizon=6).replace(discount=0.93), bqrl.Quantile(0.1)),  # no lattice: pairs
        (bqrl.envs.make("SafeOrRisky", horizon=6).replace(discount=0.93), bqrl.CVaR(0.1)),
    ],
    ids=["CVaR", "quantile without a lattice", "CVaR without a lattice"],
)
def test_cvar_and_problems_without_a_lattice_have_the_slider_too(mdp, goal, embedded):
    plan = bqrl.solve(mdp, goal)
    solved = with_chart_data(collect_plans([plan], WORDS))
    trade, some = solved.trades[0.1]
    for step in some:
        law = bqrl.evaluate(mdp, step.policy)
        assert goal(law) >= step.guarantee - 1e-9
        assert law.exact_mean == pytest.approx(step.mean)
        assert plan.mean < step.mean < trade.mean[0] + 1e-9
        assert step.guarantee <= plan.value + 1e-9
    result = plan_result(solved)
    control = result.choices[-1]
    assert (control.name, len(control.values)) == ("policy", len(some) + 2)
    points = {row["policy"]: row for row in embedded(result.charts["tradeoff"], "tau", "policy", "x", "y")}
    laws = {row["policy"] for row in embedded(result.charts["return_law"], "share")}
    maps = {row["policy"] for row in embedded(result.charts["policy_map"], "part", "met")}
    assert set(points) == set(control.values) == laws == maps
    for i, name in enumerate(control.values[1:-1]):
        (said,) = [line.text for line in result.lines if line.when.get("policy") == name]
        assert ("over the worst 10 %" if goal.beta else "in 9 of 10 runs") in said.lower()
        assert f"policy_tau0p1_step{i + 1}" in result.tables
        assert float(points[name]["y"]) == pytest.approx(some[i].mean, rel=1e-4)


def test_steps_are_left_out_where_they_take_long(monkeypatch):
    mdp = shop()
    monkeypatch.setattr(steps, "TRADE_WORK", 10.0)
    result = page_of(mdp, 0.1)
    assert [choice.name for choice in result.choices] == ["tau", "policy"]
    assert list(result.choices[1].values) == ["best", "risk-neutral"]
    assert "tradeoff" not in result.charts


def test_long_tables_of_steps_are_left_out_with_a_line(monkeypatch):
    monkeypatch.setattr(steps, "STEP_ROWS", 0)
    result = page_of(bqrl.envs.make("SafeOrRisky"), 0.1)
    assert "policy_tau0p1" in result.tables
    assert "policy_tau0p1_step1" not in result.tables
    assert "policy_tau0p1_step1.npz" in result.files
    assert any("policy_tau0p1_step1.csv is not written" in line for line in result.left_out)
