"""Counts of event laws, for problems whose rows share noise (see mdp/noise.py).

    N of a row         =  number of transitions, in all rows, that revealed an event of the row's law
    P_hat of a row     =  image of the empirical event law under event -> (s', r)

The empirical law, its posterior and its radius belong to the event law. The kernel, the counts and the visits of rows are its
images: for learners, it is as if every row had been visited N times. The model determines which rows share a law, one per model
or one per stage; `stationary` applies to the rows without a law.

Events that lead to the same outcome in every row cannot be distinguished and need not be. They form a class, and classes are
counted. If the episode reports its events, every transition of a row with a law counts. Otherwise a transition counts if its row
distinguishes all classes. Whether its outcome happens to identify the event must not matter, because that would bias the counts.
A row that was visited more often than its law was revealed uses its own counts.

The l1 balls of rows that share a law are treated as independent, which only enlarges the set. Each ball has the radius of the
event law, because images do not increase l1 distances.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import flag
from bqrl.errors import EpisodeError
from bqrl.learners.counts import Counts, Units
from bqrl.learners.protocol import Episode, Task, stored_array
from bqrl.loops.counts import EventLaws, count_events
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.noise import SharedNoise
from bqrl.mdp.stage import Structure


def counts_of(task: Task, stationary: bool | None = None) -> Counts:
    """Return the empty counts of a learner: counts of event laws if rows share noise, else counts of rows."""
    assert task.model is not None
    stationary, noise = flag(stationary, "stationary", optional=True), task.model.noise
    if noise is None or not np.any(noise.row_law >= 0):
        return Counts(task.structure, stationary, task.model.reward)
    return SharedCounts(task.structure, noise, stationary, task.model.reward)


class SharedCounts(Counts):
    """Counts of event laws in the layout of rows.

    Parameters
    ----------
    structure, stationary, reward
        See `Counts`.
    noise
        The shared noise of the model.

    Attributes
    ----------
    class_seen
        Number of observations of every class of events, the laws one after the other.
    by_law
        Which rows, shape (M*S*A,), currently take their probabilities from an event law.
    """

    def __init__(
        self, structure: Structure, noise: SharedNoise, stationary: bool | None = None,
        reward: FloatArray | None = None,
    ) -> None:  # fmt: skip
        super().__init__(structure, stationary, reward)
        self._own = Counts(structure, stationary, reward)  # counts per row
        self.noise = noise = noise.staged(self.M) if len(noise.row_law) < self.M else noise
        self.row_law = noise.row_law.reshape(-1)
        first = np.concatenate(noise.classes) + np.repeat(noise.law_start[:-1], np.diff(noise.law_start))
        counted, event_class = np.unique(first, return_inverse=True)
        self.event_class: IntArray = event_class.reshape(-1)
        self.class_start = np.searchsorted(counted, noise.law_start)
        self.class_seen = np.zeros(counted.size, np.int64)
        lead = first[noise.pair_event] == noise.pair_event  # one event represents its class
        self.pair_class: IntArray = self.event_class[noise.pair_event[lead]]
        self.pair_outcome: IntArray = noise.pair_outcome[lead]
        law_of_outcome = np.repeat(self.row_law, np.diff(self.row_start))
        shown = noise.outcome_event
        shows = shown >= 0
        self._outcome_class = np.full(shown.size, -1)
        self._outcome_class[shows] = self.event_class[noise.law_start[law_of_outcome[shows]] + shown[shows]]
        classes = np.append(np.diff(self.class_start), 0)[self.row_law].reshape(self.known.shape)
        self.support_size = np.where(self.row_law.reshape(self.known.shape) >= 0, classes, self.support_size)
        self._write_rows()

    def observe(self, episode: Episode) -> None:
        """Count one episode; EpisodeError if a transition is impossible or contradicts its event."""
        self._own.observe(episode)
        noise = self.noise
        laws = EventLaws(
            row_law=self.row_law, event_start=noise.law_start, event_class=self.event_class,
            outcome_class=self._outcome_class, pair_start=noise.pair_start, pair_outcome=noise.pair_outcome,
            seen=self.class_seen,
        )  # fmt: skip
        h = count_events(self._own.tally, *self._own.rewards, laws, *episode)
        if h < self.structure.H:
            s, a, event = (int(array[h]) for array in (episode.states, episode.actions, episode.events))
            rule = f"an event that leads from action {a} in state {s} to state {int(episode.states[h + 1])}"
            raise EpisodeError(f"stage {h + 1}: expected {rule}, got {event}", step=h, value=event)
        self._write_rows()

    def image(self, weights: Any) -> Any:
        """Return for each outcome the sum of the weights of the classes that lead to it; 0 in rows without a law."""
        return np.bincount(self.pair_outcome, weights[self.pair_class], minlength=self.successor.size)

    def law_visits(self) -> IntArray:
        """Return the number of observations of every law."""
        return np.add.reduceat(self.class_seen, self.class_start[:-1])

    def class_law(self) -> FloatArray:
        """Return the empirical probabilities of the classes, the laws one after the other; uniform without observations."""
        n, sizes = self.law_visits(), np.diff(self.class_start)
        share = self.class_seen / np.repeat(np.maximum(n, 1), sizes)
        return np.where(np.repeat(n > 0, sizes), share, np.repeat(1.0 / sizes, sizes))

    def _write_rows(self) -> None:
        """Write the images of the event laws into their rows."""
        own = self._own
        n = np.append(self.law_visits(), -1)[self.row_law]  # -1: no law
        visits = own.visits.reshape(-1)
        self.by_law: BoolArray = (visits <= n) & ~self.known.reshape(-1)
        driven = np.repeat(self.by_law, np.diff(self.row_start))
        self.visits[...] = np.where(self.by_law, n, visits).reshape(self.visits.shape)
        self.seen[...] = np.where(driven, self.image(self.class_seen), own.seen)
        self.probability[...] = np.where(driven, self.image(self.class_law()), own.probability)

    def units(self, rows: BoolArray | None = None) -> Units:
        """Return the laws that a posterior draws: all event laws, then the given rows that may use their own counts."""
        return SharedUnits(self, self.available & ~self.known if rows is None else rows)

    def state(self) -> dict[str, Any]:
        """Return the counts of rows and of events."""
        return self._own.state() | {"class_seen": self.class_seen.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self._own.restore(state)
        self.class_seen = np.maximum(stored_array(state, "class_seen", self.class_seen), 0)
        self._write_rows()


class SharedUnits(Units):
    """The event laws to draw, followed by the rows that may use their own counts."""

    def __init__(self, counts: SharedCounts, rows: BoolArray) -> None:
        revealed = counts.noise.separates | counts.noise.events_observed
        super().__init__(counts, rows & ~((counts.noise.row_law >= 0) & revealed))
        self.shared = counts
        self.classes = counts.class_seen.size
        self.sizes = np.concatenate([np.diff(counts.class_start), self.sizes])
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.place = np.full_like(self.place, -1)  # rows are images of laws, not copies

    def seen(self) -> IntArray:
        """Return the number of observations of every entry."""
        return np.concatenate([self.shared.class_seen, super().seen()])

    def shapes(self, prior: FloatArray, divisor: float) -> FloatArray:
        """Return (prior + observations) / divisor for every entry: the parameters of Dirichlet laws."""
        return (prior + self.seen()) / divisor

    def visits(self) -> IntArray:
        """Return the number of observations of every law, shape (units,)."""
        return np.concatenate([self.shared.law_visits(), super().visits()])

    def collect(self, values: FloatArray) -> FloatArray:
        """Return the value of every entry, given the value of every outcome; for a class of events, the mean over rows."""
        counts = self.shared
        number = np.bincount(counts.pair_class, minlength=self.classes)
        total = np.bincount(counts.pair_class, values[counts.pair_outcome], minlength=self.classes)
        return np.concatenate([total / np.maximum(number, 1), super().collect(values)])

    def spread(self, laws: FloatArray, kernel: FloatArray) -> FloatArray:
        """Return the kernel after writing the images of the laws into its rows."""
        super().spread(laws[self.classes :], kernel)
        driven = np.repeat(self.shared.by_law, np.diff(self.shared.row_start))
        kernel[driven] = self.shared.image(laws[: self.classes])[driven]
        return kernel
