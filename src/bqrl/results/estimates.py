"""Estimates from logs as a Result: three policies, the promise in words, what limits it, and their charts."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.logs.estimate import Estimate
from bqrl.planners.plan import Plan
from bqrl.results.charts import BLUE, GREY, HEIGHT, ORANGE, RED, SKY, WIDTH, altair, image, titled
from bqrl.results.result import Result, Table
from bqrl.results.words import number

MAX_ROWS = 1000  # points of the chart of rows
TABLES = ("policies", "gains", "limits", "projection", "rows")
CHARTS = ("promise", "coverage")
FILES = (
    *(f"{name}.csv" for name in TABLES), "estimate.npz", "policy.npz",
    *(f"{name}.{kind}" for name in CHARTS for kind in ("vl.json", "png", "pdf")),
)  # fmt: skip
PROMISE, CLAIM, LOGGED, LATER = "promise", "not a promise", "estimate with an interval", "projection"
COLOURS = {PROMISE: BLUE, CLAIM: ORANGE, LOGGED: GREY, LATER: SKY}


def fit_document(estimate: Estimate, promise: Plan) -> dict[str, Any]:
    """An estimate and its promise as JSON values: what `bqrl fit --json` prints."""
    tau = promise.tau
    none: dict[str, Any] = {"lower": None, "upper": None}
    logged = estimate.logged(tau) if estimate.returns.size else {"value": None, **none}
    reason = estimate.reason(tau)
    return {
        "policies": [
            {"policy": "logging policy", **logged, "meaning": LOGGED},
            {"policy": "plug-in plan", "value": estimate.plug_in(tau).value, **none, "meaning": CLAIM},
            {"policy": "robust plan", "value": promise.value, **none, "meaning": PROMISE},
        ],
        "sentence": promise.notes[0],
        "useful": reason is None,
        "reason": reason,
        "gains": estimate.gains(tau),
        "coverage": estimate.coverage(),
        "limits": estimate.limits(tau),
        "projection": estimate.projection(tau),
        "assumptions": list(estimate.assumptions),
    }


def fit_result(
    content: Mapping[str, Any],
    title: str,
    settings: Mapping[str, Any],
    estimate: Estimate,
    promise: Plan,
    *,
    draw: bool = True,
) -> tuple[Result, list[str]]:
    """The result of a fit, and one line for each part that is left out.

    Parameters
    ----------
    content
        What `fit_document` gives.
    title, settings
        Of the page.
    estimate, promise
        Written as files, with the policy.
    draw
        Whether to draw the charts.

    Returns
    -------
    Result, list of str
        Without Altair the result has no charts, and a line says so.
    """
    with tempfile.TemporaryDirectory() as folder:
        estimate.save(Path(folder) / "estimate.npz")
        promise.policy.save(Path(folder) / "policy.npz")
        files = {name: (Path(folder) / name).read_bytes() for name in ("estimate.npz", "policy.npz")}
    charts: dict[str, Any] = {}
    left_out = []
    try:
        drawn = (
            {
                "promise": promise_chart(content["policies"], content["projection"], promise.tau),
                "coverage": coverage_chart(estimate, content["limits"]),
            }
            if draw
            else {}
        )
        charts = {name: chart.to_dict() for name, chart in drawn.items()}
        files |= {f"{name}.{kind}": image(spec, kind) for name, spec in charts.items() for kind in ("png", "pdf")}
    except ImportError as fault:
        left_out.append(str(fault))
    asked = {key: value for key, value in settings.items() if value not in (None, False)}
    result = Result(
        "fit", title, asked, _tables(content, promise.tau, estimate), charts, _sentences(content),
        details={**content, "settings": dict(settings)}, files=files,
    )  # fmt: skip
    return result, left_out


def _sentences(content: Mapping[str, Any]) -> list[str]:
    """The promise, why it is useless, what the declarations add, and how much the log shows."""
    found, seen = [content["sentence"]], content["coverage"]
    if content["reason"] is not None:
        found.append(f"No useful promise is possible: {content['reason']}.")
    found += [gain_sentence(gain) for gain in content["gains"]]
    found.append(
        f"Coverage: {seen['episodes']} episodes, {seen['steps']} steps, {seen['rows_seen']} of {seen['rows']} rows seen, "
        f"median {seen['median_visits']:g} visits."
    )
    return found


def gain_sentence(gain: Mapping[str, Any]) -> str:
    """What one declaration adds to the promise.

    >>> gain_sentence({"declaration": "stationary", "without": 14.0, "value": 16.0, "note": ""})
    'Declaring stationary raises the promise from 14 to 16.'
    """
    name = gain["declaration"]
    if gain["without"] is None:
        return f"The promise without {name} cannot be computed: {gain['note']}."
    without, value = (
        "none" if x is None or x == -math.inf else number(float(x), 6) for x in (gain["without"], gain["value"])
    )
    if without == value:
        return f"Declaring {name} does not change the promise ({value})."
    return f"Declaring {name} {'lowers' if gain['value'] < gain['without'] else 'raises'} the promise from {without} to {value}."


def _tables(content: Mapping[str, Any], tau: float, estimate: Estimate) -> dict[str, Table]:
    """The tables of the folder by name."""
    quantile = f"{tau:g}-quantile"
    target = f"{content['limits'][0]['target']:.6g}" if content["limits"] else ""
    limits = [{key: value for key, value in row.items() if key != "target"} for row in content["limits"]]
    found = {
        "policies": Table(content["policies"], {"value": quantile}, "The logging policy, the plug-in plan and the robust plan."),
        "limits": Table(limits, {"cost": f"share of missing {target}"}, "The rows whose uncertainty costs most."),
        "projection": Table(content["projection"], {"value": quantile}, "A projection for more data, not a promise."),
        "rows": Table(estimate.rows(), {"radius": "l1 radius"}, "Visits and radii of the rows that the log shows."),
    }  # fmt: skip
    if content["gains"]:
        titles = {"without": "promise without it", "value": "promise"}
        found["gains"] = Table(content["gains"], titles, "What each declaration adds to the promise.")
    return {name: found[name] for name in TABLES if name in found}


def estimate_view(estimate: Estimate, tau: float | None = None) -> Any:
    """Charts of an estimate: the rows and, at a level, the promise beside other plans."""
    if tau is None:
        return coverage_chart(estimate, [])
    content = fit_document(estimate, estimate.solve(tau))
    charts = [
        promise_chart(content["policies"], content["projection"], tau), coverage_chart(estimate, content["limits"]),
    ]  # fmt: skip
    alt = altair()
    for chart in charts:
        chart.config = alt.Undefined
    return alt.vconcat(*charts).resolve_scale(color="independent").configure_view(stroke=None)


def promise_chart(policies: Sequence[Mapping[str, Any]], projection: Sequence[Mapping[str, Any]], tau: float) -> Any:
    """The promise beside the logging policy, the plug-in plan and projections for more data."""
    alt = altair()
    rows = [dict(row) for row in policies]
    rows += [
        {"policy": f"{one['factor']} times the data", "value": one["value"], "meaning": LATER} for one in projection
    ]
    rows = [row for row in rows if row["value"] is not None and math.isfinite(row["value"])]
    for row in rows:
        ends = {"low": row.pop("lower", None), "high": row.pop("upper", None)}
        row |= {key: row["value"] if x is None or not math.isfinite(x) else x for key, x in ends.items()}
        row["label"] = f"{row['policy']}|{row['meaning'].removesuffix(' with an interval')}"
    order = [row["label"] for row in rows]
    x = alt.X("value:Q", title=f"{tau:g}-quantile of the return", scale=alt.Scale(zero=False, padding=12))
    y = alt.Y("label:N", title=None, sort=order, axis=alt.Axis(labelLimit=220, labelExpr="split(datum.label, '|')"))
    kinds = [kind for kind in COLOURS if any(row["meaning"] == kind for row in rows)]
    colour = alt.Color(
        "meaning:N", legend=None,
        scale=alt.Scale(domain=kinds, range=[COLOURS[kind] for kind in kinds]),
    )  # fmt: skip
    base = alt.Chart(alt.Data(values=rows))
    tips = [alt.Tooltip("policy:N"), alt.Tooltip("value:Q", format=".6~g"), alt.Tooltip("meaning:N")]
    chart = alt.layer(
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        base.mark_point(filled=True, size=110, opacity=1).encode(x=x, y=y, color=colour, tooltip=tips),
        base.mark_text(dy=-12, fontSize=11).encode(x=x, y=y, text=alt.Text("value:Q", format=".5~g")),
    )
    said = "Only the promise holds with the stated confidence. The plug-in plan takes the frequencies as the truth."
    if all(row["meaning"] != PROMISE for row in rows):
        said += " No promise is possible with this log."
    return _finished(chart, "What the log promises", said, 40 * len(rows) + 20)


def coverage_chart(estimate: Estimate, limits: Sequence[Mapping[str, Any]]) -> Any:
    """Visits and radii of the rows; those that limit the promise are marked."""
    alt = altair()
    rows, listed = estimate.rows(), {(row["stage"], row["state"], row["action"]) for row in limits}
    for row in rows:
        row["kind"] = "limits the promise" if (row["stage"], row["state"], row["action"]) in listed else "other rows"
    said = "One point per row (state and action) that the log shows. Radius 2: nothing is known; 0: known exactly."
    if len(rows) > MAX_ROWS:
        said += f" {MAX_ROWS} of {len(rows)} rows."
        rows.sort(key=lambda row: (row["kind"] != "limits the promise", row["visits"]))
        rows = [rows[i] for i in np.unique(np.r_[: len(listed), np.linspace(0, len(rows) - 1, MAX_ROWS).astype(int)])]
    kinds = ["other rows", "limits the promise"]
    rows.sort(key=lambda row: row["kind"] == "limits the promise")  # drawn last
    base = alt.Chart(alt.Data(values=rows))
    named = ("state", "action", "stage") if not estimate.mdp.stationary else ("state", "action")
    tips = [
        *(alt.Tooltip(f"{key}:N") for key in named),
        alt.Tooltip("visits:Q"),
        alt.Tooltip("radius:Q", format=".3~g"),
    ]
    chart = base.mark_point(filled=True, size=45, opacity=0.7).encode(
        x=alt.X("visits:Q", title="visits of the row", scale=alt.Scale(type="log", nice=False, padding=10)),
        y=alt.Y("radius:Q", title="l1 radius of its ball", scale=alt.Scale(domain=[0, 2])),
        color=alt.Color(
            "kind:N", title=None, scale=alt.Scale(domain=kinds, range=[GREY, RED]),
            legend=alt.Legend(orient="top") if limits else None,
        ),
        tooltip=tips,
    )  # fmt: skip
    return _finished(chart, "How well each row is known", said)


def _finished(chart: Any, title: str, subtitle: str, height: int = HEIGHT) -> Any:
    """The chart with its title and size, in the style of the other charts."""
    sized = titled(chart, title, subtitle).properties(width=WIDTH, height=height)
    return sized.configure_view(stroke=None).configure_axis(gridOpacity=0.35, titleFontWeight="normal")
