"""The one loop: plan, play, score, observe."""

from __future__ import annotations

import difflib
import inspect
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.envs import make, names
from bqrl.laws.rows import mean_rows, quantile_rows
from bqrl.learners.baselines.ppo import PPO
from bqrl.learners.baselines.q_learning import QLearning
from bqrl.learners.baselines.sarsa import Sarsa
from bqrl.learners.baselines.thompson import Thompson
from bqrl.learners.baselines.trpo import TRPO
from bqrl.learners.baselines.ucbvi import UCBVI
from bqrl.learners.play import ModelWorld, World
from bqrl.learners.protocol import Learner, Task, blank_model
from bqrl.learners.record import Record, Yardstick
from bqrl.learners.scoring import Scorer
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.mdp.files import read_arrays, write_arrays
from bqrl.mdp.model import MDP
from bqrl.planners.plan import check_levels

LEARNERS: dict[str, type[Learner]] = {
    learner.name: learner for learner in (UCBBQRL, UCBVI, QLearning, Sarsa, Thompson, PPO, TRPO)
}

Callback = Callable[[int, dict[str, Any]], None]


def learn(
    problem: Any,
    learner: str = "ucb-bqrl",
    tau: float = 0.1,
    episodes: int = 2000,
    seed: int = 42,
    *,
    horizon: int | None = None,
    delta: float = 0.05,
    callback: Callback | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | None = None,
    checkpoint_every: int = 500,
    **params: Any,
) -> Record:
    """The record of one learner on an MDP or a Gymnasium environment; the same seed gives the same bits.

    `params` are the learner's own, e.g. planner="target" or c_conf=0.01 for "ucb-bqrl". `callback(episode, numbers)` is
    called after every episode with its return, the learner's notes and, where the kernel is known, the exact quantile and
    mean of the policy and its gap to the best quantile. `progress` shows a bar (default: when a person watches). With
    `checkpoint` the run's state is written there every `checkpoint_every` episodes, and a run that finds one of its own
    continues from it.
    """
    run = Run(problem, learner, tau, episodes, seed, horizon=horizon, delta=delta, **params)
    if checkpoint is not None and Path(checkpoint).exists():
        run.recall(read_arrays(checkpoint))
    show = sys.stderr.isatty() if progress is None else progress
    with _bar(show, run.total, run.t, f"{learner}, tau {tau:g}") as advance:
        while run.t < run.total:
            numbers = run.step(wanted=callback is not None)
            if callback is not None:
                callback(run.t - 1, numbers)
            advance()
            if checkpoint is not None and (run.t % checkpoint_every == 0 or run.t == run.total):
                write_arrays(checkpoint, run.memory())
    return run.record()


class Run:
    """A run that can be stopped between any two episodes and continued with identical bits."""

    def __init__(
        self, problem: Any, learner: str, tau: float, episodes: int, seed: int, *, horizon: int | None = None,
        delta: float = 0.05, **params: Any,
    ) -> None:  # fmt: skip
        tau, _ = check_levels(tau, 0.0)
        if isinstance(episodes, bool) or not isinstance(episodes, (int, np.integer)) or episodes < 1:
            raise ValueError(f"episodes must be a whole number of at least 1, got {episodes!r}")
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ValueError(f"seed must be a whole number from 0, got {seed!r}")
        if not 0.0 < delta < 1.0:
            raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
        kind = find_learner(learner)
        check_params(kind, params)
        world_seed, learner_seed = np.random.SeedSequence(int(seed)).spawn(2)
        world_rng, learner_rng = np.random.default_rng(world_seed), np.random.default_rng(learner_seed)
        self.world: World
        self.mdp, task, self.world = _task(problem, kind, tau, int(episodes), delta, horizon, world_rng)
        self.learner = kind(task, learner_rng, **params)
        self.chance = learner_rng
        self.total, self.t = int(episodes), 0
        self.settings: dict[str, Any] = {
            "learner": kind.name, "tau": tau, "episodes": int(episodes), "seed": int(seed), "delta": delta,
            "problem": repr(self.mdp if self.mdp is not None else problem),
            "params": {name: _plain(value) for name, value in sorted(params.items())},
        }  # fmt: skip
        self.scorer = Scorer(self.mdp) if self.mdp is not None else None
        self.returns = np.zeros(self.total)
        self.law_of = np.full(self.total, -1, np.int64)
        self._weights = task.discount ** np.arange(task.H)
        self._laws: dict[bytes, int] = {}
        self._rows: list[np.ndarray] = []
        self._notes: dict[str, np.ndarray] = {}

    def step(self, wanted: bool = False) -> dict[str, Any]:
        """One more episode; its numbers where `wanted`."""
        t = self.t
        behaviour = self.learner.plan()
        if self.scorer is not None:
            row = self.scorer.law(self.learner.evaluated())
            key = row.tobytes()
            place = self._laws.get(key)
            if place is None:
                place = self._laws[key] = len(self._rows)
                self._rows.append(row)
            self.law_of[t] = place
        for name, value in self.learner.notes().items():
            if name not in self._notes:
                self._notes[name] = np.full(self.total, np.nan)
            self._notes[name][t] = value
        episode = self.world.play(behaviour, self.chance)
        self.returns[t] = float(self._weights @ episode.rewards)
        self.learner.observe(episode)
        self.t += 1
        if not wanted:
            return {}
        numbers: dict[str, Any] = {"return": float(self.returns[t])} | self._scores(t)
        return numbers | {name: float(values[t]) for name, values in self._notes.items()}

    def _scores(self, t: int) -> dict[str, float]:
        """Exact quantile and mean of the policy of episode t, and its gap, where the kernel is known."""
        if self.mdp is None or self.scorer is None:
            return {}
        tau, points, row = self.settings["tau"], self.scorer.points, self._rows[self.law_of[t]][None]
        quantile = float(quantile_rows(points, row, tau)[0])
        best = Yardstick.of(self.mdp).quantile(tau)
        return {"quantile": quantile, "gap": best - quantile, "mean": float(mean_rows(points, row)[0])}

    def record(self) -> Record:
        """What the run has left so far."""
        known = self.mdp is not None and self.scorer is not None
        return Record(
            self.settings,
            self.returns[: self.t].copy(),
            self.law_of[: self.t].copy(),
            self.scorer.points if self.scorer is not None else np.zeros(0),
            np.array(self._rows) if self._rows else np.zeros((0, 0)),
            Yardstick.of(self.mdp) if known and self.mdp is not None else None,
            {name: values[: self.t].copy() for name, values in self._notes.items()},
            self.learner.evaluated(),
            self.mdp,
        )

    def memory(self) -> dict[str, Any]:
        """The run's whole state as plain arrays."""
        arrays: dict[str, Any] = {
            "bqrl_run": np.array(json.dumps(self.settings, sort_keys=True)),
            "t": np.array(self.t),
            "streams": np.array(json.dumps([self.world.memory(), dict(self.chance.bit_generator.state)])),
            "returns": self.returns,
            "law_of": self.law_of,
            "pmf": np.array(self._rows),
        }
        arrays |= {f"note_{name}": values for name, values in self._notes.items()}
        return arrays | {f"learner_{name}": np.asarray(value) for name, value in self.learner.memory().items()}

    def recall(self, arrays: dict[str, Any]) -> None:
        """Continue from `memory()`; ValueError where it belongs to another run."""
        if str(arrays.get("bqrl_run", "")) != json.dumps(self.settings, sort_keys=True):
            raise ValueError("the checkpoint belongs to another run (other settings); remove it or change its name")
        self.t = int(arrays["t"])
        world, chance = json.loads(str(arrays["streams"]))
        self.world.recall(world)
        self.chance.bit_generator.state = chance
        self.returns, self.law_of = arrays["returns"].copy(), arrays["law_of"].copy()
        self._rows = list(arrays["pmf"])
        self._laws = {row.tobytes(): i for i, row in enumerate(self._rows)}
        self._notes = {k.removeprefix("note_"): v.copy() for k, v in arrays.items() if k.startswith("note_")}
        prefix = "learner_"
        self.learner.recall({k.removeprefix(prefix): v for k, v in arrays.items() if k.startswith(prefix)})


def find_learner(name: str) -> type[Learner]:
    """The learner of that name; ValueError with the nearest name otherwise."""
    if name == "sb3":  # an adapter to an extra, so it loads when asked for
        from bqrl.learners.baselines.sb3 import SB3

        return SB3
    if name not in LEARNERS:
        near = difflib.get_close_matches(str(name), LEARNERS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"learner must be one of {', '.join(LEARNERS)}, got {name!r}{hint}")
    return LEARNERS[name]


def check_params(kind: type[Learner], params: dict[str, Any]) -> None:
    """TypeError unless every parameter is one of the learner's, with the nearest name."""
    known = [name for name in inspect.signature(kind.__init__).parameters if name not in ("self", "task", "rng")]
    for name in params:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise TypeError(f"learner {kind.name!r} takes no parameter {name!r}{hint} (it takes {', '.join(known)})")


def _task(
    problem: Any, kind: type[Learner], tau: float, T: int, delta: float, horizon: int | None, rng: np.random.Generator
) -> tuple[MDP | None, Task, World]:
    """The problem to score on where its kernel is known, what the learner is told, and where episodes are played."""
    if isinstance(problem, str) and problem in names():
        problem = make(problem)
    if isinstance(problem, MDP):
        if horizon is not None and horizon != problem.H:
            problem = problem.replace(horizon=horizon)
        model = blank_model(problem) if kind.needs_rewards else None
        return problem, Task(problem.structure, model, problem.discount, tau, T, delta), ModelWorld(problem, rng)
    from bqrl.learners.gym import gym_task

    return gym_task(problem, kind, tau, T, delta, horizon, rng)


def _plain(value: Any) -> Any:
    return value if isinstance(value, (str, int, float, bool, type(None))) else repr(value)


class _bar:  # noqa: N801 - a context manager used once
    """A progress bar on standard error, or nothing."""

    def __init__(self, show: bool, total: int, done: int, title: str) -> None:
        self.show, self.total, self.done, self.title = show, total, done, title

    def __enter__(self) -> Callable[[], None]:
        if not self.show:
            return lambda: None
        from rich.console import Console
        from rich.progress import Progress

        self.progress = Progress(console=Console(stderr=True), transient=True)
        self.progress.start()
        task = self.progress.add_task(self.title, total=self.total, completed=self.done)
        return lambda: self.progress.advance(task)

    def __exit__(self, *_: Any) -> None:
        if self.show:
            self.progress.stop()
