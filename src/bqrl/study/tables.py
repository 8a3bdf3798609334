"""The tables of a study as CSV files; none of them holds a clock time.

    NAME_tau0p1_plot.csv                        what the main figure of the level shows, by episode
    NAME_tau0p1_LEARNER_final_policy.csv        the final policy that is shown: one row per state, one column per stage
    exact/  expected/  capped/                  gaps against either reference and expected regret, every learner and level
    replications/                               last values by seed, held-out and further ones
    laws/                                       return laws of the final policies; the best achievable quantile by level
    tuning/                                     every configuration of every rung
    VARIANT/                                    the same for a variant of the problem

Values are cumulative; `_mean` and `_std` (of the sample) are over seeds. A quick run adds the column `quick`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from bqrl.mdp.arrays import FloatArray
from bqrl.planners.solve import guarantee_curve
from bqrl.study.scores import Experiment, standard_error
from bqrl.study.study import Study
from bqrl.study.tune import Tuned

KINDS = {"capped": "gap", "exact": "gap", "expected": "regret"}
Sheet = tuple[Sequence[str], Iterable[Sequence[Any]]]  # header and rows


def study_tables(study: Study) -> dict[str, bytes]:
    """Content of every table but the final policies, by file name."""
    spec, sheets = study.spec, {}
    for tau, measure in zip(spec.levels, spec.plot, strict=True):
        plotted = {entry.key: entry.key for entry in spec.entries if entry.plot}
        sheets[f"{stem(study, tau)}_plot.csv"] = _curves(study.shown(tau, names=plotted), measure)
    for (variant, tau), experiment in study.experiments.items():
        folder, name, shown = f"{variant}/" if variant else "", stem(study, tau), study.shown(tau, variant)
        for measure in spec.measures:
            sheets[f"{folder}{measure}/{name}_{KINDS[measure]}.csv"] = _curves(shown, measure)
        sheets[f"{folder}replications/{name}_ends.csv"] = _ends(
            experiment, () if variant else spec.study.seeds, spec.measures
        )
        sheets[f"{folder}laws/{name}_final_laws.csv"] = _laws(shown)
    for variant, problem, _ in spec.problems():  # steps: a value holds for levels above `level_above` up to the next
        steps = zip(*(ends.tolist() for ends in guarantee_curve(problem.build()).steps), strict=True)
        name = f"laws/{file_name(spec.problem.name)}_best_quantile.csv"
        sheets[f"{variant}/{name}" if variant else name] = ["level_above", "value"], steps
    for (key, tau), tuned in study.tunings.items():
        header = ["rung", "episodes", tuned.parameter, "gap_mean", "gap_error", "tail_return", "kept"]
        sheets[f"tuning/{key}_tau{level_name(tau)}.csv"] = header, tuning_rows(tuned)
    return {name: to_csv(study, *sheet) for name, sheet in sheets.items()}


def policy_table(study: Study, tau: float, state_title: str, *, numbers: bool) -> tuple[str, bytes] | None:
    """File name and content of the final policy that is shown; actions as `numbers` or by name. None if there is none."""
    picked, chosen, mdp = study.picked.get(tau), study.spec.final_policy, study.problem()
    if picked is None or chosen is None:
        return None
    rows = [
        [mdp.state_label(s), *(int(a) if numbers else mdp.action_label(int(a)) for a in picked.actions[:, s])]
        for s in shown_states(study)
    ]
    header = [state_title, *(f"stage_{h}" for h in range(1, mdp.H + 1))]
    return f"{stem(study, tau)}_{chosen.learner.upper()}_final_policy.csv", to_csv(study, header, rows)


def shown_states(study: Study) -> list[int]:
    """States of the final policy's table."""
    mdp, chosen = study.problem(), study.spec.final_policy
    return [s for s in range(mdp.S) if chosen is None or mdp.state_label(s) not in chosen.leave_out]


def stem(study: Study, tau: float) -> str:
    """Beginning of the file names of a level."""
    return f"{file_name(study.spec.problem.name)}_tau{level_name(tau)}"


def file_name(text: str) -> str:
    """A text as a part of file names.

    >>> file_name("two roads"), file_name("ICU-Sepsis")
    ('two_roads', 'ICU-Sepsis')
    """
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text).strip("_.-") or "problem"


def level_name(tau: float) -> str:
    """A level for a file name.

    >>> level_name(0.1)
    '0p1'
    """
    return repr(float(tau)).replace(".", "p").replace("-", "m")


def to_csv(study: Study, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> bytes:
    """CSV of a table; a quick run is marked in every row."""
    mark = [1] if study.spec.quick else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*header, *(["quick"] if mark else [])])
    writer.writerows([*row, *mark] for row in rows)
    return text.getvalue().encode()


def tuning_rows(tuned: Tuned) -> Iterator[list[Any]]:
    """Every configuration of every rung, and whether it went on."""
    for number, rung in enumerate(tuned.rungs, start=1):
        last = number == len(tuned.rungs)
        kept = {tuned.winner.place} if last else {trial.place for trial in tuned.rungs[number].trials}
        for trial in rung.trials:
            criterion = (trial.gap, standard_error(trial.gaps), trial.tail)
            yield [number, rung.episodes, trial.value, *criterion, int(trial.place in kept)]


def _curves(experiment: Experiment, measure: str) -> Sheet:
    """Mean and sample standard deviation by episode; equal curves deviate by exactly zero."""
    columns, header = list[FloatArray](), ["episode"]
    for key in experiment.records:
        values = experiment.values(key, measure)
        apart = values - values[0]
        columns += [values[0] + apart.mean(axis=0), apart.std(axis=0, ddof=1)]
        header += [f"{key}_mean", f"{key}_std"]
    return header, ([t, *row] for t, row in enumerate(np.array(columns).T.tolist(), start=1))


def _ends(experiment: Experiment, held_out: Sequence[int], measures: Sequence[str]) -> Sheet:
    rows, ends = [], [experiment.ends(measure) for measure in measures]
    for key in experiment.records:
        for seed, *values in zip(experiment.seeds, *(one[key].tolist() for one in ends), strict=True):
            rows.append([key, seed, int(seed in held_out), *values])
    return ["learner", "seed", "held_out", *(f"{measure}_{KINDS[measure]}" for measure in measures)], rows


def _laws(experiment: Experiment) -> Sheet:
    rows = []
    for key, records in experiment.records.items():
        for seed, record in zip(experiment.seeds, records, strict=True):
            atoms = zip(record.points.tolist(), record.pmf[record.law_of[-1]].tolist(), strict=True)
            rows += [[key, seed, x, p] for x, p in atoms if p > 0.0]
    return ["learner", "seed", "return", "probability"], rows
