"""The three figures of solved plans, with titles that fit what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bqrl.kernels.tolerance import MASS_TOL
from bqrl.mdp.policy import TargetPolicy
from bqrl.planners.plan import Plan
from bqrl.reports.document import Solved
from bqrl.reports.figures import Spread, Steps, cdf_figure, guarantee_figure, quantile_steps
from bqrl.reports.policy_map import Panel, policy_figure
from bqrl.reports.style import INK, NEUTRAL, colours, shown
from bqrl.reports.words import number

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PANELS = 6
NEUTRAL_NAME = "risk-neutral policy"


def plan_figures(solved: Solved) -> dict[str, Figure]:
    """Figures by file name: guarantee_curve and policy_map where the plans carry what they need, return_cdf always."""
    inks = dict(zip(solved.plans, colours(len(solved.plans)), strict=True))
    drawn = {"return_cdf": return_figure(solved, inks)}
    if solved.curve is not None:
        drawn["guarantee_curve"] = curve_figure(solved, inks)
    if solved.shares:
        drawn["policy_map"] = map_figure(solved)
    return drawn


def curve_figure(solved: Solved, inks: dict[Plan, str]) -> Figure:
    """What can be promised at every level, the plans on it, and what the risk-neutral policy gives."""
    assert solved.curve is not None
    curve, first = solved.curve, solved.plans[0]
    upper = None if curve.optimistic is None else steps_of(curve.optimistic[1], curve.optimistic[0])
    what = "best policy" if curve.exact else "proven value"  # no policy need attain the ends of a bracket
    label = f"{what} for each level" if first.attitude == "nominal" else f"{what} in the model as given"
    series = [Steps(label, *curve.steps, upper, colour=INK)]
    ball = first.details.get("shortfall")
    if first.attitude != "nominal" and first.beta == 0.0 and isinstance(first.policy, TargetPolicy):
        levels, values = steps_of(np.asarray(ball), first.policy.grid.points(0))
        label = "under every kernel in the ball" if first.attitude == "robust" else "with the best kernel in the ball"
        series.append(Steps(label, levels, values, colour="#8C5A2B"))
    if solved.neutral is not None:
        series.append(quantile_steps(NEUTRAL_NAME, solved.neutral, solved.neutral_upper, colour=NEUTRAL, dashed=True))
    point = first.beta == 0.0
    marks = [(p.tau, p.value if point else p.law.quantile(p.tau), inks[p]) for p in solved.plans]
    title = f"{solved.name}: what can be promised, and how surely"
    told = "At level τ more than 1 \N{MINUS SIGN} τ of all runs reach the curve."
    if first.attitude == "robust" and point:
        told += " Dots: the plans, guaranteed under every kernel in the ball."
    elif point:
        told += " Dots: the plans."
    else:
        told += f" Dots: the plain quantile of the plans, which maximise the {_aim(first)}."
    if not curve.exact:
        told += " Shaded: what rounding the returns leaves open."
    return guarantee_figure(series, marks, title, told)


def steps_of(shortfall: np.ndarray, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Levels and values of the curve that shortfalls by target give; of targets with one shortfall the highest counts."""
    grown = np.maximum.accumulate(shortfall)
    last = np.r_[np.diff(grown) > MASS_TOL, True]
    return grown[last], points[last]


def _aim(plan: Plan) -> str:
    return "CVaR" if plan.beta == plan.tau else "buffered quantile"


def return_figure(solved: Solved, inks: dict[Plan, str]) -> Figure:
    """Distribution of the return under every plan and under the risk-neutral policy."""
    spreads = []
    for plan in solved.plans:
        value = plan.nominal if plan.attitude == "robust" else plan.value
        place = value if plan.beta == 0.0 else plan.law.quantile(plan.tau)
        spreads.append(
            Spread(f"{name_of(plan)}: {shown(value)}", plan.law, plan.tau, place, inks[plan], plan.law_upper)
        )
    if solved.neutral is not None:
        spreads.append(Spread(NEUTRAL_NAME, solved.neutral, law_upper=solved.neutral_upper))
    title = f"{solved.name}: how the return spreads under each policy"
    told = "Further right is better. Dots: what more than 1 \N{MINUS SIGN} τ of all runs reach."
    if solved.plans[0].beta > 0.0:
        told += f" Numbers: the {_aim(solved.plans[0])}."
    if any(plan.attitude == "robust" for plan in solved.plans):
        told += " In the model as given."
    return cdf_figure(spreads, title, told)


def name_of(plan: Plan) -> str:
    """A plan's name in a figure."""
    if plan.planner != "target":
        return f"{plan.planner}, τ = {number(plan.tau)}"
    kind = "" if plan.attitude == "nominal" else f"{plan.attitude}, "
    if plan.beta > 0.0:
        kind += "CVaR, " if plan.beta == plan.tau else "buffered, "
    return f"{kind}τ = {number(plan.tau)}"


def map_figure(solved: Solved) -> Figure:
    """What every plan plays by stage and state."""
    mdp = solved.mdp
    chosen = list(zip(solved.plans, solved.shares, strict=True))[:MAX_PANELS]
    panels = [Panel(name_of(plan), shares) for plan, shares in chosen]
    title = f"{solved.name}: what each plan plays at each stage in each state"
    states = [mdp.state_label(s) for s in range(mdp.S)]
    return policy_figure(panels, states, [mdp.action_label(a) for a in range(mdp.A)], title)
