"""`bqrl fit`: from logged episodes to a policy whose promise holds with a stated confidence."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, Title, column_names, finish, paper, print_json, say, show_table
from bqrl.logs.fit import fit as estimate_from
from bqrl.results.estimates import FILES, fit_document, fit_result
from bqrl.results.result import Result, check_folder, write

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
    title: Title = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Find a policy from logged episodes, and what it guarantees with a stated confidence."""
    if out is not None:
        check_folder(out, FILES)
    asked: dict[str, Any] = {
        "columns": column_names(columns), "horizon": horizon, "discount": discount, "start": start, "stationary": stationary,
        "support": support, "reward_range": _range(reward_range), "ends": ends, "reward_by": reward_by,
    }  # fmt: skip
    estimate = estimate_from(log, confidence, **asked)
    promise = estimate.solve(tau)
    settings = {"log": str(log), "tau": tau, "confidence": confidence, **asked}
    content = fit_document(estimate, promise)
    result = fit_result(content, title or log.name, settings, estimate, promise, draw=out is not None)
    if out is not None:
        write(result, out)
    if as_json:
        print_json(result.details)
    else:
        show(result)
    if out is not None:
        finish(result, out, quiet=as_json)


def _range(text: str | None) -> tuple[float, float] | None:
    """Two numbers from "LO,HI"."""
    if text is None:
        return None
    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--reward-range must be two numbers LO,HI, got {text!r}; write e.g. 0,1") from None
    return low, high


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
