"""`bqrl.compare`: several learners on one or more problems with common seeds.

The noise of a run depends on its seed and not on the learner, so all learners face the same randomness.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, product
from pathlib import Path
from typing import Any, overload

import cloudpickle
import numpy as np

from bqrl.checks import bad_type, is_one_line, one_line, whole
from bqrl.display import Watch
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.laws.objectives import Objective, check_objective
from bqrl.learners.code import learner_code
from bqrl.learners.registry import check_params, find_learner
from bqrl.learners.run import DELTA, EPISODES, TAU, Run
from bqrl.progress import progress_bar
from bqrl.study.problems import Problem, source_of
from bqrl.study.runner import Batch, Engine, Job
from bqrl.study.scores import Contender, Experiment
from bqrl.study.store import RunSpec, Store
from bqrl.study.suite import Suite
from bqrl.study.workers import LocalWorkers, Workers

SEEDS, FIRST_SEED, WORKERS = 20, 42, 2  # the defaults, in Python and on the command line
MAX_SEEDS = 1_000_000
SEVERAL = (list, tuple, dict)


@overload
def compare(
    problem: list[Any] | tuple[Any, ...] | dict[str, Any], learners: Sequence[Any], tau: float | None = ..., episodes: int = ...,
    seeds: int | Sequence[int] = ..., workers: int | Workers = ..., *, objective: Objective | None = ..., delta: float = ...,
    horizon: int | None = ..., bins: Any = ..., folder: str | Path | None = ..., progress: bool | None = ...,
    watch: Watch | None = ...,
) -> Suite: ...  # fmt: skip
@overload
def compare(
    problem: Any, learners: Sequence[Any], tau: float | None = ..., episodes: int = ...,
    seeds: int | Sequence[int] = ..., workers: int | Workers = ..., *, objective: Objective | None = ..., delta: float = ...,
    horizon: int | None = ..., bins: Any = ..., folder: str | Path | None = ..., progress: bool | None = ...,
    watch: Watch | None = ...,
) -> Experiment: ...  # fmt: skip
def compare(
    problem: Any,
    learners: Sequence[Any],
    tau: float | None = None,
    episodes: int = EPISODES,
    seeds: int | Sequence[int] = SEEDS,
    workers: int | Workers = WORKERS,
    *,
    objective: Objective | None = None,
    delta: float = DELTA,
    horizon: int | None = None,
    bins: Any = None,
    folder: str | Path | None = None,
    progress: bool | None = None,
    watch: Watch | None = None,
) -> Experiment | Suite:
    """Run several learners on one or more problems with common seeds.

    Parameters
    ----------
    problem
        A model, the name of a problem, or a Gymnasium environment; or several of them, as a list or as a dict by name.
    learners
        Names, learner classes, "module:Class" or "file.py:Class", or functions (task, rng) -> Learner; a pair (learner,
        parameters) or a triple (label, learner, parameters) sets parameters.
    tau, episodes
        Quantile level, by default 0.1, and episodes of every run.
    seeds
        The number of seeds, counted from 42 as on the command line, or the seeds themselves.
    workers
        Number of processes. With 1 everything runs in this process, which is necessary for objects that cannot be pickled.
    objective
        What is maximised in place of a quantile, such as `CVaR(0.1)`; as for `learn`.
    delta
        Error probability of confidence radii.
    horizon
        Number of stages, if the environment does not fix it.
    bins
        Cells of Box observations, as for `learn`.
    folder
        Stores every finished run, so that a later call with the same folder repeats none of them, even if this one is
        killed. If the code of a learner has changed, its runs are repeated. Requires a model or a registered environment
        and plain parameters, so that runs can be identified.
    progress
        Whether to show progress and the time left after two seconds; by default if standard error is a terminal.
    watch
        Receives progress reports in place of the display.

    Returns
    -------
    Experiment or Suite
        `rows()`, `to_frame()`, `curves()`, `chart()` and all records; for several problems a `Suite`, with one experiment
        per problem.

    Examples
    --------
    >>> experiment = compare("AssetSelling", ["q-learning", "sarsa"], tau=0.5, episodes=20, seeds=2, workers=1)
    >>> sorted(row["learner"] for row in experiment.rows())
    ['q-learning', 'sarsa']
    >>> suite = compare(["SafeOrRisky", "AssetSelling"], ["sarsa"], tau=0.5, episodes=20, seeds=2, workers=1)
    >>> [(row["problem"], row["learner"]) for row in suite.rows()]
    [('SafeOrRisky', 'sarsa'), ('AssetSelling', 'sarsa')]
    """
    goal = check_objective(objective, TAU if tau is None and objective is None else tau)
    if folder is not None and not (isinstance(folder, (str, os.PathLike)) and os.fspath(folder)):
        raise bad_type("folder", folder, "be the path of a folder", remedy="'.' is the current one")
    chosen, contenders, several = _seeds(seeds), _contenders(learners), _problems(problem)
    if not isinstance(workers, Workers):
        workers = Workers() if whole(workers, "workers", 1) == 1 else LocalWorkers(workers)
    jobs, runs, models = [], dict[str, dict[str, list[RunSpec]]](), dict[str, Any]()
    for (name, source), (i, one) in product(several.items(), enumerate(contenders)):
        # Find the mistakes of all learners before the first run.
        check_params(find_learner(one.learner), dict(one.params))
        shared: dict[str, Any] = {"horizon": horizon, "bins": bins, "delta": delta}
        first = Run(source.model, one.learner, goal, episodes, chosen[0], **shared, **one.params)
        models[name], code = first.mdp, learner_code(find_learner(one.learner))
        batch = [
            RunSpec(
                problem=source, learner=one.learner, params=one.params, objective=goal, episodes=first.total, own_code=code,
                seed=seed, notes=True, key="" if folder is not None else f"{name} {i} {seed}", **shared,
            )
            for seed in chosen
        ]  # fmt: skip
        runs.setdefault(name, {})[one.label] = batch
        _check(one.label, batch[0], workers)
        label = one.label if len(several) == 1 else f"{name}, {one.label}"
        steps = iter([Batch("learning", batch)])
        jobs.append(Job(label=label, steps=steps, total_runs=len(batch), total_episodes=len(batch) * first.total))
    bar = progress_bar(progress) if watch is None else nullcontext(watch)
    try:
        with bar as watch, nullcontext() if folder is None else Store(folder, watch.say) as store:
            engine = Engine(jobs, store, workers, watch, strict=True)
            engine.drive()
            records = {
                name: {label: tuple(map(engine.load, batch)) for label, batch in some.items()}
                for name, some in runs.items()
            }
    finally:
        workers.close()
    found = {}
    for name, some in records.items():
        for record in chain.from_iterable(some.values()):
            record.mdp = models[name]
        found[name] = Experiment(
            problem=problem if not isinstance(problem, SEVERAL) else problem[name] if isinstance(problem, Mapping) else
            problem[list(records).index(name)],
            objective=goal, episodes=first.total, seeds=chosen, learners=tuple(contenders), records=some,
        )  # fmt: skip
    return Suite(experiments=found) if isinstance(problem, SEVERAL) else found[next(iter(found))]


def _problems(given: Any) -> dict[str, Problem]:
    """The problems by name."""
    if not isinstance(given, SEVERAL):
        return {"": source_of(given)}
    if not given:
        raise ArgumentError(
            "problem must hold at least one problem, got none; write e.g. ['AssetSelling']", name="problem"
        )
    found: dict[str, Problem] = {}
    for i, one in enumerate(given, start=1):
        source = source_of(given[one] if isinstance(given, Mapping) else one)
        name = str(one) if isinstance(one, str) else f"problem {i}" if source.name == "model" else source.name
        if not is_one_line(name) or not name or name in found:
            rule = "problem must hold problems with different one-line names"
            text = f"{rule}, got {one_line(name)}; pass a dict: {{name: problem}}"
            raise ArgumentError(text, name="problem", value=name)
        found[name] = source
    return found


def _check(label: str, run: RunSpec, workers: Workers) -> None:
    """Raise an error if a run cannot be identified for storage, or cannot be sent to another process."""
    try:
        named = bool(run.key or (run.problem.identity and run.name))
    except (TypeError, ValueError):  # the identity of a run must be JSON
        named = False
    if not named:
        rule = "folder requires plain parameters and a model or registered environment"
        raise ArgumentError(f"{rule}, got {label}; leave folder out", name="folder")
    try:
        cloudpickle.dumps(run if isinstance(workers, LocalWorkers) else None)
    except Exception as error:  # pickling runs user code
        reason = " ".join(str(error).split())[:120]
        text = f"{label} cannot be sent to another process ({reason}); use workers=1"
        raise ArgumentTypeError(text, name="workers") from None


def _seeds(given: Any) -> tuple[int, ...]:
    """Return n seeds from the first one on for a number n, or the given seeds."""
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
        return tuple(range(FIRST_SEED, FIRST_SEED + whole(given, "seeds", 1, most=MAX_SEEDS)))
    found = tuple(whole(seed, "seeds", 0, most=math.inf) for seed in given)
    if not found or len(set(found)) < len(found):
        raise ArgumentError(f"seeds must be different whole numbers, got {one_line(given)}", name="seeds", value=given)
    return found


def _contenders(given: Any) -> list[Contender]:
    """The learners with their parameters and different labels."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        text = f"learners must be a list of learners, got {one_line(given)}; write e.g. ['psrl', 'ucbvi']"
        raise ArgumentError(text, name="learners", value=given)
    found: dict[str, Contender] = {}
    for one in given:
        parts = one if isinstance(one, tuple | list) else (one, {})
        label, learner, params = ("", *parts) if len(parts) == 2 else parts if len(parts) == 3 else ("", one, None)
        if not isinstance(params, Mapping):
            text = (
                f"learners must hold names, (learner, parameters) or (label, learner, parameters), got {one_line(one)}"
            )
            raise ArgumentTypeError(text, name="learners", value=one)
        learner = find_learner(learner) if isinstance(learner, str) and ":" in learner else learner
        name = getattr(learner, "name", "") or getattr(learner, "__name__", str(learner))
        listed = ", ".join(f"{key}={value}" for key, value in params.items())
        label = str(label) or (f"{name} ({listed})" if listed else name)
        if label in found:
            text = f"learners must differ, got {label!r} twice; give one of them a label: (label, learner, parameters)"
            raise ArgumentError(text, name="learners", value=label)
        found[label] = Contender(label=label, learner=learner, params=dict(params))
    return list(found.values())
