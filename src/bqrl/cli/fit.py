"""`bqrl fit`: from logged episodes to a policy whose promise holds with a stated confidence."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Note, Out, StageName, Title, Unit, conclude
from bqrl.cli.params import column_names, read_value
from bqrl.cli.problem import given_words
from bqrl.logs.fit import fit as estimate_from
from bqrl.planners.plan import check_levels
from bqrl.results.estimates import FILES, fit_document, fit_result
from bqrl.results.result import check_folder
from bqrl.results.words import PLAIN, Words

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
    unit: Unit = None,
    stage_name: StageName = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Find a policy from logged episodes, and what it guarantees with a stated confidence."""
    words = given_words(title or log.name, unit, stage_name, PLAIN)
    check_levels(tau, 0.0)  # before the log is read
    check_folder(out, FILES)
    asked: dict[str, Any] = {
        "columns": column_names(columns), "horizon": horizon, "discount": discount, "start": start, "stationary": stationary,
        "support": support, "reward_range": read_value(reward_range or "none"), "ends": ends, "reward_by": reward_by,
    }  # fmt: skip
    estimate = estimate_from(log, confidence, **asked)
    promise = estimate.solve(tau)
    settings = {"log": str(log), "tau": tau, "confidence": confidence, **asked}
    content = fit_document(estimate, promise, words)
    result = fit_result(content, words, settings, estimate, promise, draw=out is not None)
    table = result.tables["policies"]
    lines = [*(line.text for line in result.lines), Note(table.caption), *_notes(content, words)]
    conclude(result.details, lambda _: result, out, as_json=as_json, table=table, lines=lines)


def _notes(content: Mapping[str, Any], words: Words) -> list[str]:
    """What limits the promise, and what more data would promise."""
    rows, found = content["limits"], list[str]()
    if rows:
        target = words.amount(f"{rows[0]['target']:.6g}")
        found.append(f"What limits the promise (share of the probability of missing {target}):")
    for row in rows[:SHOWN]:
        stage = "" if row["stage"] is None else f"{words.stage} {row['stage']}, "
        visits = f"{words.count('visit', row['visits'])}, costs {row['cost']:.3g}"
        found.append(Note(f"{stage}state {row['state']}, action {row['action']}: {visits}"))
    for one in content["projection"]:
        value = words.amount(f"{one['value']:.6g}")
        found.append(f"Projection, not a promise: {value} with {one['factor']} times the data.")
    return found
