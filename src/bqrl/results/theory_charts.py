"""The charts of the theory experiments, drawn from the tables of each experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bqrl.results.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    RED,
    Curve,
    Selector,
    altair,
    by_label,
    chosen,
    csv_data,
    lines,
    with_title,
)  # fmt: skip

RHO = "\N{GREEK SMALL LETTER RHO}"
BOUNDS = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}
LOG = {"x": {"type": "log"}, "y": {"type": "log"}}
DASHES = [[1, 0], [6, 3], [2, 2]]

Found = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def _column(rows: Rows, name: str) -> Any:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _of_case(rows: Rows, case: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The rows of one case of an experiment."""
    return [row for row in rows if (row["problem"], row["tau"]) == (case["problem"], case["tau"])]


def _case_labels(cases: Rows) -> list[str]:
    return [f"{case['label']}, τ = {case['tau']:g}" for case in cases]


def _dashes(field: str, names: Sequence[str]) -> Any:
    """One dash pattern per name."""
    scale = {"domain": list(names), "range": DASHES[: len(names)]}
    return altair().StrokeDash(f"{field}:N", title=None, scale=scale, legend={"orient": "bottom"})


def coverage_chart(found: Found, title: str) -> Any:
    """Share of runs whose sets hold, by the factor on the radii; the theoretical radii are at 1."""
    alt, cases, runs = altair(), found["tables"]["coverage"], found["tables"]["coverage_runs"]
    labels, top = _case_labels(cases), max(1.15, 1.05 * max(row["largest_ratio"] for row in runs))
    curves = []
    for label, case in zip(labels, cases, strict=True):
        ratios = np.sort(_column(_of_case(runs, case), "largest_ratio"))
        curves.append(Curve(label, np.r_[0.0, ratios, top], np.r_[np.arange(ratios.size + 1) / ratios.size, 1.0]))
    scales = {"x": {"domain": [0, top]}, "y": {"domain": [0, 1]}}
    titles = ("factor on the theoretical radii", "share of runs inside in every episode")
    drawn = lines(curves, *titles, scales=scales, colours=PALETTE[: len(cases)], step=True)
    label, colour = by_label(labels, PALETTE[: len(cases)])
    marks = [
        [k, 1.0 + 0.02 * (k - 1), *(case[key] for key in ("share", "low", "high"))] for k, case in enumerate(cases)
    ]
    ends = alt.Chart(csv_data(["k", "x", "y", "low", "high"], marks)).transform_calculate(line=label)
    promise = alt.Chart(csv_data(["y"], [[cases[0]["promised"]]])).mark_rule(strokeDash=[4, 2])
    layers = [
        *drawn.layers,
        ends.mark_rule(strokeWidth=2).encode(x=drawn.x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        ends.mark_point(filled=True, size=50).encode(
            x=drawn.x, y=drawn.y, color=colour, tooltip=["y:Q", "low:Q", "high:Q"]
        ),
        promise.encode(y=drawn.y),
    ]
    note = (
        f"{cases[0]['runs']} runs of {found['episodes']} episodes per problem. At 1: the theoretical radii, with"
        f" {found['confidence']:.0%} intervals. Dashed: the promise, {cases[0]['promised']:g}."
    )
    return with_title(alt.layer(*layers), title, note)


def bounds_chart(found: Found, title: str) -> Any:
    """Measured regret under the bounds, drawn up to where they become informative."""
    alt, selectors = altair(), [Selector("which", "problem", _case_labels(found["cases"]))]
    names = {key.replace(" ", "_"): name for key, name in BOUNDS.items()} | {"trivial": "trivial: T H"}
    curves, runs = [], []
    for i, case in enumerate(found["cases"]):
        own = _of_case(found["tables"]["bounds_lines"], case)
        T = _column(own, "episodes")
        curves += [Curve(name, T, _column(own, key), view=(i,)) for key, name in names.items()]
        runs += [
            [i, row["episodes"], row["regret"], row["regret_most"]]
            for row in _of_case(found["tables"]["bounds"], case)
            if row["statement"] == "ours" and row["regret"] > 0.0
        ]
    colours = [ORANGE, RED, GREEN, GREY]
    drawn = lines(curves, "episodes T", "regret", selectors=selectors, scales=LOG, colours=colours)
    points = alt.Chart(csv_data(["which", "x", "y", "most"], runs)).transform_filter(chosen(selectors))
    layers = [
        *drawn.layers,
        points.mark_rule(color=BLUE, strokeWidth=2).encode(x=drawn.x, y=drawn.y, y2="most:Q"),
        points.mark_point(color=BLUE, filled=True, size=60).encode(
            x=drawn.x, y=drawn.y, tooltip=["x:Q", "y:Q", "most:Q"]
        ),
    ]
    note = "Blue: measured regret, mean to largest over the runs. A bound is informative where it lies below the trivial one."
    return with_title(alt.layer(*layers), [title] * len(found["cases"]), note, selectors=selectors)


def _regret_layers(rows: Rows, x: str, x_title: str, y_title: str, bounds: Mapping[str, str]) -> list[Any]:
    """Regret of every learner with a band of one standard error, and the bounds (names by column) as grey lines."""
    curves = []
    for learner in dict.fromkeys(row["learner"] for row in rows):
        own = [row for row in rows if row["learner"] == learner and row["regret"] > 0.0]
        y, error = _column(own, "regret"), _column(own, "error")
        curves.append(Curve(learner, _column(own, x), y, np.maximum(y - error, 0.1 * y), y + error))
    drawn = lines(curves, x_title, y_title, scales=LOG)
    first = [row for row in rows if row["learner"] == rows[0]["learner"]]
    edges = [[name, row[x], row[key]] for key, name in bounds.items() for row in first]
    edge = altair().Chart(csv_data(["bound", "x", "y"], edges, texts=("bound",))).mark_line(color=GREY)
    return [*drawn.layers, edge.encode(x=drawn.x, y=drawn.y, strokeDash=_dashes("bound", list(bounds.values())))]


def hard_chart(found: Found, title: str) -> Any:
    """Regret at T = A / rho^2 against rho, with the lower bound."""
    rows = [row | {"inverse": 1.0 / row["rho"]} for row in found["tables"]["hard"]]
    bounds = {"lower_bound": "lower bound", "most": "always wrong"}
    layers = _regret_layers(rows, "inverse", f"1 / {RHO}", f"mean regret at T = A / {RHO}²", bounds)
    size = f"τ = {found['tau']:g}, {found['actions']} actions, {found['horizon']} stages"
    note = f"{size}; mean over runs with each action the best one; band: one standard error."
    return with_title(altair().layer(*layers), title, note)


def growth_chart(found: Found, title: str) -> Any:
    """Regret in long runs at one rho, with the flat lower bound and the logarithmic upper bound of UCB1."""
    alt = altair()
    bounds = {"lower_bound": "lower bound", "ucb1_upper_bound": "proven for UCB1", "most": "always wrong"}
    layers = _regret_layers(found["tables"]["hard_growth"], "episodes", "episodes T", "mean regret", bounds)
    scale = alt.Chart(csv_data(["x"], [[found["scale"]]])).mark_rule(strokeDash=[2, 2], color=GREY).encode(x="x:Q")
    note = (
        f"Hard family, {RHO} = {found['growth_rho']:g}; mean over runs with each action the best one; band: one standard error."
        f" Vertical line: A / {RHO}²."
    )
    return with_title(alt.layer(*layers, scale), title, note)


def buffer_chart(found: Found, title: str) -> Any:
    """Both buffering gaps by buffer, with plateau and margin."""
    alt, selectors = altair(), [Selector("which", "problem", _case_labels(found["cases"]))]
    curves, edges = [], []
    for i, case in enumerate(found["cases"]):
        rows = _of_case(found["tables"]["buffer"], case)
        low, high, beta = (_column(rows, name) for name in ("one_sided_low", "one_sided_high", "beta"))
        curves.append(Curve("best policy", beta, high, low, high, (i,)))
        if rows[0]["two_sided"] is not None:
            curves.append(Curve("any policy", beta, _column(rows, "two_sided"), view=(i,)))
        clear = _of_case(found["tables"]["buffer_clears"], case)[0]
        places = ((f"margin {RHO}*", clear["margin"]), (f"plateau {RHO}τ", clear["plateau_high"]))
        edges += [[i, name, place] for name, place in places if place >= beta[0] / 1.1]
    names = list(dict.fromkeys(curve.label for curve in curves))
    axes = ("buffer β", "return lost to the buffer")
    drawn = lines(curves, *axes, selectors=selectors, scales={"x": LOG["x"]}, colours=[BLUE, ORANGE][: len(names)])
    rules = alt.Chart(csv_data(["which", "edge", "x"], edges, texts=("edge",))).transform_filter(chosen(selectors))
    layers = [
        *drawn.layers,
        rules.mark_rule(strokeDash=[3, 3]).encode(x=drawn.x),
        rules.mark_text(angle=270, align="right", dx=-4, dy=-6).encode(x=drawn.x, y=alt.value(0), text="edge:N"),
    ]
    note = f"Dotted: the margin {RHO}* and the plateau {RHO}τ. Shaded: between the proven ends of a gap."
    return with_title(alt.layer(*layers), [title] * len(found["cases"]), note, selectors=selectors)


def knapsack_chart(found: Found, title: str) -> Any:
    """Possible returns by horizon: histories, full support, lattice."""
    alt, table = altair(), found["tables"]["knapsack"]
    kinds = {"support": "returns", "lattice": "lattice", "histories": "histories"}
    names = list(dict.fromkeys(row["weights"] for row in table))
    rows = [
        ["histories" if kind == "histories" else row["weights"], kind, row["horizon"], row[key]]
        for row in table
        for key, kind in kinds.items()
        if row[key] is not None and (kind != "histories" or row["weights"] == names[0])
    ]
    colours = {"domain": [*names, "histories"], "range": [*PALETTE[: len(names)], GREY]}
    chart = alt.Chart(csv_data(["weights", "kind", "horizon", "points"], rows, texts=("weights", "kind"))).mark_line()
    chart = chart.encode(
        x=alt.X("horizon:Q"),
        y=alt.Y("points:Q", title="number of points", scale=LOG["y"]),
        color=alt.Color("weights:N", title=None, scale=colours, legend={"orient": "top"}),
        strokeDash=_dashes("kind", list(kinds.values())),
        tooltip=["weights:N", "kind:N", "horizon:Q", "points:Q"],
    )
    note = (
        "Knapsack-like rewards. Solid: returns that can occur; dashed: the lattice that holds them; dotted: histories."
    )
    return with_title(chart, title, note)
