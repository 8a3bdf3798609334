"""What a notebook shows: charts, small HTML tables and data frames of the library's objects.

The objects import this module only when one of these is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.planners.plan import Comparison, Plan
from bqrl.planners.target import GuaranteeCurve
from bqrl.results.charts import Curve, Steps, altair, curves_chart, guarantee_chart, law_chart, promise_axis
from bqrl.results.result import Table
from bqrl.results.words import Words, displayed, number, runs

if TYPE_CHECKING:
    from bqrl.learners.record import Record
    from bqrl.mdp.model import MDP
    from bqrl.mdp.policy import Policy

MAX_ROWS = 12  # of a table in a notebook


def law_view(law: Law) -> Any:
    """Chart of one law."""
    return law_chart({0.0: law}, {})


def curve_view(curve: GuaranteeCurve, marks: Sequence[tuple[float, float]] = ()) -> Any:
    """Chart of a guarantee curve."""
    upper = None
    if curve.optimistic is not None:
        points, shortfall = curve.optimistic
        upper = Steps(np.maximum.accumulate(shortfall), points)
    return guarantee_chart(Steps(*curve.steps), upper=upper, marks=marks)


def plan_view(plan: Plan) -> Any:
    """Charts of a plan: the law of its return, and beside it the guarantee curve if the planner made one."""
    law = plan.law
    promise = plan.value if plan.beta == 0.0 and plan.attitude == "nominal" else law.quantile(plan.tau)
    charts = [law_chart({plan.tau: law}, {plan.tau: promise})]
    curve = plan.details.get("curve")
    if curve is not None and plan.attitude == "nominal":
        charts.insert(0, curve_view(curve, [(plan.tau, promise)]))
    if len(charts) == 1:
        return charts[0]
    bare = [_without_config(chart) for chart in charts]
    return altair().hconcat(*bare).resolve_scale(color="independent").configure_view(stroke=None)


def _without_config(chart: Any) -> Any:
    copy = chart.copy()
    copy.config = altair().Undefined
    copy.usermeta = altair().Undefined
    return copy


def record_view(record: Record) -> Any:
    """Chart of one run: what each evaluated policy promises, or the realised returns where no law is known."""
    label = str(record.settings.get("learner", "learner"))
    episodes = np.arange(1, record.returns.size + 1, dtype=float)
    words = Words("")
    if record.optimum is None:
        smooth = _blocks(record.returns)
        x = np.linspace(1, record.returns.size, smooth.size)
        curve = Curve(label, x, smooth, smooth, smooth)
        return curves_chart([curve], title="Realised returns", y_title="mean return of a block of episodes")
    values = record.quantile(record.tau)
    best = record.optimum.quantile(record.tau)
    curve = Curve(label, episodes, values, values, values)
    return curves_chart(
        [curve],
        title="What the policy in force promises",
        y_title=promise_axis(record.tau, words),
        references=[("best possible", best)],
    )


def _blocks(returns: Any, count: int = 100) -> Any:
    parts = np.array_split(np.asarray(returns, dtype=float), min(count, len(returns)))
    return np.array([part.mean() for part in parts])


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; ImportError with the remedy if pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas; install it with: pip install pandas, or use rows()") from None
    return pandas.DataFrame(list(rows))


def comparison_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One row per statistic, one column per plan."""
    names = [f"{i + 1}. {plan.objective}" for i, plan in enumerate(comparison.plans)]
    return [
        {"statistic": row["statistic"], **dict(zip(names, row["values"], strict=True))} for row in comparison.rows()
    ]


def comparison_frame(comparison: Comparison) -> Any:
    """Plans beside each other as a pandas DataFrame."""
    return frame(comparison_rows(comparison))


def mdp_rows(mdp: MDP) -> list[dict[str, Any]]:
    """One row per outcome of a model, with its names."""
    fixed = mdp.stationary and len(mdp.reward) == 1
    rows = []
    for h in range(1 if fixed else mdp.H):
        for s in range(mdp.S):
            for a in range(mdp.A):
                where: dict[str, Any] = {} if fixed else {"stage": h + 1}
                where |= {"state": mdp.state_label(s), "action": mdp.action_label(a)}
                for t, p, r in zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True):
                    rows.append(where | {"next_state": mdp.state_label(t), "probability": p, "reward": r})
    return rows


def html_table(rows: Sequence[Mapping[str, Any]], caption: str = "") -> str:
    """A small HTML table; of a long one the first rows."""
    titles, cells = displayed(Table(rows[:MAX_ROWS]))
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
    more = f" The first {MAX_ROWS} of {len(rows)} rows." if len(rows) > MAX_ROWS else ""
    said = f"<caption>{escape(caption + more)}</caption>" if caption or more else ""
    return f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def facts_html(title: str, facts: Mapping[str, Any]) -> str:
    """A name and a few facts."""
    return html_table([{"": key, title: value} for key, value in facts.items()])


def law_html(law: Law) -> str:
    """Summary of a law."""
    levels = {f"{tau:g}-quantile": law.quantile(tau) for tau in (0.05, 0.1, 0.5, 0.9)}
    return facts_html("Law", {"atoms": len(law), "mean": law.mean(), **levels})


def mdp_html(mdp: MDP) -> str:
    """Summary of a problem."""
    facts = {"states": mdp.S, "actions": mdp.A, "stages": mdp.H, "discount": mdp.discount}
    return facts_html("MDP", {**facts, "transitions": int(mdp.successor.size)})


def plan_html(plan: Plan) -> str:
    """Summary of a plan."""
    facts: dict[str, Any] = {"objective": plan.objective, "value": plan.value, "upper bound": plan.upper}
    facts |= {"certain": plan.certain, "mean": plan.mean, "policy": plan.policy.kind}
    if plan.beta == 0.0:
        facts["meaning"] = f"in {runs(plan.tau)} at least {number(plan.value, 4)}"
    return facts_html("Plan", facts)


def curve_html(curve: GuaranteeCurve) -> str:
    """The best quantile at common levels."""
    levels = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)
    return html_table([{"level": tau, "best quantile": curve(tau)} for tau in levels])


def comparison_html(comparison: Comparison) -> str:
    """The laws of several plans beside each other."""
    return html_table(comparison_rows(comparison))


def record_html(record: Record) -> str:
    """Summary of a run."""
    facts = {key: record.settings.get(key) for key in ("learner", "tau", "seed")}
    facts |= {"episodes": record.returns.size, "mean return": float(record.returns.mean())}
    if record.optimum is not None:
        facts |= {"cumulative gap": float(record.gap().sum())}
    return facts_html("Record", facts)


def policy_html(policy: Policy) -> str:
    """Summary of a policy."""
    return facts_html(type(policy).__name__, {"stages": policy.H, "states": policy.S, "table": "policy.table(mdp)"})
