"""What a run leaves behind: returns, the law of every evaluated policy, and measures against the exact optimum."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.kernels.tolerance import MASS_TOL
from bqrl.laws.law import Law, check_level
from bqrl.laws.rows import buffered_rows, mean_rows, quantile_rows
from bqrl.mdp.files import read_arrays, write_arrays
from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import Policy, policy_from_arrays

FORMAT = 1


@dataclass(frozen=True, slots=True, eq=False)
class Yardstick:
    """The exact optimum of a problem for every level, and the best mean."""

    points: FloatArray  # (m,)
    shortfall: FloatArray  # (m,) smallest probability of ending below each point
    best_mean: float

    @classmethod
    def of(cls, mdp: MDP) -> Yardstick:
        """Measured once for a problem and kept with it."""
        if "yardstick" not in mdp._cache:
            from bqrl.planners.expected import best_mean
            from bqrl.planners.target import guarantee_curve

            curve = guarantee_curve(mdp)
            mdp._cache["yardstick"] = cls(curve.points, np.maximum.accumulate(curve.shortfall), best_mean(mdp)[0])
        found: Yardstick = mdp._cache["yardstick"]
        return found

    def quantile(self, tau: float) -> float:
        """The best achievable tau-quantile."""
        check_level(tau)
        return float(self.points[max(int(np.searchsorted(self.shortfall, tau - MASS_TOL, side="left")) - 1, 0)])


@dataclass(slots=True, eq=False)
class Record:
    """One run of one learner. Arrays have one entry an episode unless they say otherwise."""

    settings: dict[str, Any]  # learner, tau, episodes, seed, parameters, problem: everything that fixes the run
    returns: FloatArray  # (T,) realised returns
    law_of: IntArray  # (T,) which row of `pmf` is the law of the evaluated policy; -1 where it is not known
    points: FloatArray  # (m,) returns
    pmf: FloatArray  # (n, m) distinct laws in the order in which they appeared
    yardstick: Yardstick | None  # None where the problem's kernel is not known
    notes: dict[str, FloatArray] = field(default_factory=dict)  # the learner's own numbers: optimistic value, beta, ...
    final_policy: Policy | None = None
    mdp: MDP | None = None  # the problem, where the record was made here rather than loaded

    @property
    def tau(self) -> float:
        """The level that the learner was given."""
        return float(self.settings["tau"])

    @property
    def laws(self) -> list[Law]:
        """Law of the evaluated policy of every episode; equal ones are one object."""
        self._need_laws()
        distinct = [Law(self.points, row) for row in self.pmf]
        return [distinct[i] for i in self.law_of]

    def quantile(self, tau: float) -> FloatArray:
        """Exact tau-quantile of every evaluated policy."""
        self._need_laws()
        return quantile_rows(self.points, self.pmf, tau)[self.law_of]

    def means(self) -> FloatArray:
        """Mean return of every evaluated policy."""
        self._need_laws()
        return mean_rows(self.points, self.pmf)[self.law_of]

    def gap(self, tau: float | None = None, reference: str | float = "exact") -> FloatArray:
        """Optimum minus the evaluated policy's exact tau-quantile, per episode.

        `reference` "exact" is the true optimum; "capped" the paper's numerical reference, whose gaps are cut at zero as
        in the paper; a number is taken as it is, cut likewise.
        """
        level = self.tau if tau is None else tau
        values = self.quantile(level)
        if reference == "exact":
            assert self.yardstick is not None
            return self.yardstick.quantile(level) - values
        if isinstance(reference, str) and reference != "capped":
            raise ValueError(f"reference must be 'exact', 'capped' or a number, got {reference!r}")
        best = self._capped(level) if reference == "capped" else float(reference)
        return np.maximum(best - values, 0.0)

    def buffered_error(self, tau: float, beta: float) -> FloatArray:
        """Best buffered quantile minus the evaluated policy's, per episode (the best one's proven upper bound)."""
        self._need_laws()
        from bqrl.planners.buffered import plan_buffered

        upper = plan_buffered(self._problem("buffered_error"), tau, beta).upper
        assert upper is not None
        return upper - buffered_rows(self.points, self.pmf, tau, beta)[self.law_of]

    def expected_regret(self) -> FloatArray:
        """Best mean minus the evaluated policy's mean, per episode."""
        means = self.means()
        assert self.yardstick is not None
        return self.yardstick.best_mean - means

    def _capped(self, tau: float) -> float:
        from bqrl.planners.frontier import plan_capped

        mdp = self._problem("the capped reference")
        key = ("capped", float(tau))
        if key not in mdp._cache:
            mdp._cache[key] = plan_capped(mdp, tau).value
        return float(mdp._cache[key])

    def _need_laws(self) -> None:
        if self.yardstick is None or self.pmf.size == 0 or np.any(self.law_of < 0):
            raise ValueError("this run has no exact laws: the kernel of its environment is not known")

    def _problem(self, what: str) -> MDP:
        if self.mdp is None:
            raise ValueError(f"{what} needs the problem; set record.mdp after loading a record")
        return self.mdp

    def save(self, path: str | Path) -> None:
        """Write the record to an .npz file, whole or not at all; no pickle."""
        write_arrays(path, self.arrays())

    def arrays(self) -> dict[str, Any]:
        """The record as plain arrays."""
        flat: dict[str, Any] = {
            "bqrl_record": np.array(FORMAT),
            "settings": np.array(json.dumps(self.settings, sort_keys=True)),
            "returns": self.returns,
            "law_of": self.law_of,
            "points": self.points,
            "pmf": self.pmf,
        }
        flat |= {f"note_{name}": values for name, values in self.notes.items()}
        if self.yardstick is not None:
            flat |= {
                "optimum_points": self.yardstick.points,
                "optimum_shortfall": self.yardstick.shortfall,
                "best_mean": np.array(self.yardstick.best_mean),
            }
        if self.final_policy is not None:
            flat["final_bqrl_policy"] = np.array(self.final_policy.kind)
            flat |= {f"final_{name}": values for name, values in self.final_policy.arrays().items()}
        return flat

    @classmethod
    def load(cls, path: str | Path) -> Record:
        """The record saved at `path`."""
        return cls.from_arrays(read_arrays(path), str(path))

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any], name: str = "the file") -> Record:
        """The record that `arrays` describe; ValueError where they describe none."""
        if "bqrl_record" not in arrays:
            raise ValueError(f"{name} holds no record of a run")
        try:
            yardstick = None
            if "best_mean" in arrays:
                yardstick = Yardstick(arrays["optimum_points"], arrays["optimum_shortfall"], float(arrays["best_mean"]))
            policy = {k.removeprefix("final_"): v for k, v in arrays.items() if k.startswith("final_")}
            return cls(
                json.loads(str(arrays["settings"])),
                arrays["returns"],
                arrays["law_of"],
                arrays["points"],
                arrays["pmf"],
                yardstick,
                {k.removeprefix("note_"): v for k, v in arrays.items() if k.startswith("note_")},
                policy_from_arrays(policy) if policy else None,
            )
        except (KeyError, ValueError, TypeError) as fault:
            raise ValueError(f"{name} is a damaged record: {str(fault).splitlines()[0]}") from None

    def __repr__(self) -> str:
        what = ", ".join(f"{key}={self.settings[key]}" for key in ("learner", "tau", "seed") if key in self.settings)
        return f"Record({what}, {self.returns.size} episodes, mean return {self.returns.mean():.6g})"


__all__ = ["Record", "Yardstick"]
