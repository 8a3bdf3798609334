"""Further outcomes of a model beside the reward, such as costs or quality-adjusted life years.

Every transition (an outcome of a row, see `bqrl.mdp.table`) pays one reward, but it may stand for several cases with the same
successor and reward and different further outcomes: demand of 5 or 9 empties the same stock, but misses different sales. So
further outcomes are stored per case, with the probability of each case:

    case j of transition i:  start[i] <= j < start[i + 1],  mass[j],  values[name][h, j].

Rewards, policies, learners and shared noise know transitions only. If the probabilities of transitions change
(`MDP.with_probability`), the shares of the cases within each transition stay.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, is_one_line, nearest, one_line
from bqrl.errors import ModelError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray, tile_starts
from bqrl.mdp.validation import MAX_RETURN

REWARD = "reward"  # the name of the model's own reward beside further outcomes


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Values of further outcomes by name, for every case of every transition."""

    start: IntArray  # (n + 1,)
    mass: FloatArray  # (cases,)  probability of each case; those of a transition sum to its probability
    values: dict[str, FloatArray]  # (1 or H, cases) each

    def __post_init__(self) -> None:
        for array in (self.start, self.mass, *self.values.values()):
            array.flags.writeable = False

    @property
    def split(self) -> bool:
        """Whether some transition has several cases."""
        return self.mass.size > self.start.size - 1

    @property
    def stages(self) -> int:
        """Number of stored stages: 1 if no outcome differs by stage on its kernel, else H."""
        return max((len(array) for array in self.values.values()), default=1)

    def share(self) -> FloatArray:
        """Return the probability of each case given its transition; equal shares where a transition has none."""
        counts = np.diff(self.start)
        if not self.split:
            return np.ones(self.mass.size)
        total = np.repeat(np.add.reduceat(self.mass, self.start[:-1]), counts)
        return np.where(total > 0.0, self.mass, 1.0) / np.where(total > 0.0, total, np.repeat(counts, counts))

    def joint(self, probability: FloatArray) -> FloatArray:
        """Return the probability of each case if the transitions have these probabilities."""
        counts = np.diff(self.start)
        same = np.add.reduceat(self.mass, self.start[:-1]) == probability
        return np.where(np.repeat(same, counts), self.mass, np.repeat(probability, counts) * self.share())

    def means(self, name: str) -> FloatArray:
        """Return the mean of an outcome given each transition, shape (1 or H, n)."""
        values = self.values[name]
        return np.add.reduceat(values * self.share(), self.start[:-1], axis=1) if self.split else values

    def cases_of(self, transitions: IntArray) -> tuple[IntArray, IntArray]:
        """Return the cases of the given transitions, as positions in `transitions` and indices of cases."""
        counts = self.start[transitions + 1] - self.start[transitions]
        whose = np.repeat(np.arange(transitions.size), counts)
        return whose, np.repeat(self.start[transitions] - np.cumsum(counts) + counts, counts) + np.arange(whose.size)

    def rows(self, i: int, probability: float, h: int) -> list[dict[str, float]]:
        """Return one dict per case of transition `i` at stage `h`: its probability and the outcomes by column."""
        here = slice(self.start[i], self.start[i + 1])
        mass = self.mass[here]
        total = float(mass.sum())
        share = (mass / total if total > 0.0 else np.full(mass.size, 1.0 / mass.size)).tolist()
        values = {f"outcome:{name}": x[h if len(x) > 1 else 0, here].tolist() for name, x in self.values.items()}
        return [
            {
                "probability": probability * part if len(share) > 1 else probability,
                **{key: x[j] for key, x in values.items()},
            }
            for j, part in enumerate(share)
        ]

    def restrict(self, kept: BoolArray) -> Outcomes:
        """Return the outcomes of some transitions only."""
        cases = np.repeat(kept, np.diff(self.start))
        return Outcomes(
            start=np.r_[0, np.cumsum(np.diff(self.start)[kept])],
            mass=self.mass[cases],
            values={name: array[:, cases] for name, array in self.values.items()},
        )

    def staged(self, H: int) -> Outcomes:
        """Return the outcomes of a stationary model written out for H stages."""
        values = {
            name: np.ascontiguousarray(np.broadcast_to(array, (H, array.shape[1]))).reshape(1, -1)
            for name, array in self.values.items()
        }
        return replace(self, start=tile_starts(self.start, H), mass=np.tile(self.mass, H), values=values)

    def check(self, transitions: int, stages: tuple[int, ...], H: int) -> None:
        """Raise ModelError unless names and numbers are valid; `stages` are the numbers of stages that values may have."""
        rises = self.start.size == transitions + 1 and self.start[0] == 0 and bool(np.all(np.diff(self.start) > 0))
        if not rises or self.start[-1] != self.mass.size:
            raise ModelError("outcomes must describe the transitions of this model, got others", name="outcomes")
        for name, array in self.values.items():
            check_outcome_name(name)
            if array.ndim != 2 or array.shape[1] != self.mass.size or len(array) not in stages:
                rule = f"have shape {(stages[-1], self.mass.size)}"
                raise ModelError(f"outcomes[{name!r}] must {rule}, got {array.shape}", name="outcomes")
            wrong = ~(np.abs(array) <= MAX_RETURN / H)
            if wrong.any():
                rule = f"be finite and at most {MAX_RETURN / H:g} in size"
                raise ModelError(f"outcomes[{name!r}] must {rule}, got {array[wrong][0]}", name="outcomes")


def check_outcome_name(name: Any) -> str:
    """Return the name of an outcome; raise an error that quotes the rule if it is not valid."""
    rule, remedy = "be short names such as 'cost'", f"{REWARD!r} is the model's own reward"
    if not isinstance(name, str):
        raise bad_type("outcomes", name, rule, one_line(name))
    if not is_one_line(name) or not name.strip() or name != name.strip() or name == REWARD or set(name) & set(",;:="):
        raise bad_value("outcomes", name, rule, one_line(name), remedy=remedy)
    return name


def check_outcomes(given: Any) -> dict[str, Any]:
    """Return the argument `outcomes` as a dict with valid names; None is empty."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise bad_type("outcomes", given, "be a dict such as {'cost': array}")
    return {check_outcome_name(name): values for name, values in given.items()}


def check_known(values: Collection[str], name: Any, what: str = "outcome") -> str:
    """Return the name of an outcome that the model has; otherwise raise an error that lists them."""
    if not isinstance(name, str) or name not in values:
        near = nearest(name, values) if isinstance(name, str) and values else ""
        remedy = "" if values else "give the model some with outcomes="
        raise bad_value(what, name, "be an outcome of the model", f"{one_line(name)}{near}", remedy=remedy)
    return name


def one_case(mass: FloatArray, values: Mapping[str, FloatArray]) -> Outcomes:
    """Return the outcomes of transitions with one case each."""
    return Outcomes(start=np.arange(mass.size + 1), mass=mass.copy(), values=dict(values))


def merge_cases(
    values: Mapping[str, FloatArray], order: IntArray, first: IntArray, probability: FloatArray
) -> Outcomes:
    """Return the outcomes of listed lines: `order` sorts the lines by transition, which begin at the places `first`."""
    return Outcomes(
        start=np.r_[first, order.size],
        mass=probability[order],
        values={name: array[:, order] for name, array in values.items()},
    )
