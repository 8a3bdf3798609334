"""`bqrl compare`: several learners on one problem with common noise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bqrl.cli.learn import (
    Delta,
    Discount,
    Episodes,
    Given,
    Horizon,
    Seed,
    Seeds,
    Start,
    Tau,
    begin,
    check_runs,
    conclude,
    first_seeds,
)
from bqrl.cli.output import Json, Out, StageName, Title, Unit
from bqrl.cli.problem import problem_words
from bqrl.cli.settings import read_params
from bqrl.cli.watch import ProgressBar
from bqrl.results.learning import file_stem, in_text, label_of, learning_files
from bqrl.study.compare import compare as run_all

EVERYONE = (
    "psrl", "ucb-bqrl", "ucb-bqrl:planner=greedy", "ucbvi", "thompson", "q-learning", "sarsa", "ppo", "trpo",
)  # fmt: skip
Entry = tuple[str, dict[str, Any]]  # a learner and its parameters


def compare(
    problem: Given,
    tau: Tau = 0.1,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            "--learner",
            metavar="NAME[:PARAM=VALUE,...]",
            help="A learner, e.g. ucb-bqrl:planner=greedy; may be given several times. All of them unless given.",
        ),
    ] = None,
    episodes: Episodes = 2000,
    seeds: Seeds = 20,
    seed: Seed = 42,
    workers: Annotated[int, typer.Option("--workers", help="Processes; the results do not depend on it.")] = 2,
    horizon: Horizon = None,
    start: Start = None,
    discount: Discount = None,
    delta: Delta = 0.05,
    title: Title = None,
    unit: Unit = None,
    stage_name: StageName = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare learners on common noise: the randomness of a run depends on its seed, not on the learner."""
    entries = read_learners(learner or EVERYONE)
    chosen = first_seeds(seed, seeds)
    if workers < 1:
        raise ValueError(f"--workers must be at least 1, got {workers}")
    stems = [file_stem(*entry, each, alone=False) for entry in entries for each in chosen]
    found = begin(problem, tau, learning_files(tau, stems), out, horizon, start, discount)
    asked = {
        "problem": problem, "tau": tau, "learners": [spelled(*entry) for entry in entries], "episodes": episodes,
        "seed": seed, "seeds": seeds, "horizon": horizon, "start": start, "discount": discount, "delta": delta,
    }  # fmt: skip
    begun = time.perf_counter()
    check_runs(found, entries, tau, episodes, chosen[0], delta)
    contenders = [(label_of(*entry), *entry) for entry in entries]
    alone = found.mdp is None or len(contenders) * len(chosen) == 1  # an environment cannot be sent to another process
    with ProgressBar() as watch:
        experiment = run_all(
            found.source, contenders, tau, episodes, chosen, 1 if alone else workers, delta=delta, horizon=found.horizon,
            watch=watch,
        )  # fmt: skip
        words = problem_words(found, title, unit, stage_name)
        conclude(experiment, found, words, asked, begun, watch, out, as_json=as_json, alone=False, files={})


def read_learners(given: Sequence[str]) -> list[Entry]:
    """Learners with their parameters; each may be given once."""
    entries: list[Entry] = []
    for text in given:
        name, _, rest = text.partition(":")
        entry = (name.strip(), read_params(name.strip(), _pieces(rest)))
        if entry in entries:
            raise ValueError(f"the learner {text!r} is given twice")
        entries.append(entry)
    return entries


def _pieces(text: str) -> list[str]:
    """The parts between commas; one without "=" belongs to the value before it.

    >>> _pieces("epsilon=0.5,0.1,learning_rate=0.2")
    ['epsilon=0.5,0.1', 'learning_rate=0.2']
    """
    pieces: list[str] = []
    for part in text.split(",") if text else []:
        if pieces and "=" not in part:
            pieces[-1] += f",{part}"
        else:
            pieces.append(part)
    return pieces


def spelled(learner: str, params: dict[str, Any]) -> str:
    """A learner as the command line writes it."""
    listed = ",".join(f"{key}={in_text(value)}" for key, value in params.items())
    return f"{learner}:{listed}" if listed else learner
