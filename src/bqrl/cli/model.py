"""MODEL on the command line: a file, or the name of a problem; and the options that describe a model."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import typer

from bqrl.checks import nearest
from bqrl.envs import make, names
from bqrl.errors import ArgumentError, ModelWarning
from bqrl.mdp.files import ending, load
from bqrl.mdp.files.csv import parse_start
from bqrl.mdp.model import MDP


def read_model(
    given: str, horizon: int | None, start: str | None, discount: float | None, columns: str | None = None
) -> tuple[str, MDP]:
    """What to call the problem, and the problem; states are the ids or names that the file uses."""
    path = Path(given)
    if ending(path) is not None or path.is_file():
        name = path.name.removesuffix(".gz").rpartition(".")[0] or path.stem
        return name, _from_file(path, horizon, start, discount, columns)
    if columns is not None:
        raise ArgumentError("columns must be omitted; only .csv files have columns", name="columns", value=columns)
    return _from_name(given, horizon, start, discount)


def first_states(text: str | None) -> Any:
    """The argument `start` of the option --start: a state, or a law "Well=0.8,Sick=0.2"."""
    return None if text is None else parse_start(text)


def column_names(text: str | None) -> dict[str, str] | None:
    """The argument `columns` of the option --columns "state=from,next_state=to"."""
    if text is None:
        return None
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(role.strip() and sign and header.strip() for role, sign, header in pairs):
        raise ArgumentError(
            f"--columns must be pairs such as state=from,next_state=to, got {text[:60]!r}", name="columns", value=text
        )
    return {role.strip(): header.strip() for role, _, header in pairs}


def discount_of(discount: float | None, rate: str | None) -> float | None:
    """The discount factor per stage of --discount or of --discount-rate, which is written 3% or 0.03."""
    if rate is None:
        return discount
    if discount is not None:
        raise ArgumentError("--discount and --discount-rate exclude each other; give one of them", name="discount")
    text = rate.strip()
    try:
        number = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < 1.0:
        raise ArgumentError(
            f"--discount-rate must be a rate per stage such as 3% or 0.03, got {rate[:40]!r}",
            name="discount",
            value=rate,
        )
    return 1.0 / (1.0 + number)


def discount_question(discount: float | None) -> str | None:
    """A question about a discount that looks like a rate, or None.

    >>> discount_question(0.03)
    '0.03 per stage keeps 3 % of the next stage; a rate of 3 % is 0.970874: is that what you mean?'
    """
    if discount is None or not 0.0 < discount < 0.5:
        return None
    share = f"{100 * discount:.6g} %"
    return (
        f"{discount:g} per stage keeps {share} of the next stage; a rate of {share} is {1 / (1 + discount):.6g}:"
        " is that what you mean?"
    )


def _from_file(path: Path, horizon: int | None, start: str | None, discount: float | None, columns: str | None) -> MDP:
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            mdp = load(path, horizon, first_states(start), discount, columns=column_names(columns))
    except FileNotFoundError as error:
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = "" if path.is_symlink() or not beside else nearest(path.name, beside)
        raise FileNotFoundError(f"{error}{hint if 'did you mean' in hint else ''}") from None
    for notice in caught:
        typer.echo(f"bqrl: {path.name}: {notice.message}", err=True)
    return mdp


def _from_name(given: str, horizon: int | None, start: str | None, discount: float | None) -> tuple[str, MDP]:
    short = given.removeprefix("bqrl/").removesuffix("-v0")
    if short not in names():
        raise ArgumentError(
            f"{given[:80]!r} is neither a model file (.csv, .npz, .json) nor a named problem{nearest(short, names())}",
            name="model",
            value=given,
        )
    return short, make(short).replace(start=first_states(start), horizon=horizon, discount=discount)
