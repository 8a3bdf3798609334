"""Buffer: the cost of a buffer by its width, and the episode from which each schedule has no cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl import theory
from bqrl.display import format_number
from bqrl.errors import SizeError
from bqrl.papers.ucb_bqrl.theory import experiment as base
from bqrl.papers.ucb_bqrl.theory.experiment import RHO
from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.results.words import list_words
from bqrl.study.settings import Settings

LEAST_SHARE = 1e-3  # buffers below this share of tau are not examined


class BufferSettings(Settings):
    """Buffering gaps by buffer, and the episode from which each schedule has none."""

    points: base.AtLeast3
    powers: base.Levels
    cases: base.Cases


def _run(own: BufferSettings, context: base.Context) -> dict[str, Any]:
    """Return the tables and facts of the experiment."""
    gaps, clears, cases = base.Rows(), base.Rows(), base.Rows()
    for case in context.watch.track(own.cases, "buffering gaps"):
        (mdp, head), named, tau = context.model(case), case.model_dump(), case.tau
        rho, margin = theory.plateau_bounds(mdp, tau), theory.optimal_margin(mdp, tau)
        edges = np.array([rho.upper, margin])
        least = max(edges.min() / 2.0, LEAST_SHARE * tau)
        betas = np.r_[np.geomspace(least, tau, own.points), edges[edges > least]]  # including the corners of the curves
        beta = np.unique(np.minimum(betas, tau))
        one = theory.one_sided_gap(mdp, tau, beta)
        try:
            two = theory.buffering_gap(mdp, tau, beta)
        except SizeError:
            two = [None] * beta.size
        low, high = one.lower(beta), one.upper(beta)
        gaps += base.rows_of(named, beta=beta, two_sided=two, one_sided_low=low, one_sided_high=high)
        schedules = {"log": log_buffer(tau)} | {f"power {a:g}": power_buffer(tau, a) for a in own.powers}
        for name, schedule in schedules.items():
            at_margin, at_plateau = (theory.buffer_horizon(tau, edge, schedule) for edge in (margin, rho.upper))
            clears.append({
                **named, "schedule": name, "margin": margin, "episodes_until_margin": float(at_margin),
                "plateau_low": rho.lower, "plateau_high": rho.upper, "episodes_until_plateau_high": float(at_plateau),
            })  # fmt: skip
        cases.append({**head, "plateau_reason": rho.reason})
    return {"tables": {"buffer": gaps, "buffer_clears": clears}, "cases": cases}


def _headline(found: base.Found) -> str:
    """Return the main result as a sentence."""
    cases = [row for row in found["tables"]["buffer_clears"] if row["schedule"] == "log"]
    times = format_number(min(row["margin"] / row["plateau_high"] for row in cases), 2)
    episodes = list_words([base.rough(row["episodes_until_margin"]) for row in cases])
    return (
        f"Up to the margin {RHO}*, at least {times} times the plateau {RHO}τ, a buffer costs the best policy nothing; the"
        f" logarithmic schedule reaches the margin after {episodes} episodes"
    )


def _charts(found: base.Found, finding: str) -> dict[str, Any]:
    """Return a chart of both buffering gaps by buffer."""
    cases, curves = base.by_case(found["cases"], found["tables"]["buffer"]), []
    for i, (_, rows) in enumerate(cases):
        ends = ("one_sided_high", "one_sided_low", "one_sided_high")
        curves.append(base.curve("best policy", rows, "beta", *ends, view=(i,)))
        if rows[0]["two_sided"] is not None:
            curves.append(base.curve("any policy", rows, "beta", "two_sided", view=(i,)))
    note = f"The best policy loses nothing up to the margin {RHO}*, any policy up to the plateau {RHO}τ. Band: proven ends."
    axes = "buffer β", "return lost to the buffer"
    return {"buffer": base.chart(finding, note, curves, *axes, log="x", cases=cases)}


CAPTIONS = {
    "buffer": "Cost of a buffer: to the best policy (one-sided, bracketed) and to any policy (two-sided).",
    "buffer_clears": "The episode from which each buffer schedule is below the margin and below the plateau.",
}
NOTE = f"The paper requires the buffer to fall below {RHO}τ, of which proven bounds are known; it suffices to reach {RHO}*."
BUFFER = base.TheoryExperiment(
    settings=BufferSettings, run=_run, headline=_headline, charts=_charts, captions=CAPTIONS, notes=[NOTE],
)  # fmt: skip
