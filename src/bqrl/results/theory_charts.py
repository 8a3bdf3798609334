"""The charts of the theory experiments; each takes the plain numbers of its experiment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bqrl.results.charts import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PALETTE,
    RED,
    Selector,
    altair,
    chosen,
    csv_data,
    with_title,
)

Found = Mapping[str, Any]
RHO = "\N{GREEK SMALL LETTER RHO}"


def theory_charts(found: Mapping[str, Found], titles: Mapping[str, str]) -> dict[str, Any]:
    """The charts of some experiments by name, under the given titles."""
    return {stem: draw(one, titles[stem]) for name, one in found.items() for stem, draw in CHARTS[name].items()}


def _colour(field: str, names: list[str], colours: list[str] | None = None) -> Any:
    alt = altair()
    scale = alt.Scale(domain=names, range=colours or [*PALETTE, *PALETTE][: len(names)])
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=2, labelLimit=260))


def _cases(found: Found) -> Selector:
    return Selector("which", "problem", [f"{case['label']}, τ = {case['tau']:g}" for case in found["cases"]])


def coverage_chart(found: Found, title: str) -> Any:
    """Share of runs whose sets hold, by the factor on the radii; the theoretical radii are at 1."""
    alt, rows, marks = altair(), [], []
    top = max(1.15, *(max(case["ratios"]) * 1.05 for case in found["cases"]))
    for i, case in enumerate(found["cases"]):
        ratios = np.sort(case["ratios"])
        share = np.arange(1, ratios.size + 1) / ratios.size
        points = zip([0.0, *ratios.tolist(), top], [0.0, *share.tolist(), 1.0], strict=True)
        rows += [[case["label"], x, y] for x, y in points]
        marks.append([case["label"], 1.0 + 0.02 * (i - 1), case["share"], case["low"], case["high"]])
    colour = _colour("problem", [case["label"] for case in found["cases"]])
    x = alt.X("factor:Q", title="factor on the theoretical radii", scale=alt.Scale(domain=[0, top], nice=False))
    y = alt.Y("share:Q", title="share of runs inside in every episode", scale=alt.Scale(domain=[0, 1]))
    steps = alt.Chart(csv_data(["problem", "factor", "share"], rows, texts=("problem",)))
    ends = alt.Chart(csv_data(["problem", "factor", "share", "low", "high"], marks, texts=("problem",)))
    promised = found["cases"][0]["promised"]
    layers = [
        steps.mark_line(interpolate="step-after").encode(x=x, y=y, color=colour),
        ends.mark_rule(strokeWidth=2).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        ends.mark_point(filled=True, size=50).encode(
            x=x, y=y, color=colour, tooltip=["problem:N", "share:Q", "low:Q", "high:Q"]
        ),
        alt.Chart(csv_data(["share"], [[promised]])).mark_rule(strokeDash=[4, 2]).encode(y=y),
    ]
    note = (
        f"{found['cases'][0]['runs']} runs of {found['episodes']} episodes per problem. At 1: the theoretical radii, with"
        f" {found['confidence']:.0%} intervals. Dashed: the promise, {promised:g}."
    )
    return with_title(alt.layer(*layers), title, note)


def bounds_chart(found: Found, title: str) -> Any:
    """Measured regret under the bounds, drawn up to where they become informative."""
    alt, selectors = altair(), [_cases(found)]
    names = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}
    rows, runs = [], []
    for i, case in enumerate(found["cases"]):
        for key, values in (*case["bounds"].items(), ("trivial: T H", case["trivial"])):
            rows += [[i, names.get(key, key), T, float(y)] for T, y in zip(case["episodes"], values, strict=True)]
        runs += [[i, p["episodes"], p["regret"], p["regret_most"]] for p in case["points"] if p["regret"] > 0.0]
    colour = _colour("bound", [*names.values(), "trivial: T H"], [ORANGE, RED, GREEN, GREY])
    x = alt.X("episodes:Q", title="episodes T", scale=alt.Scale(type="log"))
    y = alt.Y("regret:Q", title="regret", scale=alt.Scale(type="log"))
    lines = alt.Chart(csv_data(["which", "bound", "episodes", "regret"], rows, texts=("bound",))).transform_filter(
        chosen(selectors)
    )
    points = alt.Chart(csv_data(["which", "episodes", "regret", "most"], runs)).transform_filter(chosen(selectors))
    layers = [
        lines.mark_line().encode(x=x, y=y, color=colour, tooltip=["bound:N", "episodes:Q", "regret:Q"]),
        points.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, y=y, y2="most:Q"),
        points.mark_point(color=BLUE, filled=True, size=60).encode(
            x=x, y=y, tooltip=["episodes:Q", "regret:Q", "most:Q"]
        ),
    ]
    note = "Blue: measured regret, mean to largest over the runs. A bound is informative where it lies below the trivial one."
    return with_title(alt.layer(*layers), [title] * len(found["cases"]), note, selectors=selectors)


def hard_chart(found: Found, title: str) -> Any:
    """Regret at T = A / rho^2 against rho, with the lower bound."""
    alt, labels = altair(), [one["label"] for one in found["learners"]]
    rows = [
        [
            one["label"],
            1.0 / p["rho"],
            p["regret"],
            max(p["regret"] - p["error"], 0.1 * p["regret"]),
            p["regret"] + p["error"],
        ]
        for one in found["learners"]
        for p in one["points"]
        if p["regret"] > 0.0
    ]
    bounds = [["lower bound", 1.0 / rho, y] for rho, y in zip(found["rhos"], found["lower"], strict=True)]
    bounds += [["always wrong", 1.0 / rho, y] for rho, y in zip(found["rhos"], found["most"], strict=True)]
    x = alt.X("inverse:Q", title=f"1 / {RHO}", scale=alt.Scale(type="log", nice=False, padding=10))
    y = alt.Y("regret:Q", title=f"mean regret at T = A / {RHO}²", scale=alt.Scale(type="log"))
    colour = _colour("learner", labels)
    base = alt.Chart(csv_data(["learner", "inverse", "regret", "low", "high"], rows, texts=("learner",)))
    edge = alt.Chart(csv_data(["bound", "inverse", "regret"], bounds, texts=("bound",)))
    dashes = alt.StrokeDash("bound:N", title=None, legend=alt.Legend(orient="bottom"))
    layers = [
        base.mark_line(point=True).encode(x=x, y=y, color=colour, tooltip=["learner:N", "inverse:Q", "regret:Q"]),
        base.mark_rule().encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        edge.mark_line(color=GREY).encode(x=x, y=y, strokeDash=dashes),
    ]
    note = (
        f"τ = {found['tau']:g}, {found['actions']} actions, {found['horizon']} stages; mean over runs with each action the best"
        " one; bars: one standard error."
    )
    return with_title(alt.layer(*layers), title, note)


def growth_chart(found: Found, title: str) -> Any:
    """Regret in long runs at one rho, with the flat lower bound and the logarithmic upper bound of UCB1."""
    alt, growth, labels = altair(), found["growth"], [one["label"] for one in found["learners"]]
    rows = []
    for one in found["learners"]:
        for T, y, error in zip(growth["episodes"], one["growth"]["regret"], one["growth"]["error"], strict=True):
            rows += [[one["label"], T, y, max(y - error, 0.1 * y), y + error]] if y > 0.0 else []
    bounds = [
        [name, T, y]
        for name, key in (("lower bound", "lower"), ("proven for UCB1", "upper"), ("always wrong", "most"))
        for T, y in zip(growth["episodes"], growth[key], strict=True)
    ]
    x = alt.X("episodes:Q", title="episodes T", scale=alt.Scale(type="log", nice=False))
    y = alt.Y("regret:Q", title="mean regret", scale=alt.Scale(type="log"))
    colour = _colour("learner", labels)
    base = alt.Chart(csv_data(["learner", "episodes", "regret", "low", "high"], rows, texts=("learner",)))
    edge = alt.Chart(csv_data(["bound", "episodes", "regret"], bounds, texts=("bound",)))
    dashes = alt.StrokeDash("bound:N", title=None, legend=alt.Legend(orient="bottom"))
    layers = [
        base.mark_area(opacity=0.15).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        base.mark_line().encode(x=x, y=y, color=colour, tooltip=["learner:N", "episodes:Q", "regret:Q"]),
        edge.mark_line(color=GREY).encode(x=x, y=y, strokeDash=dashes),
        alt.Chart(csv_data(["episodes"], [[growth["scale"]]])).mark_rule(strokeDash=[2, 2], color=GREY).encode(x=x),
    ]
    note = (
        f"Hard family, {RHO} = {growth['rho']:g}; mean over runs with each action the best one; band: one standard error."
        f" Vertical line: A / {RHO}²."
    )
    return with_title(alt.layer(*layers), title, note)


def buffer_chart(found: Found, title: str) -> Any:
    """Both buffering gaps by buffer, with plateau and margin."""
    alt, selectors = altair(), [_cases(found)]
    rows, edges, kinds = [], [], ["from the best policy", "from any policy"]
    for i, case in enumerate(found["cases"]):
        low, high = case["one_sided_low"], case["one_sided_high"]
        rows += [[i, kinds[0], b, y, x] for b, x, y in zip(case["beta"], low, high, strict=True)]
        rows += [[i, kinds[1], b, y, y] for b, y in zip(case["beta"], case["two_sided"] or [], strict=False)]
        places = ((f"margin {RHO}*", case["margin"]), (f"plateau {RHO}τ", case["plateau"][1]))
        edges += [
            [i, name, place] for name, place in places if case["beta"][0] / 1.1 <= place <= case["beta"][-1] * 1.05
        ]
    x = alt.X("beta:Q", title="buffer β", scale=alt.Scale(type="log"))
    y = alt.Y("cost:Q", title="return that the buffer takes")
    colour = _colour("gap", kinds, [BLUE, ORANGE])
    base = alt.Chart(csv_data(["which", "gap", "beta", "cost", "low"], rows, texts=("gap",))).transform_filter(
        chosen(selectors)
    )
    rules = alt.Chart(csv_data(["which", "edge", "beta"], edges, texts=("edge",))).transform_filter(chosen(selectors))
    layers = [
        base.mark_area(opacity=0.25).encode(x=x, y=y, y2="low:Q", color=colour),
        base.mark_line().encode(x=x, y=y, color=colour, tooltip=["gap:N", "beta:Q", "cost:Q"]),
        rules.mark_rule(strokeDash=[3, 3]).encode(x=x),
        rules.mark_text(angle=270, align="right", dx=-4, dy=-6).encode(x=x, y=alt.value(0), text="edge:N"),
    ]
    note = f"Dotted: the margin {RHO}* and the plateau {RHO}τ. Shaded: between the proven ends of a gap."
    return with_title(alt.layer(*layers), [title] * len(found["cases"]), note, selectors=selectors)


def knapsack_chart(found: Found, title: str) -> Any:
    """Possible returns by horizon: histories, full support, lattice."""
    alt, families = altair(), found["families"]
    rows = [
        ["histories", "histories", h, n] for h, n in zip(families[0]["horizon"], families[0]["histories"], strict=True)
    ]
    for one in families:
        for kind, key in (("returns", "support"), ("lattice", "lattice")):
            rows += [[one["label"], kind, h, n] for h, n in zip(one["horizon"], one[key], strict=True) if n is not None]
    names = [one["label"] for one in families]
    chart = alt.Chart(csv_data(["weights", "kind", "horizon", "points"], rows, texts=("weights", "kind"))).mark_line()
    kinds = ["returns", "lattice", "histories"]
    chart = chart.encode(
        x=alt.X("horizon:Q"),
        y=alt.Y("points:Q", title="number of points", scale=alt.Scale(type="log")),
        color=_colour("weights", [*names, "histories"], [*PALETTE[: len(names)], GREY]),
        strokeDash=alt.StrokeDash(
            "kind:N",
            title=None,
            scale=alt.Scale(domain=kinds, range=[[1, 0], [6, 3], [2, 2]]),
            legend=alt.Legend(orient="bottom"),
        ),
        tooltip=["weights:N", "kind:N", "horizon:Q", "points:Q"],
    )
    note = (
        "Knapsack-like rewards. Solid: returns that can occur; dashed: the lattice that holds them; dotted: histories."
    )
    return with_title(chart, title, note)


CHARTS: dict[str, dict[str, Callable[[Found, str], Any]]] = {
    "coverage": {"coverage": coverage_chart},
    "bounds": {"bounds": bounds_chart},
    "hard": {"hard": hard_chart, "hard_growth": growth_chart},
    "buffer": {"buffer": buffer_chart},
    "knapsack": {"knapsack": knapsack_chart},
}
