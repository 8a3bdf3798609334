"""`bqrl bench`: the benchmark scripts of a clone, by default the table that compares with other tools and with goals.

With --json the lines of the table are added to benchmarks/history.jsonl, one line of that file per run, and each of them gets the
ratio of the run before, so that a regression shows.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

import bqrl
from bqrl.checks import choice
from bqrl.cli.output import Command, warn
from bqrl.errors import ArgumentError
from bqrl.results.result import Result, ResultTable, Shown, check_folder

TABLE, HISTORY = "table", "history.jsonl"
NAMES = f"Benchmarks to run, or all. By default {TABLE}: bqrl beside other tools and its goals; --json adds it to {HISTORY}."


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Run the benchmarks of a clone and print what they measure."""

    names: Annotated[list[str] | None, Argument(metavar="NAME", help=NAMES)] = None

    def run(self) -> None:
        """Run the scripts one after the other; without --json, their output is shown as it comes."""
        root, runs = Path(__file__).resolve().parents[3], list[dict[str, Any]]()
        scripts = {path.stem: path for path in sorted((root / "benchmarks").glob("[!_]*.py"))}
        if not scripts or not (root / "pyproject.toml").is_file():
            raise ArgumentError("there are no benchmarks here; run bqrl bench in a clone of the source")
        names = self.names or [TABLE if TABLE in scripts else "all"]
        names = [*scripts] if names == ["all"] else names
        chosen = [choice(name.removesuffix(".py"), "NAME", scripts) for name in names]
        check_folder(self.out, "benchmarks", ["times.csv", *(f"{name}.txt" for name in chosen)])
        screen = io.StringIO() if self.as_json else None
        for name in chosen:
            typer.echo(f"== {name}", screen)
            begun, output = time.perf_counter(), ""
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "rows.json"
                command = [sys.executable, "-u", str(scripts[name]), *(["--rows", str(place)] if name == TABLE else [])]
                with subprocess.Popen(
                    command, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8",
                    errors="replace",
                ) as process:  # fmt: skip
                    for line in process.stdout or ():
                        output += line
                        typer.echo(line, screen, nl=False)
                run = {
                    "name": name, "code": process.returncode, "seconds": time.perf_counter() - begun, "output": output
                }  # fmt: skip
                if place.exists() and self.as_json:
                    run["lines"] = remember(
                        root / "benchmarks" / HISTORY, json.loads(place.read_text(encoding="utf-8"))
                    )
            runs.append(run)
        times = ResultTable(
            [{key: run[key] for key in ("name", "code", "seconds")} for run in runs], titles={"code": "exit code"}
        )
        files = {f"{run['name']}.txt": run["output"].encode() for run in runs}
        result = Result(kind="benchmarks", title="Benchmarks", tables={"times": times}, files=files)
        self.conclude(Shown({"benchmarks": runs}, result, tables=[times]))
        if failed := [run["name"] for run in runs if run["code"] != 0]:
            warn(f"failed: {', '.join(failed)}")
            raise typer.Exit(1)


def remember(path: Path, lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the lines of a table to its history; return them with `before`, their ratios in the last run that had them."""
    earlier = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    known: dict[Any, Any] = {}
    for text in earlier:
        known |= {(line["what"], line["size"]): line["ratio"] for line in json.loads(text)["lines"]}
    entry = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "version": bqrl.__version__, "lines": lines}
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
    return [line | {"before": known.get((line["what"], line["size"]))} for line in lines]
