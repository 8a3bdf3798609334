"""`bqrl bench`: the benchmark scripts of a clone."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument

from bqrl.checks import choice
from bqrl.cli.output import Command, warn
from bqrl.errors import ArgumentError
from bqrl.results.result import Result, ResultTable, check_folder


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Run the benchmarks of a clone and print what they measure."""

    names: Annotated[list[str] | None, Argument(metavar="[NAME]...", help="Scripts to run; by default all.")] = None

    def run(self) -> None:
        """Run the scripts one after the other; without --json, their output is shown as it comes."""
        root, runs = Path(__file__).resolve().parents[3], list[dict[str, Any]]()
        scripts = {path.stem: path for path in sorted((root / "benchmarks").glob("[!_]*.py"))}
        if not scripts or not (root / "pyproject.toml").is_file():
            raise ArgumentError("there are no benchmarks here; run bqrl bench in a clone of the source")
        chosen = [choice(name.removesuffix(".py"), "NAME", scripts) for name in self.names or scripts]
        check_folder(self.out, "benchmarks", ["times.csv", *(f"{name}.txt" for name in chosen)])
        screen = io.StringIO() if self.as_json else None
        for name in chosen:
            typer.echo(f"== {name}", screen)
            begun, output = time.perf_counter(), ""
            with subprocess.Popen(
                [sys.executable, "-u", str(scripts[name])], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                text=True, encoding="utf-8", errors="replace",
            ) as process:  # fmt: skip
                for line in process.stdout or ():
                    output += line
                    typer.echo(line, screen, nl=False)
            seconds = time.perf_counter() - begun
            runs.append({"name": name, "code": process.returncode, "seconds": seconds, "output": output})
        times = ResultTable(
            [{key: run[key] for key in ("name", "code", "seconds")} for run in runs], titles={"code": "exit code"}
        )
        files = {f"{run['name']}.txt": run["output"].encode() for run in runs}
        result = Result(kind="benchmarks", title="Benchmarks", tables={"times": times}, files=files)
        self.conclude({"benchmarks": runs}, result, tables=[times])
        if failed := [run["name"] for run in runs if run["code"] != 0]:
            warn(f"failed: {', '.join(failed)}")
            raise typer.Exit(1)
