"""`bqrl bench`: the benchmark scripts of a checkout."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.checks import choice
from bqrl.cli.output import Json, Out, print_json
from bqrl.results.result import Result, Table, check_folder, write


def bench(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Scripts to run; all unless given.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run the benchmarks of a checkout: they time and print, and assert nothing."""
    scripts = benchmark_scripts(names or [])
    check_folder(out, ["times.csv", *(f"{script.stem}.txt" for script in scripts)])
    runs = [_run(script, quiet=as_json) for script in scripts]
    if out is not None:
        times = Table([{key: run[key] for key in ("name", "code", "seconds")} for run in runs], {"code": "exit code"})
        files = {f"{run['name']}.txt": run["output"].encode() for run in runs}
        write(
            Result(
                kind="benchmarks",
                title="Benchmarks",
                settings={},
                tables={"times": times},
                charts={},
                sentences=[],
                files=files,
            ),
            out,
        )
    if as_json:
        print_json({"benchmarks": runs})
    failed = [run["name"] for run in runs if run["code"] != 0]
    if failed:
        typer.echo(f"bqrl: failed: {', '.join(failed)}", err=True)
        raise typer.Exit(1)


def benchmark_scripts(names: list[str]) -> list[Path]:
    """The scripts of these names, or all; ValueError where the package was installed without them."""
    root = Path(__file__).resolve().parents[3]
    paths = sorted((root / "benchmarks").glob("[!_]*.py")) if (root / "pyproject.toml").is_file() else []
    if not paths:
        raise ValueError("there are no benchmarks here: they come with a checkout of the source, not with the package")
    scripts = {path.stem: path for path in paths}
    return [scripts[choice(name.removesuffix(".py"), "NAME", scripts)] for name in names or scripts]


def _run(script: Path, *, quiet: bool) -> dict[str, Any]:
    """Output, exit code and time of a script; lines are passed on as they come unless `quiet`."""
    if not quiet:
        typer.echo(f"== {script.stem}")
    begun, lines = time.perf_counter(), []
    with subprocess.Popen(
        [sys.executable, "-u", str(script)], cwd=script.parents[1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, encoding="utf-8", errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if not quiet:
                typer.echo(line, nl=False)
    output = "".join(lines)
    seconds = time.perf_counter() - begun
    return {"name": script.stem, "code": process.returncode, "seconds": seconds, "output": output}
