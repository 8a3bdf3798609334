"""`bqrl fit`: from logged episodes to a policy whose promise holds with a stated confidence."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bqrl.cli.output import Json, paper, say

if TYPE_CHECKING:
    from bqrl.logs.estimate import Estimate

SHOWN = 5  # limiting rows printed


def fit(
    log: Annotated[Path, typer.Argument(metavar="LOG", help="A .csv, .csv.gz or .parquet file, one row per step.")],
    tau: Annotated[float, typer.Option(help="Quantile level in (0, 1).")],
    confidence: Annotated[float, typer.Option(help="Probability with which the promise holds.")] = 0.95,
    columns: Annotated[str | None, typer.Option(help="Headers with other names: state=condition,action=drug.")] = None,
    stationary: Annotated[bool, typer.Option("--stationary", help="The kernel is the same at every stage.")] = False,
    horizon: Annotated[int | None, typer.Option(help="Number of stages; by default the longest episode.")] = None,
    discount: Annotated[float, typer.Option(help="Stage factor in (0, 1].")] = 1.0,
    start: Annotated[str | None, typer.Option(help="Known first state.")] = None,
    reward_range: Annotated[str | None, typer.Option(help="Lowest and highest reward of one step: LO,HI.")] = None,
    reward_by: Annotated[str | None, typer.Option(help="state-action: rewards depend on these alone.")] = None,
    support: Annotated[str | None, typer.Option(help="states: the log shows every state that can occur.")] = None,
    ends: Annotated[str | None, typer.Option(help="What shorter episodes are: terminal or truncated.")] = None,
    as_json: Json = False,
) -> None:
    """Find a policy from logged episodes, and what it guarantees with a stated confidence."""
    from bqrl.logs.estimate import fit as estimate_from

    estimate = estimate_from(
        log, confidence, columns=_headers(columns), horizon=horizon, discount=discount, start=start, stationary=stationary,
        support=support, reward_range=_range(reward_range), ends=ends, reward_by=reward_by,
    )  # fmt: skip
    content = document(estimate, tau) | {"log": str(log)}
    if as_json:
        typer.echo(json.dumps(content, indent=2, allow_nan=False))
    else:
        show(content)


def _headers(text: str | None) -> dict[str, str] | None:
    """Headers by role from "state=condition,action=drug"."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    wrong = next((role + sign + header for role, sign, header in pairs if not sign or not header.strip()), None)
    if wrong is not None:
        raise ValueError(f"--columns must hold ROLE=HEADER pairs, got {wrong!r}; write e.g. state=condition")
    return {role.strip(): header.strip() for role, _, header in pairs}


def _range(text: str | None) -> tuple[float, float] | None:
    """Two numbers from "LO,HI"."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--reward-range must be two numbers LO,HI, got {text!r}; write e.g. 0,1") from None
    return low, high


def document(estimate: Estimate, tau: float) -> dict[str, Any]:
    """The result as plain data; a number that does not exist is None."""
    promise, plug_in = estimate.solve(tau), estimate.plug_in(tau)
    logged = (
        estimate.logged(tau) if estimate.returns.size else {"value": math.nan, "lower": math.nan, "upper": math.nan}
    )
    limits = estimate.limits(tau)
    return {
        "tau": tau,
        "confidence": estimate.confidence,
        "policies": [
            {"policy": "logging policy", **{key: _finite(value) for key, value in logged.items()}, "note": "estimate"},
            {"policy": "plug-in plan", "value": _finite(plug_in.value), "note": "not a promise"},
            {"policy": "robust plan", "value": _finite(promise.value), "note": "promise"},
        ],
        "sentence": promise.notes[0],
        "useful": not estimate.trivial(promise.value),
        "reason": None if not estimate.trivial(promise.value) else reason(estimate, limits),
        "coverage": estimate.coverage(),
        "limits": limits,
        "projection": [one | {"value": _finite(one["value"])} for one in estimate.projection(tau)],
        "assumptions": list(estimate.assumptions),
    }


def reason(estimate: Estimate, limits: list[dict[str, Any]]) -> str:
    """Why no useful promise is possible, in one line."""
    if not limits:
        return f"the law of the first state is known only up to a mass of {estimate.start_error():.3g}; give --start"
    row = limits[0]
    stage = "" if row["stage"] is None else f" at stage {row['stage']}"
    return f"action {row['action']!r} in state {row['state']!r}{stage} was tried only {row['visits']} times"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def show(content: dict[str, Any]) -> None:
    """Print the three policies, the sentence, the coverage and what limits the promise."""
    from rich import box
    from rich.table import Table

    console = paper()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, title_justify="left")
    for title in ("policy", f"{content['tau']:g}-quantile", "meaning"):
        table.add_column(title, justify="right" if "quantile" in title else "left")
    for row in content["policies"]:
        meaning = row["note"]
        if "lower" in row:
            ends = [("?" if row[end] is None else f"{row[end]:.6g}") for end in ("lower", "upper")]
            meaning = f"between {ends[0]} and {ends[1]} with {100 * content['confidence']:g} % confidence"
        table.add_row(row["policy"], "none" if row["value"] is None else f"{row['value']:.6g}", meaning)
    console.print(table)
    console.print()
    say(console, content["sentence"])
    if not content["useful"]:
        say(console, f"No useful promise is possible: {content['reason']}.")
    seen = content["coverage"]
    say(
        console,
        f"Coverage: {seen['episodes']} episodes, {seen['steps']} steps, {seen['rows_seen']} of {seen['rows']} rows seen, "
        f"median {seen['median_visits']:g} visits.",
    )
    if content["limits"]:
        say(
            console,
            f"What limits the promise (share of the probability of missing {content['limits'][0]['target']:.6g}):",
        )
    for row in content["limits"][:SHOWN]:
        stage = "" if row["stage"] is None else f"stage {row['stage']}, "
        what = f"{stage}state {row['state']}, action {row['action']}: {row['visits']} visits, costs {row['cost']:.3g}"
        say(console, what, indent="  ")
    for one in content["projection"]:
        value = "none" if one["value"] is None else f"{one['value']:.6g}"
        say(console, f"Projection, not a promise: {value} with {one['factor']} times the data.", style="dim")
