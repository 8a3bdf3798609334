"""`bqrl`: the commands together, and errors as one line.

Exit codes: 0 done, 1 a fault of ours, 2 input that cannot be used, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import is_dataclass
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperGroup

from bqrl import __version__
from bqrl.checks import nearest

BAD_INPUT = (ValueError, TypeError, OSError, ImportError)  # the last: an extra is not installed
COMMANDS = ("solve", "fit", "learn", "compare", "reproduce", "theory", "envs", "report", "bench")
RENAMED = {
    "max_bytes": "--max-memory",
    "experiment": "--only",
}  # arguments of the library whose option has another name


class LazyCommands(TyperGroup):
    """The commands, of which only the one that is used is imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the commands in their order."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name."""
        if cmd_name not in COMMANDS:
            ctx.fail(f"there is no command {cmd_name!r}{nearest(cmd_name, COMMANDS)}")
        return command_of(cmd_name)


def command_of(name: str) -> Any:
    """The command of that name: a function of the module of the same name."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(flat(getattr(import_module(f"bqrl.cli.{name}"), name)))
    return typer.main.get_command(alone)


def flat(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each parameter that is a dataclass of options replaced by these options."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    listed: list[Parameter] = []
    for name, parameter in signature(command).parameters.items():
        inner = signature(groups[name]).parameters.values() if name in groups else [parameter]
        types = get_type_hints(groups[name], include_extras=True) if name in groups else hints
        listed += [one.replace(kind=Parameter.KEYWORD_ONLY, annotation=types[one.name]) for one in inner]

    def call(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field: given.pop(field) for field in signature(kind).parameters})
        command(**given)

    call.__signature__ = Signature(listed)  # type: ignore[attr-defined]
    call.__annotations__, call.__doc__ = {one.name: one.annotation for one in listed}, command.__doc__
    return call


app = typer.Typer(
    name="bqrl",
    cls=LazyCommands,
    help="Plan and learn for quantiles of the total return: the best result that you reach with a certainty of your choice.",
    epilog="Try: bqrl solve AssetSelling --tau 0.1",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def top(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False
) -> None:
    """Show the version, or the help if no command is given."""
    if version or context.invoked_subcommand is None:
        typer.echo(f"bqrl {__version__}" if version else context.get_help())
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:] if arguments is None else list(arguments)))


def run(arguments: list[str]) -> int:
    """Exit code of a command line; what went wrong goes to stderr as one line."""
    try:
        code = app(args=arguments, prog_name="bqrl", standalone_mode=False)
    except KeyboardInterrupt:
        code = 130
    except BAD_INPUT as fault:
        return _fail(message_of(fault, *arguments[:1]), 2, fault)
    except Exception as fault:
        if hasattr(fault, "format_message"):  # an option or a command that does not exist: typer's own usage error
            return _fail(usage_of(fault), 2, fault)
        if type(fault).__name__ == "Abort":
            return _fail("interrupted", 130, fault)
        kind = type(fault).__name__
        return _fail(f"unexpected {kind}: {fault or 'no message'}; BQRL_DEBUG=1 shows where", 1, fault)
    if code == 130:
        typer.echo("bqrl: interrupted", err=True)
    return code if isinstance(code, int) else 0


def _fail(message: str, code: int, fault: BaseException) -> int:
    if os.environ.get("BQRL_DEBUG"):
        raise fault
    typer.echo(f"bqrl: {' '.join(message.split())}", err=True)
    return code


def usage_of(fault: Any) -> str:
    """What is wrong with an option; the words of pydantic, which newer versions of typer use, leave out the value given."""
    problems = getattr(fault.__cause__, "errors", None)
    if not callable(problems):
        return str(fault.format_message())
    first, name = problems()[0], max(fault.param.opts, key=len)
    wanted = {"float_parsing": "a number", "int_parsing": "a whole number", "int_from_float": "a whole number"}
    if first["type"] in wanted:
        return f"{name} must be {wanted[first['type']]}, got {str(first['input'])[:60]!r}"
    return f"{fault.format_message()}, got {str(first['input'])[:60]!r}"


def message_of(fault: BaseException, command: str = "") -> str:
    """The error's message, with the option of the command that the argument named by the error belongs to."""
    if isinstance(fault, OSError) and fault.strerror and fault.filename is not None:
        return f"{fault.filename}: {fault.strerror}"
    message, name = str(fault) or type(fault).__name__, getattr(fault, "name", None)
    if name is None or command not in COMMANDS:
        return message
    options = {one.name: max(one.opts, key=len) for one in command_of(command).params if one.opts[0].startswith("-")}
    option = options.get(name, RENAMED.get(name, ""))
    return message if option not in options.values() or option in message else f"{message} ({option})"
