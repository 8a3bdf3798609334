"""Plans of one problem, made together: one sweep for all levels, the risk-neutral policy beside them, and the data of charts."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from bqrl.display import Watch
from bqrl.errors import ArgumentError
from bqrl.laws.law import Law
from bqrl.laws.objectives import Buffered, CVaR, Objective, Quantile
from bqrl.mdp.arrays import FloatArray, digest
from bqrl.mdp.model import MDP
from bqrl.planners.at_least import smaller_margins
from bqrl.planners.curve import curve_objective, guarantee_curve
from bqrl.planners.cvar import CVaRCurve
from bqrl.planners.expected import risk_neutral, with_tail
from bqrl.planners.plan import Plan
from bqrl.planners.room import forecast
from bqrl.planners.solve import SOLVERS, find_planner, solve
from bqrl.planners.strategies import Strategies, beside_plans
from bqrl.planners.stress import Stress, beside_others, quick_stress
from bqrl.planners.target import GuaranteeCurve
from bqrl.policies.forward import play_shares
from bqrl.policies.protocol import Policy
from bqrl.results.plan_charts import plan_key
from bqrl.results.steps import MAX_SHARES, Trades, quick_trades
from bqrl.results.words import Words

HELD = (0.0, 0.02, 0.05)  # shares of probability that may be off, in the output of `solve`
HELD_SECONDS = 1.0  # for what holds then, per policy
MARGIN_SECONDS = 3.0  # for the means with smaller margins, per plan
PAGE_SECONDS = 5.0  # for the same on a page, per plan
CHOICES = (
    "radius", "attitude", "randomized", "at_least", "margin", "secondary", "arithmetic", "points", "gap", "max_nodes", "rule",
    "order", "folder", "precision", "cluster",
)  # fmt: skip
WORTH_SAYING = 2.0  # seconds of a plan from which its forecast is shown
LIMITS = ("points", "max_bytes", "folder", "precision", "cluster")  # settings of a sweep
SLIDER = dict.fromkeys((0.1, 0.25, 0.5, 0.75, 0.9, *(k / 20 for k in range(1, 20))))  # the important levels first
SLIDER_WORK = 5.0 / 1.5e-9  # outcomes times columns for further levels: five seconds on two cores of 2024


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Solved:
    """Plans of one problem at several levels, and the risk-neutral policy for comparison."""

    words: Words
    mdp: MDP
    plans: tuple[Plan, ...]  # at the requested levels
    others: tuple[Plan, ...] = ()  # at further levels, for the slider of the page
    neutral: tuple[Policy, Law, Law | None] | None = None  # the risk-neutral policy, as `risk_neutral` returns it
    settings: Mapping[str, Any] = field(default_factory=dict)
    curve: GuaranteeCurve | CVaRCurve | None = None
    shares: Mapping[float, FloatArray] = field(default_factory=dict)  # by level (H, S, A): how often actions are played
    neutral_shares: FloatArray | None = None
    strategies: Strategies | None = None  # the plans beside other policies
    policies: Mapping[str, Any] = field(default_factory=dict)  # the further policies of `strategies` by name
    below: float | None = None  # the limit of low returns
    held: Mapping[float, Stress] = field(default_factory=dict)  # by level: what the plan guarantees if the model is off
    margins: Mapping[float, Mapping[float, float]] = field(default_factory=dict)  # by level: means of `smaller_margins`
    trades: Trades = field(default_factory=dict)  # the price of certainty, where it takes a few seconds
    seconds: float = 0.0

    @property
    def all(self) -> list[Plan]:
        """Plans at the requested levels, then at further levels."""
        asked = {plan.tau for plan in self.plans}
        return [*self.plans, *(plan for plan in self.others if plan.tau not in asked)]


def solve_goals(
    mdp: MDP, words: Words, goals: Sequence[Objective], settings: Mapping[str, Any], watch: Watch, *,
    off: float | None, policies: Mapping[str, Any], below: float | None, usual: bool,
) -> Solved:  # fmt: skip
    """The plans for objectives, beside other policies; `settings` are options of `solve`, None where unset."""
    check_goals(goals)
    begun = time.perf_counter()
    planners = {goal: find_planner(SOLVERS, goal, settings["planner"]) for goal in goals}
    settings = {**settings, "planner": ", ".join(dict.fromkeys(planners.values()))}
    plans = _plan_goals(mdp, planners, settings, watch)
    if off is not None:
        plans = [replace(plan, details=plan.details | {"off": off}) for plan in plans]
    watch.phase("comparing with the risk-neutral policy")
    solved = with_strategies(collect_plans(plans, words, settings), policies, below=below, usual=usual)
    return replace(solved, seconds=time.perf_counter() - begun)


def _plan_goals(mdp: MDP, planners: Mapping[Objective, str], settings: Mapping[str, Any], watch: Watch) -> list[Plan]:
    """Plans by objective; for quantiles, and for CVaR, one sweep serves all levels."""
    options = _drop_unset(settings, *CHOICES, "max_bytes")
    shown = curve_objective(planners) if set(planners.values()) == {"target"} else None
    of_curve = {*LIMITS, "arithmetic"} if shown is CVaR else {*LIMITS, "randomized", "arithmetic"}
    if shown is not None and options.keys() <= of_curve and options["arithmetic"] == "float":
        begun = time.perf_counter()
        levels = [goal.tau for goal in planners if isinstance(goal, Quantile | Buffered)]
        limits = _drop_unset(settings, *LIMITS)
        expected = ""
        if shown is Quantile:
            watch.phase("forecasting time and memory")
            found = forecast(mdp, **{name: value for name, value in limits.items() if name != "cluster"})
            expected = f", {found.short}" if found.seconds > WORTH_SAYING else ""
        watch.phase(f"planning{expected}", mdp.H)
        curve = guarantee_curve(mdp, shown, tick=lambda _: watch.tick(), **limits)
        tracked = watch.track(levels, "evaluating the policies")
        return [replace(curve.plan(tau), seconds=time.perf_counter() - begun) for tau in tracked]
    return [solve(mdp, goal, planner=planners[goal], **options) for goal in watch.track(list(planners), "planning")]


def _drop_unset(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The settings of these names that are not None."""
    return {name: settings[name] for name in names if settings[name] is not None}


def collect_plans(plans: Sequence[Plan], words: Words, settings: Mapping[str, Any] | None = None) -> Solved:
    """Plans of one problem with the risk-neutral policy; `settings` are those requested, by default those of the plans."""
    mdp = plans[0].mdp if plans else None
    models = [plan.mdp for plan in plans]
    if mdp is None or any(one is None or (one is not mdp and digest(one) != digest(mdp)) for one in models):
        raise ArgumentError("expected plans of one problem, got others; make them with solve", name="thing")
    check_goals([plan.objective for plan in plans])
    if settings is None:
        first = plans[0]
        said = {"objective": [plan.objective.label for plan in plans], "planner": first.planner}
        settings = said | ({} if first.attitude == "nominal" else {"attitude": first.attitude})
    neutral = None
    if all(plan.planner != "expected" for plan in plans):  # on a grid as fine as that of the plans
        grids = (getattr(plan.policy, "grid", None) for plan in plans)
        finest = max((int(grid.size[0]) for grid in grids if grid is not None), default=0)
        neutral = risk_neutral(mdp, finest)
        plans = [with_tail(plan, neutral[1]) for plan in plans]
    return Solved(
        words=words, mdp=mdp, plans=tuple(sorted(plans, key=plan_key)), neutral=neutral, settings=settings,
        curve=plans[-1].details.get("curve"), held=held_plans(mdp, plans, HELD, HELD_SECONDS),
        margins={plan_key(plan): smaller_margins(mdp, plan, MARGIN_SECONDS) for plan in plans},
        seconds=sum(plan.seconds for plan in plans),
    )  # fmt: skip


def distinct_goals(goals: Iterable[Objective]) -> list[Objective]:
    """The objectives, each once, by name and level."""
    return sorted(set(goals), key=lambda goal: (goal.name, getattr(goal, "tau", 0.0)))


def check_goals(goals: Sequence[Objective]) -> None:
    """Raise ArgumentError if several objectives are not quantiles, buffered or not, at different levels."""
    levels = {goal.tau for goal in goals if isinstance(goal, Quantile | Buffered)}
    if len(goals) > 1 and len(levels) < len(goals):
        labels = ", ".join(goal.label for goal in goals)
        text = f"expected plans at different levels, got {labels}; report them one by one, or use compare"
        raise ArgumentError(text, name="thing")


def with_strategies(
    solved: Solved, policies: Mapping[str, Any] | None = None, *, below: float | None = None, usual: bool = True
) -> Solved:
    """Add the plans beside other policies; with `usual` beside the risk-neutral and the best constant policies, too."""
    table = None
    if usual or policies:
        curve = solved.curve if isinstance(solved.curve, GuaranteeCurve) else None
        found = beside_plans(solved.plans, solved.neutral, policies or {}, curve=curve, below=below, usual=usual)
        table = found if len(found.names) > len(solved.plans) else None
    held = {key: beside_others(one, policies or {}, HELD_SECONDS) for key, one in solved.held.items()}
    return replace(solved, strategies=table, policies=policies or {}, below=below, held=held)


def held_plans(mdp: MDP, plans: Iterable[Plan], off: Sequence[float], seconds: float) -> dict[float, Stress]:
    """What each plan guarantees if the model is off, by level, where that takes about `seconds` per plan at most."""
    found = ((plan_key(plan), quick_stress(mdp, plan, off, seconds)) for plan in plans)
    return {key: held for key, held in found if held is not None}


def with_chart_data(solved: Solved, watch: Watch | None = None) -> Solved:
    """Add the data of charts: the guarantee curve, plans at further levels, and how often actions are played."""
    mdp, curve, first, others = solved.mdp, solved.curve, solved.plans[0], list[Plan]()
    watch = Watch() if watch is None else watch
    if curve is None:
        watch.phase("guarantee curve", mdp.H)
        limits = {name: solved.settings[name] for name in LIMITS if solved.settings.get(name) is not None}
        with suppress(ValueError):  # the sweep does not fit into memory
            shown = curve_objective(plan.objective for plan in solved.plans) or Quantile
            curve = guarantee_curve(mdp, shown, tick=lambda _: watch.tick(), **limits)
    by_curve = "curve" in first.details and curve_objective([first.objective]) is not None
    if curve is not None and by_curve and first.attitude == "nominal":
        further = list(SLIDER)[: int(SLIDER_WORK / curve.work)]
        others = [curve.plan(level) for level in watch.track(further, "further levels")]
        others = others if solved.neutral is None else [with_tail(plan, solved.neutral[1]) for plan in others]
    shares, neutral = dict[float, FloatArray](), None
    if mdp.H * mdp.S * mdp.A <= MAX_SHARES:
        every = watch.track([*solved.plans, *others], "policy map")
        shares = {plan_key(plan): play_shares(mdp, plan.policy) for plan in every}
        neutral = None if solved.neutral is None else play_shares(mdp, solved.neutral[0])
    watch.phase("stress")
    later = [plan for plan in solved.plans if plan_key(plan) not in solved.held]
    added = held_plans(mdp, later, HELD, PAGE_SECONDS)
    held = {**solved.held, **{key: beside_others(one, solved.policies, PAGE_SECONDS) for key, one in added.items()}}
    watch.phase("price of certainty")
    trades = {} if solved.neutral is None else quick_trades(mdp, solved.plans, curve, solved.words)
    watch.phase("drawing")
    return replace(
        solved, curve=curve, others=tuple(others), shares=shares, neutral_shares=neutral, held=held, trades=trades
    )
