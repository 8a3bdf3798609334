"""Successive halving: many configurations in short runs, the better half in runs twice as long, and so on.

Every rung is a fresh run of each remaining configuration on every validation seed. Configurations are ranked by their mean
cumulative quantile gap; ties go to the larger mean return of the last episodes, then to the smaller value.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from bqrl.mdp.arrays import FloatArray
from bqrl.study.runner import Batch
from bqrl.study.scores import margin
from bqrl.study.store import RunSpec

TIE = 1e-9  # relative to the size of the returns; sums of gaps that differ by less are equal up to rounding


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One configuration in one rung."""

    place: int  # index in the grid
    value: float
    scores: tuple[tuple[float, float], ...]  # per validation seed: cumulative gap, mean return of the last episodes

    @property
    def gaps(self) -> FloatArray:
        """Cumulative gap of each run."""
        return np.array([gap for gap, _ in self.scores])

    @property
    def gap(self) -> float:
        """Mean cumulative gap."""
        return float(self.gaps.mean())

    @property
    def tail(self) -> float:
        """Mean return of the last episodes."""
        return float(np.mean([tail for _, tail in self.scores]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """Configurations compared at one length, in the order of the grid."""

    episodes: int
    trials: tuple[Trial, ...]
    size: float = 1.0  # scale of the returns

    @property
    def tie(self) -> float:
        """Scores that differ by less are equal up to rounding."""
        return TIE * self.size

    def ranked(self) -> list[Trial]:
        """The best first."""
        tie = self.tie
        return sorted(self.trials, key=lambda trial: (round(trial.gap / tie), -round(trial.tail / tie), trial.place))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """The trace of a tuning and its winner."""

    parameter: str
    values: tuple[float, ...]
    rungs: tuple[Rung, ...]

    @property
    def winner(self) -> Trial:
        """The best configuration of the last rung."""
        return self.rungs[-1].ranked()[0]

    @property
    def edge(self) -> tuple[str, bool | None] | None:
        """For a winner at an edge of the grid: "lowest" or "highest", and whether the criterion is flat there; else None.

        The criterion is flat if the winner's neighbour did as well in their last common rung, within the 95 % t interval of the
        difference by seed; None means that the two were never compared.
        """
        place = self.winner.place
        if 0 < place < len(self.values) - 1:
            return None
        which, neighbour = ("lowest", 1) if place == 0 else ("highest", place - 1)
        for rung in reversed(self.rungs):
            gaps = {trial.place: trial.gaps for trial in rung.trials}
            if neighbour in gaps:
                difference = gaps[place] - gaps[neighbour]
                return which, bool(abs(difference.mean()) <= max(float(np.nan_to_num(margin(difference))), rung.tie))
        return which, None

    def verdict(self) -> str:
        """Where the winner lies in the grid, and what that means."""
        setting = f"{self.parameter} = {self.winner.value:g}"
        if self.edge is None:
            return f"the winner is inside the grid: {setting}"
        which, flat = self.edge
        meaning = {
            True: "the neighbouring value does as well up to the variation between seeds: the criterion is flat there",
            False: "the criterion is not flat there: a wider grid may do better",
            None: "the neighbouring value was dropped before they could be compared",
        }
        return f"the winner is the {which} value of the grid, {setting}; {meaning[flat]}"


def halving(
    parameter: str, values: Sequence[float], rungs: Sequence[tuple[int, int]],
    runs: Callable[[float, int], list[RunSpec]], score: Callable[[RunSpec], tuple[float, float]], size: float = 1.0,
) -> Generator[Batch, None, Tuned]:  # fmt: skip
    """Yield the runs of each rung (configurations, episodes) as a batch, score them, and return the trace.

    `runs(value, episodes)` lists the runs of a configuration; `size` is the size of the returns.
    """
    done: list[Rung] = []
    left, best = list(range(len(values))), ""
    for count, episodes in rungs:
        if done:
            ranked = done[-1].ranked()
            left = sorted(trial.place for trial in ranked[:count])
            best = f"{parameter} = {ranked[0].value:g} with a gap of {ranked[0].gap:.4g}"
        asked = {place: runs(values[place], episodes) for place in left}
        yield Batch(f"tuning {len(left)} of {len(values)} over {episodes} episodes", list(chain(*asked.values())), best)
        trials = [Trial(place=i, value=values[i], scores=tuple(map(score, some))) for i, some in asked.items()]
        done.append(Rung(episodes=episodes, trials=tuple(trials), size=size))
    return Tuned(parameter=parameter, values=tuple(values), rungs=tuple(done))
