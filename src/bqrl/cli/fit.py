"""`bqrl fit`: from logged episodes to a policy whose promise holds with a stated confidence."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, Title, finish, paper, print_json, say, show_table
from bqrl.logs.estimate import Estimate
from bqrl.logs.fit import fit as estimate_from
from bqrl.planners.plan import Plan
from bqrl.results.result import Result, Table, check_folder, write

SHOWN = 5  # limiting rows printed
FILES = ("policies.csv", "limits.csv", "projection.csv", "rows.csv", "estimate.npz", "policy.npz")


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
    title: Title = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Find a policy from logged episodes, and what it guarantees with a stated confidence."""
    if out is not None:
        check_folder(out, FILES)
    asked: dict[str, Any] = {
        "columns": _headers(columns), "horizon": horizon, "discount": discount, "start": start, "stationary": stationary,
        "support": support, "reward_range": _range(reward_range), "ends": ends, "reward_by": reward_by,
    }  # fmt: skip
    estimate = estimate_from(log, confidence, **asked)
    promise = estimate.solve(tau)
    content = document(estimate, promise)
    settings = {"log": str(log), "tau": tau, "confidence": confidence, **asked}
    result = fit_result(content | {"settings": settings}, title or log.name, estimate, promise)
    if out is not None:
        write(result, out)
    if as_json:
        print_json(result.details)
    else:
        show(result)
    finish([], out, quiet=as_json)


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


def document(estimate: Estimate, promise: Plan) -> dict[str, Any]:
    """The result as plain data."""
    tau, trivial = promise.tau, estimate.trivial(promise.value)
    none: dict[str, Any] = {"lower": None, "upper": None}
    logged = estimate.logged(tau) if estimate.returns.size else {"value": None, **none}
    limits = estimate.limits(tau)
    return {
        "policies": [
            {"policy": "logging policy", **logged, "meaning": "estimate with an interval"},
            {"policy": "plug-in plan", "value": estimate.plug_in(tau).value, **none, "meaning": "not a promise"},
            {"policy": "robust plan", "value": promise.value, **none, "meaning": "promise"},
        ],
        "sentence": promise.notes[0],
        "useful": not trivial,
        "reason": reason(estimate, tau, limits) if trivial else None,
        "coverage": estimate.coverage(),
        "limits": limits,
        "projection": estimate.projection(tau),
        "assumptions": list(estimate.assumptions),
    }  # fmt: skip


def fit_result(content: dict[str, Any], title: str, estimate: Estimate, promise: Plan) -> Result:
    """The result as tables, sentences and files."""
    settings, seen = content["settings"], content["coverage"]
    quantile = f"{settings['tau']:g}-quantile"
    sentences = [content["sentence"]]
    if not content["useful"]:
        sentences.append(f"No useful promise is possible: {content['reason']}.")
    sentences.append(
        f"Coverage: {seen['episodes']} episodes, {seen['steps']} steps, {seen['rows_seen']} of {seen['rows']} rows seen, "
        f"median {seen['median_visits']:g} visits."
    )
    with tempfile.TemporaryDirectory() as folder:
        estimate.save(Path(folder) / "estimate.npz")
        promise.policy.save(Path(folder) / "policy.npz")
        files = {name: (Path(folder) / name).read_bytes() for name in ("estimate.npz", "policy.npz")}
    target = f"{content['limits'][0]['target']:.6g}" if content["limits"] else ""
    limits = [{key: value for key, value in row.items() if key != "target"} for row in content["limits"]]
    tables = {
        "policies": Table(content["policies"], {"value": quantile}, "The logging policy, the plug-in plan and the robust plan."),
        "limits": Table(limits, {"cost": f"share of missing {target}"}, "The rows whose uncertainty costs most."),
        "projection": Table(content["projection"], {"value": quantile}, "A projection for more data, not a promise."),
        "rows": Table(estimate.rows(), {"radius": "l1 radius"}, "Visits and radii of the rows that the log shows."),
    }  # fmt: skip
    return Result("fit", title, settings, tables, {}, sentences, details=content, files=files)


def reason(estimate: Estimate, tau: float, limits: list[dict[str, Any]]) -> str:
    """Why no useful promise is possible, in one line."""
    if estimate.start_error() >= tau:
        return f"the law of the first state is known only up to a mass of {estimate.start_error():.3g}; give --start"
    if not limits:
        return "in some state that is reached no action was tried, or the empirical model itself promises no more"
    row = limits[0]
    stage = "" if row["stage"] is None else f" at stage {row['stage']}"
    return f"action {row['action']!r} in state {row['state']!r}{stage} was tried only {row['visits']} times"


def show(result: Result) -> None:
    """Print the three policies, the sentences, and what limits the promise."""
    console = paper()
    show_table(console, result.tables["policies"])
    console.print()
    for sentence in result.sentences:
        say(console, str(sentence))
    rows = result.details["limits"]
    if rows:
        say(console, f"What limits the promise (share of the probability of missing {rows[0]['target']:.6g}):")
    for row in rows[:SHOWN]:
        stage = "" if row["stage"] is None else f"stage {row['stage']}, "
        what = f"{stage}state {row['state']}, action {row['action']}: {row['visits']} visits, costs {row['cost']:.3g}"
        say(console, what, indent="  ")
    for one in result.details["projection"]:
        say(console, f"Projection, not a promise: {one['value']:.6g} with {one['factor']} times the data.", style="dim")
