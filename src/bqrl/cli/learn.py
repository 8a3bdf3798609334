"""`bqrl learn`: one learner on a problem whose kernel it does not know, scored exactly in every episode."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bqrl.cli.output import Json, Out, paper
from bqrl.cli.watch import Watch

if TYPE_CHECKING:
    from bqrl.cli.problem import Problem
    from bqrl.laws.law import Law
    from bqrl.learners.callbacks import Callback
    from bqrl.learners.record import Record
    from bqrl.mdp.policy import Policy
    from bqrl.reports.learning import Runs

Given = Annotated[
    str,
    typer.Argument(metavar="PROBLEM", help="A .csv, .npz or .json file, a named problem or a Gymnasium id (FrozenLake-v1)."),
]  # fmt: skip
Tau = Annotated[float, typer.Option("--tau", help="Quantile level in (0, 1).")]
Episodes = Annotated[int, typer.Option("--episodes", help="Episodes of a run.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of runs: with the seeds --seed, --seed + 1, and so on.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the first run.")]
Horizon = Annotated[int | None, typer.Option("--horizon", help="Number of stages, where the problem lets one choose.")]
Start = Annotated[str | None, typer.Option("--start", help="First state, by the id or name that the file uses.")]
Discount = Annotated[float | None, typer.Option("--discount", help="Stage factor in (0, 1].")]
Delta = Annotated[float, typer.Option("--delta", help="Error probability that confidence radii are made for.")]


def learn(
    problem: Given,
    tau: Tau = 0.1,
    learner: Annotated[
        str, typer.Option(help="ucb-bqrl, ucbvi, q-learning, sarsa, thompson, ppo or trpo.")
    ] = "ucb-bqrl",
    episodes: Episodes = 2000,
    seeds: Seeds = 3,
    seed: Seed = 42,
    planner: Annotated[
        str | None, typer.Option(help="Planner of ucb-bqrl: target, greedy (the paper's) or frontier (tiny problems).")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the learner; may be given several times."),
    ] = None,
    horizon: Horizon = None,
    start: Start = None,
    discount: Discount = None,
    delta: Delta = 0.05,
    log: Annotated[
        bool, typer.Option("--log", help="Write one JSON line an episode into the folder of --out.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard into the folder of --out.")
    ] = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Let a learner learn a problem's kernel by playing it, and measure what its policies promise."""
    from bqrl.cli.problem import read_problem
    from bqrl.cli.settings import read_params

    given = [*([] if planner is None else [f"planner={planner}"]), *(settings or [])]
    entry = Entry(learner, read_params(learner, given))
    task = Task(tau, episodes, _seeds(seed, seeds), delta, out, log, tensorboard)
    task.check()
    found = read_problem(problem, horizon, start, discount)
    asked = {
        "problem": problem, "tau": tau, "learner": learner, "params": entry.params, "episodes": episodes, "seed": seed,
        "seeds": seeds, "horizon": horizon, "start": start, "discount": discount, "delta": delta,
    }  # fmt: skip
    content, left_out = carry_out("learn", found, [entry], task, asked)
    show(content, out, left_out, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Entry:
    """A learner and its parameters."""

    learner: str
    params: dict[str, Any]

    @property
    def stem(self) -> str:
        """A name for files."""
        from bqrl.reports.learning import in_text

        parts = [self.learner, *(f"{key}-{in_text(value)}" for key, value in self.params.items())]
        return re.sub(r"[^\w.-]+", "-", "_".join(parts))[:80]


@dataclass(frozen=True, slots=True)
class Task:
    """What every run has in common, and what is kept of it."""

    tau: float
    episodes: int
    seeds: list[int]
    delta: float
    out: Path | None = None
    log: bool = False
    tensorboard: bool = False

    def check(self) -> None:
        """ValueError or OSError before any work is done."""
        from bqrl.planners.plan import check_levels

        check_levels(self.tau, 0.0)
        for wanted, option in ((self.log, "--log"), (self.tensorboard, "--tensorboard")):
            if wanted and self.out is None:
                raise ValueError(f"{option} writes into a folder; name it with --out DIR")
        if self.out is not None:
            from bqrl.reports.folder import try_folder

            try_folder(self.out)


@dataclass(slots=True)
class Kept:
    """What is kept of finished runs: the numbers of every learner, the first one's policies, the files written."""

    runs: list[Runs] = field(default_factory=list)
    policies: list[Policy | None] = field(default_factory=list)
    files: list[str] = field(default_factory=list)


def _seeds(first: int, count: int) -> list[int]:
    if count < 1:
        raise ValueError(f"--seeds must be at least 1, got {count}")
    if first < 0:
        raise ValueError(f"--seed must be a whole number from 0, got {first}")
    return list(range(first, first + count))


def carry_out(
    kind: str, problem: Problem, entries: Sequence[Entry], task: Task, asked: dict[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """Run every learner with every seed; returns the document and a line for each thing left out."""
    from bqrl.learners.run import Run
    from bqrl.reports.learning import Learned, learning_document

    begun = time.perf_counter()
    for entry in entries:  # what is wrong with the last learner should not come out after the runs of the first
        first = (problem.source, entry.learner, task.tau, task.episodes, task.seeds[0])
        Run(*first, horizon=problem.horizon, delta=task.delta, **entry.params)
    if problem.assumed is not None:
        typer.echo(f"bqrl: {problem.assumed}", err=True)
    if task.out is not None:
        from bqrl.reports.folder import make_folder

        make_folder(task.out)
    kept = Kept()
    with Watch() as watch:
        for entry in entries:
            _run_seeds(problem, entry, task, watch, kept, alone=kind == "learn")
        watch.phase("comparing with the optimum and with chance")
        best, mean, chance = _references(problem, task.tau)
        seconds = time.perf_counter() - begun
        found = Learned(
            kind, problem.name, problem.mdp, problem.sizes, task.tau, tuple(kept.runs), best, mean, chance, asked, seconds
        )  # fmt: skip
        if task.out is None:
            return learning_document(found), []
        from bqrl.reports.learning_folder import write_learning

        watch.phase("writing")
        return write_learning(found, task.out, kept.policies, kept.files)


def _run_seeds(problem: Problem, entry: Entry, task: Task, watch: Watch, kept: Kept, *, alone: bool) -> None:
    """All runs of one learner; each record is written as soon as it is there."""
    from bqrl.learners.run import learn as learn_once
    from bqrl.planners.evaluate import evaluate
    from bqrl.reports.learning import Runs, label_of

    records: list[Record] = []
    finals: list[Law] = []
    for seed in task.seeds:
        watch.phase(f"{label_of(entry.learner, entry.params)}, seed {seed}", task.episodes)
        stem = f"seed{seed}" if alone else f"{entry.stem}_seed{seed}"
        with ExitStack() as open_files:
            record = learn_once(
                problem.source, entry.learner, task.tau, task.episodes, seed, horizon=problem.horizon, delta=task.delta,
                callback=_callback(task, stem, watch, open_files, kept), progress=False, **entry.params,
            )  # fmt: skip
        if problem.mdp is not None and record.final_policy is not None:
            finals.append(evaluate(problem.mdp, record.final_policy))
        if task.out is not None:
            record.save(task.out / f"record_{stem}.npz")
            kept.files.append(f"record_{stem}.npz")
        if not kept.runs:
            kept.policies.append(record.final_policy)
        records.append(record)
    kept.runs.append(Runs.of(entry.learner, entry.params, records, finals))


def _callback(task: Task, stem: str, watch: Watch, open_files: ExitStack, kept: Kept) -> Callback | None:
    from bqrl.learners.callbacks import JsonLines, TensorBoard, together

    callbacks: list[Callback] = []
    if not watch.silent:
        callbacks.append(lambda _, __: watch.tick())
    if task.log:
        assert task.out is not None
        callbacks.append(open_files.enter_context(JsonLines(task.out / f"episodes_{stem}.jsonl")))
        kept.files.append(f"episodes_{stem}.jsonl")
    if task.tensorboard:
        assert task.out is not None
        try:
            callbacks.append(open_files.enter_context(TensorBoard(task.out / "tensorboard" / stem)))
        except ImportError as fault:
            raise ValueError(str(fault)) from None
    return together(*callbacks)


def _references(problem: Problem, tau: float) -> tuple[float | None, float | None, Law | None]:
    """The best quantile and the best mean of any policy, and the return of one that plays at random."""
    if problem.mdp is None:
        return None, None, None
    from bqrl.learners.score import optimum
    from bqrl.planners.convert import uniform
    from bqrl.planners.evaluate import evaluate

    best = optimum(problem.mdp)
    return best.quantile(tau), best.best_mean, evaluate(problem.mdp, uniform(problem.mdp))


def show(content: dict[str, Any], out: Path | None, left_out: Sequence[str], *, as_json: bool) -> None:
    """Print the document, or the table, what it means, and where the files are."""
    from bqrl.reports.document import to_json
    from bqrl.reports.learning_tables import comparison_table, run_table

    if as_json:
        typer.echo(to_json(content, ascii_only=True))
    else:
        console = paper()
        console.print((run_table if content["format"].startswith("bqrl learn") else comparison_table)(content))
        console.print()
        console.print(content["meaning"])
        if out is not None:
            console.print(f"Wrote {out}; `bqrl report {out}` makes a page of it.", soft_wrap=True)
    for line in left_out:
        typer.echo(f"bqrl: {line}", err=True)
