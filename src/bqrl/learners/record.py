"""The record of a run: returns, the law of every evaluated policy, and scores relative to the exact optimum."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import bad_value, number, whole
from bqrl.display import Charted, count_of
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.interval import sampled_interval
from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective, Quantile, check_objective, value_rows
from bqrl.laws.rows import buffered_rows, mean_rows, quantile_rows
from bqrl.learners.protocol import add_prefix, policy_arrays, stored_policy, strip_prefix
from bqrl.learners.score import Optimum, optimum
from bqrl.mdp.arrays import FloatArray, IntArray, damage_error, require
from bqrl.mdp.files import name_errors, read_arrays, write_arrays
from bqrl.mdp.model import MDP, per_model
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.frontier import plan_capped
from bqrl.planners.solve import read_objective
from bqrl.policies.protocol import Policy

FORMAT = 1
CONFIDENCE = 0.95


class DistinctLaws:
    """The distinct laws of a run on the points of its grid, in order of appearance.

    Only positive masses are stored, because most points of a rounded grid have no mass. Laws are compared by a digest.
    """

    def __init__(self) -> None:
        self._place: dict[bytes, int] = {}
        self._laws: list[tuple[NDArray[np.int32], FloatArray]] = []
        self._last: tuple[FloatArray | None, int] = None, -1  # the array of masses added last, and the index of its law

    def __len__(self) -> int:
        return len(self._laws)

    def add(self, row: FloatArray) -> int:
        """Return the index of the law with these masses; a new law is added."""
        if row is self._last[0]:
            return self._last[1]
        columns = np.flatnonzero(row)
        law = columns.astype(np.int32), row[columns]
        key = hashlib.blake2b(law[0].tobytes() + law[1].tobytes(), digest_size=16).digest()
        place = self._place.setdefault(key, len(self._laws))
        if place == len(self._laws):
            self._laws.append(law)
        self._last = row, place
        return place

    def columns(self) -> IntArray:
        """Return the columns in which at least one law has mass."""
        return np.unique(np.concatenate([columns for columns, _ in self._laws])) if self._laws else np.zeros(0, int)

    def pmf(self, columns: IntArray) -> FloatArray:
        """Return the laws as masses in the given columns, one row per law; no law may have mass elsewhere."""
        rows = np.zeros((len(self._laws), columns.size))
        for row, (own, masses) in zip(rows, self._laws, strict=True):
            row[np.searchsorted(columns, own)] = masses
        return rows


@dataclass(slots=True, kw_only=True, eq=False)
class Record(Charted):
    """One run of one learner over T episodes; made by `learn`, one per seed by `compare`.

    `gap()`, `value()`, `quantile(tau)`, `means()` and `expected_regret()` score the policy of every episode, shape (T,), in the
    unit of the rewards; `laws` are the laws of its return. The arrays are read-only.

    Attributes
    ----------
    settings : dict
        Learner, objective, episodes, seed, parameters and a digest of the problem: all that determines the run.
    returns : ndarray of shape (T,)
        Realised returns.
    law_of : ndarray of shape (T,)
        Row of `pmf` with the law of the evaluated policy; -1 if the law is not known.
    points : ndarray of shape (m,)
        The returns that have mass in `pmf`; all points of the grid if the grid is exact.
    pmf : ndarray of shape (n, m)
        The distinct laws, in the order in which they appeared.
    optimum : Optimum or None
        Best quantile at every level, best mean and best value of the objective; None if the kernel of the problem is not known.
    law_error : float
        Rounding puts quantiles and means of `pmf` below the true ones by at most this.
    simulated : int
        Number of simulated episodes per law that could not be computed; 0 if all laws were computed.
    sampled : ndarray of bool, shape (n,)
        Which of the distinct laws were simulated: those of policies whose laws cannot be computed, such as custom policies
        that draw their own actions. `interval` holds their sampling error.
    notes : dict of str to ndarray of shape (T,)
        The learner's own numbers, such as its optimistic value.
    final_policy : Policy or None
        The policy of the last episode. In a file, a custom policy is stored as a `LabelPolicy`, if it has that form.
    mdp : MDP or None
        The problem; None if the record was loaded from a file.
    states : tuple of str or None
        Names of the states of the final policy, if the problem is an environment without a table; `simulate` finds the state
        of an observation by them.

    Examples
    --------
    >>> import bqrl
    >>> record = bqrl.learn("SafeOrRisky", tau=0.1, episodes=20, seed=1)
    >>> record.scores, record.gap().shape, bool((record.gap() >= 0.0).all())
    ('exact', (20,), True)
    """

    settings: dict[str, Any]
    returns: FloatArray
    law_of: IntArray
    points: FloatArray
    pmf: FloatArray
    optimum: Optimum | None
    law_error: float = 0.0
    simulated: int = 0
    notes: dict[str, FloatArray] = field(default_factory=dict)
    final_policy: Policy | None = None
    mdp: MDP | None = None
    states: tuple[str, ...] | None = None
    sampled: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))

    def __post_init__(self) -> None:
        if self.sampled.size != len(self.pmf):
            self.sampled = np.zeros(len(self.pmf), bool)
        for array in (self.returns, self.law_of, self.points, self.pmf, self.sampled, *self.notes.values()):
            array.flags.writeable = False

    @property
    def scores(self) -> str:
        """How policies are scored: "exact", "bracket" (see `score_error`), "simulated" (see `simulated`) or "none"."""
        if self.optimum is None:
            return "none"
        if self.simulated:
            return "simulated"
        return "exact" if self.score_error == 0.0 else "bracket"

    @property
    def score_error(self) -> float:
        """Bound on the distance of values and means below the true ones: 0.0 if exact, inf if some are simulated."""
        if self.optimum is None:
            return 0.0
        error = 1.0 if self.law_error and self.objective.probability else self.law_error  # rounding may miss a target
        return np.inf if self.simulated else max(error, self.optimum.error_of(self.objective))

    @property
    def objective(self) -> Objective:
        """The objective that the learner was given."""
        return read_objective(self.settings["objective"])

    @property
    def tau(self) -> float:
        """Level of the objective; nan if it has none."""
        return float(getattr(self.objective, "tau", np.nan))

    @property
    def laws(self) -> list[Law]:
        """The law of the evaluated policy of every episode; equal laws are one object."""
        self._check_laws()
        distinct = [Law(self.points, row) for row in self.pmf]
        return [distinct[i] for i in self.law_of]

    def quantile(self, tau: float) -> FloatArray:
        """Return the tau-quantile of the evaluated policy, per episode.

        Parameters
        ----------
        tau
            Level in [0, 1]; it may differ from the level that the learner was given.

        Returns
        -------
        array of shape (T,)
            Exact if `scores` is "exact"; if it is "bracket", each entry may lie up to `score_error` below the true quantile;
            if it is "simulated", entries may be quantiles of `simulated` sampled returns.
        """
        self._check_laws()
        return quantile_rows(self.points, self.pmf, tau)[self.law_of]

    def value(self, objective: Objective | float | None = None) -> FloatArray:
        """Return the objective value of the evaluated policy, per episode.

        Parameters
        ----------
        objective
            An objective or the level of a quantile; by default the objective that the learner was given.

        Returns
        -------
        array of shape (T,)
            As exact as in `quantile`.
        """
        self._check_laws()
        goal = self.objective if objective is None else check_objective(objective)
        return value_rows(goal, self.points, self.pmf)[self.law_of]

    def interval(
        self, objective: Objective | float | None = None, confidence: float = CONFIDENCE
    ) -> tuple[FloatArray, FloatArray]:
        """Return both ends of an interval of the objective value of the evaluated policy, per episode.

        Parameters
        ----------
        objective
            An objective or the level of a quantile; by default the objective that the learner was given.
        confidence
            Probability in (0, 1) with which the interval of a simulated law contains the value; other intervals are certain.

        Returns
        -------
        tuple of two arrays of shape (T,)
            The ends are equal where the law is exact, the proven bracket where it is rounded, and for a simulated law (see
            `sampled`) order statistics for a quantile, and else the band of Dvoretzky, Kiefer, Wolfowitz and Massart.
        """
        goal = self.objective if objective is None else check_objective(objective)
        confidence, values = number(confidence, "confidence", 0.0, 1.0, "()"), self.value(goal)
        rounding = 1.0 if self.law_error and goal.probability else self.law_error  # rounding may miss a target
        low, high = values.copy(), values + rounding
        assert self.optimum is not None
        ends = float(self.optimum.points[0]), float(self.optimum.points[-1])
        for i in np.flatnonzero(self.sampled).tolist():
            here = self.law_of == i
            bounds = sampled_interval(goal, self.points, self.pmf[i], self.simulated, confidence, ends)
            low[here], high[here] = bounds[0], bounds[1] + rounding
        return low, np.minimum(high, 1.0) if goal.probability else high

    def means(self) -> FloatArray:
        """Return the mean return of the evaluated policy, per episode."""
        self._check_laws()
        return mean_rows(self.points, self.pmf)[self.law_of]

    def _best(self, goal: Objective) -> Optimum:
        """Return the optimum of an objective, which may differ from the objective of the run."""
        assert self.optimum is not None
        return self.optimum if self.optimum.has(goal) else optimum(self._require_mdp(f"the best {goal.label}"), goal)

    def error_of(self, objective: Objective) -> float:
        """Return how far the true optimum of an objective may lie above the one that gaps are measured against."""
        return self._best(objective).error_of(objective)

    def gap(self, objective: Objective | float | None = None, reference: str | float = "exact") -> FloatArray:
        """Return the optimum minus the objective value of the evaluated policy, per episode.

        Parameters
        ----------
        objective
            An objective or the level of a quantile; by default the objective that the learner was given.
        reference
            "exact" is the true optimum. "capped", for quantiles, is the paper's numerical reference; negative gaps are set to
            zero as in the paper. A number is the reference itself; negative gaps are set to zero too.

        Returns
        -------
        array of shape (T,)
            Exact if `scores` is "exact"; if it is "bracket", each entry may be off by `score_error`.
        """
        goal = self.objective if objective is None else check_objective(objective)
        values = self.value(goal)
        if reference == "exact":
            return self._best(goal).value(goal) - values
        if isinstance(reference, str) and reference != "capped":
            raise bad_value("reference", reference, "be 'exact', 'capped' or a number")
        capped = reference == "capped"
        if not capped:
            return np.maximum(float(reference) - values, 0.0)
        if not isinstance(goal, Quantile):
            raise bad_value("reference", reference, f"be 'exact' or a number for {goal.label}")
        best = capped_reference(self._require_mdp("the capped reference"), goal.tau)
        return np.maximum(best - values, 0.0)

    def buffered_error(self, tau: float, beta: float) -> FloatArray:
        """Return a proven upper bound on the best buffered quantile minus that of the evaluated policy, per episode."""
        self._check_laws()
        upper = plan_buffered(self._require_mdp("buffered_error"), tau, beta).upper
        assert upper is not None
        return upper - buffered_rows(self.points, self.pmf, tau, beta)[self.law_of]

    def expected_regret(self) -> FloatArray:
        """Return the best mean minus the mean of the evaluated policy, per episode."""
        means = self.means()
        assert self.optimum is not None
        return self.optimum.best_mean - means

    def _check_laws(self) -> None:
        """Raise ArgumentError unless every episode has a law."""
        if self.optimum is None or self.pmf.size == 0 or np.any(self.law_of < 0):
            raise ArgumentError(
                "expected a record with exact laws, got one of an environment whose kernel is unknown; learn on an MDP",
                name="record",
            )

    def _require_mdp(self, what: str) -> MDP:
        """Return the problem; ArgumentError if the record was loaded without it."""
        if self.mdp is None:
            raise ArgumentError(
                f"{what} requires the problem, got record.mdp = None; set record.mdp after loading a record", name="mdp"
            )
        return self.mdp

    def save(self, path: str | Path) -> None:
        """Write the record to an .npz file atomically, without pickle."""
        write_arrays(path, self.arrays())

    def arrays(self) -> dict[str, Any]:
        """Return the record as plain arrays."""
        flat: dict[str, Any] = {
            "bqrl_record": np.array(FORMAT), "settings": np.array(json.dumps(self.settings, sort_keys=True)),
            "returns": self.returns, "law_of": self.law_of, "points": self.points, "pmf": self.pmf,
        }  # fmt: skip
        if self.law_error or self.simulated:
            flat |= {
                "law_error": np.array(self.law_error),
                "simulated": np.array(self.simulated),
                "sampled": self.sampled,
            }
        flat |= add_prefix("note_", self.notes) | ({} if self.states is None else {"states": np.array(self.states)})
        if self.optimum is not None:
            flat |= self.optimum.arrays()
        return flat | add_prefix("final_", policy_arrays(self.final_policy, self.mdp))

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """Return the record saved at `path`."""
        arrays = read_arrays(path)
        with name_errors(Path(path)):
            return cls.from_arrays(arrays)

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Record:
        """Return the record that `arrays` describe; FileFormatError if they describe none."""
        if "bqrl_record" not in arrays:
            raise FileFormatError("expected a record of a run, got other arrays; load it with bqrl.load")
        try:
            return _from_arrays(arrays)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError) as fault:
            raise damage_error("a record", fault) from None

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per episode: its return and, if the kernel is known, objective value, mean and gap of its policy.

        If some laws were simulated, the rows also have the interval of the value and whether its law was simulated.
        """
        columns: dict[str, Any] = {"episode": np.arange(1, self.returns.size + 1), "return": self.returns}
        if self.optimum is not None:
            columns |= {"value": self.value(), "mean": self.means(), "gap": self.gap()}
        if self.simulated:
            low, high = self.interval()
            columns |= {"value_low": low, "value_high": high, "simulated": self.sampled[self.law_of]}
        lists = [values.tolist() for values in columns.values()]
        return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]

    def __repr__(self) -> str:
        what = ", ".join(
            f"{key}={self.settings[key]}" for key in ("learner", "objective", "seed") if key in self.settings
        )
        return f"Record({what}, {count_of('episode', self.returns.size)}, mean return {self.returns.mean():.6g})"


@per_model
def capped_reference(mdp: MDP, tau: float) -> float:
    """Return the paper's numerical reference: the value of the capped frontier."""
    return plan_capped(mdp, tau).value


def _from_arrays(arrays: dict[str, Any]) -> Record:
    """Return the record that arrays describe, or raise ValueError, KeyError or TypeError."""
    returns, points = (np.asarray(arrays[name], np.float64) for name in ("returns", "points"))
    law_of, pmf = np.asarray(arrays["law_of"]), np.asarray(arrays["pmf"], np.float64)
    require(returns.ndim == 1, "returns", "have one entry per episode", f"shape {returns.shape}")
    listed = law_of.shape == returns.shape and law_of.dtype.kind in "iu"
    require(listed, "law_of", "have one whole number per episode", f"{law_of.shape} of {law_of.dtype}")
    fits = points.ndim == 1 and pmf.ndim == 2 and pmf.size in (0, len(pmf) * points.size)
    require(fits, "pmf", "have one column per point", f"{pmf.shape} and {points.shape}")
    inside = not law_of.size or (law_of.min() >= -1 and law_of.max() < len(pmf))
    require(inside, "law_of", f"hold numbers of laws, -1 to {len(pmf) - 1}", law_of)
    settings = json.loads(str(arrays["settings"]))
    require(isinstance(settings, dict) and "objective" in settings, "settings", "hold an objective", settings)
    read_objective(settings["objective"])
    return Record(
        settings=settings,
        returns=returns,
        law_of=law_of.astype(np.int64),
        points=points,
        pmf=pmf,
        optimum=Optimum.from_arrays(arrays) if "best_mean" in arrays else None,
        law_error=number(arrays["law_error"].item(), "law_error", 0.0) if "law_error" in arrays else 0.0,
        simulated=whole(arrays["simulated"].item(), "simulated") if "simulated" in arrays else 0,
        notes={name: np.asarray(values) for name, values in strip_prefix("note_", arrays).items()},
        final_policy=stored_policy(strip_prefix("final_", arrays)),
        states=tuple(map(str, arrays["states"].tolist())) if "states" in arrays else None,
        sampled=np.asarray(arrays["sampled"], bool).reshape(-1) if "sampled" in arrays else np.zeros(len(pmf), bool),
    )
