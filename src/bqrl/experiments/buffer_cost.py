"""Buffer: what a buffer costs by its width, up to where it costs nothing, and from which episode each schedule avoids it."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl import theory
from bqrl.experiments import experiment as base
from bqrl.experiments.experiment import RHO
from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.results.charts import altair
from bqrl.results.words import listed, number
from bqrl.study.settings import Settings

LEAST_SHARE = 1e-3  # of tau: smaller buffers are not examined


class BufferSettings(Settings):
    """Buffering gaps by buffer, and the episode from which each schedule avoids them."""

    points: base.AtLeast3
    powers: base.Levels
    cases: base.Cases


def _run(own: BufferSettings, context: base.Context) -> dict[str, Any]:
    gaps, clears, cases = base.Rows(), base.Rows(), base.Rows()
    for case in context.watch.track(own.cases, "buffering gaps"):
        (mdp, head), named, tau = context.model(case), case.model_dump(), case.tau
        schedules = {"log": log_buffer(tau)} | {f"power {a:g}": power_buffer(tau, a) for a in own.powers}
        rho, margin = theory.plateau_bounds(mdp, tau), theory.optimal_margin(mdp, tau)
        edges = np.array([rho.upper, margin])
        least = max(edges.min() / 2.0, LEAST_SHARE * tau)
        betas = np.r_[np.geomspace(least, tau, own.points), edges[edges > least]]  # with the corners of the curves
        found = theory.gap_profile(mdp, tau, np.minimum(betas, tau), schedules)
        two = [None] * found.beta.size if found.two_sided is None else found.two_sided
        low, high = found.one_sided
        gaps += base.rows_of(named, beta=found.beta, two_sided=two, one_sided_low=low, one_sided_high=high)
        clears += [
            {
                **named, "schedule": schedule, "margin": margin, "episodes_until_margin": at_margin,
                "plateau_low": rho.lower, "plateau_high": rho.upper, "episodes_until_plateau_high": at_plateau,
            }
            for schedule, (at_plateau, at_margin) in found.clears.items()
        ]  # fmt: skip
        cases.append({**head, "plateau_reason": rho.reason})
    return {"tables": {"buffer": gaps, "buffer_clears": clears}, "cases": cases}


def _sentences(found: base.Found) -> list[str]:
    clears = found["tables"]["buffer_clears"]
    cases = [row for row in clears if row["schedule"] == "log"]
    times = [row["margin"] / row["plateau_high"] for row in cases]
    least = "at least " if any(row["plateau_low"] < row["plateau_high"] for row in cases) else ""
    apart = f"{least}{base.between(times)} times the plateau" if max(times) > 1.0 + 1e-9 else "equal to the plateau"
    headline = (
        f"Up to the margin {RHO}*, {apart} {RHO}τ, a buffer costs the best policy nothing; the logarithmic schedule reaches the"
        f" margin after {listed([base.rough(row['episodes_until_margin']) for row in cases])} episodes"
    )
    remarks = []
    for name, rows in base.by_case(found["cases"], clears):
        margin, low, high = (rows[0][key] for key in ("margin", "plateau_low", "plateau_high"))
        known = number(high, 3) if low == high else f"between {number(low, 2)} and {number(high, 3)}"
        when = "; ".join(
            f"{row['schedule']}: {base.rough(row['episodes_until_margin'])}"
            f" ({base.rough(row['episodes_until_plateau_high'], least=low < high)})"
            for row in rows
        )
        until = f"episodes until a schedule is below {RHO}* (below {RHO}τ)"
        remarks.append(f"{name}: {RHO}* = {number(margin, 3)}, {RHO}τ {known}; {until}: {when}.")
    return [headline, *remarks]


def _charts(found: base.Found, title: str) -> dict[str, Any]:
    """Both buffering gaps by buffer, with plateau and margin."""
    best = {"y": "one_sided_high", "low": "one_sided_low", "high": "one_sided_high"}
    labels = {"best policy": best, "any policy": {"y": "two_sided"}}
    axes, scales = ("buffer β", "return lost to the buffer"), {"x": base.LOG["x"]}
    drawn = base.case_lines(found, "buffer", "beta", labels, *axes, scales=scales)
    gaps, clears = (base.by_case(found["cases"], found["tables"][name]) for name in ("buffer", "buffer_clears"))
    edges = [
        [i, name, rows[0][key]]
        for i, (_, rows) in enumerate(clears)
        for name, key in ((f"margin {RHO}*", "margin"), (f"plateau {RHO}τ", "plateau_high"))
        if rows[0][key] >= gaps[i][1][0]["beta"] / 1.1
    ]
    rules = base.marks(drawn, ["which", "edge", "x"], edges, texts=("edge",))
    names = rules.mark_text(angle=270, align="right", dx=-4, dy=-6).encode(y=altair().value(0), text="edge:N")
    note = f"Dashed: the margin {RHO}* and the plateau {RHO}τ. Shaded: between the proven ends of a gap."
    return {"buffer": drawn.chart([title] * len(gaps), note, rules.mark_rule(strokeDash=[3, 3]), names)}


BUFFER = base.Experiment(BufferSettings, _run, _sentences, _charts, {
    "buffer": "Cost of a buffer: to the best policy (one-sided, bracketed) and to any policy (two-sided).",
    "buffer_clears": "The episode from which each schedule of buffers is below the margin and below the plateau.",
})  # fmt: skip
