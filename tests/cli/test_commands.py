"""`bqrl`: commands, exit codes, and errors as one line."""

import inspect
import os
import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated

import pytest
import typer
from helpers import one_line

import bqrl
from bqrl.cli import main
from bqrl.cli.commands import COMMANDS, PANELS, command_of, message_of
from bqrl.cli.output import Command
from bqrl.errors import ArgumentError, SizeError
from bqrl.planners.solve import SOLVERS, find_planner
from bqrl.study.compare import FIRST_SEED


def test_closed_streams_are_no_fault(tiny):
    def leaves(*arguments, **closed):
        line = [sys.executable, "-m", "bqrl", *arguments]
        script = " ".join(f"{stream}>&-" for stream in closed["closed"])
        done = subprocess.run(["sh", "-c", f'"$@" {script}', "sh", *line], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    assert leaves("solve", tiny, "--tau", "0.4", closed=[1]) == (0, "", "")
    assert leaves("envs", closed=[1]) == (0, "", "")
    assert leaves("solve", tiny, "--tau", "4", closed=[2]) == (2, "", "")


def test_signs_that_a_terminal_lacks_do_not_end_a_command(tiny):
    line = [sys.executable, "-m", "bqrl", "solve", tiny, "--tau", "0.4", "--title", "Größe ±"]
    done = subprocess.run(line, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Gr??e ?: ")


SOLVED = {"planner", "radius", "attitude", "randomized", "arithmetic"}
RUN = {"tau", "episodes", "delta", "horizon"}
SAME = [  # a command with only what it requires, the function that it calls, the one that it stands for, and what is compared
    (("solve", "AssetSelling", "--tau", 0.1), "results.solved.guarantee_curve", bqrl.guarantee_curve, {"points", "keep"}),
    (("solve", "AssetSelling", "--tau", 0.1, "--beta", 0.05), "results.solved.solve", bqrl.solve, {*SOLVED, "secondary"}),
    (("solve", "AssetSelling", "--tau", 0.1, "--secondary", "mean"), "results.solved.solve", bqrl.solve, {*SOLVED, "beta"}),
    (("learn", "AssetSelling"), "compare", bqrl.learn, {*RUN, "learner"}),  # not the seed, which is drawn in Python
    (("compare", "AssetSelling"), "compare", bqrl.compare, {*RUN, "seeds", "workers"}),
    (("fit", "log.csv", "--tau", 0.1), "cli.fit.fit", bqrl.fit, set(inspect.signature(bqrl.fit).parameters) - {"log"}),
]  # fmt: skip


@pytest.mark.parametrize(("command", "called", "function", "names"), SAME, ids=[" ".join(map(str, x[0])) for x in SAME])
def test_a_command_and_its_function_have_the_same_defaults(cli, monkeypatch, command, called, function, names):
    seen, signature = {}, inspect.signature(getattr(bqrl, called.rpartition(".")[2]))

    def stop(*arguments, **named):
        call = signature.bind(*arguments, **named)
        call.apply_defaults()
        seen.update(call.arguments | call.arguments.get("options", {}))
        raise ArgumentError("called")

    monkeypatch.setattr(f"bqrl.{called}", stop)
    assert cli(*command) == (2, "", "bqrl: called\n")
    if called == "compare":
        seen["learner"] = seen["learners"][0][1]
        seen["seeds"] = len(seen["seeds"]) if seen["seeds"][0] == FIRST_SEED else seen["seeds"]
    defaults = {name: inspect.signature(function).parameters[name].default for name in names}
    if "planner" in names:  # None is the first planner that solves the objective
        defaults["planner"] = defaults["planner"] or find_planner(SOLVERS, bqrl.Quantile(0.1))
    assert {name: seen[name] for name in names} == defaults
    assert seen.get("options", {}) == {}


def test_unknown_command_is_one_line(cli):
    code, out, err = cli("solv")
    assert (code, out) == (2, "")
    assert one_line(err)
    assert "solve" in err


def test_an_interrupt_is_one_line_and_130(cli, tiny, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bqrl.cli.solve.show_plans", interrupt)
    assert cli("solve", tiny, "--tau", 0.1) == (130, "", "bqrl: interrupted\n")


def test_a_fault_of_ours_is_exit_code_1(cli, tiny, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr("bqrl.cli.solve.show_plans", fail)
    code, out, err = cli("solve", tiny, "--tau", 0.1)
    assert (code, out) == (1, "")
    assert err == "bqrl: unexpected RuntimeError: two lines; BQRL_DEBUG=1 shows the traceback\n"
    monkeypatch.setenv("BQRL_DEBUG", "1")
    with pytest.raises(RuntimeError):
        cli("solve", tiny, "--tau", 0.1)


def test_a_message_names_the_option_of_its_argument():
    assert message_of(ArgumentError("tau must be below 1", name="tau"), "solve") == "--tau must be below 1"
    assert message_of(ArgumentError("--gap must be above 0", name="gap"), "solve") == "--gap must be above 0"
    assert message_of(ArgumentError("c_conf must be above 0", name="c_conf"), "learn") == "c_conf must be above 0"
    assert message_of(SizeError("raise max_bytes", name="max_bytes"), "solve") == "raise --max-memory"
    assert message_of(SizeError("raise max_bytes", name="max_bytes"), "learn") == "raise max_bytes"  # no such option
    noun = "folder must be an existing folder"  # once "an existing --folder"
    assert message_of(ArgumentError(noun, name="folder"), "solve") == f"--{noun}"
    noun = "state must be the name or the number of a state"
    assert message_of(ArgumentError(noun, name="state"), "outlook") == f"--{noun}"
    assert message_of(ArgumentError("no such thing", name="problem"), "solve") == "no such thing"
    assert message_of(ValueError("rows sum to 0.9"), "solve") == "rows sum to 0.9"
    assert message_of(FileNotFoundError(2, "No such file", "x.csv"), "solve") == "x.csv: No such file"


def test_the_fields_of_a_command_and_of_its_bases_are_its_options():
    seen = []

    @dataclass(frozen=True, kw_only=True)
    class Base(Command):
        first: Annotated[str, typer.Argument()]
        second: Annotated[int, typer.Option()] = 3

    @dataclass(frozen=True, kw_only=True)
    class Own(Base):
        """What it does."""

        second: Annotated[int, typer.Option()] = 4
        third: Annotated[float, typer.Option()] = 0.5

        def run(self):
            seen.append(self)

    command = command_of(Own)
    assert (command.name, command.help) == ("own", "What it does.")
    assert [one.name for one in command.params] == ["second", "third", "first", "out", "as_json"]
    command(["x", "--third", "0.1", "--json"], standalone_mode=False)
    assert seen == [Own(first="x", second=4, third=0.1, as_json=True)]


def test_version_and_help(cli):
    assert cli("--version") == (0, f"bqrl {bqrl.__version__}\n", "")
    for arguments in ([], ["--help"], ["-h"]):
        code, out, _ = cli(*arguments)
        assert code == 0
        assert all(name in out for name in ("solve", "envs", "report"))
    assert "--attitude" in cli("solve", "--help")[1]


def test_every_option_in_a_panel_of_the_help_belongs_to_a_command():
    commands = [command_of(getattr(import_module(f"bqrl.cli.{name}"), name.capitalize())) for name in COMMANDS]
    options = {each.name: each.rich_help_panel for command in commands for each in command.params}
    listed = [name for names in PANELS.values() for name in names.split()]
    assert len(listed) == len(set(listed))
    assert set(listed) <= set(options)
    assert options["tau"] == next(iter(PANELS))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_whole_on_a_terminal_of_80_columns(cli, command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = cli(command, "--help")
    assert code == 0
    assert "\N{HORIZONTAL ELLIPSIS}" not in out  # a word that does not fit its column is cut


def test_nothing_heavy_is_imported_before_a_command_runs():
    code = (
        "import sys, bqrl.cli\n"
        "try: bqrl.cli.main(['--version'])\n"
        "except SystemExit as end: assert end.code == 0\n"
        "heavy = {'numba', 'scipy', 'altair', 'jinja2'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_main_leaves_with_the_exit_code():
    done = subprocess.run(
        [sys.executable, "-c", "import bqrl.cli; bqrl.cli.main(['envs'])"], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    as_module = subprocess.run([sys.executable, "-m", "bqrl", "envs"], capture_output=True, text=True)
    assert (as_module.returncode, as_module.stdout) == (0, done.stdout)
    with pytest.raises(SystemExit) as end:
        main(["--nonsense"])
    assert end.value.code == 2
