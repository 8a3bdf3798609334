"""Runs of learners as a Result.

The value of a policy is its exact objective value, such as its tau-quantile. The gap of an episode is the best value of any
policy minus that of the current policy; the regret of an episode is the best mean minus that policy's mean. Both are summed over
the episodes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np

from bqrl.display import format_number
from bqrl.laws.law import size_of
from bqrl.laws.objectives import Objective
from bqrl.learners.record import Record
from bqrl.learners.registry import known_learner
from bqrl.learners.score import random_play
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import GAP_TOL
from bqrl.results.charts import curves_chart, with_charts
from bqrl.results.decisions import policy_files
from bqrl.results.learning_curves import MAX_BLOCKS, averaged_curve, learner_colours, thinning_note
from bqrl.results.plans import POLICY_FILES, in_one_line, objective_name
from bqrl.results.result import Result, ResultTable, Shown, asked_for, chart_files, saved_bytes
from bqrl.results.views import experiment_view
from bqrl.results.words import Words, learning_sentences, order_of, tell_apart
from bqrl.study.problems import file_name
from bqrl.study.scores import Contender, Experiment, late_return
from bqrl.study.suite import Suite, same_columns
from bqrl.versions import versions

Row = dict[str, Any]
MAX_ROWS = 2000  # episodes per learner in the table of curves
MAX_STEM = 80  # characters of a learner in a file name
FILES = (  # files that a folder may hold; RUN_FILES are those of each run
    "learners.csv", "seeds.csv", "curves.csv", "beats.csv", *chart_files(["promises", "gaps", "returns"]),
)  # fmt: skip
SUITE_FILES = ("shares.csv", "learners.csv", *chart_files(["figure"]))
SHARE = "The share is how far the last policies come from random play (0) to the certified optimum (1)."
RUN_FILES = ("record_{}.npz", "episodes_{}.jsonl")
RETURNS = {  # columns if the kernel is unknown; braces stand for the kind of the objective
    "return": "mean return", "last_return": "mean return, last tenth", "last_value": "{} of the returns, last tenth",
}  # fmt: skip
SCORES = {"value": "{}", "gap": "cumulative {} gap", "mean_regret": "cumulative mean regret", "mean": "mean"}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Learned:
    """Runs of learners with their problem and settings."""

    experiment: Experiment
    words: Words
    model: Mapping[str, Any]  # sizes of the problem; empty if they are not known
    settings: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    alone: bool = False  # one learner, whose policy is shown


def label_of(learner: str, params: Mapping[str, Any]) -> str:
    """Name of a learner in tables and charts.

    >>> label_of("ucb-bqrl", {"planner": "greedy", "c_conf": 0.01})
    'UCB-BQRL, greedy planner, c_conf=0.01'
    """
    parts = [f"{value} planner" if key == "planner" else f"{key}={in_text(value)}" for key, value in params.items()]
    found = known_learner(learner)
    name = getattr(found, "label", "") or getattr(found, "name", "") or learner.rpartition(":")[2]
    return ", ".join([name, *parts])


def in_text(value: Any) -> str:
    """The value of a parameter, written as on the command line."""
    return ",".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def file_stem(one: Contender, seed: int, *, alone: bool) -> str:
    """Stem of the file names of one run; it names the learner unless there is only one.

    >>> file_stem(Contender(label="My own, fast", learner=print), 42, alone=False)
    'My-own-fast-c3242163_seed42'
    """
    if alone:
        return f"seed{seed}"
    known = isinstance(one.learner, str) and ":" not in one.learner
    parts = [one.learner, *(f"{key}-{in_text(value)}" for key, value in one.params.items())] if known else [one.label]
    text = "_".join(parts)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip("._-")
    if len(name) > MAX_STEM or (name != text and not known):  # names that differ must remain different
        name = f"{name[: MAX_STEM - 9]}-{sha256(text.encode()).hexdigest()[:8]}"
    return f"{name}_seed{seed}"


def learning_files(objective: Objective, stems: Iterable[str]) -> list[str]:
    """Names of the files that a folder of these runs may hold."""
    policies = (name.format(objective_name(objective)) for name in POLICY_FILES)
    return [*FILES, *policies, *(name.format(stem) for stem in stems for name in RUN_FILES)]


def learning_document(found: Learned) -> dict[str, Any]:
    """The runs without their curves, as JSON values; printed by `--json`."""
    experiment, goal, T = found.experiment, found.experiment.objective, found.experiment.episodes
    first, best, random, learners = experiment.records[experiment.learners[0].label][0], None, None, []
    if first.mdp is not None and first.optimum is not None:
        best = {
            "value": first.optimum.value(goal),
            "mean": first.optimum.best_mean,
            "error": first.optimum.error_of(goal),
        }
        best["score_error"] = experiment.score_error
        play = random_play(first.mdp)
        random = {"value": goal(play), "mean": play.exact_mean}
        random |= {"gap": T * (best["value"] - random["value"]), "mean_regret": T * (best["mean"] - random["mean"])}
    for one in experiment.learners:
        records = zip(experiment.seeds, experiment.records[one.label], strict=True)
        runs = [{"seed": seed, **_run(record, goal)} for seed, record in records]
        columns = {key: np.array([run[key] for run in runs]) for key in runs[0] if key not in ("seed", "settled")}
        learners.append({
            "label": one.label,
            "learner": one.learner if isinstance(one.learner, str) else one.label,
            "params": dict(one.params),
            "runs": runs,
            "mean": {key: float(values.mean()) for key, values in columns.items()},
            "std": {key: float((x - x[0]).std(ddof=1)) if len(runs) > 1 else None for key, x in columns.items()},
        })  # fmt: skip
    document: dict[str, Any] = {
        "format": f"bqrl {'learn' if found.alone else 'compare'} 2", "model": dict(found.model),
        "settings": dict(found.settings), "objective": goal.text, "tau": getattr(goal, "tau", None), "episodes": T,
        "best": best, "random": random, "learners": learners, "beats": experiment.beats(), "seconds": found.seconds,
        "versions": versions(),
    }  # fmt: skip
    return document | {"meaning": learning_sentences(document, order_of(experiment, words=found.words), found.words)}


def _run(record: Record, goal: Objective) -> dict[str, Any]:
    """The numbers of one run."""
    row: dict[str, Any] = {"return": float(record.returns.mean()), "last_return": late_return(record)}
    if record.mdp is None or record.optimum is None:
        return row | {"last_value": late_return(record, objective=goal)}
    gaps, best = record.gap(goal), record.optimum.value(goal)
    row |= {"value": float(record.value(goal)[-1]), "mean": float(record.means()[-1]), "gap": float(gaps.sum())}
    if record.final_policy is not None and not record.simulated:  # an exact law beats a rounded one
        final = evaluate(record.mdp, record.final_policy, rewards="this model")
        row |= {"value": goal(final), "mean": final.exact_mean}
    row["mean_regret"] = float(record.expected_regret().sum())
    row["settled"] = optimal_after(np.r_[gaps, best - row["value"]], size_of(record.points))
    return row


def optimal_after(gaps: FloatArray, size: float) -> int | None:
    """Number of episodes after which the policy stays optimal; None if the final policy is not optimal.

    `gaps` holds the gaps of the episodes and then that of the final policy; `size` is the size of the returns.

    >>> optimal_after(np.array([1.0, 0.0, 0.5, 0.0, 0.0]), 1.0), optimal_after(np.array([0.0, 0.1]), 1.0)
    (3, None)
    """
    short = np.flatnonzero(gaps > GAP_TOL * size)
    first = int(short[-1]) + 1 if short.size else 0
    return first if first < gaps.size else None


def _best_name(document: Mapping[str, Any]) -> str:
    """Name of the best promise in tables and charts."""
    return "best possible, at least" if document["best"]["error"] else "best possible"


def learner_tables(found: Learned, document: Mapping[str, Any]) -> dict[str, ResultTable]:
    """Tables of the learners (the best first, then the best policies and random play) and of all runs."""
    best, amounts = document["best"], RETURNS if document["best"] is None else SCORES
    goal = found.experiment.objective
    bare = {key for key, title in amounts.items() if goal.probability and "{}" in title}  # a probability has no unit
    named = {key: title.format(goal.kind) for key, title in amounts.items()}
    titles = {key: title if key in bare else found.words.titled(title) for key, title in named.items()}
    if best is not None:
        titles["settled"] = "optimal after (episodes)"
    learners, rows, runs = {one["label"]: one for one in document["learners"]}, list[Row](), list[Row]()
    for label in (place["learner"] for place in found.experiment.order()):
        one, row = learners[label], {"learner": label}
        for key in amounts:
            row |= {key: one["mean"][key], f"{key}_std": one["std"][key]}
        if best is not None:
            settled = [run["settled"] for run in one["runs"]]
            row["settled"] = None if None in settled else max(settled)
        rows.append(row)
        runs += [{"learner": label, "seed": run["seed"]} | {key: run[key] for key in titles} for run in one["runs"]]
    if best is not None:
        blank = dict.fromkeys(rows[0])
        ideal = {"value": best["value"], "gap": 0.0, "mean_regret": 0.0, "mean": best["mean"]}
        rows += [blank | {"learner": _best_name(document)} | ideal]
        rows += [blank | {"learner": "random play"} | document["random"]]
    seeds = len(found.experiment.seeds)
    caption = f"Mean \N{PLUS-MINUS SIGN} standard deviation over {seeds} seeds." if seeds > 1 else "One seed."
    bounds, made = {"value": -1}, found.experiment.made
    return {
        "learners": ResultTable(rows, titles=titles, caption=caption, bounds=bounds, made=made),
        "seeds": ResultTable(runs, titles=titles, caption="One row per run.", bounds=bounds, made=made),
    }


def learning_result(found: Learned, document: Mapping[str, Any], files: Mapping[str, bytes]) -> Result:
    """The result of runs, with their records and further `files` attached."""
    experiment, words = found.experiment, found.words
    tables, attached, left_out = learner_tables(found, document), dict(files), list[str]()
    for one in experiment.learners:
        for seed, record in zip(experiment.seeds, experiment.records[one.label], strict=True):
            stem = file_stem(one, seed, alone=found.alone)
            attached[f"record_{stem}.npz"] = saved_bytes(record)
    if document["beats"]:
        said = "The probability that a run of the first learner beats a run of the other; ties count one half."
        tables["beats"] = ResultTable(
            document["beats"], titles={"other": "other learner"}, caption=said, made=experiment.made
        )
    if document["best"] is not None:
        names, ends = {"gap": f"{experiment.objective.kind} gap", "mean_regret": "mean regret"}, ("mean", "low", "high")
        rows = [
            {"learner": both[0]["learner"], "episode": both[0]["episode"], "seeds": both[0]["seeds"]}
            | {f"{name}_{key}": row[key] for name, row in zip(names, both, strict=True) for key in ends}
            for both in zip(*(experiment.curves(name, MAX_ROWS) for name in names), strict=True)
        ]
        titles = {
            f"{name}_{key}": words.titled(f"cumulative {what}, {key}") for name, what in names.items() for key in ends
        }
        said = f"Low and high: {experiment.band}. {thinning_note(experiment.episodes, MAX_ROWS)}"
        tables["curves"] = ResultTable(rows, titles=titles, caption=said.strip(), made=experiment.made)
    if found.alone and document["best"] is not None:
        runs = document["learners"][0]["runs"]
        best = max(runs, key=lambda run: (run["value"], run["mean"], -run["gap"]))
        record = experiment.records[experiment.learners[0].label][runs.index(best)]
        assert record.final_policy is not None
        assert record.mdp is not None
        name, caption = f"policy{objective_name(experiment.objective)}", f"seed {best['seed']}: "
        left_out = policy_files(record.final_policy, record.mdp, words, name, caption, tables, attached)
    result = Result(
        kind="learning" if found.alone else "comparison", title=words.title,
        settings=({"size": in_one_line(found.model, words)} if found.model else {}) | asked_for(found.settings),
        tables=tables, sentences=[document["meaning"]], details=document, files=attached, left_out=left_out,
    )  # fmt: skip
    return with_charts(result, lambda: learning_charts(found, document))


# -- several problems ------------------------------------------------------------------------------------------------------


def suite_places(names: Iterable[str]) -> dict[str, str]:
    """Subfolders of the files of problems, by their names.

    >>> suite_places(["two roads", "two_roads", "Put"])
    {'two roads': 'two_roads', 'two_roads': 'two_roads-2', 'Put': 'Put'}
    """
    found = dict[str, str]()
    for i, name in enumerate(names, start=1):
        place, taken = file_name(name), map(str.lower, found.values())
        found[name] = f"{place}-{i}" if place.lower() in taken else place
    return found


def _suite(parts: Mapping[str, Learned]) -> Suite:
    return Suite(experiments={name: one.experiment for name, one in parts.items()})


def suite_document(parts: Mapping[str, Learned], settings: Mapping[str, Any], seconds: float = 0.0) -> dict[str, Any]:
    """The shares on several problems and the document of each problem, as JSON values."""
    suite, said = _suite(parts), "No shares are known: not all environments expose their transition probabilities."
    shares = suite.shares()
    known = [row for row in shares if None not in (row[label] for label in suite.labels)]
    if known:
        means = {label: float(np.mean([row[label] for row in known])) for label in suite.labels}
        ranked = sorted(suite.labels, key=lambda label: -means[label])
        texts = [f"{label} {format_number(means[label], 3)}" for label in ranked]
        over = f", over {len(known)} problems" if len(known) > 1 else ""
        said = f"Mean share of the way from random play to the certified optimum{over}: {'; '.join(texts)}."
    return {
        "format": "bqrl suite 1", "settings": dict(settings), "shares": shares,
        "problems": {name: learning_document(one) for name, one in parts.items()},
        "meaning": said, "seconds": seconds, "versions": versions(),
    }  # fmt: skip


def suite_tables(parts: Mapping[str, Learned], document: Mapping[str, Any]) -> dict[str, ResultTable]:
    """The table of shares, and the final values of all problems in one table."""
    rows = list[Row]()
    for name, one in parts.items():
        for row in learner_tables(one, document["problems"][name])["learners"].rows:
            share = None if row.get("value") is None else one.experiment.share(row["value"])
            rows.append({"problem": name, "learner": row["learner"], "share": share, **row})
    most = max((one.experiment for one in parts.values()), key=lambda one: len(one.seeds))
    said = "One seed." if len(most.seeds) == 1 else "Mean over the seeds of each problem."
    seeds = dict.fromkeys(one.experiment.made["seed_numbers"] for one in parts.values())
    made = most.made | {"seed_numbers": "; ".join(seeds)}
    kinds = {one.experiment.objective.kind for one in parts.values()}
    kind = kinds.pop() if len(kinds) == 1 else "objective"
    named = {key: title.format(kind) for key, title in (RETURNS | SCORES).items()}
    titles = {"random": "random play", "settled": "optimal after (episodes)"} | named
    return {
        "shares": ResultTable(document["shares"], titles=titles, caption=f"{SHARE} {said}", made=made),
        "learners": ResultTable(
            same_columns(rows),
            titles=titles,
            caption="The final values of all problems.",
            bounds={"value": -1},
            made=made,
        ),
    }


def suite_result(
    parts: Mapping[str, Learned], document: Mapping[str, Any], title: str, files: Mapping[str, Mapping[str, bytes]]
) -> Result:
    """The result of learners on several problems, with the figure on top and one section per problem; `files` by problem."""
    tables, sentences, left_out = suite_tables(parts, document), [document["meaning"]], list[str]()
    charts, attached = dict[str, Any](), dict[str, bytes]()
    for name, place in suite_places(parts).items():
        one = learning_result(parts[name], document["problems"][name], files.get(name, {}))
        sentences += [f"{name}: {line.text}" for line in one.lines]
        tables |= {f"{place}/{key}": table for key, table in one.tables.items()}
        charts |= {f"{place}/{key}": chart for key, chart in one.charts.items()}
        attached |= {f"{place}/{key}": content for key, content in one.files.items()}
        left_out += one.left_out
    result = Result(
        kind="suite", title=title, settings=asked_for(document["settings"]), tables=tables, sentences=sentences,
        details=document, files=attached, left_out=list(dict.fromkeys(left_out)),
    )  # fmt: skip
    drawn = with_charts(result, lambda: {"figure": _suite(parts).figure(title="Learning curves")})
    return replace(drawn, charts={**drawn.charts, **charts}, left_out=list(dict.fromkeys(drawn.left_out)))


# -- charts ----------------------------------------------------------------------------------------------------------------


def learning_charts(found: Learned, document: Mapping[str, Any]) -> dict[str, Any]:
    """The charts of runs by name: promises and gaps, or returns if the kernel is unknown."""
    experiment, words, best = found.experiment, found.words, document["best"]
    title, references = "Realised returns", list[tuple[str, float]]()
    if best is not None:
        title = "What the current policies promise"
        references = [(_best_name(document), best["value"]), ("random play", document["random"]["value"])]
    curves = []
    for label, runs in experiment.records.items():
        values = [record.returns if best is None else record.value(experiment.objective) for record in runs]
        curves.append(averaged_curve(label, np.array(values)))
    averages = f"Averages over {MAX_BLOCKS} blocks of episodes." if experiment.episodes > MAX_BLOCKS else ""
    chart = curves_chart(
        curves, title=title,
        y_title=words.axis("mean return") if best is None else words.objective_axis(experiment.objective),
        band=experiment.band, note=f"{averages} {words.bracket(experiment.error, experiment.score_error)}".strip(),
        references=references, colours=learner_colours(experiment.learners), description=experiment.runs,
    )  # fmt: skip
    if best is None:
        return {"returns": chart}
    cost = "What learning costs, summed over the episodes"
    return {"promises": chart, "gaps": experiment_view(experiment, "gap", words=words, title=cost)}


def show_learning(
    parts: Mapping[str, Learned], document: Mapping[str, Any], result: Result | None, first: int
) -> Shown:  # fmt: skip
    """What a command shows of runs on one or more problems; `first` is the first seed."""
    found = next(iter(parts.values()))
    experiment, words = found.experiment, found.words
    goal, seeds = experiment.objective.label, len(experiment.seeds)
    counts = f"{words.count('episode', experiment.episodes)}, {words.count('seed', seeds)} from {first}"
    if len(parts) > 1:
        tables, lines = [*suite_tables(parts, document).values()], [document["meaning"]]
        return Shown(document, result, f"{len(parts)} problems; {goal}, {counts}", tables[::-1], lines)
    lines = [document["meaning"]]
    for pair in document["beats"][: int(seeds > 1)]:
        probability, _ = tell_apart(pair["probability"], 1.0)
        beats = f"{pair['learner']} beats {pair['other']} with probability {probability}"
        lines.append(f"A run of {beats} (all pairs of seeds; ties count one half).")
    who = f"{experiment.learners[0].label}, " if found.alone else ""
    header = f"{words.title}: {in_one_line(document['model'], words)}; {who}{goal}, {counts}"
    return Shown(document, result, header, [learner_tables(found, document)["learners"]], lines)
