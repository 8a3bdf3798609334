"""The tables of a finished study: plain CSV files, without a clock time in any of them.

    NAME_tau0p1_plot.csv                        what the paper's figure of the level shows, by episode
    NAME_tau0p1_UCB_BQRL_final_policy.csv       the final policy picked for show: 1 = Continue, 0 = Stop
    capped/  exact/  expected/                  gaps against either reference and expected regret, every learner and level
    luck/                                       last values by seed, held-out and further ones
    laws/                                       return laws of the final policies; the best achievable quantile by level
    tuning/                                     every configuration of every rung
    VARIANT/                                    the same for a variant of the problem

Values are cumulative; `_mean` and `_std` (the sample's) are over seeds. A quick look adds the column `quick`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bqrl.experiments.scores import Scores
from bqrl.experiments.spec import MEASURES
from bqrl.experiments.study import Finished
from bqrl.mdp.atomic import write_whole
from bqrl.planners.target import guarantee_curve

SUFFIX = {"capped": "gap", "exact": "gap", "expected": "regret"}


class Tables:
    """Writes the tables of a study into its folder and keeps their names."""

    def __init__(self, finished: Finished, scores: Scores) -> None:
        self.finished, self.scores, self.spec = finished, scores, finished.spec
        self.folder = finished.store.folder
        self.files: list[str] = []

    def write(self) -> list[str]:
        """All of them; returns their names."""
        spec = self.spec
        for tau, measure in zip(spec.levels, spec.plot, strict=True):
            plotted = [entry.key for entry in spec.learners if entry.plot]
            self._curves(f"{self._stem(tau)}_plot.csv", "", tau, measure, plotted)
            self._policy(tau)
        for variant, _, _ in spec.problems():
            lead = f"{variant}/" if variant else ""
            for tau in spec.levels:
                for measure in MEASURES:
                    name = f"{lead}{measure}/{self._stem(tau)}_{SUFFIX[measure]}.csv"
                    self._curves(name, variant, tau, measure, [entry.key for entry in spec.learners])
                self._luck(f"{lead}luck/{self._stem(tau)}_ends.csv", variant, tau)
                self._laws(f"{lead}laws/{self._stem(tau)}_final_laws.csv", variant, tau)
            self._optimum(f"{lead}laws/{spec.problem.name}_best_quantile.csv", variant)
        self._tuning()
        return self.files

    def _stem(self, tau: float) -> str:
        return f"{self.spec.problem.name}_tau{level_name(tau)}"

    def _save(self, name: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        mark = ["quick"] if self.spec.quick else []
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*header, *mark])
        writer.writerows([*row, 1] if mark else row for row in rows)
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text.getvalue().encode())
        self.files.append(name)

    def _curves(self, name: str, variant: str, tau: float, measure: str, keys: Sequence[str]) -> None:
        columns, header = [], ["episode"]
        for key in keys:
            curves = np.array(self.scores.curves[variant, key, tau][measure])
            apart = curves - curves[0]  # equal curves have a spread of exactly zero
            columns += [curves[0] + apart.mean(axis=0), apart.std(axis=0, ddof=1)]
            header += [f"{key}_mean", f"{key}_std"]
        table = np.array(columns).T.tolist()
        self._save(name, header, ([t, *row] for t, row in enumerate(table, start=1)))

    def _policy(self, tau: float) -> None:
        seed = self.scores.picked(tau)
        if seed is None:
            return
        assert self.spec.final_policy is not None
        actions, mdp = self.scores.policies[tau][seed], self.spec.problem.build()
        states = [s for s in range(mdp.S) if mdp.state_label(s) not in self.spec.leave_out]
        name = f"{self._stem(tau)}_{self.spec.final_policy.upper()}_final_policy.csv"
        rows = ([mdp.state_label(s), *actions[:, s].tolist()] for s in states)
        self._save(name, ["offer", *(f"stage_{h}" for h in range(1, mdp.H + 1))], rows)

    def _luck(self, name: str, variant: str, tau: float) -> None:
        rows = []
        for entry in self.spec.learners:
            ends = self.scores.ends[variant, entry.key, tau]
            for seed in ends["exact"]:
                held = int(not variant and seed in self.spec.seeds)
                rows.append([entry.key, seed, held, *(ends[measure][seed] for measure in MEASURES)])
        self._save(name, ["learner", "seed", "held_out", "capped_gap", "exact_gap", "expected_regret"], rows)

    def _laws(self, name: str, variant: str, tau: float) -> None:
        rows = []
        for entry in self.spec.learners:
            for seed, (points, mass) in self.scores.laws[variant, entry.key, tau].items():
                if seed in self.scores.shown(variant):
                    some = mass > 0.0
                    rows += [
                        [entry.key, seed, x, p] for x, p in zip(points[some].tolist(), mass[some].tolist(), strict=True)
                    ]
        self._save(name, ["learner", "seed", "return", "probability"], rows)

    def _optimum(self, name: str, variant: str) -> None:
        """The best quantile for every level, as steps: the value holds for levels above `level_above` up to the next."""
        problem = next(problem for one, problem, _ in self.spec.problems() if one == variant)
        levels, values = guarantee_curve(problem.build()).steps
        self._save(name, ["level_above", "value"], zip(levels.tolist(), values.tolist(), strict=True))

    def _tuning(self) -> None:
        for entry in self.spec.learners:
            for tau in self.spec.training_levels(entry):
                tuned = self.finished.finals[entry.key, tau if entry.per_level else self.spec.levels[0]].tuned
                if tuned is None:
                    continue
                rows = []
                for number, rung in enumerate(tuned.rungs, start=1):
                    kept = {trial.place for trial in tuned.rungs[number].trials} if number < len(tuned.rungs) else {
                        tuned.winner.place
                    }  # fmt: skip
                    rows += [
                        [
                            number,
                            rung.episodes,
                            trial.value,
                            trial.gap,
                            trial.error,
                            trial.tail,
                            int(trial.place in kept),
                        ]
                        for trial in rung.trials
                    ]
                header = ["rung", "episodes", tuned.parameter, "gap_mean", "gap_error", "tail_return", "kept"]
                self._save(f"tuning/{entry.key}_tau{level_name(tau)}.csv", header, rows)


def level_name(tau: float) -> str:
    """A level for a file's name.

    >>> level_name(0.1)
    '0p1'
    """
    return repr(float(tau)).replace(".", "p").replace("-", "m")
