"""`bqrl learn`: one learner on a problem whose kernel it does not know, scored exactly in every episode.

Also what `bqrl compare` shares with it: options, the runs with their store, and what is shown of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.checks import number, whole
from bqrl.cli.output import Json, Note, Out, conclude
from bqrl.cli.params import read_params
from bqrl.cli.problem import ProblemOptions, read_problem
from bqrl.cli.progress import ProgressBar
from bqrl.learners.callbacks import TensorBoard
from bqrl.learners.record import Record
from bqrl.learners.run import check_params, find_learner
from bqrl.results import learning
from bqrl.results.plans import in_one_line
from bqrl.results.result import Table, check_folder, to_json
from bqrl.study.compare import compare as run_all
from bqrl.study.problems import source_of
from bqrl.study.workers import Workers

Tau = Annotated[float, typer.Option("--tau", help="Quantile level in (0, 1).")]
Episodes = Annotated[int, typer.Option("--episodes", help="Episodes per run.")]
Seeds = Annotated[int, typer.Option("--seeds", help="Number of runs: with the seeds --seed, --seed + 1, and so on.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the first run.")]
Processes = Annotated[int, typer.Option("--workers", help="Processes; the results do not depend on it.")]
Delta = Annotated[float, typer.Option("--delta", help="Error probability of the confidence radii.")]
MAX_SEEDS = 1_000_000
Entry = tuple[str, dict[str, Any]]  # a learner and its parameters


def learn(
    *,
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
    workers: Processes = 1,
    delta: Delta = 0.05,
    asked: ProblemOptions,
    log: Annotated[
        bool, typer.Option("--log", help="Write one JSON line per episode into the folder of --out.")
    ] = False,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Write scalars for TensorBoard into the folder of --out.")
    ] = False,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Let a learner learn a problem's kernel by playing it, and measure what its policies promise."""
    params = read_params([*([] if planner is None else [f"planner={planner}"]), *(settings or [])])
    for wanted, option in ((log, "--log"), (tensorboard, "--tensorboard")):
        if wanted and out is None:
            raise ValueError(f"{option} writes into a folder; name it with --out DIR")
    if tensorboard and workers != 1:
        raise ValueError(f"--tensorboard follows runs of this process; it requires --workers 1, got {workers}")
    chosen = {
        "tau": tau, "learner": learner, "params": params, "episodes": episodes, "seed": seed, "seeds": seeds, "delta": delta
    }  # fmt: skip
    board = Board(out) if tensorboard and out is not None else None
    run_learners(asked, [(learner, params)], chosen, board or workers, out, as_json=as_json, alone=True, log=log)


def run_learners(
    asked: ProblemOptions, entries: Sequence[Entry], settings: Mapping[str, Any], workers: int | Board, out: Path | None, *,
    as_json: bool, alone: bool, log: bool = False,
) -> None:  # fmt: skip
    """Run the learners, compare them with the optimum and with random play, write the folder, and show what was found."""
    for learner, params in entries:
        check_params(find_learner(learner), params)
    tau, first = settings["tau"], whole(settings["seed"], "seed", 0)
    seeds = list(range(first, first + whole(settings["seeds"], "seeds", 1, MAX_SEEDS)))
    number(tau, "tau", 0.0, 1.0, "()")
    stems = [learning.file_stem(*entry, seed, alone=alone) for entry in entries for seed in seeds]
    check_folder(out, [*learning.learning_files(tau, stems), *(f"episodes_{stem}.jsonl" for stem in stems if log)])
    problem, begun = read_problem(asked), time.perf_counter()
    if isinstance(workers, int) and whole(workers, "workers", 1) > 1 and (problem.mdp is None or len(stems) == 1):
        workers = 1  # an environment cannot be sent to another process
    stored = out if problem.mdp is not None or source_of(problem.source).identity else None  # identified runs
    with ProgressBar(notices=problem.notices) as watch:
        experiment = run_all(
            problem.source, [(learning.label_of(*entry), *entry) for entry in entries], tau, settings["episodes"], seeds,
            workers, delta=settings["delta"], horizon=problem.horizon, folder=stored, watch=watch,
        )  # fmt: skip
        watch.phase("comparing with the optimum and with random play")
        found = learning.Learned(
            experiment=experiment,
            words=problem.words,
            model=problem.sizes(),
            settings=asked.settings() | dict(settings),
            seconds=time.perf_counter() - begun,
            alone=alone,
        )
        document = learning.learning_document(found)
    records = dict(zip(stems, experiment.records[learning.label_of(*entries[0])], strict=False))
    if isinstance(workers, Board):
        workers.add(records)
    logs = {f"episodes_{stem}.jsonl": json_lines(record) for stem, record in records.items()} if log else {}
    header, table, lines = _summary(document, found)
    conclude(
        document, lambda _: learning.learning_result(found, document, logs), out,
        as_json=as_json, header=header, table=table, lines=lines,
    )  # fmt: skip


class Board(Workers):
    """Runs in this process, each of which writes its episodes for TensorBoard while it is being played."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.written = folder / "tensorboard", set[str]()

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        """Carry out a run."""
        stem = f"seed{arguments[0].seed}"
        self.written.add(stem)
        with TensorBoard(self.folder / stem) as board:
            return super().submit(function, *arguments, board)

    def add(self, records: Mapping[str, Record]) -> None:
        """Write the runs that were finished before."""
        for stem in records.keys() - self.written:
            with TensorBoard(self.folder / stem) as board:
                for t, numbers in enumerate(episode_numbers(records[stem])):
                    board(t, numbers)


def episode_numbers(record: Record) -> list[dict[str, float]]:
    """The numbers of every episode, as the callbacks of `bqrl.learn` receive them."""
    rows, notes = record.rows(), {name: values.tolist() for name, values in record.notes.items()}
    for t, row in enumerate(rows):
        del row["episode"]
        row |= {name: values[t] for name, values in notes.items()}
    return rows


def json_lines(record: Record) -> bytes:
    """One JSON object per episode; NaN becomes null."""
    numbers = episode_numbers(record)
    return "".join(to_json({"episode": t} | one, indent=None) + "\n" for t, one in enumerate(numbers)).encode()


def _summary(document: dict[str, Any], found: learning.Learned) -> tuple[str, Table, list[str]]:
    """Header, table and sentences for people."""
    experiment, words = found.experiment, found.words
    seeds = experiment.seeds
    named = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    who = f"{experiment.learners[0].label}, " if found.alone else ""
    setting = f"{who}level {experiment.tau:g}, {words.count('episode', experiment.episodes)}, {named}"
    table = learning.main_table(found, document)
    lines = [document["meaning"], Note(table.caption)]
    if document["beats"]:
        first = document["beats"][0]
        pair = f"{first['learner']} beats {first['other']}"
        lines.append(Note(f"A run of {pair} with probability {first['probability']:.2g} (all pairs of seeds)."))
    return f"{words.title}: {in_one_line(document['model'], words)}; {setting}", table, lines
