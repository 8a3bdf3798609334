"""The command `bqrl` with its subcommands, and errors as one line.

Exit codes: 0 success, 1 internal error, 2 invalid input, 130 interrupted.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from inspect import Signature, get_annotations, signature
from io import TextIOWrapper
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from bqrl import __version__
from bqrl.checks import nearest, one_line
from bqrl.errors import ModelWarning

BAD_INPUT = (ValueError, TypeError, OSError, ImportError)  # ImportError: an extra is not installed
COMMANDS = ("solve", "evaluate", "outlook", "fit", "learn", "compare", "reproduce", "theory", "envs", "report", "bench")
# arguments of the library whose option has another name
RENAMED = {
    "max_bytes": "max_memory", "experiment": "only", "policies": "policy", "draws": "psa", "thresholds": "threshold"
}  # fmt: skip
PANELS = {
    "What to plan for": "tau certainty objective beta confidence stage state earned drawn",
    "Trade-offs, errors and rules": "at_least margin secondary off radius attitude randomized rule order",
    "Comparison": "policy below compare",
    "The problem": "horizon start columns rewards discount discount_rate",
    "What may be declared": "stationary reward_range reward_by support ends absorbing known round_rewards adaptive",
    "Posterior draws": "psa cost effect threshold",
    "How it is computed": "planner arithmetic points gap max_nodes max_memory folder precision cluster workers delta",
    "Words": "title unit stage_name run_name return_name state_name action_name",
    "Output": "out as_json table decimal log tensorboard",
}  # the options of a command in its help; all others come first
KINDS = {"float": "a number", "int": "a whole number"}  # expected values, by the first word of pydantic's error type


class LazyCommands(TyperGroup):
    """The commands; a command is imported when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in their order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name."""
        if cmd_name not in COMMANDS:
            ctx.fail(f"there is no command {cmd_name!r}{nearest(cmd_name, COMMANDS)}")
        return command_of(getattr(import_module(f"bqrl.cli.{cmd_name}"), cmd_name.capitalize()))


def command_of(kind: type[Any]) -> Any:
    """Typer command of a class. Its fields are the options, those of the class before those of its bases."""
    hints, parameters = get_type_hints(kind, include_extras=True), signature(kind).parameters
    fields = dict.fromkeys(name for base in kind.__mro__ for name in get_annotations(base))

    def call(**given: Any) -> None:
        kind(**given).run()

    call.__signature__ = Signature([parameters[name].replace(annotation=hints[name]) for name in fields])  # type: ignore[attr-defined]
    call.__annotations__, call.__doc__ = hints, kind.__doc__
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(kind.__name__.lower())(call)
    command: Any = typer.main.get_command(alone)
    places = {name: (place, title) for place, (title, names) in enumerate(PANELS.items()) for name in names.split()}
    options = [each for each in command.params if each.name in places and each.param_type_name == "option"]
    for each in options:
        each.rich_help_panel = places[each.name][1]
    command.params.sort(key=lambda each: places[each.name][0] if each in options else -1)
    return command


app = typer.Typer(
    name="bqrl", cls=LazyCommands,
    help="Plan and learn for quantiles of the total return: the best result that you reach with a certainty of your choice.",
    epilog="Try: bqrl solve AssetSelling --tau 0.1", add_completion=False, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Show the version, or the help if no command is given."""
    if version or context.invoked_subcommand is None:
        typer.echo(f"bqrl {__version__}" if version else context.get_help())
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and exit with its code; SIGTERM has the same effect as Ctrl-C."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without the sign ± shows a question mark
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Exit code of a command line; an error is printed to stderr as one line."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("always", category=ModelWarning)
            warnings.showwarning = lambda message, *_: typer.echo(f"bqrl: {message}", err=True)
            code = app(args=arguments, prog_name="bqrl", standalone_mode=False)
        message = "interrupted" if code == 130 else ""
    except (KeyboardInterrupt, typer.Abort):
        code, message = 130, "interrupted"
    except Exception as fault:
        if os.environ.get("BQRL_DEBUG"):
            raise
        code, message = 2, message_of(fault, *arguments[:1])
        place = next((note for note in getattr(fault, "__notes__", ()) if note.startswith("in episode ")), "")
        if not (isinstance(fault, BAD_INPUT) or hasattr(fault, "format_message")):
            code, kind = 2 if place else 1, type(fault).__name__ if place else f"unexpected {type(fault).__name__}"
            message = f"{kind}{' ' * bool(place)}{place}: {message}; BQRL_DEBUG=1 shows the traceback"
        elif place:
            message = f"{place}: {message}"
    if message:
        typer.echo(f"bqrl: {' '.join(message.split())}", err=True)
    return code if isinstance(code, int) else 0


def message_of(fault: Any, command: str = "") -> str:
    """Message of an error, with the name of the argument written as the option of the command."""
    if hasattr(fault, "format_message"):  # a usage error of typer, whose message lacks the given value
        wrong = next(iter(getattr(fault.__cause__, "errors", list)()), None)
        if wrong is None:
            return str(fault.format_message())
        kind, given = KINDS.get(wrong["type"].partition("_")[0], "valid"), str(wrong["input"])
        text = f"{max(fault.param.opts, key=len)} must be {kind}, got {one_line(given)}"
        percent = re.fullmatch(r"(\d+(?:\.\d+)?) ?%", given)
        return f"{text}; write {float(percent[1]) / 100.0:g} for {percent[1]} %" if percent else text
    if isinstance(fault, OSError) and fault.strerror and fault.filename is not None:
        return f"{fault.filename}: {fault.strerror}"
    message, name = str(fault) or type(fault).__name__, str(getattr(fault, "name", "")).partition("[")[0]
    params = LazyCommands().get_command(None, command).params if command in COMMANDS else ()
    option = {one.name: max(one.opts, key=len) for one in params}.get(RENAMED.get(name, name), "")
    if option.startswith("-"):
        message = re.sub(rf"(?<![\w'-]){re.escape(name)}=(?=\d)", f"{option} ", message)  # a remedy with its value
        noun = r"(?<!\ba )(?<!\bexisting )"  # after these words it is a common noun: "a state", "an existing folder"
        message = re.sub(rf"{noun}(?<![\w'-]){re.escape(name)}(?![\w'-]|\.\w)", option, message)
    if option == "--start" and ":" in str(getattr(fault, "value", "")):
        message += " (a law: --start Well=0.8,Sick=0.2)"
    return message
