"""Runs of learners as a Result.

The promise of a policy is its exact tau-quantile. The gap of an episode is the best promise of any policy minus that of the
policy in force; the regret of an episode is the best mean minus that policy's mean. Both are summed over the episodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from bqrl.learners.record import Record
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.convert import uniform
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import GAP_TOL
from bqrl.results.charts import MAX_BLOCKS, averaged_curve, curves_chart, learner_colours, thinning, with_charts
from bqrl.results.plans import in_one_line, policy_files
from bqrl.results.result import Result, Table, asked_for, chart_files, saved, versions
from bqrl.results.views import experiment_view
from bqrl.results.words import Words, apart, compared, learned, listed, number, order_of
from bqrl.results.words import runs as runs_of
from bqrl.study.scores import PROVEN, Contender, Experiment, late_return
from bqrl.study.tables import level_name

NAMES = {
    "ucb-bqrl": "UCB-BQRL", "psrl": "PSRL", "ucbvi": "UCBVI", "q-learning": "Q-learning", "sarsa": "SARSA",
    "thompson": "Thompson", "ppo": "PPO", "trpo": "TRPO",
}  # fmt: skip
MAX_ROWS = 2000  # episodes per learner in the table of curves
MAX_STEM = 80  # characters of a learner in a file name
CHARTS = ("promises", "gaps", "returns")
TITLES = {
    "quantile": "quantile",
    "gap": "cumulative gap",
    "regret": "cumulative regret",
    "mean": "mean",
    "settled": "optimal after (episodes)",
    "return": "mean return",
    "last_return": "mean return, last tenth",
}


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """An experiment with what it is compared with."""

    experiment: Experiment
    words: Words
    model: Mapping[str, Any]  # sizes of the problem
    mdp: MDP | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    alone: bool = False  # one learner, of which the policy is shown


def label_of(learner: str, params: Mapping[str, Any]) -> str:
    """Name of a learner in tables and charts.

    >>> label_of("ucb-bqrl", {"planner": "greedy", "c_conf": 0.01})
    'UCB-BQRL, greedy planner, c_conf=0.01'
    """
    parts = [f"{value} planner" if key == "planner" else f"{key}={in_text(value)}" for key, value in params.items()]
    return ", ".join([NAMES.get(learner, learner), *parts])


def in_text(value: Any) -> str:
    """The value of a parameter as the command line writes it."""
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def file_stem(learner: str, params: Mapping[str, Any], seed: int, *, alone: bool) -> str:
    """Name of the files of one run; the learner is part of it unless it is the only one."""
    if alone:
        return f"seed{seed}"
    parts = [learner, *(f"{key}-{in_text(value)}" for key, value in params.items())]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", "_".join(parts))
    if len(name) > MAX_STEM:  # names that differ further on must stay apart
        name = f"{name[: MAX_STEM - 9]}-{sha256(name.encode()).hexdigest()[:8]}"
    return f"{name}_seed{seed}"


def learning_files(tau: float, stems: list[str]) -> list[str]:
    """Names of the files that a folder of these runs may hold."""
    tables, policy = ("learners.csv", "seeds.csv", "curves.csv", "beats.csv"), f"policy_tau{level_name(tau)}"
    records = (f"record_{stem}.npz" for stem in stems)
    return [*tables, f"{policy}.csv", f"{policy}.npz", *chart_files(CHARTS), *records]


def learning_document(found: Learned) -> dict[str, Any]:
    """The runs without their curves, as JSON values: what `--json` prints."""
    experiment = found.experiment
    tau, T = experiment.tau, experiment.episodes
    optimum, best, random = next(iter(experiment.records.values()))[0].optimum, None, None
    if experiment.known and optimum is not None:
        best = {"quantile": optimum.quantile(tau), "mean": optimum.best_mean, "error": optimum.error}
        best["score_error"] = experiment.score_error
        if found.mdp is not None:
            play = evaluate(found.mdp, uniform(found.mdp))
            quantile, mean = play.quantile(tau), play.mean()
            lost = {"gap": T * (best["quantile"] - quantile), "regret": T * (best["mean"] - mean)}
            random = {"quantile": quantile, "mean": mean, **lost}
    document: dict[str, Any] = {
        "format": f"bqrl {'learn' if found.alone else 'compare'} 2",
        "model": dict(found.model),
        "settings": dict(found.settings),
        "tau": tau,
        "episodes": T,
        "best": best,
        "random": random,
        "learners": [_learner(found, one, best) for one in experiment.learners],
        "beats": experiment.beats(),
        "seconds": found.seconds,
        "versions": versions(),
    }
    if found.alone:
        return document | {"meaning": learned(document, found.words)}
    return document | {"meaning": compared(document, order_of(experiment, words=found.words), found.words)}


def _learner(found: Learned, one: Contender, best: Mapping[str, float] | None) -> dict[str, Any]:
    """The runs of one learner, with mean and standard deviation over seeds."""
    records = zip(found.experiment.seeds, found.experiment.records[one.label], strict=True)
    rows = [{"seed": seed, **_run(found, record, best)} for seed, record in records]
    columns = {key: np.array([row[key] for row in rows]) for key in rows[0] if key not in ("seed", "settled")}
    return {
        "label": one.label,
        "learner": one.learner if isinstance(one.learner, str) else one.label,
        "params": dict(one.params),
        "runs": rows,
        "mean": {key: float(values.mean()) for key, values in columns.items()},
        "std": {key: float(values.std(ddof=1)) if len(rows) > 1 else None for key, values in columns.items()},
    }


def _run(found: Learned, record: Record, best: Mapping[str, float] | None) -> dict[str, Any]:
    """The numbers of one run."""
    row: dict[str, Any] = {"return": float(record.returns.mean()), "last_return": late_return(record)}
    if best is None:
        return row
    assert found.mdp is not None
    assert record.final_policy is not None
    final = evaluate(found.mdp, record.final_policy)
    quantile, gaps = final.quantile(found.experiment.tau), record.gap(found.experiment.tau)
    row |= {"quantile": quantile, "mean": final.mean(), "gap": float(gaps.sum())}
    row["regret"] = float(record.expected_regret().sum())
    row["settled"] = optimal_after(np.r_[gaps, best["quantile"] - quantile], best["quantile"])
    return row


def optimal_after(gaps: FloatArray, size: float) -> int | None:
    """Number of episodes after which the policy is optimal to the end; None if it never is.

    `gaps` are those of the episodes and, last, that of the final policy.

    >>> optimal_after(np.array([1.0, 0.0, 0.5, 0.0, 0.0]), 1.0), optimal_after(np.array([0.0, 0.1]), 1.0)
    (3, None)
    """
    short = np.flatnonzero(gaps > GAP_TOL * max(1.0, abs(size)))
    first = int(short[-1]) + 1 if short.size else 0
    return first if first < gaps.size else None


def _columns(document: Mapping[str, Any]) -> list[str]:
    """Columns of the tables: returns only where no law is known."""
    known = document["learners"][0]["runs"][0]
    return [key for key in TITLES if key in known and (document["best"] is None or "return" not in key)]


def _titles(words: Words) -> dict[str, str]:
    """Titles of the columns with their units."""
    return {key: title if key == "settled" else words.titled(title) for key, title in TITLES.items()}


def _best_name(document: Mapping[str, Any]) -> str:
    """What the best promise is called beside those of learners."""
    return "best possible, at least" if document["best"]["error"] else "best possible"


def main_table(found: Learned, document: Mapping[str, Any]) -> Table:
    """What is shown first: one learner by seed, or several by their means."""
    return seed_table(document, found.words) if found.alone else learner_table(found.experiment, document, found.words)


def seed_table(document: Mapping[str, Any], words: Words) -> Table:
    """One learner: one row per seed, and their mean."""
    (learner,), keys, best = document["learners"], _columns(document), document["best"]
    rows = [{"seed": str(row["seed"])} | {key: row[key] for key in keys} for row in learner["runs"]]
    if len(rows) > 1:
        rows.append({"seed": "mean"} | {key: learner["mean"].get(key) for key in keys})
    said = "One row per seed."
    if best is not None:
        least = "at least " if best["error"] else ""
        said += f" The best quantile of any policy is {least}{words.amount(number(best['quantile']))}."
    return Table(rows, {"seed": "seed", **_titles(words)}, said)


def learner_table(experiment: Experiment, document: Mapping[str, Any], words: Words) -> Table:
    """Several learners, the best first; then the best policies and random play."""
    rows, learners = list[dict[str, Any]](), {one["label"]: one for one in document["learners"]}
    for label in (place["learner"] for place in experiment.order()):
        one, row = learners[label], {"learner": label}
        for key in _columns(document):
            if key == "settled":
                each = [run["settled"] for run in one["runs"]]
                row[key] = None if None in each else max(each)
            else:
                row |= {key: one["mean"][key], f"{key}_std": one["std"][key]}
        rows.append(row)
    if document["best"] is not None:
        blank = dict.fromkeys(rows[0])
        best = {key: document["best"][key] for key in ("quantile", "mean")}
        rows.append(blank | {"learner": _best_name(document), "gap": 0.0, "regret": 0.0} | best)
        if document["random"] is not None:
            rows.append(blank | {"learner": "random play"} | document["random"])
    seeds = len(document["learners"][0]["runs"])
    said = f"Mean \N{PLUS-MINUS SIGN} standard deviation over {seeds} seeds." if seeds > 1 else "One seed."
    return Table(rows, {"learner": "learner", **_titles(words)}, said)


def learning_result(found: Learned, document: Mapping[str, Any], files: Mapping[str, bytes]) -> Result:
    """The result of runs with records and further `files` attached."""
    experiment, words = found.experiment, found.words
    tables = {"seeds" if found.alone else "learners": main_table(found, document)}
    attached, left_out = dict(files), list[str]()
    for one in experiment.learners:
        for seed, record in zip(experiment.seeds, experiment.records[one.label], strict=True):
            stem = file_stem(str(one.learner), one.params, seed, alone=found.alone)
            attached[f"record_{stem}.npz"] = saved(record)
    if len(experiment.learners) > 1:
        said = "The probability that a run of the first learner beats a run of the other; ties count one half."
        tables["beats"] = Table(document["beats"], {"other": "other learner"}, said)
    if document["best"] is not None:
        tables["curves"] = _curve_table(experiment, words)
    if found.alone and found.mdp is not None and document["best"] is not None:
        rows = document["learners"][0]["runs"]
        chosen = max(range(len(rows)), key=lambda i: (rows[i]["quantile"], rows[i]["mean"], -rows[i]["gap"]))
        policy = experiment.records[experiment.learners[0].label][chosen].final_policy
        assert policy is not None
        name, caption = f"policy_tau{level_name(experiment.tau)}", f"seed {rows[chosen]['seed']}: "
        left_out = policy_files(policy, found.mdp, words, name, caption, tables, attached)
    result = Result(
        kind="learning" if found.alone else "comparison",
        title=words.title,
        settings={"size": in_one_line(found.model, words)} | asked_for(found.settings),
        tables=tables,
        charts={},
        sentences=[document["meaning"]],
        details=document,
        files=attached,
        left_out=left_out,
    )
    return with_charts(result, lambda: learning_charts(found, document))


def learning_charts(found: Learned, document: Mapping[str, Any]) -> dict[str, Any]:
    """The charts of runs by name."""
    experiment, words, tau = found.experiment, found.words, found.experiment.tau
    exact, references = document["best"] is not None, []
    curves = []
    for one in experiment.learners:
        runs = experiment.records[one.label]
        values = np.array([record.quantile(tau) if exact else record.returns for record in runs])
        curves.append(averaged_curve(one.label, values))
    if exact:
        references = [(_best_name(document), document["best"]["quantile"])]
        references += [] if document["random"] is None else [("random play", document["random"]["quantile"])]
    title = _promise_title(document, words) if exact else order_of(experiment, title=True, words=words)
    averages = f"Averages over {MAX_BLOCKS} blocks of episodes." if experiment.episodes > MAX_BLOCKS else ""
    chart = curves_chart(
        curves,
        title=title,
        y_title=words.axis(f"return reached in {runs_of(tau)}" if exact else "mean return"),
        band=experiment.band if len(experiment.seeds) > 1 else "",
        note=f"{averages} {words.bracket(experiment.error, experiment.score_error)}".strip(),
        references=references,
        colours=learner_colours(experiment.learners),
    )
    return {"promises": chart, "gaps": experiment_view(experiment, "gap", words=words)} if exact else {"returns": chart}


def _promise_title(document: Mapping[str, Any], words: Words) -> str:
    """Which learners end with the largest promise, and what the best one is."""
    ends = {one["label"]: one["mean"]["quantile"] for one in document["learners"]}
    most, best = apart(max(ends.values()), document["best"]["quantile"])
    first = [label for label, end in ends.items() if apart(end)[0] == apart(max(ends.values()))[0]]
    highest = f"the {PROVEN if document['best']['error'] else 'best promise'}"
    own = (
        f"{'the largest' if len(ends) > 1 else 'a'} promise of {words.amount(most)}; {highest} is {words.amount(best)}"
    )
    promise = f"{highest}, {words.amount(best)}" if most == best else own
    return f"{listed(first)} {'ends' if len(first) == 1 else 'end'} with {promise}"


def _curve_table(experiment: Experiment, words: Words) -> Table:
    """The cumulative measures by episode."""
    names, ends = ("gap", "regret"), ("mean", "low", "high")
    rows = [
        {"learner": both[0]["learner"], "episode": both[0]["episode"]}
        | {f"{name}_{key}": row[key] for name, row in zip(names, both, strict=True) for key in ends}
        for both in zip(*(experiment.curves(name, MAX_ROWS) for name in names), strict=True)
    ]
    titles = {f"{name}_{key}": words.titled(f"cumulative {name}, {key}") for name in names for key in ends}
    said = f"Low and high: {experiment.band}. {thinning(experiment.episodes, MAX_ROWS)}"
    return Table(rows, titles, said.strip())
