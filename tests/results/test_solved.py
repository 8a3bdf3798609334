"""Plans made together are those of `solve`, one by one."""

import pytest

import bqrl
from bqrl.display import Watch
from bqrl.errors import ArgumentError, SizeError
from bqrl.results.decisions import policy_files
from bqrl.results.solved import CHOICES, collect_plans, solve_goals, with_chart_data
from bqrl.results.words import Words

MODEL = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
WORDS = Words(title="Sale")


@pytest.mark.parametrize("kind", [bqrl.Quantile, bqrl.CVaR])
def test_one_sweep_gives_the_plans_of_every_level(kind):
    goals, settings = [kind(0.2), kind(0.5)], dict.fromkeys((*CHOICES, "max_bytes", "planner"))
    solved = solve_goals(
        MODEL, WORDS, goals, settings | {"arithmetic": "float"}, Watch(), off=0.05, policies={"wait": "always:Continue"},
        below=1.0, usual=False,
    )  # fmt: skip
    alone = [bqrl.solve(MODEL, goal) for goal in goals]
    assert [(plan.value, plan.upper, plan.notes) for plan in solved.plans] == [
        (plan.value, plan.upper, plan.notes) for plan in alone
    ]
    assert solved.settings["planner"] == "target"
    assert {plan.details["off"] for plan in solved.plans} == {0.05}
    assert list(solved.strategies.names)[-1] == "wait"


def test_further_levels_are_planned_for_the_slider():
    found = with_chart_data(collect_plans([bqrl.solve(MODEL, 0.2)], WORDS))
    assert [plan.tau for plan in found.all].count(0.2) == 1
    assert len(found.all) > 5
    assert set(found.shares) >= {plan.tau for plan in found.plans}


def test_plans_of_different_problems_are_refused():
    with pytest.raises(ArgumentError, match="expected plans of one problem, got others"):
        collect_plans([bqrl.solve(MODEL, 0.2), bqrl.solve("SafeOrRisky", 0.5)], WORDS)


@pytest.mark.parametrize("goals", [(bqrl.Quantile(0.2), bqrl.Mean()), (bqrl.Quantile(0.2), bqrl.CVaR(0.2))])
def test_objectives_that_cannot_stand_together_are_refused_before_planning(goals, monkeypatch):
    monkeypatch.setattr("bqrl.results.solved._plan_goals", lambda *given: pytest.fail("planned"))
    settings = dict.fromkeys((*CHOICES, "max_bytes", "planner"))
    with pytest.raises(ArgumentError, match=r"^expected plans at different levels, got 0\.2-quantile, "):
        solve_goals(MODEL, WORDS, goals, settings, Watch(), off=None, policies={}, below=None, usual=False)


def test_a_policy_whose_tables_are_computed_on_demand_is_stored_as_its_labels(tmp_path):
    tables, files = {}, {}
    plan = bqrl.solve("SafeOrRisky", 0.1, precision="float32")
    with pytest.raises(SizeError, match="raise max_bytes without precision, or store"):
        plan.policy.arrays()
    assert policy_files(plan.policy, plan.mdp, WORDS, "policy", "", tables, files) == []
    assert tables["policy"].rows
    (tmp_path / "policy.npz").write_bytes(files["policy.npz"])
    assert bqrl.evaluate(plan.mdp, bqrl.load(tmp_path / "policy.npz")).equals(plan.law)


def test_a_policy_that_no_file_can_store_leaves_a_line(monkeypatch):
    monkeypatch.setattr("bqrl.policies.target.TargetPolicy.to_labels", refuse)
    monkeypatch.setattr("bqrl.results.decisions.decision_rows", refuse)
    plan = bqrl.solve("SafeOrRisky", 0.1, precision="float32")
    left_out = policy_files(plan.policy, plan.mdp, WORDS, "policy", "", tables := {}, files := {})
    assert left_out == ["policy.npz is not written: too large", "policy.csv is not written: too large"]
    assert tables == files == {}


def refuse(*given, **options):
    raise SizeError("too large", needed=2, limit=1)
