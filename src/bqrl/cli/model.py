"""MODEL on the command line: a file, or the name of a problem."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bqrl.mdp.model import MDP


def read_model(given: str, horizon: int | None, start: str | None, discount: float | None) -> tuple[str, MDP]:
    """What to call the problem, and the problem; states are the ids or names that the file uses."""
    from bqrl.mdp.files import READERS

    path = Path(given)
    if path.suffix.lower() in READERS or path.is_file():
        return path.stem, _from_file(path, horizon, start, discount)
    return _from_name(given, horizon, start, discount)


def _from_file(path: Path, horizon: int | None, start: str | None, discount: float | None) -> MDP:
    from bqrl.mdp.files import load

    if not path.exists():
        beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
        raise FileNotFoundError(f"there is no file {path}{_nearest(path.name, beside)}")
    try:
        return load(path, horizon, start, discount)
    except ValueError as fault:
        if start is None or "names no state" not in str(fault):
            raise
        known = load(path, horizon, None, discount)
    return known.replace(start=_state(known, start))


def _from_name(given: str, horizon: int | None, start: str | None, discount: float | None) -> tuple[str, MDP]:
    from bqrl.envs import make, names

    short = given.removeprefix("bqrl/").removesuffix("-v0")
    if short not in names():
        choices = ", ".join(names())
        hint = _nearest(short, names()) or f"; problems: {choices}"
        raise ValueError(f"{given[:80]!r} is neither a model file (.csv, .npz, .json) nor a named problem{hint}")
    mdp = make(short)
    if horizon is None and start is None and discount is None:
        return short, mdp
    first = None if start is None else _state(mdp, start)
    return short, mdp.replace(start=first, horizon=horizon, discount=discount)


def _state(mdp: MDP, label: str) -> int:
    """Number of the state that the file calls `label`."""
    labels = [mdp.state_label(s) for s in range(mdp.S)]
    if label not in labels:
        near = "" if label.lstrip("-").isdigit() else _nearest(label, labels)  # no number is near another in spelling
        near = near or f"; states run from {labels[0]!r} to {labels[-1]!r}"
        raise ValueError(f"there is no state {label[:40]!r}{near}")
    return labels.index(label)


def _nearest(given: str, valid: list[str]) -> str:
    choices = {choice.lower(): choice for choice in valid}
    near = get_close_matches(given.lower(), choices, 1, cutoff=0.5)
    return f"; did you mean {choices[near[0]]!r}?" if near else ""
