"""A planner is one function and one entry: its objectives, its arguments and their checks are read from there."""

import inspect
from dataclasses import dataclass
from typing import Annotated

import pytest

import bqrl
from bqrl.laws.objectives import Objective, Quantile
from bqrl.planners import solve as module
from bqrl.planners.options import Points, count
from bqrl.planners.plan import Plan
from bqrl.planners.solve import PLANNERS, SOLVERS, Solver, find_planner, find_solver


@dataclass(frozen=True, slots=True)
class Worst(Objective):
    """The lowest return."""

    def __call__(self, law):
        return float(law.values[0])

    label = "worst return"


def plan_worst(mdp, objective: Worst, *, rounds: Annotated[int, count(1)] = 3) -> Plan:
    """Return the safest of a few plans."""
    found = bqrl.solve(mdp, tau=1e-6)
    value = objective(found.law)
    return Plan(
        objective=objective, planner="safe", policy=found.policy, law=found.law, value=value, upper=None, nominal=value,
        certain=True, exact=True, details={"rounds": rounds},
    )  # fmt: skip


def test_one_entry_adds_an_objective_with_its_planner_and_options(monkeypatch):
    monkeypatch.setattr(module, "SOLVERS", (*SOLVERS, Solver(planner="safe", plan=plan_worst, objectives=(Worst,))))
    plan = bqrl.solve("SafeOrRisky", Worst(), rounds=5)
    assert (plan.objective, plan.planner, plan.details["rounds"]) == (Worst(), "safe", 5)
    assert plan.value == plan.law.values[0]
    with pytest.raises(ValueError, match="rounds must be a whole number of at least 1, got 0"):
        bqrl.solve("SafeOrRisky", Worst(), rounds=0)
    with pytest.raises(TypeError, match="a parameter of planner safe, got 'points'; choose from rounds"):
        bqrl.solve("SafeOrRisky", Worst(), points=5)
    with pytest.raises(ValueError, match="planner must solve worst return, got 'target'; omit it or choose safe"):
        bqrl.solve("SafeOrRisky", Worst(), planner="target")
    with pytest.raises(ValueError, match="planner must be 'target' with rule='state', got 'safe'"):
        bqrl.solve("SafeOrRisky", Worst(), rule="state")


def test_an_objective_without_a_planner_is_one_line():
    with pytest.raises(ValueError, match=r"objective must be one of Buffered, Chance, .*, got Worst"):
        bqrl.solve("SafeOrRisky", Worst())


def plan_wide(mdp, tau: float, wide: int, depth: Annotated[int, count(1)], *, points: Points = None) -> Plan:
    """A variant that needs two arguments."""
    return bqrl.solve(mdp, tau=tau)


WIDE = (*SOLVERS, Solver(planner="target", plan=plan_wide, objectives=(Quantile,), selector="wide"))


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"wide": 1}, "depth must be given with wide, got None; pass both"),
        ({"depth": 1}, "wide must be given with depth, got None; pass both"),
        ({"wide": 1, "depth": 2, "rule": "state"}, "expected one of rule='state' and wide, got both; drop one of them"),
    ],
)
def test_arguments_that_do_not_fit_together(choices, message):
    with pytest.raises(ValueError, match="^" + message):
        find_solver(WIDE, bqrl.Quantile(0.1), "target", choices, {})


def test_a_variant_takes_what_its_signature_names():
    found = find_solver(WIDE, bqrl.Quantile(0.1), "target", {"wide": 1, "depth": 2}, {"points": 9})
    assert found.plan is plan_wide
    mdp = bqrl.envs.make("SafeOrRisky")
    with pytest.raises(ValueError, match="depth must be a whole number of at least 1, got 0"):
        found.check(mdp, {"wide": 1, "depth": 0})


def test_every_planner_is_listed_and_solves_what_it_declares():
    assert PLANNERS[0] == "target"
    assert set(PLANNERS) == {one.planner for one in SOLVERS}
    named = set(inspect.signature(bqrl.solve).parameters)
    for one in SOLVERS:
        assert not one.selector or {one.selector} <= named & set(one.parameters)
        assert inspect.getdoc(one.plan)
    goals = [bqrl.Quantile(0.1), bqrl.CVaR(0.1), bqrl.Mean(), bqrl.Chance(12.0), bqrl.Entropic(0.5)]
    assert [find_planner(SOLVERS, goal) for goal in goals] == ["target", "target", "expected", "target", "backward"]
