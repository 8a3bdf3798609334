"""`bqrl learn`: one learner on a problem whose kernel it does not know, scored exactly in every episode."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, StageName, Title, Unit, finish, paper, print_json, say, show_table
from bqrl.cli.problem import Problem, problem_words, read_problem
from bqrl.cli.settings import read_params
from bqrl.cli.watch import ProgressBar
from bqrl.learners.callbacks import Callback, JsonLines, TensorBoard, together
from bqrl.learners.run import Run
from bqrl.learners.run import learn as learn_once
from bqrl.planners.plan import check_levels
from bqrl.results.learning import (
    Learned,
    file_stem,
    label_of,
    learner_table,
    learning_document,
    learning_files,
    learning_result,
    random_law,
    seed_table,
)
from bqrl.results.plans import in_one_line
from bqrl.results.result import check_folder, write
from bqrl.results.words import Words
from bqrl.study.compare import Contender, Experiment

Given = Annotated[
    str,
    typer.Argument(metavar="PROBLEM", help="A .csv, .npz or .json file, a named problem or a Gymnasium id (FrozenLake-v1)."),
]  # fmt: skip
Tau = Annotated[float, typer.Option("--tau", help="Quantile level in (0, 1).")]
Episodes = Annotated[int, typer.Option("--episodes", help="Episodes per run.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of runs: with the seeds --seed, --seed + 1, and so on.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the first run.")]
Horizon = Annotated[int | None, typer.Option("--horizon", help="Number of stages, where the problem lets one choose.")]
Start = Annotated[str | None, typer.Option("--start", help="First state, by the id or name that the file uses.")]
Discount = Annotated[float | None, typer.Option("--discount", help="Stage factor in (0, 1].")]
Delta = Annotated[float, typer.Option("--delta", help="Error probability of the confidence radii.")]


def learn(
    problem: Given,
    tau: Tau = 0.1,
    learner: Annotated[
        str, typer.Option(help="psrl, ucb-bqrl, ucbvi, q-learning, sarsa, thompson, ppo or trpo.")
    ] = "psrl",
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
        bool, typer.Option("--log", help="Write one JSON line per episode into the folder of --out.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard into the folder of --out.")
    ] = False,
    title: Title = None,
    unit: Unit = None,
    stage_name: StageName = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Let a learner learn a problem's kernel by playing it, and measure what its policies promise."""
    given = [*([] if planner is None else [f"planner={planner}"]), *(settings or [])]
    params = read_params(learner, given)
    chosen = first_seeds(seed, seeds)
    for wanted, option in ((log, "--log"), (tensorboard, "--tensorboard")):
        if wanted and out is None:
            raise ValueError(f"{option} writes into a folder; name it with --out DIR")
    stems = [file_stem(learner, params, each, alone=True) for each in chosen]
    names = [*learning_files(tau, stems), *(f"episodes_{stem}.jsonl" for stem in stems if log)]
    found = begin(problem, tau, names, out, horizon, start, discount)
    asked = {
        "problem": problem, "tau": tau, "learner": learner, "params": params, "episodes": episodes, "seed": seed,
        "seeds": seeds, "horizon": horizon, "start": start, "discount": discount, "delta": delta,
    }  # fmt: skip

    begun = time.perf_counter()
    check_runs(found, [(learner, params)], tau, episodes, chosen[0], delta)
    logs: dict[str, bytes] = {}
    with ProgressBar() as watch, ExitStack() as stack:
        callbacks = _Callbacks(watch, stack, out if log else None, out if tensorboard else None)
        experiment = _run_seeds(found, learner, params, tau, episodes, chosen, delta, callbacks)
        logs = callbacks.logs()
        words = problem_words(found, title, unit, stage_name)
        conclude(experiment, found, words, asked, begun, watch, out, as_json=as_json, alone=True, files=logs)


def first_seeds(first: int, count: int) -> list[int]:
    """The seeds of the runs."""
    if count < 1:
        raise ValueError(f"--seeds must be at least 1, got {count}")
    if first < 0:
        raise ValueError(f"--seed must be a whole number from 0, got {first}")
    return list(range(first, first + count))


def begin(
    problem: str, tau: float, names: list[str], out: Path | None, horizon: int | None, start: str | None, discount: float | None
) -> Problem:  # fmt: skip
    """The problem; ValueError or OSError before any work is done."""
    check_levels(tau, 0.0)
    if out is not None:
        check_folder(out, names)
    return read_problem(problem, horizon, start, discount)


def check_runs(
    problem: Problem, entries: Sequence[tuple[str, dict[str, Any]]], tau: float, episodes: int, seed: int, delta: float
) -> None:
    """ValueError if a learner cannot run on the problem; then say what was assumed about it."""
    for learner, params in entries:  # a mistake in the last learner must not come out after the runs of the first
        Run(problem.source, learner, tau, episodes, seed, horizon=problem.horizon, delta=delta, **params)
    if problem.assumed is not None:
        typer.echo(f"bqrl: {problem.assumed}", err=True)


class _Callbacks:
    """What is called after every episode: the progress bar, a log that can be followed, TensorBoard."""

    def __init__(self, watch: ProgressBar, stack: ExitStack, log: Path | None, board: Path | None) -> None:
        self.watch, self.stack, self.log, self.board = watch, stack, log, board
        self._parts: dict[str, Path] = {}

    def of(self, stem: str) -> Callback | None:
        """The callback of one run."""
        callbacks: list[Callback] = []
        if not self.watch.silent:
            callbacks.append(lambda *_: self.watch.tick())
        if self.log is not None:
            self.log.mkdir(parents=True, exist_ok=True)
            part = self.log / f".episodes_{stem}.jsonl.part"  # a file of the result once it is complete
            part.unlink(missing_ok=True)
            self._parts[f"episodes_{stem}.jsonl"] = part
            callbacks.append(self.stack.enter_context(JsonLines(part)))
        if self.board is not None:
            try:
                callbacks.append(self.stack.enter_context(TensorBoard(self.board / "tensorboard" / stem)))
            except ImportError as fault:
                raise ValueError(str(fault)) from None
        return together(*callbacks)

    def logs(self) -> dict[str, bytes]:
        """The complete logs by name; the parts are removed."""
        self.stack.close()
        found = {name: part.read_bytes() for name, part in self._parts.items()}
        for part in self._parts.values():
            part.unlink()
        return found


def _run_seeds(
    problem: Problem, learner: str, params: Mapping[str, Any], tau: float, episodes: int, seeds: list[int], delta: float,
    callbacks: _Callbacks,
) -> Experiment:  # fmt: skip
    """One run per seed in this process."""
    label = label_of(learner, params)
    records = []
    for seed in seeds:
        callbacks.watch.phase(f"{label}, seed {seed}", episodes)
        records.append(
            learn_once(
                problem.source, learner, tau, episodes, seed, horizon=problem.horizon, delta=delta, progress=False,
                callback=callbacks.of(file_stem(learner, params, seed, alone=True)), **params,
            )
        )  # fmt: skip
    one = Contender(label, learner, params)
    total = int(records[0].returns.size)
    return Experiment(problem.source, tau, total, tuple(seeds), (one,), {label: tuple(records)})


def conclude(
    experiment: Experiment, problem: Problem, words: Words, asked: dict[str, Any], begun: float, watch: ProgressBar,
    out: Path | None, *, as_json: bool, alone: bool, files: Mapping[str, bytes],
) -> None:  # fmt: skip
    """Compare the runs with the optimum and with random play, write the folder, and show what was found."""
    watch.phase("comparing with the optimum and with random play")
    random = None if problem.mdp is None else random_law(problem.mdp)
    found = Learned(
        experiment, words, problem.sizes | {"name": words.title}, problem.mdp, random, asked, time.perf_counter() - begun, alone
    )  # fmt: skip
    document = learning_document(found)
    left_out: list[str] = []
    if out is not None:
        watch.phase("writing")
        result, left_out = learning_result(found, document, files)
        write(result, out)
    watch.phase("done")
    if as_json:
        print_json(document)
    else:
        _show(document, found)
    finish(left_out, out, quiet=as_json)


def _show(document: dict[str, Any], found: Learned) -> None:
    """Print the table and what it means."""
    console, words = paper(), found.words
    seeds = found.experiment.seeds
    named = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    who = f"{found.experiment.learners[0].label}, " if found.alone else ""
    setting = f"{who}level {found.experiment.tau:g}, {words.count('episode', found.experiment.episodes)}, {named}"
    console.print(f"{words.title}: {in_one_line(document['model'], words)}; {setting}", style="italic", soft_wrap=True)
    table = seed_table(document, words) if found.alone else learner_table(document)
    show_table(console, table, bold="quantile")
    console.print()
    say(console, document["meaning"])
    say(console, table.caption, style="dim")
    if len(found.experiment.learners) > 1:
        first = document["beats"][0]
        pair = f"{first['learner']} beats {first['other']}"
        say(console, f"A run of {pair} with probability {first['probability']:.2g} (all pairs of seeds).", style="dim")
