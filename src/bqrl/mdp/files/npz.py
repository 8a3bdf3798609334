"""Models as NumPy archives: the arrays of an MDP as they are stored, or dense arrays under the names of MDP's arguments.

`save` writes the first kind: H, discount, mu, row_start, successor, probability, reward or row_reward, known, and names.
Other programs can write the second kind: np.savez("model.npz", transitions=P, rewards=R, horizon=10).

An archive can unpack to far more than its own size, so sizes are read from the zip directory and the array headers before
any array is.
"""

from __future__ import annotations

import io
import math
import warnings
import zipfile
from typing import Any

import numpy as np

from bqrl.checks import shown
from bqrl.errors import FileFormatError
from bqrl.mdp.build import Table, check_horizon
from bqrl.mdp.files.regular import MAX_BYTES, check_size
from bqrl.mdp.model import MDP
from bqrl.mdp.noise_arrays import PREFIX, from_arrays, to_arrays

STORED = ("H", "discount", "mu", "row_start", "successor", "probability", "known")
OPTIONAL = ("reward", "row_reward", "state_names", "action_names", "units")
DENSE = (
    "transitions", "rewards", "start", "horizon", "discount", "available", "support", "known", "state_names",
    "action_names", "units",
)  # fmt: skip
CHUNK = 2**20

Arrays = dict[str, Any]


def read_npz(arrays: Arrays, horizon: int | None, start: Any, discount: float | None) -> MDP:
    """Model of the arrays of an archive."""
    if "transitions" in arrays:
        return _dense(arrays, horizon, start, discount)
    mdp = stored_model(arrays)
    if horizon is start is discount is None:
        return mdp
    return mdp.replace(horizon=horizon, start=start, discount=discount)


def write_npz(mdp: MDP) -> bytes:
    """Archive of a model, compressed."""
    arrays: Arrays = {name: np.asarray(getattr(mdp, name)) for name in STORED}
    if mdp.row_reward is not None:
        arrays["row_reward"] = mdp.row_reward
    else:
        arrays["reward"] = mdp.reward
    for name in ("state_names", "action_names", "units"):
        if getattr(mdp, name) is not None:
            arrays[name] = np.array(getattr(mdp, name), dtype=np.str_)
    if mdp.noise is not None:
        arrays |= to_arrays(mdp.noise)
    return pack(arrays)


# -- archives --------------------------------------------------------------------------------------------------------------


def pack(arrays: Arrays) -> bytes:
    """Bytes of a compressed archive."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpack(content: bytes, max_bytes: int = MAX_BYTES) -> Arrays:
    """Arrays of the bytes of an archive; nothing in it is executed. Raises FileFormatError if it cannot be read."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise FileFormatError("this is not a .npz archive, or it is truncated")
    arrays: Arrays = {}
    name = ""
    try:
        with warnings.catch_warnings(), zipfile.ZipFile(io.BytesIO(content)) as archive:
            warnings.simplefilter("ignore")  # NumPy warns about headers written by Python 2
            members = archive.infolist()
            check_size(sum(member.file_size for member in members), max_bytes, "the archive unpacks to")
            for member in members:
                name = member.filename.removesuffix(".npy")
                arrays[name] = _array_of(archive, member)
    except FileFormatError:
        raise
    except Exception as error:  # damaged bytes make zipfile, zlib and NumPy fail in many ways
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        what = f"the array {shown(name)}" if name else "the archive"
        raise FileFormatError(f"{what} cannot be read ({reason})", column=name or None) from None
    return arrays


def _array_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    """One array; its header must agree with the size in the zip directory before memory is taken."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError("its compression is not supported")
    with archive.open(member) as file:
        try:
            version = np.lib.format.read_magic(file)
        except ValueError:
            raise ValueError("it is not an array") from None
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        if version not in readers:
            raise ValueError(f"its format has the version {version}")
        shape, fortran, dtype = readers[version](file)
        if dtype.kind not in "biufSU":
            raise ValueError("object arrays are not read" if dtype.hasobject else f"its type is {shown(dtype)}")
        size = math.prod(shape) * dtype.itemsize
        if min((*shape, 0)) < 0 or size != member.file_size - file.tell():
            raise ValueError(f"its header states {size} bytes, the archive holds {member.file_size - file.tell()}")
        buffer = np.empty(size, np.uint8)
        filled = 0
        while filled < size:
            chunk = file.read(min(CHUNK, size - filled))
            if not chunk:
                raise ValueError("it is truncated")
            buffer[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
            filled += len(chunk)
        file.read(1)  # reaching the end verifies the checksum
        return np.ndarray(shape, dtype, buffer, order="F" if fortran else "C") if size else np.empty(shape, dtype)


# -- models ----------------------------------------------------------------------------------------------------------------


def stored_model(arrays: Arrays) -> MDP:
    """Model of the arrays that `write_npz` writes."""
    rule = f"a model has {', '.join(STORED)}, or transitions and rewards"
    for name in arrays:
        if name not in STORED + OPTIONAL and not name.startswith(PREFIX):
            raise FileFormatError(f"unknown array {shown(name)}; {rule}", column=name)
    for name in STORED:
        if name not in arrays:
            raise FileFormatError(f"the array {name!r} is missing; {rule}", column=name)
    if ("reward" in arrays) == ("row_reward" in arrays):
        raise FileFormatError("a model has one of the arrays 'reward' and 'row_reward'", column="reward")
    H = check_horizon(_scalar(arrays, "H"))
    known = _array(arrays, "known", "b", 3)
    K, S, A = known.shape
    if K not in (1, H) or 0 in known.shape:
        raise _wrong("known", f"has shape {known.shape}; it must be (1 or {H}, S, A)")
    row_start, successor = _rows(arrays, K * S * A, S)
    n = successor.size
    stages = (1, H) if K == 1 else (1,)
    reward = row_reward = None
    if "reward" in arrays:
        reward = _array(arrays, "reward", "f", 2).astype(np.float64)
        if reward.shape not in {(k, n) for k in stages}:
            raise _wrong("reward", f"has shape {reward.shape}; it must be (1 or {stages[-1]}, {n})")
    else:
        row_reward = _array(arrays, "row_reward", "f", 3).astype(np.float64)
        if row_reward.shape not in {(k * K, S, A) for k in stages}:
            raise _wrong("row_reward", f"has shape {row_reward.shape}; it must be (1 or {H}, {S}, {A})")
    table = Table(
        S=S,
        A=A,
        K=K,
        row_start=row_start,
        successor=successor,
        probability=_array(arrays, "probability", "f", 1, (n,)).astype(np.float64),
        reward=reward,
        row_reward=row_reward,
        infer_available=True,
    )
    return MDP.from_table(
        table,
        H,
        _array(arrays, "mu", "f", 1, (S,)),
        _scalar(arrays, "discount"),
        known=known,
        state_names=_names(arrays, "state_names"),
        action_names=_names(arrays, "action_names"),
        units=str(_array(arrays, "units", "U", 0)) if "units" in arrays else None,
        noise=from_arrays(arrays, row_start) if any(name.startswith(PREFIX) for name in arrays) else None,
    )


def _rows(arrays: Arrays, rows: int, S: int) -> tuple[Any, Any]:
    """The arrays row_start and successor, checked."""
    row_start, successor = _array(arrays, "row_start", "iu", 1), _array(arrays, "successor", "iu", 1)
    n = successor.size
    if row_start.size != rows + 1 or row_start[0] != 0 or row_start[-1] != n or np.any(row_start[1:] < row_start[:-1]):
        raise _wrong("row_start", f"must rise from 0 to {n} in {rows} steps")
    inside = np.ones(n, bool)
    inside[row_start[:-1][row_start[:-1] < n].astype(np.int64)] = False  # the first outcome of a row follows none
    falls = np.any(successor[1:][inside[1:]] < successor[:-1][inside[1:]])
    if np.any(successor >= S) or np.any(successor < 0) or falls:
        raise _wrong("successor", f"must hold states from 0 to {S - 1}, increasing within a row")
    return row_start.astype(np.int64), successor.astype(np.int32)


def _dense(arrays: Arrays, horizon: int | None, start: Any, discount: float | None) -> MDP:
    """Model of dense arrays under the names of MDP's arguments."""
    for name, array in arrays.items():
        if name not in DENSE:
            raise FileFormatError(
                f"unknown array {shown(name)}; beside transitions a model has {', '.join(DENSE[1:])}", column=name
            )
        if array.ndim == 0:
            arrays[name] = array.item()
        elif name.endswith("names"):
            arrays[name] = _names(arrays, name)
    given = {"horizon": horizon, "start": start, "discount": discount}
    return MDP(**arrays | {name: value for name, value in given.items() if value is not None})


def _wrong(name: str, message: str) -> FileFormatError:
    return FileFormatError(f"the array {name!r} {message}", column=name)


def _array(arrays: Arrays, name: str, kinds: str, ndim: int, shape: tuple[int, ...] | None = None) -> Any:
    """An array of the given kind and shape."""
    array = arrays[name]
    words = {"f": "real numbers", "iu": "whole numbers", "b": "true and false", "U": "strings"}
    if array.dtype.kind not in kinds:
        raise _wrong(name, f"must hold {words[kinds]}, got {array.dtype}")
    if array.ndim != ndim or (shape is not None and array.shape != shape):
        raise _wrong(name, f"has shape {array.shape}, expected {shape or f'{ndim} axes'}")
    return array


def _scalar(arrays: Arrays, name: str) -> Any:
    """A single number."""
    if arrays[name].shape != () or arrays[name].dtype.kind not in "iuf":
        raise _wrong(name, "must hold one number")
    return arrays[name].item()


def _names(arrays: Arrays, name: str) -> list[str] | None:
    return None if name not in arrays else _array(arrays, name, "U", 1).tolist()
