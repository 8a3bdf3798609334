"""Learning curves: the mean over seeds of a measure with its band, and the colours of the learners."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from bqrl.display import spread_indices
from bqrl.learners.registry import colour_of
from bqrl.mdp.arrays import FloatArray
from bqrl.results.charts import GREY, PALETTE, Curve, more_colours
from bqrl.study.scores import Contender, mean_band

MAX_BLOCKS = 100
SPARE = ("#E600E6", "#00C8D0", GREY)  # for learners and variants without their own colour


def learner_colours(contenders: Iterable[Contender]) -> dict[str, str]:
    """Colour of each contender by label. Call this once with all learners of an experiment, for all of its charts.

    A learner with its planner has the same colour in all experiments. Further variants and other learners get colours that
    belong to no learner, as long as there are any; all colours differ.
    """
    found: dict[str, str | None] = {}
    for one in contenders:
        colour = colour_of(one.learner, one.params)
        found[one.label] = None if not colour or colour in found.values() else colour
    free = more_colours([colour for colour in found.values() if colour], (*SPARE, *PALETTE))
    return {label: colour or next(free) for label, colour in found.items()}


def mean_curve(
    label: str, values: FloatArray, points: int, view: tuple[int, ...] = (), measure: str = "", *, log: bool = False
) -> Curve:
    """Mean over seeds of the values (seeds, episodes) of a measure, with its band, at `points` episodes; `log`: evenly in log."""
    drawn = spread_indices(values.shape[1], points, log=log)
    values = values[:, drawn]
    mean = values[0] + (values - values[0]).mean(axis=0)  # equal runs give exactly their value
    low, high = mean_band(values, measure) if len(values) > 1 else (None, None)
    return Curve(label, (drawn + 1).astype(np.float64), mean, low, high, view)


def averaged_curve(label: str, values: FloatArray) -> Curve:
    """The same for averages over MAX_BLOCKS blocks of episodes, each drawn at its last episode."""
    ends = spread_indices(values.shape[1] + 1, MAX_BLOCKS + 1)[1:]
    total = np.cumsum(values, axis=1)[:, ends - 1]
    blocks = np.diff(total, axis=1, prepend=0.0) / np.diff(ends, prepend=0)
    return mean_curve(label, blocks, MAX_BLOCKS)._replace(x=ends.astype(np.float64))


def thinning_note(T: int, points: int) -> str:
    """Sentence for the subtitle of curves over T episodes that are drawn with fewer points."""
    return f"The curves cover all {T} episodes with {points} points." if T > points else ""
