"""Runs of learners as one JSON document: what `learn.json` and `compare.json` hold and `--json` prints.

The promise of a policy is its exact tau-quantile. The gap of an episode is the best promise of any policy minus that of the
policy in force; the regret of an episode the best mean minus that policy's mean. Both are summed over the episodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.learners.record import Record
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.plan import GAP_TOL
from bqrl.reports.document import plain, sizes, versions
from bqrl.reports.learning_words import learned, ranked

FORMATS = {"learn": "bqrl learn 1", "compare": "bqrl compare 1"}
NAMES = {
    "ucb-bqrl": "UCB-BQRL",
    "ucbvi": "UCBVI",
    "q-learning": "Q-learning",
    "sarsa": "SARSA",
    "thompson": "Thompson",
    "ppo": "PPO",
    "trpo": "TRPO",
}
TAIL = 0.1  # share of episodes, at the end, that count as what a run came to where no exact law is known


@dataclass(frozen=True, slots=True, eq=False)
class Runs:
    """The runs of one learner, one a seed; arrays have shape (seeds, T). None where the kernel is not known."""

    label: str
    learner: str
    params: Mapping[str, Any]
    seeds: tuple[int, ...]
    returns: FloatArray
    quantiles: FloatArray | None  # exact, of the policy in force in each episode
    means: FloatArray | None
    finals: tuple[Law, ...] | None  # law of the policy after the last episode, by seed

    @classmethod
    def of(cls, learner: str, params: Mapping[str, Any], records: Sequence[Record], finals: Sequence[Law]) -> Runs:
        """The runs that `records` hold; `finals` is empty where they have no laws."""
        scored = len(finals) > 0
        return cls(
            label_of(learner, params),
            learner,
            dict(params),
            tuple(int(record.settings["seed"]) for record in records),
            np.array([record.returns for record in records]),
            np.array([record.quantile(record.tau) for record in records]) if scored else None,
            np.array([record.means() for record in records]) if scored else None,
            tuple(finals) if scored else None,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """Runs of one or several learners on one problem, and what to compare them with."""

    kind: str  # "learn" or "compare"
    name: str
    mdp: MDP | None
    sizes: Mapping[str, Any]
    tau: float
    runs: tuple[Runs, ...]
    best_quantile: float | None = None
    best_mean: float | None = None
    random: Law | None = None  # return of the policy that plays any action with equal chance
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def T(self) -> int:
        """Episodes of a run."""
        return int(self.runs[0].returns.shape[1])

    def gaps(self, runs: Runs) -> FloatArray:
        """Gap of every episode, shape (seeds, T)."""
        assert runs.quantiles is not None
        assert self.best_quantile is not None
        return self.best_quantile - runs.quantiles


def label_of(learner: str, params: Mapping[str, Any]) -> str:
    """A learner's name for tables and figures.

    >>> label_of("ucb-bqrl", {"planner": "greedy", "c_conf": 0.01})
    'UCB-BQRL, greedy planner, c_conf=0.01'
    """
    parts = [f"{value} planner" if key == "planner" else f"{key}={in_text(value)}" for key, value in params.items()]
    return ", ".join([NAMES.get(learner, learner), *parts])


def in_text(value: Any) -> str:
    """A parameter's value as the command line writes it."""
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def learning_document(found: Learned) -> dict[str, Any]:
    """Everything worth keeping of the runs but their curves, as plain values without NaN or infinity."""
    content: dict[str, Any] = {
        "format": FORMATS[found.kind],
        "model": dict(found.sizes) if found.mdp is None else sizes(found.name, found.mdp),
        "settings": dict(found.settings),
        "tau": found.tau,
        "episodes": found.T,
        "best": None if found.mdp is None else {"quantile": found.best_quantile, "mean": found.best_mean},
        "random": None if found.random is None else _random(found, found.random),
        "learners": [_learner(found, runs) for runs in found.runs],
        "seconds": found.seconds,
        "versions": versions(),
    }
    content = plain(content)
    content["meaning"] = learned(content) if found.kind == "learn" else ranked(content)
    return content


def _random(found: Learned, law: Law) -> dict[str, float]:
    assert found.best_quantile is not None
    assert found.best_mean is not None
    quantile, mean = law.quantile(found.tau), law.mean()
    return {
        "quantile": quantile,
        "mean": mean,
        "gap": found.T * (found.best_quantile - quantile),
        "regret": found.T * (found.best_mean - mean),
    }


def _learner(found: Learned, runs: Runs) -> dict[str, Any]:
    rows = [_run(found, runs, i) for i in range(len(runs.seeds))]
    measured = [key for key in rows[0] if key not in ("seed", "settled")]
    table = {key: [row[key] for row in rows] for key in measured}
    return {
        "label": runs.label,
        "learner": runs.learner,
        "params": dict(runs.params),
        "runs": rows,
        "mean": {key: float(np.mean(values)) for key, values in table.items()},
        "std": {key: float(np.std(values, ddof=1)) if len(rows) > 1 else None for key, values in table.items()},
    }


def _run(found: Learned, runs: Runs, i: int) -> dict[str, Any]:
    last = max(1, round(TAIL * found.T))
    row: dict[str, Any] = {
        "seed": runs.seeds[i],
        "return": float(runs.returns[i].mean()),
        "last_return": float(runs.returns[i, -last:].mean()),
    }
    if runs.finals is None or runs.means is None or found.best_mean is None or found.best_quantile is None:
        return row
    final, gaps = runs.finals[i], found.gaps(runs)[i]
    quantile = final.quantile(found.tau)
    return row | {
        "quantile": quantile,
        "mean": final.mean(),
        "gap": float(gaps.sum()),
        "regret": float((found.best_mean - runs.means[i]).sum()),
        "settled": settled(np.r_[gaps, found.best_quantile - quantile], found.best_quantile),
    }


def settled(gaps: FloatArray, size: float) -> int | None:
    """Episodes before the policy keeps the best promise to the end; None where it does not.

    `gaps` are those of the episodes and last that of the final policy.

    >>> settled(np.array([1.0, 0.0, 0.5, 0.0, 0.0]), 1.0), settled(np.array([0.0, 0.1]), 1.0)
    (3, None)
    """
    short = np.flatnonzero(gaps > GAP_TOL * max(1.0, abs(size)))
    first = int(short[-1]) + 1 if short.size else 0
    return first if first < gaps.size else None


def best_run(content: Mapping[str, Any]) -> int:
    """Which run of a document's first learner to show: the best promise, then the best mean, then the least gap."""
    rows = content["learners"][0]["runs"]
    return max(range(len(rows)), key=lambda i: (rows[i]["quantile"], rows[i]["mean"], -rows[i]["gap"]))
