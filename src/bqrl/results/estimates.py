"""Estimates from logs as a Result: three policies, the promise in words, what limits it, and their charts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bqrl.logs.estimate import Estimate
from bqrl.planners.plan import Plan
from bqrl.results.charts import BLUE, GREY, ORANGE, RED, SKY, altair, joined, tips, with_charts, with_title
from bqrl.results.result import Result, Table, asked_for, chart_files, saved
from bqrl.results.words import number

MAX_ROWS = 1000  # points of the chart of rows
TABLES = ("policies", "gains", "limits", "projection", "rows")
CHARTS = ("promise", "coverage")
FILES = (*(f"{name}.csv" for name in TABLES), "estimate.npz", "policy.npz", *chart_files(CHARTS))
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
) -> Result:
    """The result of a fit.

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
    Result
        Without Altair it has no charts, and `left_out` says so.
    """
    result = Result(
        kind="fit",
        title=title,
        settings=asked_for(settings),
        tables=_tables(content, promise.tau, estimate),
        charts={},
        sentences=_sentences(content),
        details={**content, "settings": dict(settings)},
        files={"estimate.npz": saved(estimate), "policy.npz": saved(promise.policy)},
    )
    return with_charts(result, lambda: fit_charts(content, estimate, promise.tau)) if draw else result


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
    return joined("vconcat", *fit_charts(content, estimate, tau).values())


def fit_charts(content: Mapping[str, Any], estimate: Estimate, tau: float) -> dict[str, Any]:
    """The charts of a fit by name; `content` is what `fit_document` gives."""
    promise = promise_chart(content["policies"], content["projection"], tau)
    return {"promise": promise, "coverage": coverage_chart(estimate, content["limits"])}


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
    x = alt.X("value:Q", title=f"{tau:g}-quantile of the return", scale={"zero": False, "padding": 12})
    y = alt.Y("label:N", title=None, sort=order, axis={"labelLimit": 220, "labelExpr": "split(datum.label, '|')"})
    scale = {"domain": list(COLOURS), "range": list(COLOURS.values())}
    colour = alt.Color("meaning:N", legend=None, scale=scale)
    base = alt.Chart(alt.Data(values=rows))
    shown = tips(("policy:N", "policy"), ("value:Q", "value", ".6~g"), ("meaning:N", "meaning"))
    chart = alt.layer(
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", y=y, color=colour),
        base.mark_point(filled=True, size=110, opacity=1).encode(x=x, y=y, color=colour, tooltip=shown),
        base.mark_text(dy=-12, fontSize=11).encode(x=x, y=y, text=alt.Text("value:Q", format=".5~g")),
    )
    said = "Only the promise holds with the stated confidence. The plug-in plan takes the frequencies as the truth."
    if all(row["meaning"] != PROMISE for row in rows):
        said += " No promise is possible with this log."
    return with_title(chart, "What the log promises", said, 40 * len(rows) + 20)


def coverage_chart(estimate: Estimate, limits: Sequence[Mapping[str, Any]]) -> Any:
    """Visits and radii of the rows; those that limit the promise are marked."""
    alt, limiting, other = altair(), "limits the promise", "other rows"
    rows, listed = estimate.rows(), {(row["stage"], row["state"], row["action"]) for row in limits}
    for row in rows:
        row["kind"] = limiting if (row["stage"], row["state"], row["action"]) in listed else other
    said = "One point per row (state and action) that the log shows. Radius 2: nothing is known; 0: known exactly."
    if len(rows) > MAX_ROWS:
        said += f" {MAX_ROWS} of {len(rows)} rows."
        rows.sort(key=lambda row: (row["kind"] == other, row["visits"]))
        rows = [rows[i] for i in np.unique(np.r_[: len(listed), np.linspace(0, len(rows) - 1, MAX_ROWS).astype(int)])]
    rows.sort(key=lambda row: row["kind"] == limiting)  # drawn last
    named = ("state", "action") if estimate.mdp.stationary else ("state", "action", "stage")
    kinds = {"domain": [other, limiting], "range": [GREY, RED]}
    chart = alt.Chart(alt.Data(values=rows)).mark_point(filled=True, size=45, opacity=0.7).encode(
        x=alt.X("visits:Q", title="visits of the row", scale={"type": "log", "nice": False, "padding": 10}),
        y=alt.Y("radius:Q", title="l1 radius of its ball", scale={"domain": [0, 2]}),
        color=alt.Color("kind:N", title=None, scale=kinds, legend={"orient": "top"} if limits else None),
        tooltip=tips(*((f"{key}:N", key) for key in named), ("visits:Q", "visits"), ("radius:Q", "radius", ".3~g")),
    )  # fmt: skip
    return with_title(chart, "How well each row is known", said)
