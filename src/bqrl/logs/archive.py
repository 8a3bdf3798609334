"""Estimates as arrays without objects, for .npz archives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bqrl.checks import one_line
from bqrl.errors import FileFormatError
from bqrl.logs.balls import Balls
from bqrl.logs.observed import Observed
from bqrl.mdp.arrays import damage_error, require
from bqrl.mdp.files.npz import FURTHER, OPTIONAL, STORED, model_arrays, read_stored
from bqrl.mdp.model import MDP

FORMAT = 2


def estimate_arrays(estimate: Observed) -> dict[str, Any]:
    """Return the estimate as arrays; refits and noise are not stored."""
    model, balls = model_arrays(estimate.mdp), estimate.balls
    found = {
        "bqrl_estimate": np.array(FORMAT), **{name: model[name] for name in STORED}, "visits": balls.visits,
        "outcomes": balls.outcomes, "seen": balls.seen, "most": balls.most, "exact": balls.known,
        "fixed": np.array(balls.fixed), "tries": estimate.tries, "uncounted": estimate.uncounted,
        "returns": estimate.returns, "cut": estimate.cut,
        "assumptions": np.array(estimate.assumptions, np.str_), "added": np.array(estimate.added, np.int64),
        "whole": np.array([
            balls.rows, balls.free, estimate.episodes, estimate.steps, estimate.tries.sum(), estimate.start_atoms,
            estimate.adaptive,
        ]),
        "numbers": np.array([balls.delta, estimate.confidence, estimate.floor, estimate.lowest, estimate.drift or 0.0]),
    }  # fmt: skip
    return found | {name: array for name, array in model.items() if _optional(name)}


def _optional(name: str) -> bool:
    """Return whether an array belongs to a part of the model that it may lack; noise is not stored."""
    return name in OPTIONAL or name.startswith(FURTHER)


def fields(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the estimate that `arrays` describes; raise FileFormatError if they are damaged."""
    try:
        return _read_fields(arrays)
    except (KeyError, IndexError, TypeError, OverflowError, AttributeError) as fault:
        raise damage_error("a saved estimate", fault) from None


def _read_fields(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields; the model is checked like any other, and every array must have the shape that the model requires."""
    if arrays["bqrl_estimate"].shape != () or int(arrays["bqrl_estimate"]) != FORMAT:
        message = f"expected an estimate of format {FORMAT}, got {one_line(arrays['bqrl_estimate'])}; save it again"
        raise FileFormatError(message, column="bqrl_estimate")
    mdp = MDP.from_table(
        **read_stored({name: array for name, array in arrays.items() if name in STORED or _optional(name)})
    )
    kinds_of = {"visits": "iu", "outcomes": "iu", "seen": "iu", "tries": "iu", "most": "fiu", "exact": "b"}
    per_row = {name: np.asarray(arrays[name]) for name in kinds_of}
    for name, kinds in kinds_of.items():
        found = per_row[name]
        valid = found.shape == mdp.known.shape and found.dtype.kind in kinds and not np.any(found < 0)
        rule = f"have one entry of at least 0 per row, shape {mdp.known.shape}"
        require(valid, name, rule, f"{found.shape} of {found.dtype}")
    known, tries = per_row.pop("exact"), per_row.pop("tries")
    uncounted = np.asarray(arrays["uncounted"])
    valid = uncounted.shape == known.shape[:2] and uncounted.dtype.kind in "iu" and not np.any(uncounted < 0)
    require(
        valid, "uncounted", f"have one count per state, shape {known.shape[:2]}", f"{uncounted.shape} of {uncounted.dtype}"
    )  # fmt: skip
    rows, free, episodes, steps, _, atoms, adaptive = (int(x) for x in arrays["whole"].tolist())
    require(arrays["numbers"].shape == (5,), "numbers", "have 5 entries", arrays["numbers"])
    delta, confidence, floor, lowest, drift = (float(x) for x in arrays["numbers"].tolist())
    returns, added = np.asarray(arrays["returns"], np.float64), np.asarray(arrays["added"])
    require(returns.ndim == 1, "returns", "be a list", f"shape {returns.shape}")
    cut = np.asarray(arrays["cut"], np.float64)
    valid = cut.shape == (episodes - returns.size, 2) and not np.any(cut[:, 0] > cut[:, 1])
    require(valid, "cut", f"have {episodes - returns.size} rows (least, most)", f"shape {cut.shape}")
    valid = added.ndim == 1 and added.dtype.kind in "iu" and not np.any(added >= mdp.S)
    require(valid, "added", f"be a list of states below {mdp.S}", added)
    valid = rows >= 1 and min(episodes, steps, atoms) >= 0
    require(valid, "whole", "hold counts", arrays["whole"])
    valid = 0.0 < delta < 1.0 and 0.0 < confidence < 1.0
    require(valid, "numbers", "begin with delta and the confidence in (0, 1)", arrays["numbers"])
    return {
        "mdp": mdp, "confidence": confidence,
        "balls": Balls(known=known, **per_row, free=bool(free), rows=rows, delta=delta, fixed=bool(arrays["fixed"])),
        "assumptions": tuple(map(str, arrays["assumptions"].tolist())), "returns": returns, "cut": cut, "episodes": episodes,
        "steps": steps, "tries": tries, "uncounted": uncounted, "start_atoms": atoms, "floor": floor, "lowest": lowest,
        "added": tuple(added.tolist()), "adaptive": bool(adaptive), "drift": drift or None,
    }  # fmt: skip
