"""Shared noise as plain arrays, for files."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.errors import ModelError
from bqrl.mdp.arrays import IntArray, floats_of, number_of, whole_numbers_of
from bqrl.mdp.noise import SharedNoise

PREFIX = "noise_"


def to_arrays(noise: SharedNoise) -> dict[str, Any]:
    """The record as plain arrays under names that begin with `noise_`; events become strings."""
    return {
        "noise_events": np.array([name for names in noise.event_names for name in names], dtype=np.str_),
        "noise_probability": np.concatenate([*noise.probabilities, np.empty(0)]),
        "noise_law_start": noise.law_start,
        "noise_row_law": noise.row_law,
        "noise_pair_outcome": noise.pair_outcome,
        "noise_cut": np.array(noise.cut),
        "noise_observed": np.array(int(noise.events_observed)),
    }


def from_arrays(arrays: dict[str, Any], row_start: IntArray) -> SharedNoise:
    """The record that `to_arrays` wrote, for a model with these rows; raises ModelError if the arrays do not fit."""
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
        raise ModelError("the arrays noise_... do not describe the rows of this model; save it again") from None
    between = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    return SharedNoise(
        events=tuple(tuple(map(str, events[i:j].tolist())) for i, j in between),
        probabilities=tuple(p[i:j].astype(np.float64) for i, j in between),
        row_law=row_law,
        row_start=np.asarray(row_start, np.int64),
        pair_start=np.r_[0, np.cumsum(counts)],
        pair_outcome=outcome,
        events_observed=observed,
        cut=tuple(cut.tolist()),
    )
