"""`bqrl compare`: several learners on one problem with common noise."""

from __future__ import annotations

from typing import Annotated

import typer

from bqrl.cli.learn import (
    Delta,
    Discount,
    Entry,
    Episodes,
    Given,
    Horizon,
    Seed,
    Seeds,
    Start,
    Task,
    Tau,
    _seeds,
    carry_out,
    show,
)
from bqrl.cli.output import Json, Out

EVERYONE = (
    "ucb-bqrl", "ucb-bqrl:planner=greedy", "ucbvi", "thompson", "q-learning", "sarsa", "ppo", "trpo",
)  # fmt: skip


def compare(
    problem: Given,
    tau: Tau = 0.1,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            "--learner",
            metavar="NAME[:PARAM=VALUE,...]",
            help="A learner, e.g. ucb-bqrl:planner=greedy; may be given several times. All seven unless given.",
        ),
    ] = None,
    episodes: Episodes = 2000,
    seeds: Seeds = 3,
    seed: Seed = 42,
    horizon: Horizon = None,
    start: Start = None,
    discount: Discount = None,
    delta: Delta = 0.05,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare learners on common noise: a run's chance depends on its seed, not on the learner."""
    from bqrl.cli.problem import read_problem

    entries = read_learners(learner or EVERYONE)
    task = Task(tau, episodes, _seeds(seed, seeds), delta, out)
    task.check()
    found = read_problem(problem, horizon, start, discount)
    asked = {
        "problem": problem, "tau": tau, "learners": [spelled(entry) for entry in entries], "episodes": episodes,
        "seed": seed, "seeds": seeds, "horizon": horizon, "start": start, "discount": discount, "delta": delta,
    }  # fmt: skip
    content, left_out = carry_out("compare", found, entries, task, asked)
    show(content, out, left_out, as_json=as_json)


def read_learners(given: list[str] | tuple[str, ...]) -> list[Entry]:
    """Learners with their parameters; each may come once."""
    from bqrl.cli.settings import read_params

    entries: list[Entry] = []
    for text in given:
        name, _, rest = text.partition(":")
        entry = Entry(name.strip(), read_params(name.strip(), _pieces(rest)))
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


def spelled(entry: Entry) -> str:
    """A learner as the command line writes it."""
    from bqrl.reports.learning import in_text

    params = ",".join(f"{key}={in_text(value)}" for key, value in entry.params.items())
    return f"{entry.learner}:{params}" if params else entry.learner
