"""Shared noise: rows of a kernel that are images of one law of events.

Many problems have the form s' = f(s, a, e), r = g(s, a, e), where the event e (an offer, a demand, a coin) has one law,
per model or per stage. The law of row (s, a) is then the image of the event law under e -> (s', r):

    probability of outcome i of the row  =  sum of the probabilities of the events that lead to outcome i.

A learner that knows this counts events instead of rows: every transition of every row that a law drives counts towards
that law. `SharedNoise` holds what it needs: which law drives each row, and which outcome each event leads to there.
A row with a single outcome is driven by no law: its event does not matter, is not drawn and is not reported.

Observed events. With `events_observed=True` the learner observes the event of each transition. Otherwise it observes
the outcome only, and several events may share one (a stock-out hides how large the demand was). The rule is then:

    a law needs two events separated if some row that it drives sends them to different outcomes;
    a row reveals its law if it separates every pair of events that the law needs separated;
    a transition counts towards a law if and only if its row reveals the law.

The rule looks at the row alone, never at the outcome. To count whenever the outcome happens to identify the event would be
biased: a stock-out is never counted, so large demands would seem rare. Events that no row separates form one class and
are counted at the first event of the class, which changes no image.

The image of a law contracts l1 distances, so a ball around the event law maps into balls of the same radius around rows.

Probabilities are NaN where they are not known: on the model that a learner is given, and on twins that
`MDP.with_probability` makes, whose rows need not be images of any law. Files keep the noise with the model; events are
then strings.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.errors import ArgumentError, ArgumentTypeError, ModelError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from bqrl.mdp.model import MDP

LAW_TOL = 1e-9  # a law of events may miss 1 by this much


@dataclass(frozen=True, eq=False)
class SharedNoise:
    """The laws of events behind a kernel; row number q = (k * S + s) * A + a, as in the model's `row_start`."""

    events: tuple[tuple[Any, ...], ...]  # labels of the events of every law
    probabilities: tuple[FloatArray, ...]  # of the same events; NaN where the law is not known
    row_law: IntArray  # (K, S, A)  the law that drives each row, -1 for none
    row_start: IntArray  # (K*S*A + 1,)  of the model
    pair_start: IntArray  # (K*S*A + 1,)  pairs (row, event) of row q: pair_start[q] .. pair_start[q + 1]
    pair_outcome: IntArray  # (pairs,)  place in the model's `probability` to which the event leads
    events_observed: bool = True
    cut: tuple[float, ...] = ()  # mass that was cut off each law before it was renormalised
    states: Any = None  # the states as the step function knows them, by number
    actions: tuple[Any, ...] | None = None  # the actions as the step function knows them, by number

    def __post_init__(self) -> None:
        object.__setattr__(self, "cut", self.cut or (0.0,) * len(self.events))
        if len(self.cut) != len(self.events):
            raise ModelError(f"cut must hold one number per law ({len(self.events)}), got {len(self.cut)}")
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # a pickle forgets it

    def _freeze(self) -> None:
        for array in (*self.probabilities, self.row_law, self.row_start, self.pair_start, self.pair_outcome):
            array.flags.writeable = False

    def __repr__(self) -> str:
        sizes = ", ".join(str(len(labels)) for labels in self.events[:4]) + (", ..." if len(self.events) > 4 else "")
        rows = np.count_nonzero(self.row_law >= 0)
        laws = "1 law" if len(self.events) == 1 else f"{len(self.events)} laws"
        text = f"SharedNoise({laws} of {sizes} events behind {rows} rows"
        text += "" if self.events_observed else ", events not observed"
        if any(self.cut):
            text += f", at most {max(self.cut):.3g} of a law's mass cut off"
        return text + ")"

    # -- rows and events ----------------------------------------------------------------------------------------------

    def row(self, h: int, s: int, a: int) -> int:
        """Number of the row (stage, state, action)."""
        K, S, A = self.row_law.shape
        return ((h if K > 1 else 0) * S + s) * A + a

    def outcome_of(self, row: int) -> IntArray:
        """Outcome of the row, counted from 0, to which each event of its law leads; empty for a row without a law."""
        return self.pair_outcome[self.pair_start[row] : self.pair_start[row + 1]] - self.row_start[row]

    def reveals(self, row: int) -> bool:
        """Whether the outcomes of the row separate everything that its law needs separated."""
        return bool(self.separates.reshape(-1)[row])

    def event_of(self, row: int, outcome: int) -> int:
        """The event that an outcome of a revealing row shows (the first of its class), -1 where the row reveals none."""
        return int(self.outcome_event[self.row_start[row] + outcome])

    @cached_property
    def known(self) -> bool:
        """Whether the laws are known."""
        return all(bool(np.all(np.isfinite(p))) for p in self.probabilities)

    @cached_property
    def event_names(self) -> tuple[tuple[str, ...], ...]:
        """The events of every law as text, as files write them; 3.0 is 3."""

        def text(event: Any) -> str:
            return str(int(event)) if isinstance(event, float) and event.is_integer() else str(event)

        return tuple(tuple(map(text, labels)) for labels in self.events)

    @cached_property
    def law_start(self) -> IntArray:
        """Place of the first event of every law in the laws written one after the other, shape (laws + 1,)."""
        return np.cumsum([0, *(len(labels) for labels in self.events)])

    @cached_property
    def pair_event(self) -> IntArray:
        """Event of every pair, counted over the laws written one after the other, shape (pairs,)."""
        counts = np.diff(self.pair_start)
        within = np.arange(self.pair_outcome.size) - np.repeat(self.pair_start[:-1], counts)
        return within + np.repeat(self.law_start[self.row_law.reshape(-1)], counts)

    @cached_property
    def classes(self) -> tuple[IntArray, ...]:
        """For every law the first event of each event's class: events of one class share an outcome in every row."""
        found = []
        row_law = self.row_law.reshape(-1)
        for law, labels in enumerate(self.events):
            rows = np.flatnonzero(row_law == law)
            pairs = self.pair_start[rows][:, None] + np.arange(len(labels))
            if not rows.size:
                found.append(np.zeros(len(labels), np.int64))
                continue
            columns = self.pair_outcome[pairs].T  # one line per event: where it leads, row by row
            _, first, inverse = np.unique(columns, axis=0, return_index=True, return_inverse=True)
            found.append(first[inverse.reshape(-1)])
        return tuple(found)

    @cached_property
    def separates(self) -> BoolArray:
        """Which rows separate everything that their law needs separated, shape (K, S, A); False without a law.

        Every row sends a class of events to one outcome, so a row separates all classes if it has as many outcomes.
        """
        hit = np.bincount(self.pair_outcome, minlength=int(self.row_start[-1])) > 0
        outcomes = np.diff(np.r_[0, np.cumsum(hit)][self.row_start]).reshape(self.row_law.shape)
        needed = np.array([*(np.unique(first).size for first in self.classes), -1])
        return outcomes == needed[self.row_law]

    @cached_property
    def outcome_event(self) -> IntArray:
        """For every outcome of the model the event that it counts as, -1 in rows that do not reveal their law."""
        shown = np.full(int(self.row_start[-1]), -1, np.int64)
        counts = np.diff(self.pair_start)
        pairs = np.repeat(self.separates.reshape(-1), counts)
        first = np.concatenate(self.classes)[self.pair_event[pairs]] if pairs.any() else np.empty(0, np.int64)
        shown[self.pair_outcome[pairs]] = first
        return shown

    # -- laws -----------------------------------------------------------------------------------------------------------

    def image(self, laws: Sequence[Any], other: FloatArray | None = None) -> FloatArray:
        """Probabilities of every outcome of the model if the events have the given laws.

        Parameters
        ----------
        laws : sequence of arrays
            One probability vector per law, in the order of `events`.
        other : array, optional
            Probabilities aligned with the model's, read in rows that no law drives; needed if such a row has more
            than one outcome.

        Returns
        -------
        array of shape (nnz,), aligned with `MDP.probability`

        >>> import bqrl
        >>> noise = bqrl.envs.make("SafeOrRisky", shared=True).noise
        >>> noise.image([[0.25, 0.75]]).tolist()  # Safe, then Risky: loses, wins
        [1.0, 0.75, 0.25]
        """
        weights = np.concatenate([self._checked(law, i) for i, law in enumerate(laws)]) if len(laws) else np.empty(0)
        if len(laws) != len(self.events):
            raise ArgumentError(f"laws must hold {len(self.events)} laws, got {len(laws)}", name="laws")
        sums = np.bincount(self.pair_outcome, weights[self.pair_event], minlength=int(self.row_start[-1]))
        probability = sums.astype(np.float64)
        if other is not None:
            return np.where(self._free, other, probability)
        if np.any(np.diff(self.row_start)[self.row_law.reshape(-1) < 0] > 1):
            raise ArgumentError("other must be given: some rows without a law have several outcomes", name="other")
        probability[self._free] = 1.0
        return probability

    def with_probabilities(self, laws: Sequence[Any]) -> SharedNoise:
        """The same events with other laws."""
        twin = copy(self)
        twin.__dict__.pop("known", None)
        put = [np.array(self._checked(law, i)) for i, law in enumerate(laws)]
        for law in put:
            law.flags.writeable = False
        object.__setattr__(twin, "probabilities", tuple(put))
        return twin

    @cached_property
    def hidden(self) -> SharedNoise:
        """The same events without their laws: what a learner may see."""
        if not self.events or np.all(np.isnan(np.concatenate(self.probabilities))):
            return self
        return replace(self, probabilities=tuple(np.full(p.size, np.nan) for p in self.probabilities))

    def staged(self, H: int) -> SharedNoise:
        """The noise of a stationary model written out for H stages; the laws stay shared between stages."""
        nnz, pairs = int(self.row_start[-1]), self.pair_outcome.size
        return replace(
            self,
            row_law=np.repeat(self.row_law, H, axis=0),
            row_start=_repeated(self.row_start, H),
            pair_start=_repeated(self.pair_start, H),
            pair_outcome=np.tile(self.pair_outcome, H) + np.repeat(np.arange(H) * nnz, pairs),
        )

    def check(self, row_start: IntArray, probability: FloatArray) -> None:
        """Raise ModelError unless the rows with a law are images of it."""
        if not np.array_equal(row_start, self.row_start):
            raise ModelError("noise must describe the rows of this model; build it for the same outcomes")
        if self.known:
            for i, p in enumerate(self.probabilities):
                if np.any(p < 0.0) or abs(p.sum() - 1.0) > LAW_TOL:
                    raise ModelError(f"law {i} of the noise must hold probabilities that sum to 1, got {p.sum():.12g}")
            off = np.abs(self.image(self.probabilities, probability) - probability)
            if off.size and off.max() > LAW_TOL:
                row = int(np.searchsorted(row_start, off.argmax(), side="right")) - 1
                _, S, A = self.row_law.shape
                place = (row // (S * A) if len(self.row_law) > 1 else None, row // A % S, row % A)
                raise ModelError(
                    f"row {place} must be the image of its law of events, is off by {off.max():.3g}", row=place
                )

    @cached_property
    def _free(self) -> BoolArray:
        """Which outcomes belong to rows without a law."""
        return np.repeat(self.row_law.reshape(-1) < 0, np.diff(self.row_start))

    def _checked(self, law: Any, i: int) -> FloatArray:
        given = np.asarray(law, dtype=np.float64)
        if i >= len(self.events) or given.shape != (len(self.events[i]),):
            size = len(self.events[i]) if i < len(self.events) else 0
            raise ArgumentError(f"laws[{i}] must hold {size} probabilities, got shape {given.shape}", name="laws")
        return given


def _repeated(starts: IntArray, H: int) -> IntArray:
    """Starts of H copies of the same rows, one copy after the other."""
    total = starts[-1]
    return np.r_[np.tile(starts[:-1], H) + np.repeat(np.arange(H) * total, starts.size - 1), H * total]


def shared_noise(pairs: Any, row_start: IntArray, shape: tuple[int, int, int], **fields: Any) -> SharedNoise:
    """The noise of listed pairs (row, outcome, law, event), an array of four columns: where each event leads in a row.

    Every row has one law, or -1, and lists each of its events once. Rows with a single outcome are driven by no law.
    `fields` are the other fields of `SharedNoise`.
    """
    row, outcome, law, event = pairs
    order = np.lexsort((event, row))
    order = order[(np.diff(row_start)[row[order]] > 1) & (law[order] >= 0)]
    row_law = np.full(row_start.size - 1, -1)
    row_law[row[order]] = law[order]
    counts = np.bincount(row[order], minlength=row_law.size)
    return SharedNoise(
        row_law=row_law.reshape(shape),
        row_start=row_start,
        pair_start=np.r_[0, np.cumsum(counts)],
        pair_outcome=outcome[order],
        **fields,
    )


def outcome_numbers(row: IntArray, s_next: IntArray, reward: FloatArray) -> IntArray:
    """Place of each line's outcome in a table: outcomes are the distinct (row, next state, reward) in increasing order."""
    order = np.lexsort((reward, s_next, row))
    keys = row[order], s_next[order], reward[order]
    new = np.ones(row.size, bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    outcome = np.empty(row.size, np.int64)
    outcome[order] = np.cumsum(new) - 1
    return outcome


def noise_of(mdp: MDP) -> SharedNoise:
    """The model's shared noise, or ArgumentTypeError."""
    if mdp.noise is None:
        raise ArgumentTypeError(
            "mdp must have shared noise, got none; build it with from_step or shared=True", name="mdp"
        )
    return mdp.noise


def with_laws(mdp: MDP, laws: Sequence[Any]) -> MDP:
    """The same problem with other laws of events.

    Parameters
    ----------
    mdp : MDP
        A model with shared noise.
    laws : sequence of arrays
        One probability vector per law.

    Returns
    -------
    MDP
        A twin whose rows are the images of the laws and whose `noise` knows them.

    >>> import bqrl
    >>> with_laws(bqrl.envs.make("SafeOrRisky", shared=True), [[0.9, 0.1]]).probability.tolist()
    [1.0, 0.1, 0.9]
    """
    noise = noise_of(mdp).with_probabilities(laws)
    return mdp.with_probability(noise.image(laws, mdp.probability)).with_noise(noise)


def draw(mdp: MDP, h: int, s: Any, a: Any, u: Any) -> tuple[IntArray, IntArray]:
    """Events and outcomes of transitions: each event by inverse CDF over its law, then the outcome to which it leads.

    Parameters
    ----------
    mdp : MDP
        A model with shared noise whose laws are known.
    h, s, a : int, array, array
        Stage, states and actions.
    u : array
        Uniform numbers in [0, 1), one per transition.

    Returns
    -------
    events, outcomes : arrays
        The event's index in its law, -1 in rows without a law; the outcome's index in its row.

    >>> import bqrl
    >>> draw(bqrl.envs.make("SafeOrRisky", shared=True), 0, [0, 0], [1, 1], [0.1, 0.9])
    (array([0, 1]), array([1, 0]))
    """
    noise = noise_of(mdp)
    s, a, u = (np.atleast_1d(np.asarray(array)) for array in (s, a, u))
    row = ((0 if mdp.stationary else h) * mdp.S + s) * mdp.A + a
    law = noise.row_law.reshape(-1)[row]
    events, outcomes = np.full(row.size, -1), np.empty(row.size, np.int64)
    for i in np.unique(law[law >= 0]):
        here = law == i
        events[here] = draw_index(noise.probabilities[i], u[here])
        q = row[here]
        outcomes[here] = noise.pair_outcome[noise.pair_start[q] + events[here]] - noise.row_start[q]
    for q in np.unique(row[law < 0]):
        here = row == q
        outcomes[here] = draw_index(mdp.probability[mdp.row_start[q] : mdp.row_start[q + 1]], u[here])
    return events, outcomes


def draw_index(p: FloatArray, u: Any) -> Any:
    """Index at which the running sum of `p` passes u; never one of probability zero."""
    return np.minimum(np.searchsorted(np.cumsum(p), u, side="right"), np.flatnonzero(p)[-1])
