"""Several learners on one problem with common seeds: `bqrl.compare`.

The noise of a run depends on its seed and not on the learner, so learners meet the same randomness.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from bqrl.checks import number, shown, whole, wrong_type
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.learners.run import Run, check_params, find_learner
from bqrl.study.problems import source_of
from bqrl.study.runner import Batch, Engine, Job, Watch
from bqrl.study.scores import Contender, Experiment
from bqrl.study.store import RunSpec, Store
from bqrl.study.workers import LocalWorkers, Workers

MAX_SEEDS = 1_000_000


def compare(
    problem: Any,
    learners: Sequence[Any],
    tau: float = 0.1,
    episodes: int = 1000,
    seeds: int | Sequence[int] = 20,
    workers: int | Workers = 2,
    *,
    delta: float = 0.05,
    horizon: int | None = None,
    folder: str | Path | None = None,
    watch: Watch | None = None,
) -> Experiment:
    """Run several learners on one problem with common seeds.

    Parameters
    ----------
    problem
        A model, the name of a problem, or a Gymnasium environment.
    learners
        Names, learner classes or functions (task, rng) -> Learner; a pair (learner, parameters) or a triple (label, learner,
        parameters) sets parameters.
    tau, episodes
        Quantile level, and episodes of every run.
    seeds
        The number of seeds, counted from 0, or the seeds themselves. The command line counts from --seed, which is 42:
        `bqrl compare` runs what `seeds=range(42, 62)` runs here.
    workers
        Processes. With 1 everything runs in this process, which objects that cannot be sent to another one require.
    delta
        Error probability of confidence radii.
    horizon
        Number of stages, if the environment does not fix it.
    folder
        Stores every finished run, so that a later call with the same folder repeats none of them. Requires learners by name
        and a model or registered environment, so that runs can be identified.
    watch
        Receives reports of the progress; by default nothing does.

    Returns
    -------
    The experiment: `rows()`, `to_frame()`, `curves()`, `chart()` and all records.

    Examples
    --------
    >>> experiment = compare("AssetSelling", ["q-learning", "sarsa"], tau=0.5, episodes=20, seeds=2, workers=1)
    >>> [row["learner"] for row in experiment.rows()]  # doctest: +SKIP
    ['q-learning', 'sarsa']
    """
    tau = number(tau, "tau", 0.0, 1.0, "()")
    if folder is not None and not (isinstance(folder, (str, os.PathLike)) and os.fspath(folder)):
        raise wrong_type("folder", folder, "be the path of a folder", remedy="'.' is the current one")
    chosen, contenders, source = _seeds(seeds), _contenders(learners), source_of(problem)
    if not isinstance(workers, Workers):
        workers = Workers() if whole(workers, "workers", 1) == 1 else LocalWorkers(workers)
    jobs, runs = [], dict[str, list[RunSpec]]()
    for i, one in enumerate(contenders):
        # A mistake in the last learner must not come out after the runs of the first.
        check_params(find_learner(one.learner), dict(one.params))
        first = Run(source.model, one.learner, tau, episodes, chosen[0], horizon=horizon, delta=delta, **one.params)
        runs[one.label] = batch = [
            RunSpec(
                problem=source, learner=one.learner, params=one.params, tau=tau, episodes=first.total, delta=delta, seed=seed,
                horizon=horizon, notes=True, key="" if folder is not None else f"{i} {seed}",
            )
            for seed in chosen
        ]  # fmt: skip
        _check(one.label, batch[0], workers)
        steps = iter([Batch("learning", batch)])
        jobs.append(Job(label=one.label, steps=steps, total_runs=len(batch), total_episodes=len(batch) * first.total))
    watch = Watch() if watch is None else watch
    try:
        with nullcontext() if folder is None else Store(folder, watch.say) as store:
            engine = Engine(jobs, store, workers, watch, strict=True)
            engine.drive()
            records = {label: tuple(map(engine.load, batch)) for label, batch in runs.items()}
    finally:
        workers.close()
    for record in chain.from_iterable(records.values()):
        record.mdp = first.mdp
    return Experiment(
        problem=problem, tau=tau, episodes=first.total, seeds=chosen, learners=tuple(contenders), records=records
    )


def _check(label: str, run: RunSpec, workers: Workers) -> None:
    """Raise an error if a run has no name to be stored under, or if it cannot be sent to another process."""
    try:
        named = bool(run.key or (run.problem.identity and run.name))
    except (TypeError, ValueError):  # the name of a run needs an identity that can be written as JSON
        named = False
    if not named:
        rule = "folder requires learners by name, plain parameters, and a model or registered environment"
        raise ArgumentError(f"{rule}, got {label}; leave folder out", name="folder")
    try:
        cloudpickle.dumps(run if isinstance(workers, LocalWorkers) else None)
    except Exception as error:  # pickling calls code of the user
        reason = " ".join(str(error).split())[:120]
        text = f"{label} cannot be sent to another process ({reason}); use workers=1"
        raise ArgumentTypeError(text, name="workers") from None


def _seeds(given: Any) -> tuple[int, ...]:
    """The seeds: so many from 0, or those given."""
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
        return tuple(range(whole(given, "seeds", 1, most=MAX_SEEDS)))
    found = tuple(whole(seed, "seeds", 0, most=math.inf) for seed in given)
    if not found or len(set(found)) < len(found):
        raise ArgumentError(f"seeds must be different whole numbers, got {shown(given)}", name="seeds", value=given)
    return found


def _contenders(given: Any) -> list[Contender]:
    """The learners with their parameters and different labels."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        text = f"learners must be a list of learners, got {shown(given)}; write e.g. ['psrl', 'ucbvi']"
        raise ArgumentError(text, name="learners", value=given)
    found: dict[str, Contender] = {}
    for one in given:
        parts = one if isinstance(one, tuple | list) else (one, {})
        label, learner, params = ("", *parts) if len(parts) == 2 else parts if len(parts) == 3 else ("", one, None)
        if not isinstance(params, Mapping):
            text = f"learners must hold names, (learner, parameters) or (label, learner, parameters), got {shown(one)}"
            raise ArgumentTypeError(text, name="learners", value=one)
        name = getattr(learner, "name", "") or getattr(learner, "__name__", str(learner))
        listed = ", ".join(f"{key}={value}" for key, value in params.items())
        label = str(label) or (f"{name} ({listed})" if listed else name)
        if label in found:
            text = f"learners must differ, got {label!r} twice; give one of them a label: (label, learner, parameters)"
            raise ArgumentError(text, name="learners", value=label)
        found[label] = Contender(label=label, learner=learner, params=dict(params))
    return list(found.values())
