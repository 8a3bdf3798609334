"""Models as NumPy archives: the arrays of an MDP as they are stored, or dense arrays under the names of MDP's arguments.

`save` writes the first kind: H, discount, mu, row_start, successor, probability, reward or row_reward, known, and names.
The second kind is what anyone can write: np.savez("model.npz", transitions=P, rewards=R, horizon=10).
"""

from __future__ import annotations

import io
import zipfile
from typing import Any

import numpy as np

from bqrl.mdp.forms import Table, check_horizon
from bqrl.mdp.model import MDP
from bqrl.mdp.noise_arrays import PREFIX, from_arrays, to_arrays

STORED = ("H", "discount", "mu", "row_start", "successor", "probability", "known")
OPTIONAL = ("reward", "row_reward", "state_names", "action_names")
DENSE = (
    "transitions", "rewards", "start", "horizon", "discount", "available", "support", "known", "state_names", "action_names",
)  # fmt: skip

Arrays = dict[str, Any]


def read_npz(content: bytes, horizon: int | None, start: Any, discount: float | None) -> MDP:
    """Model of an archive's bytes; nothing in it is ever executed."""
    arrays = unpack(content)
    if "transitions" in arrays:
        return _dense(arrays, horizon, start, discount)
    mdp = _stored(arrays)
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
    for name in ("state_names", "action_names"):
        if getattr(mdp, name) is not None:
            arrays[name] = np.array(getattr(mdp, name), dtype=np.str_)
    if mdp.noise is not None:
        arrays |= to_arrays(mdp.noise)
    return pack(arrays)


def pack(arrays: Arrays) -> bytes:
    """Bytes of a compressed archive."""
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)
    return file.getvalue()


def unpack(content: bytes) -> Arrays:
    """Arrays of an archive's bytes; ValueError where it is none."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("this is not a .npz archive, or it is truncated")
    arrays = {}
    name = ""
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            for name in archive.files:
                arrays[name] = archive[name]
                if not isinstance(arrays[name], np.ndarray):  # NumPy hands over foreign members as bytes
                    raise ValueError("it is not an array")
    except Exception as error:  # damaged bytes make zip, zlib and NumPy fail in many ways
        told = " ".join(str(error).split())[:120] or type(error).__name__
        raise ValueError(
            f"the array {name[:40]!r} cannot be read ({told})" if name else f"the archive cannot be read ({told})"
        ) from None
    return arrays


def _stored(arrays: Arrays) -> MDP:
    for name in arrays:
        if name not in STORED + OPTIONAL and not name.startswith(PREFIX):
            raise ValueError(
                f"unknown array {name[:40]!r}; a model has {', '.join(STORED)}, or transitions and rewards"
            )
    for name in STORED:
        if name not in arrays:
            raise ValueError(
                f"the array {name!r} is missing; a model has {', '.join(STORED)}, or transitions and rewards"
            )
    if ("reward" in arrays) == ("row_reward" in arrays):
        raise ValueError("a model has one of the arrays 'reward' and 'row_reward'")
    H = check_horizon(_scalar(arrays, "H"))
    known = _array(arrays, "known", "b", 3)
    K, S, A = known.shape
    if K not in (1, H) or 0 in known.shape:
        raise ValueError(f"the array 'known' has shape {known.shape}; it must be (1 or {H}, S, A)")
    row_start, successor = _array(arrays, "row_start", "iu", 1), _array(arrays, "successor", "iu", 1)
    n = successor.size
    if (
        row_start.size != K * S * A + 1
        or row_start[0] != 0
        or row_start[-1] != n
        or np.any(row_start[1:] < row_start[:-1])
    ):
        raise ValueError(f"the array 'row_start' must rise from 0 to {n} in {K * S * A} steps")
    inside = np.ones(n, bool)
    inside[row_start[:-1][row_start[:-1] < n].astype(np.int64)] = False  # the first outcome of a row follows nothing
    if (
        np.any(successor >= S)
        or np.any(successor < 0)
        or np.any(successor[1:][inside[1:]] < successor[:-1][inside[1:]])
    ):
        raise ValueError(f"the array 'successor' must hold states from 0 to {S - 1}, increasing within a row")
    probability = _array(arrays, "probability", "f", 1, (n,))
    stages = (1, H) if K == 1 else (1,)
    reward = row_reward = None
    if "reward" in arrays:
        reward = _array(arrays, "reward", "f", 2).astype(np.float64)
        if reward.shape not in {(k, n) for k in stages}:
            raise ValueError(f"the array 'reward' has shape {reward.shape}; it must be (1 or {stages[-1]}, {n})")
    else:
        row_reward = _array(arrays, "row_reward", "f", 3).astype(np.float64)
        if row_reward.shape not in {(k * K, S, A) for k in stages}:
            raise ValueError(f"the array 'row_reward' has shape {row_reward.shape}; it must be (1 or {H}, {S}, {A})")
    table = Table(
        S,
        A,
        K,
        row_start.astype(np.int64),
        successor.astype(np.int32),
        probability.astype(np.float64),
        reward,
        row_reward,
        True,
    )
    return MDP.from_table(
        table, H, _array(arrays, "mu", "f", 1, (S,)), float(_scalar(arrays, "discount")),
        known=known, **{name: _names(arrays, name) for name in ("state_names", "action_names")},
        noise=from_arrays(arrays, table.row_start) if any(name.startswith(PREFIX) for name in arrays) else None,
    )  # fmt: skip


def _dense(arrays: Arrays, horizon: int | None, start: Any, discount: float | None) -> MDP:
    """Model of dense arrays, in the words of MDP's arguments."""
    for name, array in arrays.items():
        if name not in DENSE:
            raise ValueError(f"unknown array {name[:40]!r}; beside transitions a model has {', '.join(DENSE[1:])}")
        if array.ndim == 0:
            arrays[name] = array.item()
        elif name.endswith("names"):
            arrays[name] = _names(arrays, name)
    given = {"horizon": horizon, "start": start, "discount": discount}
    return MDP(**arrays | {name: value for name, value in given.items() if value is not None})


def _array(arrays: Arrays, name: str, kinds: str, ndim: int, shape: tuple[int, ...] | None = None) -> Any:
    array = arrays[name]
    words = {"f": "real numbers", "iu": "whole numbers", "b": "true and false", "U": "strings"}
    if array.dtype.kind not in kinds:
        raise ValueError(f"the array {name!r} must hold {words[kinds]}, got {array.dtype}")
    if array.ndim != ndim or (shape is not None and array.shape != shape):
        raise ValueError(f"the array {name!r} has shape {array.shape}, expected {shape or f'{ndim} axes'}")
    return array


def _scalar(arrays: Arrays, name: str) -> Any:
    if arrays[name].shape != () or arrays[name].dtype.kind not in "iuf":
        raise ValueError(f"the array {name!r} must hold one number")
    return arrays[name].item()


def _names(arrays: Arrays, name: str) -> list[str] | None:
    return None if name not in arrays else _array(arrays, name, "U", 1).tolist()
