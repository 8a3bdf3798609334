"""Shared noise as plain arrays, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.errors import ModelError
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.noise import SharedNoise

PREFIX = "noise_"


def to_arrays(noise: SharedNoise) -> dict[str, Any]:
    """The record as plain arrays under names that begin with `noise_`; events become strings."""
    return {
        "noise_events": np.array([str(event) for labels in noise.events for event in labels], dtype=np.str_),
        "noise_probability": np.concatenate([*noise.probabilities, np.empty(0)]),
        "noise_law_start": noise.law_start,
        "noise_row_law": noise.row_law,
        "noise_pair_outcome": noise.pair_outcome,
        "noise_cut": np.array(noise.cut),
        "noise_observed": np.array(int(noise.events_observed)),
    }


def from_arrays(arrays: dict[str, Any], row_start: IntArray) -> SharedNoise:
    """The record that `to_arrays` wrote, for a model with these rows."""
    try:
        starts = np.asarray(arrays["noise_law_start"], np.int64)
        between = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
        row_law = np.array(arrays["noise_row_law"], np.int64)
        counts = np.r_[np.diff(starts), 0][row_law.reshape(-1)]
        noise = SharedNoise(
            events=tuple(tuple(arrays["noise_events"][i:j].tolist()) for i, j in between),
            probabilities=tuple(np.array(arrays["noise_probability"][i:j], np.float64) for i, j in between),
            row_law=row_law,
            row_start=np.asarray(row_start, np.int64),
            pair_start=np.r_[0, np.cumsum(counts)],
            pair_outcome=np.array(arrays["noise_pair_outcome"], np.int64),
            events_observed=bool(arrays["noise_observed"]),
            cut=tuple(arrays["noise_cut"].tolist()),
        )
        rows = np.repeat(np.arange(counts.size), counts)
        inside = (noise.pair_outcome >= row_start[rows]) & (noise.pair_outcome < row_start[rows + 1])
        if row_law.ndim != 3 or row_law.size != row_start.size - 1 or row_law.min() < -1 or not inside.all():
            raise ValueError
    except (KeyError, IndexError, ValueError, TypeError):
        raise ModelError("the arrays noise_... do not describe the rows of this model; save it again") from None
    return noise
