"""The loop of every run: plan, score, play, observe."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, flag, number, random_seed, whole
from bqrl.errors import FileFormatError
from bqrl.laws.objectives import Objective, check_objective, value_rows
from bqrl.laws.rows import mean_rows
from bqrl.learners.box_world import BoxEpisode, BoxWorld
from bqrl.learners.callbacks import Callback
from bqrl.learners.code import learner_code
from bqrl.learners.envelope import Envelope
from bqrl.learners.open_world import Growing, OpenWorld
from bqrl.learners.play import GymWorld, check_behaviour
from bqrl.learners.protocol import Episode, Learner, Task, add_prefix, policy_arrays, stored_policy, strip_prefix
from bqrl.learners.psrl import PSRL
from bqrl.learners.record import DistinctLaws, Record
from bqrl.learners.registry import LEARNERS, Maker, check_params, check_served, find_learner, make_learner
from bqrl.learners.score import Scorer, optimum
from bqrl.learners.task import pose
from bqrl.mdp.arrays import damage_error, digest, require
from bqrl.mdp.files import name_errors, read_arrays, write_arrays
from bqrl.mdp.files.atomic import check_place
from bqrl.policies.convert import read_table
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.progress import progress_bar
from bqrl.versions import versions

TAU, EPISODES, DELTA = 0.1, 2000, 0.05  # the defaults of every run, in Python and on the command line
LEARNER = PSRL.name
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")  # in the repr of an environment; another process has another one
MAX_EPISODES = 1_000_000_000  # a record holds several numbers per episode


def learn(
    problem: Any,
    learner: str | Maker = LEARNER,
    tau: float | None = None,
    episodes: int = EPISODES,
    seed: int | None = None,
    *,
    objective: Objective | None = None,
    horizon: int | None = None,
    start: Any = None,
    delta: float = DELTA,
    events_observed: bool | None = None,
    bins: Any = None,
    callback: Callback | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    **params: Any,
) -> Record:
    """Run one learner and return its record; the same seed gives the same bits.

    Parameters
    ----------
    problem
        An MDP, the name of a problem, a Gymnasium environment or its id. Observations of an environment may be Discrete,
        MultiDiscrete, MultiBinary, a Tuple or Dict of these, or a Box with `bins`; `record.states` names them. Actions must be
        Discrete. "envelope" also takes a vector environment (`gymnasium.make_vec`) with Box observations and plays its
        copies at once. In an environment without a table, a learner that needs the rewards uses those that it has observed.
    learner
        A name, a `Learner` class, "module:Class" or "file.py:Class", or a function (task, rng) that returns a learner.
    tau
        Level of the quantile to be maximised; by default 0.1.
    episodes
        Number of episodes.
    seed
        None draws fresh entropy; the record's settings hold the seed used. The runs of the command line have the seeds 42,
        43 and so on.
    objective
        What is maximised in place of a quantile, such as `CVaR(0.1)` or `Mean()`. "psrl" and "ucb-bqrl" learn for quantiles,
        buffered quantiles, CVaR and the mean, "target-q" for quantiles and CVaR, "var-q" for quantiles; the other learners learn
        for the mean, whatever the objective, which then only scores them.
    horizon, start
        Replace those of the problem. For an environment, `start` requires a known transition table.
    delta
        Probability that the confidence radii may fail.
    events_observed
        For a problem with shared noise: whether the learner observes the event of each transition; by default the setting of
        the model. If events are not observed, a transition counts towards a law only if every outcome of its row identifies
        its class of events.
    bins
        For an environment with Box observations: the number of cells per coordinate, if the coordinates are bounded, or a list
        with one entry per coordinate, each a number of cells or increasing cut points.
    callback
        Called as callback(episode, numbers) after every episode with its return, the notes of the learner and, if the kernel
        is known, the value and mean of the policy and the gap of its value to the optimum.
    progress
        Whether to show progress after two seconds; by default if standard error is a terminal.
    checkpoint, checkpoint_every
        Write the state of the run to this .npz file every `checkpoint_every` episodes; a run that finds its own checkpoint
        continues from it.
    **params
        Parameters of the learner, e.g. planner="target" for "ucb-bqrl".

    Returns
    -------
    Record

    Examples
    --------
    >>> import bqrl
    >>> record = bqrl.learn("AssetSelling", "ucbvi", tau=0.1, episodes=20, seed=1)
    >>> record.gap().shape
    (20,)
    >>> bqrl.learn("SafeOrRisky", objective=bqrl.CVaR(0.1), episodes=20, seed=1).objective
    CVaR(0.1)
    """
    every = whole(checkpoint_every, "checkpoint_every", 1)
    if callback is not None and not callable(callback):
        raise bad_type("callback", callback, "be a function of the episode and its numbers")
    _check_checkpoint(checkpoint)
    run = Run(
        problem, learner, check_objective(objective, TAU if tau is None and objective is None else tau), episodes, seed,
        horizon=horizon, start=start, delta=delta, events_observed=events_observed, bins=bins, **params,
    )  # fmt: skip
    if checkpoint is not None:
        run.learner.state()  # raises before any work if the learner cannot be checkpointed
    if checkpoint is not None and Path(checkpoint).exists():
        arrays = read_arrays(checkpoint)
        with name_errors(Path(checkpoint)):
            run.restore(arrays)
    with progress_bar(progress) as watch:
        watch.phase(f"{run.settings['learner']}, {run.objective.label}", run.total - run.t)
        while run.t < run.total:
            numbers = run.step(wanted=callback is not None)
            if callback is not None:
                callback(run.t - 1, numbers)
            watch.tick()
            if checkpoint is not None and (run.t % every == 0 or run.t == run.total):
                write_arrays(checkpoint, run.state())
    return run.record()


class Run:
    """A run that can be stopped between any two episodes and continued with identical bits."""

    def __init__(
        self, problem: Any, learner: str | Maker, objective: Objective | float, episodes: int, seed: int | None, *,
        horizon: int | None = None, start: Any = None, delta: float = DELTA, events_observed: bool | None = None,
        bins: Any = None, **params: Any,
    ) -> None:  # fmt: skip
        self.objective = check_objective(objective)
        self.total, self.t = whole(episodes, "episodes", 1, most=MAX_EPISODES), 0
        seed, delta = random_seed(seed), number(delta, "delta", 0.0, 1.0, "()")
        maker = find_learner(learner)
        check_params(maker, params)
        check_served(maker, self.objective)
        world_seed, learner_seed, score_seed = np.random.SeedSequence(seed).spawn(3)
        rng = np.random.default_rng(learner_seed)
        facts: dict[str, Any] = {"objective": self.objective, "episodes": self.total, "delta": delta}
        world_rng = np.random.default_rng(world_seed)
        events_observed = flag(events_observed, "events_observed", optional=True)
        self.mdp, task, self.world = pose(problem, maker, horizon, start, world_rng, facts, events_observed, bins)
        self.learner = self._make_learner(maker, task, rng, facts, params)
        if not isinstance(self.learner, Learner):
            raise bad_type("learner", learner, "return a bqrl.Learner", type(self.learner).__name__)
        self.chance = rng
        name = self.learner.name or getattr(maker, "__name__", type(self.learner).__name__)
        shown = ADDRESS.sub("", repr(self.mdp if self.mdp is not None else problem))
        own_code = learner_code(maker)
        self.settings: dict[str, Any] = {
            "learner": name, "seed": seed, **facts, "objective": self.objective.text, "problem": shown,
            "digest": "" if self.mdp is None else digest(self.mdp),
            "params": {key: _to_plain(value) for key, value in sorted(params.items())},
            "versions": versions(),
        } | ({} if bins is None else {"bins": repr(bins)}) | ({"code": own_code} if own_code else {})  # fmt: skip
        self.scorer = Scorer(self.mdp, score_seed) if self.mdp is not None else None
        self._own = maker in (*LEARNERS.values(), Envelope)  # results of custom learners are checked
        self._own_task = task
        self.returns = np.zeros(self.total)
        self.law_of = np.full(self.total, -1, np.int64)
        self._weights = self._task.discount ** np.arange(self._task.H)
        self._laws, self._sampled = DistinctLaws(), set[int]()  # the laws, and the numbers of those that were simulated
        self._notes: dict[str, np.ndarray] = {}
        self._policy: Policy | None = None  # the policy by which the last episode was scored
        self._played: list[Any] = []  # episodes that were played, but not observed yet

    def _make_learner(
        self, maker: Maker, task: Task | None, rng: np.random.Generator, facts: dict[str, Any], params: dict[str, Any]
    ) -> Learner:
        """Return the learner; on a model that grows if nothing but the world is known."""
        if task is not None:
            return make_learner(maker, task, rng, params)
        assert isinstance(self.world, OpenWorld)
        return Growing(maker, params, facts, self.world, rng)

    @property
    def _task(self) -> Task:
        """The task of the learner; that of a growing model changes."""
        return self.learner.task if self._own_task is None else self._own_task

    def step(self, wanted: bool = False) -> dict[str, Any]:
        """Play one more episode; return its numbers if `wanted`. An error of a custom learner has a note of the episode."""
        try:
            return self._step(wanted)
        except Exception as fault:
            if not self._own:
                fault.add_note(f"in episode {self.t + 1} of {self.settings['learner']}, seed {self.settings['seed']}")
            raise

    def _step(self, wanted: bool) -> dict[str, Any]:
        """Play one more episode; return its numbers if `wanted`."""
        t = self.t
        behaviour: Any = None if self._played else self.learner.plan()
        policy: Any = self.learner.evaluated()
        if not self._own:
            behaviour = None if self._played else self._as_policy(behaviour, "plan")
            policy = None if policy is None else self._as_policy(policy, "evaluated")
        if policy is None:
            policy = self._policy if behaviour is None else behaviour
        self._policy, row = policy, None
        if self.scorer is not None:
            row = self.scorer.law(self._policy)
            self.law_of[t] = self._laws.add(row)
            if self.scorer.sampled:
                self._sampled.add(int(self.law_of[t]))
        for name, value in self._notes_of_plan().items():
            if name not in self._notes:
                self._notes[name] = np.full(self.total, np.nan)
            self._notes[name][t] = value
        if not self._played:
            n = min(self.learner.ahead(), self.total - t)
            self._played = self.world.play_many(behaviour, n, self.chance)
        episode = self._played.pop(0)
        self.returns[t] = self._weights[: episode.rewards.size].dot(episode.rewards)  # faster than @
        self.learner.observe(episode)
        self.t += 1
        if not wanted:
            return {}
        numbers: dict[str, Any] = {"return": float(self.returns[t])} | ({} if row is None else self._scores(row))
        return numbers | {name: float(values[t]) for name, values in self._notes.items()}

    def _as_policy(self, found: Any, method: str) -> Policy:
        """Return the result of a method of a custom learner as a Policy; an error unless it plays available actions."""
        if not isinstance(found, Policy):
            name, task = f"{type(self.learner).__name__}.{method}()", self._task
            if not isinstance(found, (np.ndarray, list, tuple)):
                or_none = " or None" if method == "evaluated" else ""
                rule = f"return a bqrl.Policy, or an array of actions or of action probabilities{or_none}"
                raise bad_type(name, found, rule)
            table = read_table(name, found, task.H, task.S, task.A)
            found = MarkovPolicy(table) if table.ndim == 2 else StochasticPolicy(table)
        check_behaviour(found, self._task, self.mdp)
        return found

    def _notes_of_plan(self) -> dict[str, float]:
        """Return the notes of the current plan; ArgumentTypeError if those of a custom learner are not numbers by name."""
        notes: Any = self.learner.notes()
        if self._own:
            return notes
        try:
            if all(isinstance(name, str) for name in notes):
                return {name: np.nan if value is None else float(value) for name, value in notes.items()}
        except (TypeError, ValueError, AttributeError):
            pass
        raise bad_type(f"{type(self.learner).__name__}.notes()", notes, "return a dict of numbers by name")

    def _scores(self, row: np.ndarray) -> dict[str, float]:
        """Return the objective value, its gap and the mean of a policy with the given law."""
        assert self.mdp is not None
        assert self.scorer is not None
        points = self.scorer.points
        value = float(value_rows(self.objective, points, row[None])[0])
        gap = optimum(self.mdp, self.objective).value(self.objective) - value
        return {"value": value, "gap": gap, "mean": float(mean_rows(points, row[None])[0])}

    def _columns(self) -> np.ndarray:
        """Return the columns of the grid that a record stores: all of an exact grid, those with mass of a rounded grid."""
        if self.scorer is None:
            return np.zeros(0, int)
        return np.arange(self.scorer.points.size) if self.scorer.grid.exact else self._laws.columns()

    def record(self) -> Record:
        """Return the record of the episodes so far."""
        columns = self._columns()
        return Record(
            settings=self.settings, returns=self.returns[: self.t].copy(), law_of=self.law_of[: self.t].copy(),
            points=self.scorer.points[columns] if self.scorer is not None else np.zeros(0), pmf=self._laws.pmf(columns),
            optimum=optimum(self.mdp, self.objective) if self.mdp is not None else None,
            law_error=self.scorer.error if self.scorer is not None else 0.0,
            simulated=self.scorer.simulated if self.scorer is not None else 0,
            sampled=np.isin(np.arange(len(self._laws)), list(self._sampled)),
            notes={name: values[: self.t].copy() for name, values in self._notes.items()}, final_policy=self._policy,
            mdp=self.mdp, states=self._state_names(),
        )  # fmt: skip

    def _state_names(self) -> tuple[str, ...] | None:
        """Return the names of the states of an environment without a table."""
        if isinstance(self.world, OpenWorld):
            return self.world.names[: self._task.S]
        named = self.mdp is None and isinstance(self.world, GymWorld) and not isinstance(self.world, BoxWorld)
        return (*self.world.observations.names(), "(end)") if named else None  # type: ignore[attr-defined]

    def state(self) -> dict[str, Any]:
        """Return the whole state of the run as plain arrays."""
        columns = self._columns()
        arrays: dict[str, Any] = {
            "bqrl_run": np.array(self._identity()), "t": np.array(self.t),
            "streams": np.array(json.dumps([self.world.state(), dict(self.chance.bit_generator.state)])),
            "returns": self.returns, "law_of": self.law_of, "pmf": self._laws.pmf(columns),
        }  # fmt: skip
        if self.scorer is not None:
            arrays |= {"law_error": np.array(self.scorer.error), "simulated": np.array(self.scorer.simulated)}
            arrays["sampled"] = np.array(sorted(self._sampled), np.int64)
            arrays |= {} if self.scorer.grid.exact else {"columns": columns}
        arrays |= add_prefix("final_", policy_arrays(self._policy, self.mdp)) | add_prefix("note_", self._notes)
        arrays |= {f"played_{i}_{j}": part for i, episode in enumerate(self._played) for j, part in enumerate(episode)}
        return arrays | {f"learner_{name}": np.asarray(value) for name, value in self.learner.state().items()}

    def _identity(self) -> str:
        """Return all that determines the run, apart from versions of software."""
        return json.dumps({key: value for key, value in self.settings.items() if key != "versions"}, sort_keys=True)

    def restore(self, arrays: dict[str, Any]) -> None:
        """Continue from `state()`; FileFormatError if the state is damaged or belongs to another run."""
        if "bqrl_run" not in arrays:
            raise FileFormatError("expected a checkpoint of a run, got other arrays; change the checkpoint's name")
        if str(arrays["bqrl_run"]) != self._identity():
            raise FileFormatError(
                "expected a checkpoint of this run, got one of other settings or another problem; remove it or change its name"
            )
        try:
            self._restore(arrays)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as fault:
            raise damage_error("a checkpoint of this run", fault, "; remove it to start again") from None

    def _restore(self, arrays: dict[str, Any]) -> None:
        """Continue from `state()`; raise ValueError, KeyError or TypeError if it is damaged."""
        t, rows = int(arrays["t"]), np.asarray(arrays["pmf"], np.float64)
        returns, law_of = np.array(arrays["returns"], np.float64), np.array(arrays["law_of"], np.int64)
        fits = 0 <= t <= self.total and returns.shape == law_of.shape == (self.total,)
        require(fits, "returns", f"have {self.total} episodes", f"shape {returns.shape}")
        points = 0 if self.scorer is None else self.scorer.points.size
        columns = np.asarray(arrays.get("columns", np.arange(points)), np.int64)
        fits = columns.ndim == 1 and bool(np.all(np.diff(np.r_[-1, columns, points]) > 0))
        require(fits, "columns", f"rise from 0 to {points - 1} at most", columns)
        require(rows.shape[1:] == columns.shape, "pmf", f"have {columns.size} columns", f"shape {rows.shape}")
        fits = not (np.any(law_of[:t] >= len(rows)) or np.any(law_of < -1))
        require(fits, "law_of", f"hold numbers of laws, -1 to {len(rows) - 1}", law_of)
        world, chance = json.loads(str(arrays["streams"]))
        self.world.restore(world)
        self.chance.bit_generator.state = chance
        self._policy = stored_policy(strip_prefix("final_", arrays))
        kind: Any = BoxEpisode if isinstance(self.world, BoxWorld) else Episode
        parts = (
            range(len(kind._fields))
            for _ in range(sum(name.startswith("played_") for name in arrays) // len(kind._fields))
        )
        self._played = [kind(*(arrays[f"played_{i}_{j}"] for j in each)) for i, each in enumerate(parts)]
        self.learner.restore(strip_prefix("learner_", arrays))
        self.t, self.returns, self.law_of = t, returns, law_of
        if self.scorer is not None:
            self.scorer.error = number(arrays["law_error"].item(), "law_error", 0.0)
            self.scorer.simulated = whole(arrays["simulated"].item(), "simulated")
            self._sampled = set(np.asarray(arrays["sampled"], np.int64).tolist())
        self._laws = DistinctLaws()
        for masses in rows:
            row = np.zeros(points)
            row[columns] = masses
            self._laws.add(row)
        require(len(self._laws) == len(rows), "pmf", "hold distinct laws", f"{len(rows) - len(self._laws)} twice")
        notes = {name: np.array(values, np.float64) for name, values in strip_prefix("note_", arrays).items()}
        for name, values in notes.items():
            require(
                values.shape == (self.total,), f"note_{name}", f"have {self.total} entries", f"shape {values.shape}"
            )
        self._notes = notes


def _check_checkpoint(path: Any) -> None:
    """Raise an error, before any episode is played, unless checkpoints can be written to this path."""
    if path is None:
        return
    if not isinstance(path, (str, os.PathLike)):
        raise bad_type("checkpoint", path, "be the name of an .npz file")
    check_place(Path(path))
    if Path(path).suffix.lower() != ".npz":
        raise bad_value("checkpoint", path, "end in .npz", repr(Path(path).name))


def _to_plain(value: Any) -> Any:
    """Return the value if JSON can hold it, else its repr."""
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)
