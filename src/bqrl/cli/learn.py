"""`bqrl learn`: one learner on a problem with unknown kernel, scored exactly in every episode.

This module also holds what `bqrl compare` shares with it: the options, the runs and their output.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Option

import bqrl
from bqrl.checks import whole
from bqrl.cli.output import ProgressBar, explain_resuming
from bqrl.cli.params import read_params, read_value
from bqrl.cli.problem import BINS, CERTAINTY, LEVEL, Objectives, ProblemOptions, read_problem
from bqrl.errors import ArgumentError
from bqrl.learners.callbacks import JsonLines, TensorBoard
from bqrl.learners.record import Record
from bqrl.learners.registry import ADAPTERS, LEARNERS
from bqrl.learners.run import DELTA, EPISODES, LEARNER, TAU
from bqrl.results import learning
from bqrl.results.plans import in_one_line, sizes
from bqrl.results.result import check_folder
from bqrl.results.words import tell_apart
from bqrl.study.compare import FIRST_SEED, MAX_SEEDS
from bqrl.study.problems import source_of
from bqrl.study.scores import Contender

LINES = "episodes_{}.jsonl"  # the files of --log
EXTRA = " or ".join(f"{name} (with the extra {learner.extra})" for name, learner in ADAPTERS.items())
NAMES = f"{', '.join(LEARNERS)}, your own as module:Class or file.py:Class, or {EXTRA}."
PLANNER = "Planner of ucb-bqrl: target, greedy (the paper's) or frontier (tiny problems)."
SETTINGS = "A parameter of the learner; may be given several times."
Entry = tuple[str, dict[str, Any]]  # a learner and its parameters
Seeds = Annotated[int, Option(help="Number of runs, with the seeds --seed, --seed + 1, and so on.")]
Processes = Annotated[int, Option(help="Number of processes; the results do not depend on it.")]


def label_entries(entries: Sequence[Entry]) -> list[Contender]:
    """The learners with different labels: classes of the same name in different files are labelled by their address."""
    labels = [learning.label_of(*entry) for entry in entries]
    return [
        Contender(label=label if labels.count(label) == 1 else f"{label}, {learner}", learner=learner, params=params)
        for label, (learner, params) in zip(labels, entries, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class RunOptions(ProblemOptions):
    """The options of runs, and the method that carries them out."""

    tau: Annotated[list[float] | None, Option(metavar="<float>", help=f"{LEVEL} By default {TAU:g}.")] = None
    certainty: Annotated[list[str] | None, Option(metavar="PERCENT", help=CERTAINTY)] = None
    objective: Objectives = None
    episodes: Annotated[int, Option(help="Number of episodes per run.")] = EPISODES
    bins: Annotated[str | None, Option(help=BINS)] = None
    seeds: Seeds = 3
    seed: Annotated[int, Option(help="Seed of the first run.")] = FIRST_SEED
    workers: Processes = 1
    delta: Annotated[float, Option(help="Error probability of the confidence radii.")] = DELTA
    log: Annotated[bool, Option("--log", help="Write one JSON line per episode into the folder of --out.")] = False
    tensorboard: Annotated[bool, Option("--tensorboard", help="Write the same numbers for TensorBoard.")] = False

    def run_learners(self, entries: Sequence[Entry], chosen: Mapping[str, Any], *, alone: bool = False) -> None:
        """Run the learners, compare them with the optimum and with random play, write the folder, and show the results."""
        if (self.log or self.tensorboard) and self.out is None:
            raise ArgumentError("--log and --tensorboard write into a folder; name it with --out DIR")
        first, goal = whole(self.seed, "seed", 0), self.goal(TAU)
        seeds = range(first, first + whole(self.seeds, "seeds", 1, MAX_SEEDS))
        contenders = label_entries(entries)
        stems = [learning.file_stem(one, seed, alone=alone) for one in contenders for seed in seeds]
        check_folder(self.out, "learning" if alone else "comparison", learning.learning_files(goal, stems))
        if self.tensorboard:  # fails now if TensorBoard is not installed
            with TemporaryDirectory() as folder:
                TensorBoard(folder).close()
        problem, begun = read_problem(self), time.perf_counter()
        bins = None if self.bins is None else read_value(self.bins)
        most = 1 if problem.mdp is None else len(stems)  # an environment cannot be sent to another process
        stored = problem.mdp is not None or source_of(problem.source).identity  # only runs that can be identified
        kept = self.out if stored else None
        with explain_resuming(kept), ProgressBar(notices=problem.notices) as watch:
            experiment = bqrl.compare(
                problem.source, [(one.label, one.learner, one.params) for one in contenders],
                episodes=self.episodes, seeds=seeds, workers=min(most, self.workers), objective=goal,
                delta=self.delta, horizon=problem.horizon, bins=bins, folder=kept, watch=watch,
            )  # fmt: skip
            watch.phase("comparing with the optimum and with random play")
            goals = {"objective": goal.text} if self.objective else {"tau": self.level(TAU)}
            settings = {**self.problem_settings(), **goals, **chosen, "episodes": self.episodes, "seed": first}
            found = learning.Learned(
                experiment=experiment, words=problem.words, alone=alone, seconds=time.perf_counter() - begun,
                model=sizes(problem.words.title, problem.source, problem.horizon, bins),
                settings=settings | {"seeds": self.seeds, "delta": self.delta, "bins": self.bins},
            )  # fmt: skip
            document, result = learning.learning_document(found), None
            if self.out is not None:
                watch.phase("drawing")
                files = self._logs(dict(zip(stems, chain.from_iterable(experiment.records.values()), strict=True)))
                result = learning.learning_result(found, document, files)
        lines, words = [document["meaning"]], problem.words
        for pair in document["beats"][: int(len(seeds) > 1)]:
            probability, _ = tell_apart(pair["probability"], 1.0)
            beats = f"{pair['learner']} beats {pair['other']} with probability {probability}"
            lines.append(f"A run of {beats} (all pairs of seeds; ties count one half).")
        who = f"{experiment.learners[0].label}, " if alone else ""
        counts = f"{words.count('episode', experiment.episodes)}, {words.count('seed', len(seeds))} from {first}"
        header = f"{words.title}: {in_one_line(document['model'], words)}; {who}{goal.label}, {counts}"
        self.conclude(
            document, result, header=header, tables=[learning.learner_tables(found, document)["learners"]], lines=lines
        )

    def _logs(self, records: Mapping[str, Record]) -> dict[str, bytes]:
        """Write the records (by file stem) for TensorBoard, and return the files of --log."""
        assert self.out is not None
        for stem, record in records.items() if self.tensorboard else ():
            with TensorBoard(self.out / "tensorboard" / stem) as board:
                board.replay(record)
        with TemporaryDirectory() as folder:
            for stem, record in records.items() if self.log else ():
                with JsonLines(Path(folder) / LINES.format(stem)) as lines:
                    lines.replay(record)
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


@dataclass(frozen=True, kw_only=True)
class Learn(RunOptions):
    """Run a learner on a problem whose probabilities it does not know, and score the policy of every episode."""

    learner: Annotated[str, Option(help=NAMES)] = LEARNER
    planner: Annotated[str | None, Option(help=PLANNER)] = None
    settings: Annotated[list[str] | None, Option("--set", metavar="NAME=VALUE", help=SETTINGS)] = None

    def run(self) -> None:
        """Run one learner."""
        params = read_params([*([] if self.planner is None else [f"planner={self.planner}"]), *(self.settings or [])])
        self.run_learners([(self.learner, params)], {"learner": self.learner, "params": params}, alone=True)
