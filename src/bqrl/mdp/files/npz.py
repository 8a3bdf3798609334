"""Models as NumPy archives: the arrays of an MDP as they are stored, or dense arrays under the names of MDP's arguments.

`save` writes the first kind: H, discount, mu, row_start, successor, probability, reward or row_reward, known, and names.
Other programs can write the second kind: np.savez("model.npz", transitions=P, rewards=R, horizon=10).

An archive can unpack to far more than its own size, so the sizes in its directory are added up before anything is unpacked;
no array is read beyond the size stated there. Python objects are refused, because reading them could execute code.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from typing import Any

import numpy as np

from bqrl.checks import one_line
from bqrl.errors import FileFormatError, ModelError, SizeError
from bqrl.mdp import model
from bqrl.mdp.arrays import IntArray, floats_of, number_of, require, whole_numbers_of
from bqrl.mdp.files.regular import MAX_BYTES, check_size
from bqrl.mdp.noise import SharedNoise
from bqrl.mdp.outcomes import Outcomes
from bqrl.mdp.table import Table
from bqrl.mdp.validation import check_horizon

STORED = ("H", "discount", "mu", "row_start", "successor", "probability", "known")
OPTIONAL = ("reward", "row_reward", "state_names", "action_names", "units", "terminal", "words")
DENSE = (
    "transitions", "rewards", "start", "horizon", "discount", "available", "support", "known", "state_names",
    "action_names", "units", "terminal",
)  # fmt: skip
PREFIX, FURTHER = "noise_", "outcome_"

Arrays = dict[str, Any]


def write_npz(mdp: model.MDP) -> bytes:
    """Return a model as a compressed archive."""
    return pack(model_arrays(mdp))


def model_arrays(mdp: model.MDP) -> Arrays:
    """Return the model as named arrays."""
    arrays: Arrays = {name: np.asarray(getattr(mdp, name)) for name in STORED}
    by_row = mdp.rewards_by_row
    arrays |= {"reward": mdp.own_reward} if by_row is None else {"row_reward": by_row}
    if mdp.terminal is not None:
        arrays["terminal"] = mdp.terminal
    if mdp.words:
        arrays["words"] = np.array([*mdp.words.items()], dtype=np.str_)
    if mdp.further is not None:
        arrays |= {"outcome_start": mdp.further.start, "outcome_mass": mdp.further.mass}
        arrays["outcome_names"] = np.array(mdp.outcome_names, dtype=np.str_)
        arrays |= {f"outcome_{k}": values for k, values in enumerate(mdp.further.values.values())}
    for name in ("state_names", "action_names", "units"):
        if getattr(mdp, name) is not None:
            arrays[name] = np.array(getattr(mdp, name), dtype=np.str_)
    if mdp.noise is not None:
        arrays |= noise_arrays(mdp.noise)
    return arrays


# -- archives --------------------------------------------------------------------------------------------------------------


def pack(arrays: Arrays) -> bytes:
    """Return the bytes of a compressed archive."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpack(content: bytes, max_bytes: int = MAX_BYTES) -> Arrays:
    """Return the arrays in the bytes of an archive; nothing in it is executed.

    Raise FileFormatError if it cannot be read, or SizeError if it is too large.
    """
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise FileFormatError("expected a .npz archive, got other or truncated bytes")
    arrays: Arrays = {}
    name = ""
    try:
        with warnings.catch_warnings(), zipfile.ZipFile(io.BytesIO(content)) as archive:
            warnings.simplefilter("ignore")  # NumPy warns about headers written by Python 2
            check_size(sum(member.file_size for member in archive.infolist()), max_bytes, "the unpacked archive")
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                arrays[name] = _array_of(archive, member, name)
    except (FileFormatError, SizeError):
        raise
    except Exception as error:  # damaged bytes make zipfile, zlib and NumPy fail in many ways
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        what = f"the array {one_line(name)}" if name else "the archive"
        message = f"expected {what} in a readable form, got damaged bytes or Python objects ({reason})"
        raise FileFormatError(message, column=name or None) from None
    return arrays


def _array_of(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Any:
    """Return one array of numbers or strings."""
    with archive.open(member) as file:
        array = np.lib.format.read_array(file, allow_pickle=False)
        if file.read(1):  # reaching the end verifies the checksum
            raise ValueError("it is longer than its header states")
    if array.dtype.kind not in "biufSU":
        raise FileFormatError(
            f"the array {one_line(name)} must hold numbers or strings, got {array.dtype}", column=name
        )
    return array


# -- models ----------------------------------------------------------------------------------------------------------------


def read_stored(arrays: Arrays) -> dict[str, Any]:
    """Return the arguments of MDP.from_table for the arrays that `write_npz` writes."""
    rule = f"the arrays {', '.join(STORED)}, or transitions and rewards"
    for name in arrays:
        if name not in STORED + OPTIONAL and not name.startswith((PREFIX, FURTHER)):
            raise FileFormatError(f"expected {rule}, got the array {one_line(name)}", column=name)
    for name in STORED:
        if name not in arrays:
            raise FileFormatError(f"expected {rule}, got no array {name!r}", column=name)
    if ("reward" in arrays) == ("row_reward" in arrays):
        got = "both" if "reward" in arrays else "none"
        raise FileFormatError(f"expected one of the arrays 'reward' and 'row_reward', got {got}", column="reward")
    H, known = check_horizon(int(whole_numbers_of(arrays, "H", ()))), arrays["known"]
    require(known.dtype.kind == "b" and known.ndim == 3, "known", "hold true and false", f"{known.dtype}")
    K, S, A = known.shape
    require(K in (1, H) and 0 not in known.shape, "known", f"have shape (1 or {H}, S, A)", f"{known.shape}")
    row_start, successor = _rows(arrays, K * S * A, S)
    stages = (1, H) if K == 1 else (1,)
    paid = "reward" if "reward" in arrays else "row_reward"
    rewards = floats_of(arrays, paid, (None, successor.size) if paid == "reward" else (None, S, A))
    fits = len(rewards) in [k * (1 if paid == "reward" else K) for k in stages]
    require(fits, paid, f"have 1 or {H} stages", f"{len(rewards)}")
    table = Table(
        S=S, A=A, K=K, row_start=row_start, successor=successor,
        probability=floats_of(arrays, "probability", (successor.size,)), reward=rewards if paid == "reward" else None,
        row_reward=rewards if paid == "row_reward" else None,
        further=_further(arrays) if "outcome_names" in arrays else None,
    )  # fmt: skip
    return {
        "table": table, "H": H, "start": floats_of(arrays, "mu", (S,)), "discount": number_of(arrays, "discount"),
        "known": known, "state_names": _text(arrays, "state_names"), "action_names": _text(arrays, "action_names"),
        "units": _text(arrays, "units", 0),
        "terminal": floats_of(arrays, "terminal", (S,)) if "terminal" in arrays else None, "words": _words(arrays),
        "noise": read_noise(arrays, row_start) if any(name.startswith(PREFIX) for name in arrays) else None,
    }  # fmt: skip


def _rows(arrays: Arrays, rows: int, S: int) -> tuple[Any, Any]:
    """Return the arrays row_start and successor, checked."""
    row_start, successor = (whole_numbers_of(arrays, name, (None,)) for name in ("row_start", "successor"))
    n = successor.size
    rises = row_start.size == rows + 1 and row_start[0] == 0 and row_start[-1] == n and np.all(np.diff(row_start) >= 0)
    require(bool(rises), "row_start", f"rise from 0 to {n} in {rows} steps", row_start)
    inside = np.ones(n, bool)
    inside[row_start[:-1][row_start[:-1] < n]] = False  # the first outcome of a row has no predecessor
    falls = np.any(successor[1:][inside[1:]] < successor[:-1][inside[1:]])
    valid = not falls and bool(np.all((successor >= 0) & (successor < S)))
    require(valid, "successor", f"hold states from 0 to {S - 1}, increasing within a row", successor)
    return row_start, successor.astype(np.int32)


def _words(arrays: Arrays) -> dict[str, str]:
    """Return the words of a model; a file without any has none."""
    pairs = _text(arrays, "words", 2) if "words" in arrays else []
    require(all(len(pair) == 2 for pair in pairs), "words", "hold pairs of a key and a word", pairs)
    return dict(pairs)


def _further(arrays: Arrays) -> Outcomes:
    """Return the further outcomes; the model checks them."""
    names, start = _text(arrays, "outcome_names"), whole_numbers_of(arrays, "outcome_start", (None,))
    mass = floats_of(arrays, "outcome_mass", (None,))
    require(len(set(names)) == len(names), "outcome_names", "be distinct", names)
    for k, name in enumerate(names):
        require(f"outcome_{k}" in arrays, f"outcome_{k}", f"hold the outcome {name!r}", "none")
    values = {name: floats_of(arrays, f"outcome_{k}", (None, mass.size)) for k, name in enumerate(names)}
    return Outcomes(start=start, mass=mass, values=values)


def read_dense(arrays: Arrays) -> dict[str, Any]:
    """Return the arguments of MDP in dense arrays, which have the same names."""
    for name, array in arrays.items():
        if name not in DENSE:
            message = f"expected only {', '.join(DENSE[1:])} beside transitions, got {one_line(name)}"
            raise FileFormatError(message, column=name)
        if array.ndim == 0:
            arrays[name] = array.item()
        elif name.endswith("names"):
            arrays[name] = _text(arrays, name)
    return arrays


def _text(arrays: Arrays, name: str, ndim: int = 1) -> Any:
    """Return a list of strings, or one string, or None if there is no such array."""
    if name not in arrays:
        return None
    found = arrays[name]
    if found.dtype.kind == "S":  # bytes, as other programs write them
        found = np.char.decode(found, "utf-8", "replace")
    require(
        found.dtype.kind == "U" and found.ndim == ndim, name, "be a list of strings" if ndim else "be a string", found
    )
    return found.tolist()


# -- shared noise ------------------------------------------------------------------------------------------------------


def noise_arrays(noise: SharedNoise) -> dict[str, Any]:
    """Return shared noise as plain arrays whose names begin with `noise_`; events become strings."""
    return {
        "noise_events": np.array([name for names in noise.event_names for name in names], dtype=np.str_),
        "noise_probability": np.concatenate([*noise.probabilities, np.empty(0)]), "noise_law_start": noise.law_start,
        "noise_row_law": noise.row_law, "noise_pair_outcome": noise.pair_outcome, "noise_cut": np.array(noise.cut),
        "noise_observed": np.array(int(noise.events_observed)),
    }  # fmt: skip


def read_noise(arrays: Arrays, row_start: IntArray) -> SharedNoise:
    """Return the noise that `noise_arrays` wrote, for a model with these rows; raise ModelError if the arrays do not fit."""
    try:
        starts = whole_numbers_of(arrays, "noise_law_start", (None,))
        events, p = np.asarray(arrays["noise_events"]), np.asarray(arrays["noise_probability"])
        row_law = whole_numbers_of(arrays, "noise_row_law", (None, None, None))
        outcome = whole_numbers_of(arrays, "noise_pair_outcome", (None,))
        cut = floats_of(arrays, "noise_cut", (starts.size - 1,))
        observed = bool(number_of(arrays, "noise_observed"))
        sizes = np.diff(starts)
        proper = starts[0] == 0 and events.shape == p.shape == (starts[-1],) and bool(np.all(sizes > 0))
        if not proper or p.dtype.kind != "f" or row_law.size != row_start.size - 1 or row_law.min() < -1:
            raise ValueError
        counts = np.r_[sizes, 0][row_law.reshape(-1)]
        rows = np.repeat(np.arange(counts.size), counts)
        if np.any((outcome < row_start[rows]) | (outcome >= row_start[rows + 1])):
            raise ValueError
    except (KeyError, IndexError, ValueError):
        message = "expected arrays noise_... that describe the rows of this model, got others; save it again"
        raise ModelError(message, column=PREFIX) from None
    between = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    return SharedNoise(
        events=tuple(tuple(map(str, events[i:j].tolist())) for i, j in between),
        probabilities=tuple(p[i:j].astype(np.float64) for i, j in between), row_law=row_law,
        row_start=np.asarray(row_start, np.int64), pair_start=np.r_[0, np.cumsum(counts)], pair_outcome=outcome,
        events_observed=observed, cut=tuple(cut.tolist()),
    )  # fmt: skip
