"""Shared noise: rows of a kernel that are images of one law of events.

Many problems have the form s' = f(s, a, e), r = g(s, a, e), where the event e (an offer, a demand, a coin) has one law,
per model or per stage. The law of row (s, a) is then the image of the event law under e -> (s', r):

    probability of outcome i of the row  =  sum of the probabilities of the events that lead to outcome i.

A learner that knows this counts events instead of rows: every transition of every row that a law drives counts towards
that law. `SharedNoise` holds what it needs: which law drives each row, and to which outcome each event leads there.
A row with a single outcome has no law: its event does not matter, is not drawn and is not reported.

Observed events. With `events_observed=True` the learner observes the event of each transition. Otherwise it observes
the outcome only, and several events may share one (a stock-out hides how large the demand was). The rule is then:

    a law needs two events separated if some row that it drives sends them to different outcomes;
    a row reveals its law if it separates every pair of events that the law needs separated;
    a transition counts towards a law if and only if its row reveals the law.

The rule depends on the row alone, never on the outcome. Counting a transition whenever its outcome happens to identify the
event would be biased: stock-outs would never be counted, so large demands would seem rare. Events that no row separates
form one class and are counted as the first event of the class, which does not change any image.

Taking the image of a law does not increase l1 distances, so a ball around the event law maps into balls of the same radius
around rows.

Probabilities are NaN where they are not known: in the model that a learner is given, and in models made by
`MDP.with_probability`, whose rows need not be images of any law. Files store the noise with the model; events are then
strings.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, one_line
from bqrl.errors import ModelError
from bqrl.loops.draws import draw
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray, tile_starts
from bqrl.mdp.table import Table, row_place
from bqrl.mdp.validation import distinct_names, sum_hint


@dataclass(frozen=True, eq=False, kw_only=True)
class SharedNoise:
    """The laws of events behind a kernel; the index of a row is q = (k * S + s) * A + a, as in the model's `row_start`."""

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
            raise ModelError(f"cut must hold one number per law ({len(self.events)}), got {len(self.cut)}", name="cut")
        self._freeze()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._freeze()  # unpickled arrays are writeable

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
        """Return the index of the row (stage, state, action)."""
        K, S, A = self.row_law.shape
        return ((h if K > 1 else 0) * S + s) * A + a

    def outcome_of(self, row: int) -> IntArray:
        """Return the outcome of the row, counted from 0, to which each event of its law leads; empty for a row without a law."""
        return self.pair_outcome[self.pair_start[row] : self.pair_start[row + 1]] - self.row_start[row]

    def reveals(self, row: int) -> bool:
        """Return whether the outcomes of the row separate all events that its law needs separated."""
        return bool(self.separates.flat[row])

    def draw(self, row: int, probability: FloatArray, u: float) -> tuple[int, int]:
        """Return the event (-1 without a law) and the outcome of a row for the uniform u, both counted from 0.

        The event is drawn first, by inverse CDF over its law. `probability` holds the probabilities of the row's outcomes.
        """
        law = int(self.row_law.flat[row])
        if law < 0:
            return -1, draw(probability.tolist(), 0, probability.size, u)
        event = draw(self.probabilities[law].tolist(), 0, self.probabilities[law].size, u)
        return event, int(self.outcome_of(row)[event])

    @cached_property
    def known(self) -> bool:
        """Whether the laws are known."""
        return all(bool(np.all(np.isfinite(p))) for p in self.probabilities)

    @cached_property
    def event_names(self) -> tuple[tuple[str, ...], ...]:
        """The events of every law as distinct lines of text, as in files; 3.0 becomes 3."""

        def text(event: Any) -> str:
            return str(int(event)) if isinstance(event, float) and event.is_integer() else str(event)

        return tuple(tuple(distinct_names(labels, text)) for labels in self.events)

    @cached_property
    def law_start(self) -> IntArray:
        """Index of the first event of every law if the laws are written one after the other, shape (laws + 1,)."""
        return np.cumsum([0, *(len(labels) for labels in self.events)])

    @cached_property
    def pair_event(self) -> IntArray:
        """Event of every pair, counted over the laws written one after the other, shape (pairs,)."""
        counts = np.diff(self.pair_start)
        within = np.arange(self.pair_outcome.size) - np.repeat(self.pair_start[:-1], counts)
        return within + np.repeat(self.law_start[self.row_law.reshape(-1)], counts)

    @cached_property
    def classes(self) -> tuple[IntArray, ...]:
        """For every law, the first event of each event's class: events of one class share an outcome in every row."""
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
        """Which rows separate all events that their law needs separated, shape (K, S, A); False without a law.

        Every row sends a class of events to one outcome, so a row separates all classes if it has as many outcomes as the
        law has classes.
        """
        hit = np.bincount(self.pair_outcome, minlength=int(self.row_start[-1])) > 0
        outcomes = np.diff(np.r_[0, np.cumsum(hit)][self.row_start]).reshape(self.row_law.shape)
        needed = np.array([*(np.unique(first).size for first in self.classes), -1])
        return outcomes == needed[self.row_law]

    @cached_property
    def outcome_event(self) -> IntArray:
        """For every outcome of the model, the event that it counts as; -1 in rows that do not reveal their law."""
        shown = np.full(int(self.row_start[-1]), -1, np.int64)
        counts = np.diff(self.pair_start)
        pairs = np.repeat(self.separates.reshape(-1), counts)
        first = np.concatenate(self.classes)[self.pair_event[pairs]] if pairs.any() else np.empty(0, np.int64)
        shown[self.pair_outcome[pairs]] = first
        return shown

    # -- laws -----------------------------------------------------------------------------------------------------------

    def image(self, laws: Sequence[Any], other: FloatArray | None = None) -> FloatArray:
        """Return the probability of every outcome of the model if the events have the given laws.

        Parameters
        ----------
        laws : sequence of arrays
            One probability vector per law, in the order of `events`.
        other : array, optional
            Probabilities aligned with the model's, used in rows that no law drives; required if such a row has more
            than one outcome.

        Returns
        -------
        array of shape (nnz,), aligned with `MDP.probability`

        Examples
        --------
        >>> import bqrl
        >>> noise = bqrl.envs.make("SafeOrRisky", shared=True).noise
        >>> noise.image([[0.25, 0.75]]).tolist()  # Safe, then Risky: loses, wins
        [1.0, 0.75, 0.25]
        """
        given = [np.asarray(law, dtype=np.float64) for law in laws]
        if len(given) != len(self.events):
            raise bad_value("laws", laws, f"hold {len(self.events)} laws", len(given))
        for i, (law, labels) in enumerate(zip(given, self.events, strict=True)):
            if law.shape != (len(labels),):
                raise bad_value(f"laws[{i}]", law, f"hold {len(labels)} probabilities", f"shape {law.shape}")
        weights = np.concatenate([*given, np.empty(0)])[self.pair_event]
        probability = np.bincount(self.pair_outcome, weights, minlength=int(self.row_start[-1])).astype(np.float64)
        if other is not None:
            return np.where(self._free_outcomes, other, probability)
        if np.any(np.diff(self.row_start)[self.row_law.reshape(-1) < 0] > 1):
            raise bad_value("other", None, "be given if rows without a law have several outcomes")
        probability[self._free_outcomes] = 1.0
        return probability

    @cached_property
    def hidden(self) -> SharedNoise:
        """The same events with unknown laws, as learners see them."""
        if not self.events or np.all(np.isnan(np.concatenate(self.probabilities))):
            return self
        return replace(self, probabilities=tuple(np.full(p.size, np.nan) for p in self.probabilities))

    def staged(self, H: int) -> SharedNoise:
        """Return the noise of a stationary model written out for H stages; the laws stay shared between stages."""
        nnz, pairs = int(self.row_start[-1]), self.pair_outcome.size
        return replace(
            self,
            row_law=np.repeat(self.row_law, H, axis=0),
            row_start=tile_starts(self.row_start, H),
            pair_start=tile_starts(self.pair_start, H),
            pair_outcome=np.tile(self.pair_outcome, H) + np.repeat(np.arange(H) * nnz, pairs),
        )

    def check(self, row_start: IntArray, probability: FloatArray) -> None:
        """Raise ModelError unless the rows with a law are images of it."""
        if not np.array_equal(row_start, self.row_start):
            raise ModelError(
                "noise must describe the rows of this model, got other rows; build it for the same outcomes",
                name="noise",
            )
        if self.known:
            for i, p in enumerate(self.probabilities):
                total = p.sum() if np.all((p >= 0.0) & (p <= 1.0 + SUM_TOL)) else np.nan
                if not abs(total - 1.0) <= SUM_TOL:
                    raise ModelError(
                        f"law {i} of the noise must hold probabilities that sum to 1, got {one_line(p)}", name="noise"
                    )
            off = np.abs(self.image(self.probabilities, probability) - probability)
            if off.size and off.max() > SUM_TOL:
                K, S, A = self.row_law.shape
                row = int(np.searchsorted(row_start, off.argmax(), side="right")) - 1
                place, text = row_place(row, (S, A), K > 1)
                message = f"row {text} must be the image of its law of events, got an error of {off.max():.3g}"
                raise ModelError(message, row=place, name="noise")

    @cached_property
    def _free_outcomes(self) -> BoolArray:
        """Which outcomes belong to rows without a law."""
        return np.repeat(self.row_law.reshape(-1) < 0, np.diff(self.row_start))


def shared_noise(table: Table, row: Any, outcome: Any, law: Any, event: Any, **fields: Any) -> SharedNoise:
    """Return the noise of listed pairs (row, event): the outcome to which each event of a law leads in a row.

    Every row has one law, or -1, and lists each of its events once. Rows with a single outcome have no law.
    `fields` are the other fields of `SharedNoise`.
    """
    order = np.flatnonzero((np.diff(table.row_start)[row] > 1) & (law >= 0))
    order = order[np.argsort((row * (event.max(initial=0) + 1) + event)[order], kind="stable")]
    row_law = np.full(table.row_start.size - 1, -1)
    row_law[row[order]] = law[order]
    counts = np.bincount(row[order], minlength=row_law.size)
    return SharedNoise(
        row_law=row_law.reshape(table.K, table.S, table.A), row_start=table.row_start,
        pair_start=np.r_[0, np.cumsum(counts)], pair_outcome=outcome[order], **fields,
    )  # fmt: skip


# -- laws of events as callers give them ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLaw:
    """A law of events."""

    events: tuple[Any, ...]
    probabilities: FloatArray
    cut: float  # mass that was cut off


def event_laws(noise: Any, H: int, mass: float | None) -> tuple[list[EventLaw], bool]:
    """Return the laws of events, and whether there is one per stage."""
    if mass is not None:
        mass = number(mass, "mass", 0.0, 1.0, "()")
    laws = isinstance(noise, (list, tuple)) and any(map(_is_law, noise))
    if laws:
        if len(noise) != H:
            remedy = "write one law as {event: probability}"
            raise bad_value("noise", noise, f"be one law or {H} laws, one per stage", len(noise), remedy=remedy)
        return [_law(law, mass, f"noise[{h}]") for h, law in enumerate(noise)], True
    return [_law(noise, mass, "noise")], False


def _is_law(given: Any) -> bool:
    """Return whether an item of a list is a law of its own, one per stage, rather than a recorded event."""
    return isinstance(given, (Mapping, list, np.ndarray)) or hasattr(given, "pmf") or _is_series(given)


def _is_series(given: Any) -> bool:
    """Return whether `given` is a pandas Series."""
    return hasattr(given, "index") and hasattr(given, "value_counts") and hasattr(given, "items")


def _listed_law(noise: Any, name: str) -> Any:
    """Return records (a list, array or Series), counts and Series of probabilities as {event: probability}.

    A Series as `value_counts` returns it (named "count" or "proportion") and one of fractions that sum to 1 hold weights by
    event; any other Series holds records.
    """
    if _is_series(noise):
        values = noise.tolist()
        shares = all(isinstance(x, float) and 0.0 <= x <= 1.0 for x in values) and any(0.0 < x < 1.0 for x in values)
        if noise.name in ("count", "proportion") or (shares and abs(math.fsum(values) - 1.0) <= SUM_TOL):
            noise = Counter(dict(zip(noise.index.tolist(), values, strict=True)))
        else:
            noise = values
    elif isinstance(noise, np.ndarray) and noise.ndim == 1:
        noise = noise.tolist()
    if isinstance(noise, (list, tuple)):
        for event in noise:
            if event != event:
                raise bad_value(name, noise, "hold recorded events", "a missing value", remedy="drop missing values")
        try:
            noise = Counter(noise)
        except TypeError:
            raise bad_type(name, noise, "hold hashable events", remedy="use tuples") from None
    if isinstance(noise, Counter):
        for event, times in noise.items():
            number(times, f"{name}[{one_line(event)}]", 0.0)
        total = math.fsum(noise.values())
        if total <= 0.0:
            raise bad_value(name, noise, "have at least one event", "none")
        try:
            events = sorted(noise)
        except TypeError:
            events = list(noise)
        return {event: noise[event] / total for event in events}
    return noise


def _law(noise: Any, mass: float | None, name: str) -> EventLaw:
    frozen = hasattr(noise, "pmf") and hasattr(noise, "support") and not getattr(noise, "numargs", 0)
    if frozen:
        return _from_scipy(noise, mass, name)
    noise = _listed_law(noise, name)
    if not isinstance(noise, Mapping):
        rule = "be {event: probability}, recorded events, or a frozen discrete SciPy distribution"
        raise bad_type(name, noise, rule)
    if mass is not None:
        raise bad_value("mass", mass, "not be given if noise lists its events", remedy="omit it")
    if not noise:
        raise bad_value(name, noise, "have at least one event", "none")
    p = np.array([number(value, f"{name}[{one_line(event)}]", 0.0) for event, value in noise.items()])
    total = math.fsum(p)
    if abs(total - 1.0) > SUM_TOL:
        hint = sum_hint(total) or "; divide by the sum if it holds weights"
        raise bad_value(name, noise, "sum to 1", f"{total:.12g}{hint}")
    p = p / total if abs(total - 1.0) > p.size * 2.0**-52 else p
    return EventLaw(events=tuple(noise), probabilities=p, cut=0.0)


def _from_scipy(noise: Any, mass: float | None, name: str) -> EventLaw:
    low, high = noise.support()
    inverse = noise.ppf if hasattr(noise, "ppf") else noise.icdf  # SciPy's new distributions have icdf
    if mass is None and not (math.isfinite(low) and math.isfinite(high)):
        raise bad_value(
            name, noise, "have finitely many events", "infinitely many", remedy="cut it with mass, e.g. mass=0.9999"
        )
    if mass is not None:
        rest = 1.0 - mass
        if math.isfinite(low):
            high = min(high, inverse(mass))
        elif math.isfinite(high):
            low = max(low, inverse(rest))
        else:
            low, high = inverse(rest / 2), inverse(1.0 - rest / 2)
    events = np.arange(int(low), int(high) + 1)
    p = np.asarray(noise.pmf(events), np.float64)
    total = math.fsum(p)
    if total < (mass or 1.0) - SUM_TOL:
        remedy = "give it as {event: probability}"
        raise bad_value(name, noise, "put all its mass on whole numbers", f"{total:.6g}", remedy=remedy)
    cut = max(0.0, 1.0 - total) if mass is not None else 0.0
    return EventLaw(events=tuple(events[p > 0.0].tolist()), probabilities=p[p > 0.0] / total, cut=cut)
