"""The hard family of Theorem 2: regret at T = A / rho^2 for decreasing rho, and its growth in long runs.

The lower bound holds for the average over the best action, so each action is the best one in an equal number of runs. Runs
with the same best action and index use the same random numbers for every learner.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Annotated, Any

import numpy as np
from pydantic import Field, model_validator

from bqrl import theory
from bqrl.display import format_number
from bqrl.learners.run import Run
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.papers.ucb_bqrl.theory import experiment as base
from bqrl.papers.ucb_bqrl.theory.experiment import RHO
from bqrl.results.charts import GREY
from bqrl.results.learning_curves import learner_colours
from bqrl.results.words import list_words, two_decimals
from bqrl.study.scores import Contender
from bqrl.study.settings import Count, Level, Settings, Text, check_distinct, try_all

Exponent = tuple[float, float] | tuple[None, None]  # an exponent and its standard error; None if it cannot be fitted
AtLeast2 = Annotated[int, Field(ge=2)]
# Name and colour of each bound in the charts, by column.
BOUNDS = {
    "lower_bound": ("lower bound", "#BBBBBB"),
    "ucb1_upper_bound": ("proven for UCB1", "#666666"),
    "most": ("always wrong", GREY),
}


class LearnerSettings(Settings):
    """A learner with its parameters."""

    learner: Text
    label: Text
    params: base.Params


class HardSettings(Settings):
    """The hard family for decreasing rho, and long runs at one rho."""

    tau: Level
    actions: AtLeast2
    horizon: AtLeast2
    rhos: base.Levels
    runs: Count
    learners: Annotated[tuple[LearnerSettings, ...], Field(min_length=1)]
    growth_rho: Level
    growth_factor: Annotated[float, Field(gt=1.0, lt=1e6)]
    growth_runs: AtLeast2
    growth_points: base.AtLeast3

    @model_validator(mode="after")
    def _check(self) -> HardSettings:
        """Build every problem and learner, so that an error is raised before the first run."""
        check_distinct([one.label for one in self.learners])
        for rho in (*self.rhos, self.growth_rho):
            mdp = theory.hard_instance(self.tau, rho, self.actions, self.horizon)
        try_all(
            (f"learners[{i}]", partial(Run, mdp, one.learner, self.tau, 1, 0, **one.params))
            for i, one in enumerate(self.learners)
        )
        return self


def _run(own: HardSettings, context: base.Context) -> dict[str, Any]:
    """Return the tables and facts of the experiment."""
    A, scale = own.actions, own.actions / own.growth_rho**2
    T = round(own.growth_factor * scale)
    at = np.unique(np.geomspace(min(50, T), T, own.growth_points).round()).astype(np.int64)
    points, growth, slopes = base.Rows(), base.Rows(), base.Rows()
    for one in own.learners:
        context.watch.phase(f"hard family: {one.label}", A * (own.runs * len(own.rhos) + own.growth_runs))
        here = base.Rows()
        for k, rho in enumerate(own.rhos):
            here += _measure(own, context, one, rho, own.runs, (3, k), np.array([round(A / rho**2)]))[0]
        rows, regrets = _measure(own, context, one, own.growth_rho, own.growth_runs, (4,), at)
        points += [{key: row[key] for key in row if key != "ucb1_upper_bound"} for row in here]
        growth += [{key: row[key] for key in row if key not in ("rho", "lower_rate")} for row in rows]
        exponents = *power_of_rho(here), *growth_exponent(at, regrets, scale)
        names = (f"exponent_of_{x}{y}" for x in ("inverse_rho", "episodes") for y in ("", "_error"))
        slopes.append({"learner": one.label, **dict(zip(names, exponents, strict=True))})
    learners = [one.model_dump() for one in own.learners]
    return {
        "tables": {"hard": points, "hard_growth": growth, "hard_slopes": slopes}, "tau": own.tau, "learners": learners,
        "actions": A, "horizon": own.horizon, "growth_rho": own.growth_rho, "scale": scale,
    }  # fmt: skip


def _measure(
    own: HardSettings, context: base.Context, one: LearnerSettings, rho: float, runs: int, place: tuple[int, ...], at: IntArray,
) -> tuple[base.Rows, FloatArray]:  # fmt: skip
    """Return mean regret and bounds after each number of episodes `at`, and all regrets (best action, run, len(at))."""
    tau, A, H, rows, regrets = own.tau, own.actions, own.horizon, base.Rows(), []
    for best in range(A):
        mdp = theory.hard_instance(tau, rho, A, H, best)
        records = context.records(runs, (*place, best), mdp, one.learner, tau, int(at[-1]), one.params)
        regrets.append([np.cumsum(record.gap(tau))[at - 1] for record in records])
    for j, n in enumerate(at.tolist()):
        mean, error = average(np.array(regrets)[:, :, j])
        below, above = theory.hard_lower_bound(tau, rho, A, H, n), bandit_upper_bound(rho, A, H, n)
        rows.append({
            "learner": one.label, "rho": rho, "episodes": n, "regret": mean, "error": error, "lower_bound": below.direct,
            "lower_rate": below.rate, "ucb1_upper_bound": above, "most": (H - 1.0) * n,
        })  # fmt: skip
    return rows, np.array(regrets)


def average(regrets: FloatArray) -> tuple[float, float]:
    """Return the mean over best actions and runs (A, n), and its standard error with the actions as strata."""
    A, n = regrets.shape
    error = float(np.sqrt((regrets.var(axis=1, ddof=1) / n).sum()) / A) if n > 1 else 0.0
    return float(regrets.mean()), error


def bandit_upper_bound(rho: float, A: int, H: int, T: int) -> float:
    """Return the regret bound of UCB1 on the hard family; it is logarithmic in T, so Theorem 2 cannot hold for all T.

    By Auer, Cesa-Bianchi and Fischer (2002), Theorem 1, an arm with gap 2 rho is chosen at most
    8 log(T) / (2 rho)^2 + 1 + pi^2 / 3 times in expectation, at a cost of H - 1 each.
    """
    return (H - 1) * (A - 1) * (2.0 * math.log(T) / rho**2 + 1.0 + math.pi**2 / 3.0)


def loglog_slope(x: FloatArray | IntArray, y: FloatArray, error: FloatArray | None = None) -> tuple[float, float]:
    """Return the exponent with which y > 0 grows in x > 0, by least squares on logarithms, and its standard error.

    If the standard errors of y are given, points are weighted by their relative precision, and these errors determine the
    error of the exponent. Otherwise the scatter around the line determines it, which requires three points.
    """
    u, v, weight = np.log(x), np.log(y), np.ones(len(x)) if error is None else (y / error) ** 2
    centre = (weight @ u) / weight.sum()
    scale = weight @ (u - centre) ** 2
    slope = float(weight @ ((u - centre) * v) / scale)
    level = (weight @ (v - slope * u)) / weight.sum()
    spread = 1.0 if error is not None else float(np.sum((v - level - slope * u) ** 2)) / (len(x) - 2)
    return slope, math.sqrt(spread / scale)


def power_of_rho(points: Sequence[base.Found]) -> Exponent:
    """Return the exponent a of regret ~ (1 / rho)^a, from the points with positive regret.

    Runs at different rho are independent, so the errors of the points determine the error of the exponent. If one of them is
    zero (all runs are equal), the scatter around the line determines it.
    """
    positive = [(1.0 / point["rho"], point["regret"], point["error"]) for point in points if point["regret"] > 0.0]
    scattered = min((error for *_, error in positive), default=0.0) > 0.0
    if len(positive) < (2 if scattered else 3):
        return None, None
    x, y, error = np.array(positive).T
    return loglog_slope(x, y, error if scattered else None)


def growth_exponent(at: IntArray, curves: FloatArray, scale: float) -> Exponent:
    """Return the exponent a of regret ~ T^a beyond `scale` episodes: 1 if a learner is stuck, near 0 if regret is logarithmic.

    The points of one run are dependent, so the standard error is computed by the jackknife over runs.
    """
    beyond = at >= scale
    if beyond.sum() < 3:
        return None, None
    n, late = curves.shape[1], curves[:, :, beyond]

    def slope(some: FloatArray) -> float:
        mean = some.mean(axis=1).mean(axis=0)
        return loglog_slope(at[beyond], mean)[0] if np.all(mean > 0.0) else np.nan

    whole = slope(late)
    left_out = np.array([slope(np.delete(late, j, axis=1)) for j in range(n)])
    if not np.isfinite(whole) or not np.all(np.isfinite(left_out)):
        return None, None
    return float(whole), float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))


def _headline(found: base.Found) -> str:
    """Return the main results as sentences."""
    return ". ".join(_titles(found).values())


def _titles(found: base.Found) -> dict[str, str]:
    """Return the title of each chart: the main result that it shows."""
    long = [row for row in found["tables"]["hard_growth"] if row["episodes"] >= found["scale"]]
    lowest = min(row["regret"] / row["lower_bound"] for row in [*found["tables"]["hard"], *long])
    powers: dict[str, list[str]] = {}  # learners by exponent, smallest exponent first
    for row in sorted(found["tables"]["hard_slopes"], key=lambda row: row["exponent_of_episodes"] or 0.0):
        if row["exponent_of_episodes"] is not None:
            powers.setdefault(two_decimals(row["exponent_of_episodes"]), []).append(row["learner"])
    ends = [
        f"T^{power} ({list_words(powers[power])})" for power in dict.fromkeys([*list(powers)[:1], *list(powers)[-1:]])
    ]
    return {
        "hard": f"From T = A / {RHO}² on, mean regret is at least {format_number(lowest, 2)} times the proven lower bound",
        "hard_growth": f"In long runs, mean regret grows like {' to '.join(ends) or 'no power that can be fitted'}",
    }


def _charts(found: base.Found, _: str) -> dict[str, Any]:
    """Return charts of regret at T = A / rho^2 by rho, and of regret in long runs by episodes, each with its bounds."""
    size = f"τ = {found['tau']:g}, {found['actions']} actions, {found['horizon']} stages"
    long = f"{size}, {RHO} = {found['growth_rho']:g}, A / {RHO}² = {format_number(found['scale'])}"
    by_rho = [row | {"inverse": 1.0 / row["rho"]} for row in found["tables"]["hard"]]
    parts = {
        "hard": (size, by_rho, "inverse", f"1 / {RHO}", f"mean regret at T = A / {RHO}²"),
        "hard_growth": (long, found["tables"]["hard_growth"], "episodes", "episodes T", "mean regret"),
    }
    colours = learner_colours(Contender(**one) for one in found["learners"]) | dict(BOUNDS.values())
    averaged = "mean over runs with each action the best one; band: one standard error."
    titles, charts = _titles(found), {}
    for stem, (head, rows, x, *axes) in parts.items():
        curves = []
        for learner, own in groupby(rows, itemgetter("learner")):
            positive = [(row, row["regret"], row["error"]) for row in own if row["regret"] > 0.0]
            band = [row | {"low": max(y - error, 0.1 * y), "high": y + error} for row, y, error in positive]
            curves.append(base.curve(learner, band, x, "regret", "low", "high"))
        first = [row for row in rows if row["learner"] == rows[0]["learner"]]
        curves += [base.curve(label, first, x, name) for name, (label, _) in BOUNDS.items() if name in first[0]]
        charts[stem] = base.chart(titles[stem], f"{head}; {averaged}", curves, *axes, log="xy", colours=colours)
    return charts


CAPTIONS = {
    "hard": f"Regret on the hard family by {RHO} at T = A / {RHO}²; error: standard error of the mean.",
    "hard_growth": "Regret in long runs on the hard family; error: standard error of the mean.",
    "hard_slopes": "Fitted exponents with their standard errors.",
}
NOTE = "If the runs of a learner are either stuck or quick, a few of them determine its mean and its exponents."
HARD = base.TheoryExperiment(
    settings=HardSettings, run=_run, headline=_headline, charts=_charts, captions=CAPTIONS, notes=[NOTE],
)  # fmt: skip
