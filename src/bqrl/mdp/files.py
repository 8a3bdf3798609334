"""Models in files: .csv for exchange with other tools, .npz for any size, .json to read and write by hand.

What a file holds:

    .csv    the kernel and its rewards; `load` is told the horizon, the start and the discount, and numbers replace names
    .npz    everything, compressed, without pickle
    .json   everything, one transition a line, with names in place of numbers
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from bqrl.mdp.atomic import write_whole
from bqrl.mdp.file_csv import read_csv, write_csv
from bqrl.mdp.file_json import read_json, write_json
from bqrl.mdp.file_npz import pack, read_npz, unpack, write_npz
from bqrl.mdp.forms import check_horizon
from bqrl.mdp.model import MDP

READERS: dict[str, Callable[..., MDP]] = {".csv": read_csv, ".npz": read_npz, ".json": read_json}
WRITERS: dict[str, Callable[[MDP], bytes]] = {".csv": write_csv, ".npz": write_npz, ".json": write_json}


def load(path: str | Path, horizon: int | None = None, start: Any = None, discount: float | None = None) -> MDP:
    """The model in a .csv, .npz or .json file.

    `start` is a state counted from 0, a state's name (for .csv its id as the file writes it, as a string: "9"), or a
    probability vector. For .csv the horizon is 100, `start` 0 and `discount` 1 unless said otherwise; .npz and .json
    carry their own, and what is given here takes precedence.
    """
    place = Path(path)
    reader = READERS[_suffix(place)]
    if horizon is not None:
        horizon = check_horizon(horizon)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder; give the name of a file")
    if not place.exists():
        raise FileNotFoundError(f"there is no file {place}")
    content = place.read_bytes()
    try:
        return reader(content, horizon, start, discount)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{place.name}: {error}") from None


def save(mdp: MDP, path: str | Path) -> None:
    """Write `mdp` to a .csv, .npz or .json file, whole or not at all.

    Numbers come back bit for bit. A .csv holds no horizon, start, discount or names; what else it cannot hold it refuses.
    """
    if not isinstance(mdp, MDP):
        raise TypeError(f"save writes an MDP, got {type(mdp).__name__}")
    place = Path(path)
    write_whole(place, WRITERS[_suffix(place)](mdp))


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise ValueError(f"{path.name}: models are kept in .csv, .npz or .json files, got {suffix or 'no ending'!r}")
    return suffix


def write_arrays(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write named arrays to an .npz file, whole or not at all."""
    place = Path(path)
    if place.suffix.lower() != ".npz":
        raise ValueError(f"{place.name}: this is kept in an .npz file, got {place.suffix or 'no ending'!r}")
    write_whole(place, pack(arrays))


def read_arrays(path: str | Path) -> dict[str, Any]:
    """Named arrays of an .npz file; nothing in it is ever executed."""
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(f"there is no file {place}")
    try:
        return unpack(place.read_bytes())
    except ValueError as error:
        raise ValueError(f"{place.name}: {error}") from None
