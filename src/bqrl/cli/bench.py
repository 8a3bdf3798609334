"""`bqrl bench`: the benchmark scripts of a checkout."""

from __future__ import annotations

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
from bqrl.results.result import Result, Table, check_folder


@dataclass(frozen=True, kw_only=True)
class Bench(Command):
    """Run the benchmarks of a checkout: they time and print, and assert nothing."""

    names: Annotated[list[str] | None, Argument(metavar="[NAME]...", help="Scripts to run; all unless given.")] = None

    def run(self) -> None:
        """Run the scripts one after the other."""
        root = Path(__file__).resolve().parents[3]
        scripts = {path.stem: path for path in sorted((root / "benchmarks").glob("[!_]*.py"))}
        if not scripts or not (root / "pyproject.toml").is_file():
            raise ArgumentError("there are no benchmarks here; they come with a checkout of the source")
        chosen = [choice(name.removesuffix(".py"), "NAME", scripts) for name in self.names or scripts]
        check_folder(self.out, "benchmarks", ["times.csv", *(f"{name}.txt" for name in chosen)])
        runs = [self._time(scripts[name]) for name in chosen]
        times = Table(
            [{key: run[key] for key in ("name", "code", "seconds")} for run in runs], titles={"code": "exit code"}
        )
        files = {f"{run['name']}.txt": run["output"].encode() for run in runs}
        result = Result(
            kind="benchmarks", title="Benchmarks", settings={}, tables={"times": times}, charts={}, sentences=[], files=files
        )  # fmt: skip
        self.conclude({"benchmarks": runs}, result)
        failed = [run["name"] for run in runs if run["code"] != 0]
        if failed:
            warn(f"failed: {', '.join(failed)}")
            raise typer.Exit(1)

    def _time(self, script: Path) -> dict[str, Any]:
        """Output, exit code and time of a script; its lines are passed on as they come, unless JSON is asked for."""
        if not self.as_json:
            typer.echo(f"== {script.stem}")
        begun, lines = time.perf_counter(), list[str]()
        with subprocess.Popen(
            [sys.executable, "-u", str(script)], cwd=script.parents[1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, encoding="utf-8", errors="replace",
        ) as process:  # fmt: skip
            for line in process.stdout or ():
                lines.append(line)
                if not self.as_json:
                    typer.echo(line, nl=False)
        seconds = time.perf_counter() - begun
        return {"name": script.stem, "code": process.returncode, "seconds": seconds, "output": "".join(lines)}
