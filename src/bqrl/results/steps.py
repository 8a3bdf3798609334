"""Policies along a trade-off curve, for the sliders of pages: each with its law, its map and its sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.display import format_number, spread_indices
from bqrl.laws.law import Law, size_of
from bqrl.laws.objectives import Buffered, Objective, Quantile
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import lattice
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.outcomes import REWARD
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.plan import Plan
from bqrl.planners.sweep import Sweep
from bqrl.planners.target import GuaranteeCurve
from bqrl.planners.tradeoff import SWEEPS, TRADE_POINTS, Tradeoff, tradeoff
from bqrl.policies.forward import play_shares
from bqrl.policies.protocol import Policy
from bqrl.results.decisions import policy_files
from bqrl.results.result import Control, ResultTable
from bqrl.results.words import Words, sentence

MAX_SHARES = 4_000_000  # entries (stage, state, action) of the largest policy map
TRADE_WORK = 5.0 / 1.5e-9  # outcomes times columns for all of them: five seconds on two cores of 2024
STEPS = 8  # policies between the planned and the risk-neutral one, per level
ENDS = ["best", "risk-neutral"]  # the values of the control `policy` without steps
MIN_POINTS = 500  # of a rounded grid: a coarser one says little
STEP_ROWS = 2_000  # rows of the largest table of decisions of a step


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Step:
    """One policy of a trade-off curve."""

    guarantee: float
    mean: float
    policy: Policy
    law: Law
    rounded: bool  # whether the law is a lower bound
    shares: FloatArray | None  # (H, S, A) how often actions are played; None if there are too many
    text: str


Trades = Mapping[float, tuple[Tradeoff, Sequence[Step]]]  # by level


def steps_along(trade: Tradeoff, rows: Iterable[int], words: Words) -> list[Step]:
    """The policies of some rows of a trade-off; each costs one sweep and one evaluation."""
    mdp, found = trade.mdp, list[Step]()
    for i in rows:
        policy = trade.recompute(i)
        law, upper = law_bracket(mdp, policy)
        shares = play_shares(mdp, policy) if mdp.H * mdp.S * mdp.A <= MAX_SHARES else None
        found.append(Step(
            guarantee=float(trade.guarantee[i]), mean=float(trade.mean[i]), policy=policy, law=law,
            rounded=upper is not None, shares=shares, text=row_sentence(trade, i, words),
        ))  # fmt: skip
    return found


def row_sentence(trade: Tradeoff, i: int, words: Words) -> str:
    """One row of the curve in words: the guarantee, the mean, and their distances from the two ends."""
    amount = words.amount(kept_number(trade.objective, float(trade.guarantee[i])))
    least = "" if trade.exact or trade.objective.beta == 0.0 else "at least "
    promise = words.promise(trade.objective, f"{least}{amount}")
    own = trade.outcome == REWARD
    mean, bound = (format_number(float(x[i]), 5) for x in (trade.mean, trade.bound))
    price = format_number(abs(float(trade.mean[0] - trade.mean[i])), 4)
    if own:
        mean, bound, price = map(words.amount, (mean, bound, price))
    close = bool(np.isclose(trade.mean[i], trade.bound[i], rtol=1e-6))
    limit = (
        "the best possible with it"
        if close
        else f"no policy with it has {'less' if trade.minimise else 'more'} than {bound}"
    )
    best = "that of the risk-neutral policy" if own and not trade.minimise else "the best of any policy"
    more = "" if i == 0 else f", {price} {'more' if trade.minimise else 'less'} than {best}"
    return sentence(f"{promise}; the {mean_name(trade)} is {mean}{more}; {limit}")


def mean_name(trade: Tradeoff) -> str:
    """What the means of a trade-off are called: "mean", or "mean cost" for an outcome called cost."""
    return "mean" if trade.outcome == REWARD else f"mean {trade.outcome.replace('_', ' ')}"


def kept_number(objective: Objective, value: float) -> str:
    """A guarantee, which is a possible return and not rounded much, or an average of returns with five digits."""
    return format_number(value, 6 if isinstance(objective, Quantile) else 5, -1)


def step_label(objective: Objective, value: float, words: Words) -> str:
    """What a step keeps, as the label of a slider: "guarantee 19,800 EUR"."""
    amount = words.amount(kept_number(objective, value))
    return f"guarantee {amount}" if isinstance(objective, Quantile) else f"{objective.label}: {amount}"


def step_tables(
    trade: Tradeoff, steps: Sequence[Step], conditions: Sequence[Mapping[str, Any]], words: Words, name: str,
    tables: dict[str, ResultTable], files: dict[str, bytes],
) -> list[str]:  # fmt: skip
    """Add the policy of every step to `files` and its decisions to `tables`; returns a line if tables are too long."""
    lines = list[str]()
    for i, (step, when) in enumerate(zip(steps, conditions, strict=True)):
        label = f"{name}_step{i + 1}"
        kept = step_label(trade.objective, step.guarantee, words)
        lines += policy_files(step.policy, trade.mdp, words, label, f"{kept}: ", tables, files, when)
        if label in tables and len(tables[label].rows) > STEP_ROWS:
            del tables[label]
            lines.append(f"{label}.csv is not written: it has more than {STEP_ROWS} rows; {label}.npz holds the policy")
    return lines


def quick_trades(mdp: MDP, plans: Sequence[Plan], curve: Any, words: Words) -> Trades:
    """The trade-off of every plan with some of its policies, for quantiles, buffered or not, and if it takes a few seconds.

    The policies are in the order of falling guarantees, without the risk-neutral one and without the plan itself. Without an
    exact grid, returns are rounded to as many points as the time allows.
    """
    goals = [plan.objective for plan in plans if plan.attitude == "nominal"]
    by_quantile = all(isinstance(goal, Quantile) for goal in goals)
    averaged = all(isinstance(goal, Buffered) for goal in goals)
    between = any(isinstance(goal, Buffered) and goal.beta < goal.tau for goal in goals)
    if len(goals) < len(plans) or not (by_quantile or averaged):
        return {}
    exact: Grid | None = lattice(mdp) if averaged else None
    if between and exact is None:
        return {}
    if by_quantile and isinstance(curve, GuaranteeCurve) and curve.exact and isinstance(curve.sweep, Sweep):
        exact = curve.sweep.grid
    # CVaR has columns above the returns, and with a buffer below the level several widths are swept and evaluated.
    room = TRADE_WORK / (SWEEPS + 2 * STEPS) / len(plans) / (8.0 if between else 2.0 if averaged else 1.0)
    outcomes, points = np.array([mdp.stage(h).successor.size for h in range(mdp.H)]), None
    if exact is None:  # returns rounded down and up
        points = min(TRADE_POINTS, int(room / 2.0 / outcomes.sum()))
    if (exact is None and int(points or 0) < MIN_POINTS) or (exact is not None and exact.size[:-1] @ outcomes > room):
        return {}
    found = dict[float, tuple[Tradeoff, Sequence[Step]]]()
    for plan in plans:
        trade = tradeoff(mdp, plan.objective, points=points)
        rows, slack = list(range(trade.guarantee.size - 1, 0, -1)), 1e-9 * size_of(plan.law.values)
        if rows and trade.guarantee[rows[0]] <= plan.value + slack and trade.mean[rows[0]] <= plan.mean + slack:
            rows = rows[1:]
        if rows:
            chosen = [rows[i] for i in spread_indices(len(rows), STEPS).tolist()]
            found[plan.tau] = trade, steps_along(trade, chosen, words)
    return found


def step_name(i: int) -> str:
    """The value of the control `policy` that shows a policy along the trade-off."""
    return f"step {i + 1}"


def trade_marks(plans: Sequence[Plan], trades: Trades) -> list[list[Any]]:
    """The red points of the trade-off chart, as [level, policy, guarantee, mean]."""
    rows = list[list[Any]]()
    for plan in plans:
        if plan.tau in trades:
            trade, steps = trades[plan.tau]
            rows += [[plan.tau, ENDS[0], plan.value, plan.mean]]
            rows += [[plan.tau, step_name(i), step.guarantee, step.mean] for i, step in enumerate(steps)]
            rows += [[plan.tau, ENDS[1], float(trade.guarantee[0]), float(trade.mean[0])]]
    return rows


def trade_table(trade: Tradeoff, words: Words) -> ResultTable:
    """The rows of a trade-off with titles for people."""
    unit = words.titled if trade.outcome == REWARD else str
    titles = {"guarantee": words.titled("guarantee"), "mean": unit(mean_name(trade))}
    titles[trade.bound_name] = unit(f"{mean_name(trade)} at {'least' if trade.minimise else 'most'}")
    titles["shortfall"] = "falls short with at most"
    rows = trade.rows()
    caption = "The best mean found for each guarantee, and a proven bound on the mean of all policies with it."
    if trade.objective.beta > 0.0:  # a mean over the worst runs is not a return that a run may miss
        titles["guarantee"] = words.titled(trade.objective.label)
        rows = [{key: x for key, x in row.items() if key != "shortfall"} for row in rows]
    bounds = {"guarantee": -1, trade.bound_name: -1 if trade.minimise else 1, "shortfall": 1}
    return ResultTable(rows, titles=titles, caption=caption, bounds=bounds)


def policy_control(trades: Trades, words: Words) -> Control:
    """The switch between the planned and the risk-neutral policy, or a slider along the trade-off between them."""
    counts = {tau: len(steps) for tau, (_, steps) in trades.items()}
    between = range(max(counts.values(), default=0))
    alone, trade = None, next((trade for trade, _ in trades.values()), None)
    if len(counts) == 1:
        alone = next(iter(trades.values()))[1]
    labels = ["planned", *(f"step {i + 1} of {len(between)}" for i in between), "risk-neutral"]
    if alone is not None and trade is not None:  # at one level every step has one guarantee
        labels[1:-1] = [step_label(trade.objective, x.guarantee, words) for x in alone]
    kept = "guarantee" if trade is None or trade.objective.beta == 0.0 else trade.objective.kind
    return Control(
        name="policy", title=f"Policy, from the best {kept} to the best mean" if between else "Policy", labels=labels,
        values=[ENDS[0], *map(step_name, between), ENDS[1]],
        needs=[{}, *({"tau": [tau for tau, count in counts.items() if i < count]} for i in between), {}],
    )  # fmt: skip
