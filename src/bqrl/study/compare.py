"""`bqrl.compare`: several learners on one problem with common seeds.

The noise of a run depends on its seed and not on the learner, so all learners face the same randomness.
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

from bqrl.checks import bad_type, one_line, whole
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.laws.objectives import Objective, check_objective
from bqrl.learners.registry import check_params, find_learner
from bqrl.learners.run import DELTA, EPISODES, TAU, Run
from bqrl.study.problems import source_of
from bqrl.study.runner import Batch, Engine, Job, Watch
from bqrl.study.scores import Contender, Experiment
from bqrl.study.store import RunSpec, Store
from bqrl.study.workers import LocalWorkers, Workers

SEEDS, FIRST_SEED, WORKERS = 20, 42, 2  # the defaults, in Python and on the command line
MAX_SEEDS = 1_000_000


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
        Quantile level, by default 0.1, and episodes of every run.
    seeds
        The number of seeds, counted from 42 as on the command line, or the seeds themselves.
    workers
        Number of processes. With 1 everything runs in this process, as objects that cannot be pickled require.
    objective
        What is maximised in place of a quantile, such as `CVaR(0.1)`; as for `learn`.
    delta
        Error probability of confidence radii.
    horizon
        Number of stages, if the environment does not fix it.
    bins
        Cells of Box observations, as for `learn`.
    folder
        Stores every finished run, so that a later call with the same folder repeats none of them. Requires learners by name
        and a model or registered environment, so that runs can be identified.
    watch
        Receives progress reports; by default there are none.

    Returns
    -------
    The experiment: `rows()`, `to_frame()`, `curves()`, `chart()` and all records.

    Examples
    --------
    >>> experiment = compare("AssetSelling", ["q-learning", "sarsa"], tau=0.5, episodes=20, seeds=2, workers=1)
    >>> [row["learner"] for row in experiment.rows()]  # doctest: +SKIP
    ['q-learning', 'sarsa']
    """
    goal = check_objective(objective, TAU if tau is None and objective is None else tau)
    if folder is not None and not (isinstance(folder, (str, os.PathLike)) and os.fspath(folder)):
        raise bad_type("folder", folder, "be the path of a folder", remedy="'.' is the current one")
    chosen, contenders, source = _seeds(seeds), _contenders(learners), source_of(problem)
    if not isinstance(workers, Workers):
        workers = Workers() if whole(workers, "workers", 1) == 1 else LocalWorkers(workers)
    jobs, runs = [], dict[str, list[RunSpec]]()
    for i, one in enumerate(contenders):
        # Find the mistakes of all learners before the first run.
        check_params(find_learner(one.learner), dict(one.params))
        shared: dict[str, Any] = {"horizon": horizon, "bins": bins, "delta": delta}
        first = Run(source.model, one.learner, goal, episodes, chosen[0], **shared, **one.params)
        runs[one.label] = batch = [
            RunSpec(
                problem=source, learner=one.learner, params=one.params, objective=goal, episodes=first.total,
                seed=seed, notes=True, key="" if folder is not None else f"{i} {seed}", **shared,
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
        problem=problem, objective=goal, episodes=first.total, seeds=chosen, learners=tuple(contenders), records=records
    )


def _check(label: str, run: RunSpec, workers: Workers) -> None:
    """Raise an error if a run cannot be identified for storage, or cannot be sent to another process."""
    try:
        named = bool(run.key or (run.problem.identity and run.name))
    except (TypeError, ValueError):  # the identity of a run must be JSON
        named = False
    if not named:
        rule = "folder requires learners by name, plain parameters, and a model or registered environment"
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
        name = getattr(learner, "name", "") or getattr(learner, "__name__", str(learner))
        listed = ", ".join(f"{key}={value}" for key, value in params.items())
        label = str(label) or (f"{name} ({listed})" if listed else name)
        if label in found:
            text = f"learners must differ, got {label!r} twice; give one of them a label: (label, learner, parameters)"
            raise ArgumentError(text, name="learners", value=label)
        found[label] = Contender(label=label, learner=learner, params=dict(params))
    return list(found.values())
