"""The charts of the theory experiments, drawn from the tables of each experiment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bqrl.results.charts import BLUE, GREEN, GREY, ORANGE, PALETTE, RED, altair
from bqrl.results.study_charts import Selector, chosen, csv_data, with_title

RHO = "\N{GREEK SMALL LETTER RHO}"
BOUNDS = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}

Found = Mapping[str, Any]
Rows = Sequence[Mapping[str, Any]]


def _chart(rows: Rows, *columns: str) -> Any:
    """A chart of these columns; columns of texts are found by their first value."""
    texts = [name for name in columns if rows and isinstance(rows[0][name], str)]
    return altair().Chart(csv_data(columns, [[row[name] for name in columns] for row in rows], texts))


def _axis(kind: str, field: str, title: str, *, log: bool = False, **scale: Any) -> Any:
    """The encoding of a quantitative axis; `kind` is "X" or "Y"."""
    alt = altair()
    return getattr(alt, kind)(f"{field}:Q", title=title, scale=alt.Scale(**({"type": "log"} if log else {}), **scale))


def _colour(field: str, names: Sequence[str], colours: Sequence[str] = ()) -> Any:
    """One colour per name."""
    alt = altair()
    scale = alt.Scale(domain=list(names), range=list(colours) or [*PALETTE, *PALETTE][: len(names)])
    legend = alt.Legend(orient="top", columns=2, labelLimit=260, symbolOpacity=1)
    return alt.Color(f"{field}:N", title=None, scale=scale, legend=legend)


def _dashes(field: str, names: Sequence[str]) -> Any:
    """One dash pattern per name."""
    alt = altair()
    scale = alt.Scale(domain=list(names), range=[[1, 0], [6, 3], [2, 2]][: len(names)])
    return alt.StrokeDash(f"{field}:N", title=None, scale=scale, legend=alt.Legend(orient="bottom"))


def _selector(found: Found) -> Selector:
    """The list of the cases of an experiment."""
    return Selector("which", "problem", [f"{case['label']}, τ = {case['tau']:g}" for case in found["cases"]])


def _of_cases(found: Found, rows: Rows) -> list[dict[str, Any]]:
    """The rows with the number of their case as column `which`."""
    keys = [(case["problem"], case["tau"]) for case in found["cases"]]
    return [{**row, "which": keys.index((row["problem"], row["tau"]))} for row in rows]


def coverage_chart(found: Found, title: str) -> Any:
    """Share of runs whose sets hold, by the factor on the radii; the theoretical radii are at 1."""
    alt, cases, runs = altair(), found["tables"]["coverage"], found["tables"]["coverage_runs"]
    top = max(1.15, *(1.05 * row["largest_ratio"] for row in runs))
    labels = {(case["problem"], case["tau"]): f"{case['label']}, τ = {case['tau']:g}" for case in cases}
    ends = [{"label": name, "factor": x, "share": y} for name in labels.values() for x, y in ((0.0, 0.0), (top, 1.0))]
    named = [{"label": labels[row["problem"], row["tau"]], "factor": row["largest_ratio"]} for row in runs]
    marks = [
        case | {"label": labels[case["problem"], case["tau"]], "factor": 1.0 + 0.02 * (i - 1)}
        for i, case in enumerate(cases)
    ]
    for name in labels.values():
        own = sorted((row for row in named if row["label"] == name), key=lambda row: row["factor"])
        ends += [row | {"share": k / len(own)} for k, row in enumerate(own, start=1)]
    colour = _colour("label", list(labels.values()))
    x = _axis("X", "factor", "factor on the theoretical radii", domain=[0, top], nice=False)
    y = _axis("Y", "share", "share of runs inside in every episode", domain=[0, 1])
    points = _chart(marks, "label", "factor", "share", "low", "high")
    tips = ["label:N", "share:Q", "low:Q", "high:Q"]
    layers = [
        _chart(ends, "label", "factor", "share").mark_line(interpolate="step-after").encode(x=x, y=y, color=colour),
        points.mark_rule(strokeWidth=2).encode(x=x, y=alt.Y("low:Q"), y2="high:Q", color=colour),
        points.mark_point(filled=True, size=50).encode(x=x, y=y, color=colour, tooltip=tips),
        _chart([{"share": cases[0]["promised"]}], "share").mark_rule(strokeDash=[4, 2]).encode(y=y),
    ]
    note = (
        f"{cases[0]['runs']} runs of {found['episodes']} episodes per problem. At 1: the theoretical radii, with"
        f" {found['confidence']:.0%} intervals. Dashed: the promise, {cases[0]['promised']:g}."
    )
    return with_title(alt.layer(*layers), title, note)


def bounds_chart(found: Found, title: str) -> Any:
    """Measured regret under the bounds, drawn up to where they become informative."""
    selector, names = _selector(found), {key.replace(" ", "_"): name for key, name in BOUNDS.items()}
    names["trivial"] = "trivial: T H"
    rows = [
        {"which": row["which"], "episodes": row["episodes"], "bound": name, "regret": float(row[key])}
        for row in _of_cases(found, found["tables"]["bounds_lines"])
        for key, name in names.items()
    ]
    measured = [row for row in found["tables"]["bounds"] if row["statement"] == "ours" and row["regret"] > 0.0]
    x, y = _axis("X", "episodes", "episodes T", log=True), _axis("Y", "regret", "regret", log=True)
    colour = _colour("bound", list(names.values()), [ORANGE, RED, GREEN, GREY])
    lines = _chart(rows, "which", "bound", "episodes", "regret").transform_filter(chosen([selector]))
    points = _chart(_of_cases(found, measured), "which", "episodes", "regret", "regret_most")
    points, tips = points.transform_filter(chosen([selector])), ["episodes:Q", "regret:Q", "regret_most:Q"]
    layers = [
        lines.mark_line().encode(x=x, y=y, color=colour, tooltip=["bound:N", "episodes:Q", "regret:Q"]),
        points.mark_rule(color=BLUE, strokeWidth=2).encode(x=x, y=y, y2="regret_most:Q"),
        points.mark_point(color=BLUE, filled=True, size=60).encode(x=x, y=y, tooltip=tips),
    ]
    note = "Blue: measured regret, mean to largest over the runs. A bound is informative where it lies below the trivial one."
    return with_title(altair().layer(*layers), [title] * len(found["cases"]), note, selectors=[selector])


def _regret_layers(rows: Rows, field: str, x: Any, y: Any, bounds: Mapping[str, str], *, band: bool) -> list[Any]:
    """Regret of every learner with its standard error, and the bounds (names by column) as grey lines."""
    base = _chart([row for row in rows if row["regret"] > 0.0], "learner", field, "regret", "error")
    base = base.transform_calculate(
        low="max(datum.regret - datum.error, 0.1 * datum.regret)", high="datum.regret + datum.error"
    )
    once = [row for row in rows if row["learner"] == rows[0]["learner"]]
    edges = [{"bound": name, field: row[field], "regret": row[key]} for key, name in bounds.items() for row in once]
    colour = _colour("learner", list(dict.fromkeys(row["learner"] for row in rows)))
    tips = ["learner:N", f"{field}:Q", "regret:Q"]
    error = base.mark_area(opacity=0.15) if band else base.mark_rule()
    dashes = _dashes("bound", list(bounds.values()))
    return [
        error.encode(x=x, y=altair().Y("low:Q"), y2="high:Q", color=colour),
        base.mark_line(point=not band).encode(x=x, y=y, color=colour, tooltip=tips),
        _chart(edges, "bound", field, "regret").mark_line(color=GREY).encode(x=x, y=y, strokeDash=dashes),
    ]


def hard_chart(found: Found, title: str) -> Any:
    """Regret at T = A / rho^2 against rho, with the lower bound."""
    rows = [row | {"inverse": 1.0 / row["rho"]} for row in found["tables"]["hard"]]
    x = _axis("X", "inverse", f"1 / {RHO}", log=True, nice=False, padding=10)
    y = _axis("Y", "regret", f"mean regret at T = A / {RHO}²", log=True)
    layers = _regret_layers(rows, "inverse", x, y, {"lower_bound": "lower bound", "most": "always wrong"}, band=False)
    size = f"τ = {found['tau']:g}, {found['actions']} actions, {found['horizon']} stages"
    note = f"{size}; mean over runs with each action the best one; bars: one standard error."
    return with_title(altair().layer(*layers), title, note)


def growth_chart(found: Found, title: str) -> Any:
    """Regret in long runs at one rho, with the flat lower bound and the logarithmic upper bound of UCB1."""
    x, y = _axis("X", "episodes", "episodes T", log=True, nice=False), _axis("Y", "regret", "mean regret", log=True)
    bounds = {"lower_bound": "lower bound", "ucb1_upper_bound": "proven for UCB1", "most": "always wrong"}
    layers = _regret_layers(found["tables"]["hard_growth"], "episodes", x, y, bounds, band=True)
    scale = _chart([{"episodes": found["scale"]}], "episodes").mark_rule(strokeDash=[2, 2], color=GREY).encode(x=x)
    note = (
        f"Hard family, {RHO} = {found['growth_rho']:g}; mean over runs with each action the best one; band: one standard error."
        f" Vertical line: A / {RHO}²."
    )
    return with_title(altair().layer(*layers, scale), title, note)


def buffer_chart(found: Found, title: str) -> Any:
    """Both buffering gaps by buffer, with plateau and margin."""
    alt, selector, kinds = altair(), _selector(found), {"one_sided_high": "best policy", "two_sided": "any policy"}
    gaps = _of_cases(found, found["tables"]["buffer"])
    rows = [
        {"which": row["which"], "beta": row["beta"], "gap": name, "cost": row[key],
         "low": row["one_sided_low" if key == "one_sided_high" else key]}
        for row in gaps for key, name in kinds.items() if row[key] is not None
    ]  # fmt: skip
    clears = [row for row in found["tables"]["buffer_clears"] if row["schedule"] == "log"]
    edges = [
        {"which": row["which"], "edge": name, "beta": row[key]}
        for row in _of_cases(found, clears)
        for key, name in (("margin", f"margin {RHO}*"), ("plateau_high", f"plateau {RHO}τ"))
        if row[key] >= min(gap["beta"] for gap in gaps if gap["which"] == row["which"]) / 1.1
    ]
    x, y = _axis("X", "beta", "buffer β", log=True, nice=False), alt.Y("cost:Q", title="return lost to the buffer")
    colour = _colour("gap", list(kinds.values()), [BLUE, ORANGE])
    base = _chart(rows, "which", "gap", "beta", "cost", "low").transform_filter(chosen([selector]))
    rules = _chart(edges, "which", "edge", "beta").transform_filter(chosen([selector]))
    layers = [
        base.mark_area(opacity=0.25).encode(x=x, y=y, y2="low:Q", color=colour),
        base.mark_line().encode(x=x, y=y, color=colour, tooltip=["gap:N", "beta:Q", "cost:Q"]),
        rules.mark_rule(strokeDash=[3, 3]).encode(x=x),
        rules.mark_text(angle=270, align="right", dx=-4, dy=-6).encode(x=x, y=alt.value(0), text="edge:N"),
    ]
    note = f"Dotted: the margin {RHO}* and the plateau {RHO}τ. Shaded: between the proven ends of a gap."
    return with_title(alt.layer(*layers), [title] * len(found["cases"]), note, selectors=[selector])


def knapsack_chart(found: Found, title: str) -> Any:
    """Possible returns by horizon: histories, full support, lattice."""
    table, kinds = found["tables"]["knapsack"], {"support": "returns", "lattice": "lattice", "histories": "histories"}
    names = list(dict.fromkeys(row["weights"] for row in table))
    rows = [
        {
            "weights": kind if kind == "histories" else row["weights"],
            "kind": kind,
            "horizon": row["horizon"],
            "points": row[key],
        }
        for row in table
        for key, kind in kinds.items()
        if row[key] is not None and (kind != "histories" or row["weights"] == names[0])
    ]
    chart = (
        _chart(rows, "weights", "kind", "horizon", "points")
        .mark_line()
        .encode(
            x=altair().X("horizon:Q"),
            y=_axis("Y", "points", "number of points", log=True),
            color=_colour("weights", [*names, "histories"], [*PALETTE[: len(names)], GREY]),
            strokeDash=_dashes("kind", list(kinds.values())),
            tooltip=["weights:N", "kind:N", "horizon:Q", "points:Q"],
        )
    )
    note = (
        "Knapsack-like rewards. Solid: returns that can occur; dashed: the lattice that holds them; dotted: histories."
    )
    return with_title(chart, title, note)
