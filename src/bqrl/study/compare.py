"""Several learners on one problem with common seeds: `bqrl.compare` and the `Experiment` it returns.

The noise of a run depends on its seed and not on the learner, so learners meet the same randomness. Bands are 95 % confidence
bands of the mean, by a percentile bootstrap over seeds.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import choice, number, shown, whole
from bqrl.display import Charted, views
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.learners.record import Record
from bqrl.learners.run import Run
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.study.problems import source_of
from bqrl.study.runner import Batch, Engine, Job, Steps
from bqrl.study.runs import RunSpec
from bqrl.study.store import Memory, Store
from bqrl.study.watch import Watch
from bqrl.study.workers import LocalWorkers, Workers

CONFIDENCE = 0.95
RESAMPLES = 2000
LAST = 0.1  # share of the last episodes whose realised returns are reported
BAND = "95 % confidence band of the mean, percentile bootstrap over {seeds} seeds"
SCORES = ("gap", "regret")
MEASURES = {
    "gap": "cumulative quantile gap",
    "regret": "cumulative expected-return regret",
    "return": "cumulative return",
}


@dataclass(frozen=True, slots=True, eq=False)
class Contender:
    """A learner of an experiment: what it is called, what runs it, and its parameters."""

    label: str
    learner: Any
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Experiment(Charted):
    """Runs of several learners on one problem, with the same seeds for each."""

    problem: Any
    tau: float
    episodes: int
    seeds: tuple[int, ...]
    learners: tuple[Contender, ...]
    records: Mapping[str, tuple[Record, ...]]  # by label, one per seed

    @property
    def exact(self) -> bool:
        """Whether every run was scored exactly: the kernel of the problem is known."""
        return all(record.mdp is not None for runs in self.records.values() for record in runs)

    @property
    def band(self) -> str:
        """What the bands of tables and charts are."""
        return BAND.format(seeds=len(self.seeds))

    def values(self, label: str, measure: str = "gap") -> FloatArray:
        """Cumulative measure of every run, shape (seeds, episodes).

        Parameters
        ----------
        label
            The learner's name.
        measure
            "gap" (best tau-quantile minus that of the evaluated policy), "regret" (the same for means), or "return".

        Returns
        -------
        One row per seed.
        """
        per_episode: dict[str, Callable[[Record], FloatArray]] = {
            "gap": lambda record: record.gap(self.tau),
            "regret": Record.expected_regret,
            "return": lambda record: record.returns,
        }
        chosen = per_episode[choice(measure, "measure", per_episode)]
        return np.array([np.cumsum(chosen(record)) for record in self.records[label]])

    def curves(self, measure: str = "gap", points: int = 200) -> list[dict[str, Any]]:
        """Learning curves: one row per learner and episode, with the mean over seeds and its band.

        Parameters
        ----------
        measure
            As in `values`.
        points
            Episodes per curve; longer runs are thinned evenly.

        Returns
        -------
        Rows with learner, episode, mean, low and high.
        """
        shown_episodes = evenly(self.episodes, points)
        rows = []
        for one in self.learners:
            values = self.values(one.label, measure)[:, shown_episodes]
            low, high = bootstrap_band(values)
            for t, mean, below, above in zip(shown_episodes + 1, values.mean(axis=0), low, high, strict=True):
                row = {"learner": one.label, "episode": int(t), "mean": float(mean)}
                rows.append(row | {"low": float(below), "high": float(above)})
        return rows

    def rows(self) -> list[dict[str, Any]]:
        """Final values: one row per learner, from the smallest mean gap (or the largest late return) on.

        Returns
        -------
        Rows with the cumulative measures after the last episode, each as mean, low and high; the mean return of the last
        tenth of the episodes; for every other learner the probability that a run of this one beats a run of that one (ties
        count one half); and what the band is.
        """
        last = max(1, round(LAST * self.episodes))
        ends: dict[str, dict[str, FloatArray]] = {}
        for label, records in self.records.items():
            ends[label] = {measure: self.values(label, measure)[:, -1] for measure in SCORES} if self.exact else {}
            ends[label]["late_return"] = np.array([record.returns[-last:].mean() for record in records])
        decisive, sign = ("gap", 1.0) if self.exact else ("late_return", -1.0)
        losses = {label: sign * values[decisive] for label, values in ends.items()}
        order = sorted(losses, key=lambda label: (float(losses[label].mean()), label))
        rows = []
        for label in order:
            row: dict[str, Any] = {"learner": label, "tau": self.tau}
            row |= {"episodes": self.episodes, "seeds": len(self.seeds)}
            for measure, values in ends[label].items():
                (low,), (high,) = bootstrap_band(values[:, None])
                row |= {measure: float(values.mean()), f"{measure}_low": float(low), f"{measure}_high": float(high)}
            for other in order:
                row[f"beats {other}"] = None if other == label else beats(losses[label], losses[other])
            rows.append(row | {"band": self.band})
        return rows

    def chart(self, measure: str | None = None) -> Any:
        """Learning curves with their bands, as an Altair chart; the measure is "gap" where runs are scored exactly."""
        return views().draw(self, measure)

    def __repr__(self) -> str:
        names = ", ".join(one.label for one in self.learners)
        return f"Experiment({names}; tau {self.tau:g}, {self.episodes} episodes, {len(self.seeds)} seeds)"


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
    tau
        Quantile level.
    episodes
        Episodes of every run.
    seeds
        The number of seeds, counted from 0, or the seeds themselves.
    workers
        Processes. With 1 everything runs in this process, which objects that cannot be sent to another one require.
    delta
        Error probability of confidence radii.
    horizon
        Number of stages, if the environment does not fix it.
    folder
        Stores every finished run, so that a later call with the same folder repeats none of them.
    watch
        Who is informed of the progress; nobody by default.

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
    chosen, contenders, source = _seeds(seeds), _contenders(learners), source_of(problem)
    if not isinstance(workers, Workers):
        workers = Workers() if whole(workers, "workers", 1) == 1 else LocalWorkers(workers)
    runs: dict[str, list[RunSpec]] = {}
    for i, one in enumerate(contenders):
        # A mistake in the last learner must not come out after the runs of the first.
        first = Run(source.build(), one.learner, tau, episodes, chosen[0], horizon=horizon, delta=delta, **one.params)
        common = (source, one.learner, one.params, tau, first.total, delta)
        runs[one.label] = [
            RunSpec(*common, seed, horizon=horizon, notes=True, key="" if folder is not None else f"{i} {seed}")
            for seed in chosen
        ]
        if folder is not None:
            _check_stored(one.label, runs[one.label][0])
        elif isinstance(workers, LocalWorkers):
            _check_portable(one.label, (problem, one.learner, one.params))
    watch = Watch() if watch is None else watch
    jobs = [Job(label, label, _steps(batch), len(batch), len(batch) * first.total) for label, batch in runs.items()]
    try:
        with Memory() if folder is None else Store(folder, watch.say) as store:
            Engine(jobs, store, workers, watch, strict=True).drive()
            records = {label: tuple(map(store.load, batch)) for label, batch in runs.items()}
    finally:
        workers.close()
    for record in chain.from_iterable(records.values()):
        record.mdp = first.mdp
    return Experiment(problem, tau, first.total, chosen, tuple(contenders), records)


def _steps(runs: list[RunSpec]) -> Steps:
    yield Batch("learning", runs)


def _check_stored(label: str, run: RunSpec) -> None:
    """Raise ArgumentError if a run cannot be told apart from others in a folder."""
    with suppress(TypeError, ValueError):  # the name of a run needs an identity that can be written as JSON
        if run.problem.identity and run.name:
            return
    raise ArgumentError(
        f"folder requires learners by name, plain parameters, and a model or registered environment, got {label};"
        " leave folder out",
        name="folder",
    )


def _check_portable(label: str, parts: Any) -> None:
    """Raise TypeError if a run cannot be sent to another process."""
    try:
        pickle.dumps(parts)
    except Exception as error:  # pickling calls code of the user
        reason = " ".join(str(error).split())[:120]
        raise TypeError(f"{label} cannot be sent to another process ({reason}); use workers=1") from None


def _seeds(given: Any) -> tuple[int, ...]:
    """The seeds: so many from 0, or those given."""
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str):
        return tuple(range(whole(given, "seeds", 1)))
    found = tuple(whole(seed, "seeds", 0) for seed in given)
    if not found or len(set(found)) < len(found):
        raise ArgumentError(f"seeds must be different whole numbers, got {shown(given)}", name="seeds", value=given)
    return found


def _contenders(given: Any) -> list[Contender]:
    """The learners with their parameters and different labels."""
    if isinstance(given, str) or not isinstance(given, Sequence) or not given:
        raise ArgumentError(f"learners must be a list of learners, got {shown(given)}", name="learners", value=given)
    found: dict[str, Contender] = {}
    for one in given:
        parts = tuple(one) if isinstance(one, tuple | list) else (one,)
        if not 1 <= len(parts) <= 3:
            raise ArgumentError(f"learners must hold names, pairs or triples, got {shown(one)}", name="learners")
        learner, params = (*parts, {})[:2] if len(parts) < 3 else parts[1:]
        if not isinstance(params, Mapping):
            text = f"parameters of {shown(learner)} must be a mapping, got {shown(params)}"
            raise ArgumentTypeError(text, name="learners", value=params)
        named = len(parts) == 3 and parts[0] is not None
        label = str(parts[0]) if named else learner_label(learner, params)
        if label in found:
            text = f"learners must differ, got {label!r} twice; give one of them a label: (label, learner, params)"
            raise ArgumentError(text, name="learners", value=label)
        found[label] = Contender(label, learner, dict(params))
    return list(found.values())


def learner_label(learner: Any, params: Mapping[str, Any]) -> str:
    """Name of a learner with its parameters.

    >>> learner_label("ucb-bqrl", {"planner": "greedy"})
    'ucb-bqrl (planner=greedy)'
    """
    own = getattr(learner, "name", getattr(learner, "__name__", shown(learner)))
    name = learner if isinstance(learner, str) else own
    listed = ", ".join(f"{key}={value}" for key, value in params.items())
    return f"{name} ({listed})" if listed else str(name)


def evenly(size: int, points: int) -> IntArray:
    """At most `points` indices below `size`, evenly spread, the first and the last included.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, size - 1, min(size, points)).round().astype(np.int64))


def bootstrap_band(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """95 % confidence band of the mean of each column, by a percentile bootstrap over the rows.

    Parameters
    ----------
    values
        One row per seed, shape (seeds, columns).

    Returns
    -------
    Lower and upper end, shape (columns,). With one row both are that row.
    """
    n = values.shape[0]
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), RESAMPLES) / n
    centre = values[0]  # equal rows give a band of width exactly zero
    low, high = np.quantile(drawn @ (values - centre), ((1.0 - CONFIDENCE) / 2, (1.0 + CONFIDENCE) / 2), axis=0)
    return centre + low, centre + high


def beats(mine: FloatArray, other: FloatArray) -> float:
    """Probability that a run with the losses `mine` ends below one with the losses `other`; ties count one half.

    >>> beats(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    difference = mine[:, None] - other[None, :]
    equal = np.abs(difference) <= 1e-9 * max(1.0, float(np.abs(mine).max()), float(np.abs(other).max()))
    return float(np.mean(np.where(equal, 0.5, difference < 0.0)))
