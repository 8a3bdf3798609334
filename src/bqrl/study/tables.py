"""The tables of a study as CSV files; none of them holds a clock time.

    NAME_tau0p1_plot.csv                        what the main figure of the level shows, by episode
    NAME_tau0p1_LEARNER_final_policy.csv        the final policy that is shown: one row per state, one column per stage
    capped/  exact/  expected/                  gaps against either reference and expected regret, every learner and level
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
from bqrl.study.scores import SCORED, standard_error
from bqrl.study.study import Study
from bqrl.study.tune import Tuned

SUFFIX = {"capped": "gap", "exact": "gap", "expected": "regret"}
Sheet = tuple[Sequence[str], Iterable[Sequence[Any]]]  # header and rows


def study_tables(study: Study) -> dict[str, bytes]:
    """Content of every table but the final policies, by file name."""
    spec, sheets = study.spec, {}
    for tau, measure in zip(spec.levels, spec.plot, strict=True):
        plotted = [entry.key for entry in spec.entries if entry.plot]
        sheets[f"{stem(study, tau)}_plot.csv"] = _curves(study, "", tau, measure, plotted)
    everyone = [entry.key for entry in spec.entries]
    for variant, _, _ in spec.problems():
        folder = f"{variant}/" if variant else ""
        for tau in spec.levels:
            name = stem(study, tau)
            for measure in SCORED:
                sheets[f"{folder}{measure}/{name}_{SUFFIX[measure]}.csv"] = _curves(
                    study, variant, tau, measure, everyone
                )
            sheets[f"{folder}replications/{name}_ends.csv"] = _ends(study, variant, tau)
            sheets[f"{folder}laws/{name}_final_laws.csv"] = _laws(study, variant, tau)
        sheets[f"{folder}laws/{file_name(spec.problem.name)}_best_quantile.csv"] = _optimum(study, variant)
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


def _curves(study: Study, variant: str, tau: float, measure: str, keys: Sequence[str]) -> Sheet:
    """Mean and sample standard deviation by episode; equal curves deviate by exactly zero."""
    experiment, columns, header = study.shown(tau, variant), list[FloatArray](), ["episode"]
    for key in keys:
        values = experiment.values(key, measure)
        apart = values - values[0]
        columns += [values[0] + apart.mean(axis=0), apart.std(axis=0, ddof=1)]
        header += [f"{key}_mean", f"{key}_std"]
    return header, ([t, *row] for t, row in enumerate(np.array(columns).T.tolist(), start=1))


def _ends(study: Study, variant: str, tau: float) -> Sheet:
    experiment, rows = study.experiments[variant, tau], []
    ends = [experiment.ends(measure) for measure in SCORED]
    for key in experiment.records:
        for i, seed in enumerate(experiment.seeds):
            held_out = int(not variant and seed in study.spec.study.seeds)
            rows.append([key, seed, held_out, *(float(one[key][i]) for one in ends)])
    return ["learner", "seed", "held_out", "capped_gap", "exact_gap", "expected_regret"], rows


def _laws(study: Study, variant: str, tau: float) -> Sheet:
    experiment, rows = study.shown(tau, variant), []
    for key, records in experiment.records.items():
        for seed, record in zip(experiment.seeds, records, strict=True):
            atoms = zip(record.points.tolist(), record.pmf[record.law_of[-1]].tolist(), strict=True)
            rows += [[key, seed, x, p] for x, p in atoms if p > 0.0]
    return ["learner", "seed", "return", "probability"], rows


def _optimum(study: Study, variant: str) -> Sheet:
    """The best quantile at every level, as steps: a value holds for levels above `level_above` up to the next."""
    levels, values = guarantee_curve(study.problem(variant)).steps
    return ["level_above", "value"], zip(levels.tolist(), values.tolist(), strict=True)
