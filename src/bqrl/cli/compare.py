"""`bqrl compare`: several learners on one problem with common noise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from bqrl.cli.learn import Delta, Entry, Episodes, Processes, Seed, Seeds, Tau, run_learners
from bqrl.cli.output import Json, Out
from bqrl.cli.params import read_params
from bqrl.cli.problem import ProblemOptions
from bqrl.results.learning import in_text

EVERYONE = (
    "psrl", "ucb-bqrl", "ucb-bqrl:planner=greedy", "ucbvi", "thompson", "q-learning", "sarsa", "ppo", "trpo",
)  # fmt: skip


def compare(
    *,
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
    workers: Processes = 2,
    delta: Delta = 0.05,
    asked: ProblemOptions,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare learners on common noise: the randomness of a run depends on its seed, not on the learner.

    Seeds count from --seed, here 42; bqrl.compare(seeds=20) of the Python library counts from 0.
    """
    entries = read_learners(learner or EVERYONE)
    settings = {
        "tau": tau, "learners": [spelled(*entry) for entry in entries], "episodes": episodes, "seed": seed,
        "seeds": seeds, "delta": delta,
    }  # fmt: skip
    run_learners(asked, entries, settings, workers, out, as_json=as_json, alone=False)


def read_learners(given: Sequence[str]) -> list[Entry]:
    """Learners with their parameters; each may be given once.

    >>> read_learners(["q-learning:epsilon=0.5,0.1,learning_rate=0.2"])
    [('q-learning', {'epsilon': (0.5, 0.1), 'learning_rate': 0.2})]
    """
    entries: list[Entry] = []
    for text in given:
        name, _, rest = (part.strip() for part in text.partition(":"))
        params = re.split(",(?=[^,]*=)", rest) if rest else []  # a part without "=" belongs to the value before it
        entry = (name, read_params(params))
        if entry in entries:
            raise ValueError(f"the learner {text!r} is given twice")
        entries.append(entry)
    return entries


def spelled(learner: str, params: dict[str, Any]) -> str:
    """A learner as the command line writes it."""
    listed = ",".join(f"{key}={in_text(value)}" for key, value in params.items())
    return f"{learner}:{listed}" if listed else learner
