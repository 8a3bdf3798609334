"""The tables of a study as CSV files, listed in src/bqrl/papers/ucb_bqrl/README.md; none of them holds a clock time.

Values are cumulative; `_mean` and `_std` (of the sample) are over seeds. A quick run adds the column `quick`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bqrl.display import level_name
from bqrl.display import sheet_csv as sheet_csv
from bqrl.display import unguard as unguard
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.curve import guarantee_curve
from bqrl.study.problems import file_name
from bqrl.study.scores import Experiment, standard_error
from bqrl.study.study import Study
from bqrl.study.tune import Tuned

KINDS = {"capped": "gap", "exact": "gap", "expected": "regret"}
Sheet = list[list[Any]]  # a header and rows


def study_tables(study: Study) -> dict[str, bytes]:
    """Content of every table except the final policies, by file name."""
    spec, sheets = study.spec, dict[str, Sheet]()
    plotted = {key: key for key, entry in spec.learners.items() if entry.plot}
    for tau, measure in zip(spec.levels, spec.plot, strict=True):
        sheets[f"{_stem(study, tau)}_plot.csv"] = _curves(study.shown(tau, names=plotted), measure)
    for (variant, tau), experiment in study.experiments.items():
        folder, name, shown = f"{variant}/" if variant else "", _stem(study, tau), study.shown(tau, variant)
        for measure in spec.measures:
            sheets[f"{folder}{measure}/{name}_{KINDS[measure]}.csv"] = _curves(shown, measure)
        held_out = () if variant else spec.study.seeds
        sheets[f"{folder}replications/{name}_ends.csv"] = _ends(experiment, held_out, spec.measures)
        sheets[f"{folder}laws/{name}_final_laws.csv"] = _laws(shown)
        steps = np.transpose(guarantee_curve(experiment.problem).steps).tolist()  # a value holds up to the next level
        sheets[f"{folder}laws/{file_name(spec.problem.name)}_best_quantile.csv"] = [["level_above", "value"], *steps]
    for (key, tau), tuned in study.tunings.items():
        sheets[f"tuning/{key}_tau{level_name(tau)}.csv"] = _rungs(tuned)
    return {name: _csv(study, sheet) for name, sheet in sheets.items()}


def policy_table(study: Study, tau: float, state_title: str, *, numbers: bool) -> tuple[str, bytes] | None:
    """File name and content of the final policy to show, with actions as `numbers` or names; None if there is none."""
    picked, chosen, mdp = study.picked.get(tau), study.spec.final_policy, study.problem()
    if picked is None or chosen is None:
        return None
    rows: Sheet = [[state_title, *(f"stage_{h}" for h in range(1, mdp.H + 1))]]
    for s in shown_states(study):
        actions = picked.actions[:, s].tolist()
        rows.append([mdp.state_label(s), *(actions if numbers else map(mdp.action_label, actions))])
    return f"{_stem(study, tau)}_{chosen.learner.upper()}_final_policy.csv", _csv(study, rows)


def shown_states(study: Study) -> list[int]:
    """States of the final policy's table."""
    mdp, chosen = study.problem(), study.spec.final_policy
    return [s for s in range(mdp.S) if chosen is None or mdp.state_label(s) not in chosen.leave_out]


def _stem(study: Study, tau: float) -> str:
    """Beginning of the file names of a level."""
    return f"{file_name(study.spec.problem.name)}_tau{level_name(tau)}"


def _csv(study: Study, sheet: Sheet) -> bytes:
    """CSV of a table; a quick run is marked in every row."""
    if study.spec.quick:
        sheet = [[*row, 1 if i else "quick"] for i, row in enumerate(sheet)]
    return sheet_csv(sheet)


def _curves(experiment: Experiment, measure: str) -> Sheet:
    """Mean and sample standard deviation by episode; equal curves deviate by exactly zero."""
    columns, header = list[FloatArray](), ["episode"]
    for key in experiment.records:
        values = experiment.values(key, measure)
        apart = values - values[0]
        columns += [values[0] + apart.mean(axis=0), apart.std(axis=0, ddof=1)]
        header += [f"{key}_mean", f"{key}_std"]
    return [header, *([t, *row] for t, row in enumerate(np.array(columns).T.tolist(), start=1))]


def _ends(experiment: Experiment, held_out: Sequence[int], measures: Sequence[str]) -> Sheet:
    """Last values by seed."""
    rows: Sheet = [["learner", "seed", "held_out", *(f"{measure}_{KINDS[measure]}" for measure in measures)]]
    ends = [experiment.ends(measure) for measure in measures]
    for key in experiment.records:
        for seed, *values in zip(experiment.seeds, *(one[key].tolist() for one in ends), strict=True):
            rows.append([key, seed, int(seed in held_out), *values])
    return rows


def _laws(experiment: Experiment) -> Sheet:
    """Laws of the return under the policies of the last episode."""
    rows: Sheet = [["learner", "seed", "return", "probability"]]
    for key, records in experiment.records.items():
        for seed, record in zip(experiment.seeds, records, strict=True):
            atoms = zip(record.points.tolist(), record.pmf[record.law_of[-1]].tolist(), strict=True)
            rows += [[key, seed, x, p] for x, p in atoms if p > 0.0]
    return rows


def _rungs(tuned: Tuned) -> Sheet:
    """Every configuration of every rung, and whether it was kept."""
    rows: Sheet = [["rung", "episodes", tuned.parameter, "gap_mean", "gap_error", "tail_return", "kept"]]
    went_on = [*({trial.place for trial in rung.trials} for rung in tuned.rungs[1:]), {tuned.winner.place}]
    for number, (rung, kept) in enumerate(zip(tuned.rungs, went_on, strict=True), start=1):
        for trial in rung.trials:
            criterion = (trial.gap, standard_error(trial.gaps) if len(trial.scores) > 1 else None, trial.tail)
            rows.append([number, rung.episodes, trial.value, *criterion, int(trial.place in kept)])
    return rows
