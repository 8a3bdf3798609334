"""Every final run of a study, scored once: curves of the runs that are shown, last values of all."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from bqrl.experiments.measures import by_episode, final_errors, reference
from bqrl.experiments.spec import MEASURES, Spec
from bqrl.experiments.study import Finished
from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.policy import MarkovPolicy
from bqrl.planners.confidence import log_buffer

Key = tuple[str, str, float]  # variant or "", learner, level


@dataclass(slots=True)
class Scores:
    """Numbers of the final runs by (variant, learner, level)."""

    spec: Spec
    curves: dict[Key, dict[str, list[FloatArray]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    ends: dict[Key, dict[str, dict[int, float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))
    laws: dict[Key, dict[int, tuple[FloatArray, FloatArray]]] = field(default_factory=lambda: defaultdict(dict))
    policies: dict[float, dict[int, IntArray]] = field(default_factory=lambda: defaultdict(dict))  # (H, S) actions
    errors: dict[float, dict[int, tuple[float, float]]] = field(default_factory=lambda: defaultdict(dict))

    def shown(self, variant: str) -> tuple[int, ...]:
        """Seeds whose curves are in the tables."""
        return self.spec.variant_seeds if variant else self.spec.seeds

    def counted(self, variant: str) -> tuple[int, ...]:
        """Seeds that say how much is luck and decide orderings: those that nobody has looked at before."""
        return self.spec.variant_seeds if variant else (self.spec.luck_seeds or self.spec.seeds)

    def picked(self, tau: float) -> int | None:
        """The held-out seed whose final policy is shown: least quantile error, then buffered error, then seed."""
        found = {seed: error for seed, error in self.errors[tau].items() if seed in self.spec.seeds}
        return min(found, key=lambda seed: (*np.round(found[seed], 12), seed)) if found else None


def score(finished: Finished) -> Scores:
    """Load every final run and score it at the levels that it stands for."""
    spec = finished.spec
    scores = Scores(spec)
    for variant, problem, seeds in spec.problems():
        for entry in spec.learners:
            levels: dict[float, list[float]] = {}  # trained for: scored at
            for tau in spec.levels:
                levels.setdefault(finished.finals[entry.key, tau].tau, []).append(tau)
            for taus in levels.values():
                final = finished.finals[entry.key, taus[0]]
                for seed in seeds:
                    record = finished.store.load(final.runs[variant, seed])
                    for tau in taus:
                        key, against = (variant, entry.key, tau), reference(problem, tau)
                        for measure in MEASURES:
                            curve = np.cumsum(by_episode(record, measure, against))
                            scores.ends[key][measure][seed] = float(curve[-1])
                            if seed in scores.shown(variant):
                                scores.curves[key][measure].append(curve)
                        scores.laws[key][seed] = (record.points, record.pmf[record.law_of[-1]])
                        if (
                            not variant
                            and entry.key == spec.final_policy
                            and isinstance(record.final_policy, MarkovPolicy)
                        ):
                            beta = log_buffer(tau)(spec.episodes - 1)
                            scores.policies[tau][seed] = record.final_policy.actions.astype(np.int64)
                            scores.errors[tau][seed] = final_errors(record, against, beta)
    return scores
