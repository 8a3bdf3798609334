"""`bqrl learn`: one learner on a problem with unknown kernel, scored exactly in every episode.

This module also holds what `bqrl compare` shares with it: the options, the runs and their output.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from typer import Option

import bqrl
from bqrl.checks import whole
from bqrl.cli.params import read_params, read_value
from bqrl.cli.problem import BINS, CERTAINTY, LEVEL, Objectives, ProblemOptions
from bqrl.cli.study import explain_resuming
from bqrl.errors import ArgumentError
from bqrl.learners.callbacks import JsonLines, TensorBoard
from bqrl.learners.record import Record
from bqrl.learners.registry import ADAPTERS, LEARNERS
from bqrl.learners.run import DELTA, EPISODES, LEARNER, TAU
from bqrl.progress import ProgressBar
from bqrl.results import learning
from bqrl.results.plans import sizes
from bqrl.results.problem import LoadedProblem, read_problem
from bqrl.results.result import check_folder
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

    def run_learners(
        self, entries: Sequence[Entry], chosen: Mapping[str, Any], *, others: Sequence[str] = (), alone: bool = False
    ) -> None:
        """Run the learners, compare them with the optimum and with random play, write the folder, and show the results.

        With `others`, these are problems before the last one, and the result is that of several problems.
        """
        if (self.log or self.tensorboard) and self.out is None:
            raise ArgumentError("--log and --tensorboard write into a folder; name it with --out DIR")
        first, goal = whole(self.seed, "seed", 0), self.goal(TAU)
        seeds, contenders = range(first, first + whole(self.seeds, "seeds", 1, MAX_SEEDS)), label_entries(entries)
        stems = [learning.file_stem(one, seed, alone=alone) for one in contenders for seed in seeds]
        asked = [replace(self, problem=text) for text in (*others, self.problem)]
        problems = [read_problem(**one.asked) for one in asked]
        names = _names(asked, problems)
        places = learning.suite_places(names) if others else {names[0]: ""}
        written = [
            Path(place, file).as_posix() for place in places.values() for file in learning.learning_files(goal, stems)
        ]
        kind = "suite" if others else "learning" if alone else "comparison"
        check_folder(self.out, kind, [*written, *(learning.SUITE_FILES if others else ())])
        if self.tensorboard:  # fails now if TensorBoard is not installed
            with TemporaryDirectory() as folder:
                TensorBoard(folder).close()
        goals, begun = {"objective": goal.text} if self.objective else {"tau": self.level(TAU)}, time.perf_counter()
        settings = {**goals, **chosen, "episodes": self.episodes, "seed": first, "seeds": self.seeds}
        settings |= {"delta": self.delta, "bins": self.bins}
        # Only runs that can be identified are stored.
        kept = [one.mdp is not None or bool(source_of(one.source).identity) for one in problems]
        notices, parts, files = chain.from_iterable(one.notices for one in problems), dict[str, learning.Learned](), {}
        with explain_resuming(self.out if any(kept) else None), ProgressBar(notices=notices) as watch:
            for one, name, problem, stored in zip(asked, names, problems, kept, strict=True):
                parts[name] = one._learn(problem, contenders, seeds, self.out if stored else None, watch)
                parts[name] = replace(parts[name], alone=alone, settings={**one.problem_settings(), **settings})
            watch.phase("comparing with the optimum and with random play")
            found, result = parts[names[-1]], None
            document = (
                learning.suite_document(parts, {"problems": names, **settings}, time.perf_counter() - begun)
                if others
                else learning.learning_document(found)
            )
            if self.out is not None:
                watch.phase("drawing")
                for name, place in places.items():
                    records = chain.from_iterable(parts[name].experiment.records.values())
                    files[name] = self._logs(dict(zip(stems, records, strict=True)), place)
                title = self.title or f"Learning on {len(names)} problems"
                result = (
                    learning.suite_result(parts, document, title, files)
                    if others
                    else learning.learning_result(found, document, files[names[0]])
                )
        self.conclude(learning.show_learning(parts, document, result, first))

    def _learn(
        self, problem: LoadedProblem, contenders: Sequence[Contender], seeds: range, folder: Path | None, watch: ProgressBar
    ) -> learning.Learned:  # fmt: skip
        """Run the learners on one problem."""
        begun, bins = time.perf_counter(), None if self.bins is None else read_value(self.bins)
        most = 1 if problem.mdp is None else len(contenders) * len(seeds)  # an environment stays in this process
        experiment = bqrl.compare(
            problem.source, [(one.label, one.learner, one.params) for one in contenders],
            episodes=self.episodes, seeds=seeds, workers=min(most, self.workers), objective=self.goal(TAU),
            delta=self.delta, horizon=problem.horizon, bins=bins, folder=folder, watch=watch,
        )  # fmt: skip
        return learning.Learned(
            experiment=experiment, words=problem.words, seconds=time.perf_counter() - begun,
            model=sizes(problem.words.title, problem.source, problem.horizon, bins),
        )  # fmt: skip

    def _logs(self, records: Mapping[str, Record], place: str) -> dict[str, bytes]:
        """Write the records (by file stem) for TensorBoard, in a subfolder, and return the files of --log."""
        assert self.out is not None
        for stem, record in records.items() if self.tensorboard else ():
            with TensorBoard(self.out / "tensorboard" / place / stem) as board:
                board.replay(record)
        with TemporaryDirectory() as folder:
            for stem, record in records.items() if self.log else ():
                with JsonLines(Path(folder) / LINES.format(stem)) as lines:
                    lines.replay(record)
            return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _names(asked: Sequence[RunOptions], problems: Sequence[LoadedProblem]) -> list[str]:
    """Different names of the problems: their titles, or what was written on the command line."""
    given = [one.problem for one in asked]
    if twice := next((text for text in given if given.count(text) > 1), None):
        raise ArgumentError(f"the problem {twice!r} is given twice; drop one of them")
    titles = [one.words.title for one in problems]
    return titles if len(set(titles)) == len(titles) else given


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
