"""Plans made together are those of `solve`, one by one."""

import pytest

import bqrl
from bqrl.display import Watch
from bqrl.errors import ArgumentError
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
