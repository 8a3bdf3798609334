"""`bqrl.report`: the page of a plan, strategies, an estimate, learners, a study or a result folder.

Each class has one entry in PAGES: a function that returns the Result of an object, given the words that the caller chose. Its
keyword-only arguments are further options of `report` for that class.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bqrl.checks import bad_type, bad_value, unknown_argument
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Objective, check_objective
from bqrl.learners.record import Record
from bqrl.logs.estimate import Estimate
from bqrl.mdp.files.atomic import check_place, write_whole
from bqrl.mdp.model import MDP
from bqrl.planners.plan import Plan
from bqrl.planners.strategies import Strategies
from bqrl.planners.stress import Stress
from bqrl.planners.tradeoff import Tradeoff
from bqrl.results.estimates import fit_result
from bqrl.results.learning import Learned, learning_document, learning_result, suite_document, suite_result
from bqrl.results.page import PAGE, page
from bqrl.results.plans import plan_result, sizes
from bqrl.results.result import Result, add_files, read, write
from bqrl.results.solved import collect_plans, with_chart_data, with_strategies
from bqrl.results.strategies import strategies_result
from bqrl.results.stress import stress_result
from bqrl.results.study_view import StudyView
from bqrl.results.trades import trade_result
from bqrl.results.words import NAMES, Words
from bqrl.study.scores import Contender, Experiment
from bqrl.study.study import Study
from bqrl.study.suite import Suite


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """The words that the caller of `report` chose, by option; None where the problem decides."""

    chosen: Mapping[str, str | None]

    def words(self, title: str, mdp: MDP | None) -> Words:
        """The chosen words, else those of the model, else the title."""
        return Words.of(mdp, self.chosen, title=title)

    def apply_title(self, result: Result) -> Result:
        """A finished result with the chosen title; ArgumentError if other words are chosen, because it has been worded."""
        for name, given in self.chosen.items():
            if name != "title" and given is not None:
                raise ArgumentError(f"{name} must not be given for a finished result; leave it out", name=name)
        title = self.chosen["title"]
        return result if title is None else replace(result, title=title)


def report(
    thing: Any, path: str | Path, *, title: str | None = None, unit: str | None = None, stage_name: str | None = None,
    run_name: str | None = None, return_name: str | None = None, state_name: str | None = None,
    action_name: str | None = None, **options: Any,
) -> Path:  # fmt: skip
    """Write the page of a result: a self-contained HTML file, or a folder with the page, its tables and its charts.

    Requires the extra "plots".

    Parameters
    ----------
    thing : Plan, list of Plan, Strategies, Tradeoff, Stress, Estimate, Record, Experiment, Suite, Study, str or Path
        A plan of `solve` or `Estimate.solve`, or several plans of one problem at different levels; the result of `strategies`,
        `sensitivity`, `tradeoff`, `stress`, `fit`, `learn` or `compare`; a study; or a folder that a command wrote with `--out`.
    path : str or Path
        A name that ends in ".html" is a file, which is replaced; any other name is a folder, which keeps files of others.
    title : str, optional
        Title of the page.
    unit : str, optional
        Unit of the returns, by default that of the model.
    stage_name, run_name, return_name, state_name, action_name : str, optional
        What a stage ("week"), a run ("patient"), a return ("net benefit"), a state ("condition") and an action ("order")
        are called, by default as in the `words` of the model.
    **options
        For an Estimate: the `objective` of the promise, or its level `tau` and buffer `beta`.

    Returns
    -------
    Path
        The page.

    Examples
    --------
    >>> import bqrl, tempfile
    >>> plan = bqrl.solve("SafeOrRisky", tau=0.1)
    >>> page = bqrl.report(plan, tempfile.mkdtemp() + "/page.html", title="A first plan")
    >>> page.name, "A first plan" in page.read_text(encoding="utf-8")
    ('page.html', True)
    """
    if not isinstance(path, (str, Path)) or not str(path).strip():
        raise bad_type("path", path, "be the path of an .html file or of a folder")
    target, make = Path(path), _entry(thing)
    single = target.suffix.lower() in (".html", ".htm") and not target.is_dir()
    if single:
        check_place(target)  # before the work
    parameters = inspect.signature(make).parameters.values()
    valid = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
    for name, value in options.items():
        if name not in valid:
            kind = f"the report of {type(thing).__name__}"
            raise unknown_argument(kind, name, value, valid, near=NAMES)
    chosen = {
        "title": title, "unit": unit, "stage_name": stage_name, "run_name": run_name, "return_name": return_name,
        "state_name": state_name, "action_name": action_name,
    }  # fmt: skip
    result: Result = make(thing, Naming(chosen=chosen), **options)
    content = page(result).encode()
    if single:
        write_whole(target, content)
        return target
    if isinstance(thing, (str, Path)):
        add_files(target, {PAGE: content})
    else:
        write(replace(result, files={**result.files, PAGE: content}), target)
    return target / PAGE


def plan_page(plan: Plan, naming: Naming) -> Result:
    """The result of one plan; the plan of an estimate shows its promise."""
    if isinstance(estimate := plan.details.get("estimate"), Estimate):
        return _promise_page(estimate, plan, naming)
    return plans_page([plan], naming)


def plans_page(plans: Sequence[Plan], naming: Naming) -> Result:
    """The result of several plans of one problem."""
    for plan in plans:
        if not isinstance(plan, Plan):
            raise bad_type("thing", plan, "hold plans only", type(plan).__name__, remedy="make them with solve")
    labels = list(dict.fromkeys(plan.objective.label for plan in plans))
    title = f"Plan for the {labels[0]}" if len(labels) == 1 else f"Plans for {', '.join(labels)}"
    words = naming.words(title, plans[0].mdp if plans else None)
    return plan_result(with_chart_data(with_strategies(collect_plans(plans, words))))


def trade_page(trade: Tradeoff, naming: Naming) -> Result:
    """The result of a trade-off between a guarantee and the mean."""
    return trade_result(trade, naming.words(f"The price of certainty: {trade.objective.label}", trade.mdp))


def estimate_page(
    estimate: Estimate, naming: Naming, *, objective: Objective | None = None, tau: float | None = None, beta: float = 0.0,
) -> Result:  # fmt: skip
    """The result of an estimate and its promise for one objective."""
    if tau is None and objective is None:
        raise bad_value("tau", None, "be given for the report of an Estimate", remedy="write e.g. tau=0.1")
    return _promise_page(estimate, estimate.solve(check_objective(objective, tau, beta)), naming)


def _promise_page(estimate: Estimate, promise: Plan, naming: Naming) -> Result:
    settings = {"objective": promise.objective.label, "confidence": estimate.confidence}
    words = naming.words(f"What the log promises: {promise.objective.label}", estimate.mdp)
    return fit_result(estimate, promise, words, settings)


def experiment_page(experiment: Experiment, naming: Naming) -> Result:
    """The result of learners with common seeds."""
    found = _learned(experiment, naming, f"Learning for the {experiment.objective.label}")
    found = replace(found, alone=len(experiment.learners) == 1)
    return learning_result(found, learning_document(found), {})


def _learned(experiment: Experiment, naming: Naming, title: str) -> Learned:
    """An experiment with its words and settings."""
    mdp = next(iter(experiment.records.values()))[0].mdp
    words = naming.words(title, mdp)
    settings = {
        "objective": experiment.objective.label,
        "learners": [one.label for one in experiment.learners],
        "episodes": experiment.episodes,
        "seeds": experiment.seeds,
    }
    model = {} if mdp is None else sizes(words.title, mdp)
    return Learned(experiment=experiment, words=words, model=model, settings=settings)


def suite_page(suite: Suite, naming: Naming) -> Result:
    """The result of learners on several problems."""
    parts = {name: _learned(one, naming, name) for name, one in suite.experiments.items()}
    title = naming.words(f"Learning on {len(suite)} problems", None).title
    document = suite_document(parts, {name: one.settings for name, one in parts.items()})
    return suite_result(parts, document, title, {})


def record_page(record: Record, naming: Naming) -> Result:
    """The result of one run."""
    known = record.settings
    name = str(known["learner"])
    experiment = Experiment(
        problem=record.mdp, objective=record.objective, episodes=record.returns.size, seeds=(int(known["seed"]),),
        learners=(Contender(label=name, learner=name, params=known.get("params", {})),), records={name: (record,)},
    )  # fmt: skip
    return experiment_page(experiment, naming)


def strategies_page(table: Strategies, naming: Naming) -> Result:
    """The result of strategies side by side."""
    words = naming.words("Strategies side by side", table.scenarios[0].mdp)
    settings = {"tau": list(table.taus), "below": table.below, "strategies": list(table.names)}
    return strategies_result(table, words, settings)


def stress_page(held: Stress, naming: Naming) -> Result:
    """The result of a stress test."""
    return stress_result(held, naming.words("What still holds if the model is off", held.mdp))


PAGES: Mapping[type, Callable[..., Result]] = {
    Plan: plan_page, Tradeoff: trade_page, list: plans_page, tuple: plans_page, Estimate: estimate_page,
    Strategies: strategies_page, Stress: stress_page, Experiment: experiment_page, Suite: suite_page, Record: record_page,
    Study: lambda study, naming: naming.apply_title(StudyView(study).result(images=False)), StudyView: lambda view,
    naming: naming.apply_title(view.result(images=False)), Result: lambda result, naming: naming.apply_title(result),
    str: lambda folder, naming: naming.apply_title(read(folder)), Path: lambda folder,
    naming: naming.apply_title(read(folder)),
}  # fmt: skip


def _entry(thing: Any) -> Callable[..., Result]:
    """The entry of PAGES for the class of an object."""
    for each in type(thing).__mro__:
        if each in PAGES:
            return PAGES[each]
    kinds = "a Plan, a list of plans, Strategies, a Tradeoff, a Stress, an Estimate, a Record, an Experiment, a Suite, "
    kinds += "a Study or a result folder"
    raise bad_type("thing", thing, f"be {kinds}", type(thing).__name__)
