"""The arrays of models: their types, read-only views, a digest, and checks of arrays from a file."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import one_line
from bqrl.errors import FileFormatError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
ActionArray = NDArray[np.signedinteger[Any]]
Shape = tuple[int | None, ...]  # None: any length


def read_only(array: Any) -> Any:
    """Return a view that cannot be written to."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def tile_starts(starts: IntArray, H: int) -> IntArray:
    """Return the starts of H copies of the same rows, one copy after the other."""
    total = starts[-1]
    return np.r_[np.tile(starts[:-1], H) + np.repeat(np.arange(H) * total, starts.size - 1), H * total]


def digest(mdp: Any) -> str:
    """Return a digest of everything that determines a problem: problems with the same digest are the same."""
    sha = hashlib.sha256(repr((mdp.H, mdp.S, mdp.A, mdp.discount, mdp.available.shape)).encode())
    for array in (mdp.mu, mdp.row_start, mdp.successor, mdp.probability, mdp.reward, mdp.known):
        sha.update(np.ascontiguousarray(array).tobytes())
    if mdp.noise is not None:
        sha.update(repr((mdp.noise.law_start.tolist(), mdp.noise.known, mdp.noise.events_observed)).encode())
        for array in (mdp.noise.row_law, mdp.noise.pair_outcome):
            sha.update(np.ascontiguousarray(array).tobytes())
    return sha.hexdigest()


def require(holds: bool, name: str, rule: str, got: Any) -> None:
    """Raise FileFormatError "the array NAME must RULE, got GOT" unless `holds`."""
    if not holds:
        found = got if isinstance(got, str) else one_line(got)
        raise FileFormatError(f"the array {name!r} must {rule}, got {found}", column=name)


def damage_error(what: str, fault: Exception, remedy: str = "") -> FileFormatError:
    """Return the error "expected WHAT, got damaged arrays: ..." for arrays that raised `fault` when they were read."""
    missing = isinstance(fault, KeyError)
    reason = f"no array {fault}" if missing else " ".join(str(fault).split())[:200]
    column = fault.args[0] if missing else getattr(fault, "column", None)
    return FileFormatError(f"expected {what}, got damaged arrays: {reason}{remedy}", column=column)


def whole_numbers_of(arrays: dict[str, Any], name: str, shape: Shape) -> IntArray:
    """Return an array of whole numbers of the given shape."""
    array = np.asarray(arrays[name])
    require(array.dtype.kind in "iu", name, "hold whole numbers", f"{array.dtype}")
    require(_has_shape(array, shape), name, f"have shape {_shape_text(shape)}", f"{array.shape}")
    if array.dtype.kind == "u" and array.size:
        require(int(array.max()) < 2**63, name, "hold numbers of 63 bits", array.max())
    return array.astype(np.int64)


def floats_of(arrays: dict[str, Any], name: str, shape: Shape) -> FloatArray:
    """Return an array of finite numbers of the given shape."""
    array = np.asarray(arrays[name])
    require(array.dtype.kind in "fiu", name, "hold numbers", f"{array.dtype}")
    require(_has_shape(array, shape), name, f"have shape {_shape_text(shape)}", f"{array.shape}")
    require(bool(np.all(np.isfinite(array))), name, "hold finite numbers", array)
    return array.astype(np.float64)


def number_of(arrays: dict[str, Any], name: str) -> float:
    """Return a single finite number."""
    return float(floats_of(arrays, name, ()))


def _has_shape(array: Any, shape: Shape) -> bool:
    return array.ndim == len(shape) and all(n is None or n == m for n, m in zip(shape, array.shape, strict=True))


def _shape_text(shape: Shape) -> str:
    words = ["any" if n is None else str(n) for n in shape]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"
