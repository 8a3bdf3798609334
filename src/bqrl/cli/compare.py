"""`bqrl compare`: several learners on one or more problems with common random numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from typer import Argument, Option

from bqrl.cli.learn import Entry, Processes, RunOptions, Seeds
from bqrl.cli.params import read_params
from bqrl.errors import ArgumentError
from bqrl.learners.registry import ADAPTERS, LEARNERS, everyone
from bqrl.learners.run import TAU
from bqrl.study.compare import SEEDS, WORKERS

LEARNER = (
    "A learner, e.g. ucb-bqrl:planner=greedy or mine.py:Mine; may be given several times. By default all that serve the "
    "objective."
)
OTHERS = "Further problems; the table then has a row per problem and learner, and the folder a section per problem."


@dataclass(frozen=True, kw_only=True)
class Compare(RunOptions):
    """Compare learners on common random numbers: the noise of a run depends on its seed, not on the learner."""

    others: Annotated[list[str] | None, Argument(metavar="PROBLEM", help=OTHERS)] = None
    learner: Annotated[list[str] | None, Option(metavar="NAME[:PARAM=VALUE,...]", help=LEARNER)] = None
    seeds: Seeds = SEEDS
    workers: Processes = WORKERS

    def run(self) -> None:
        """Run several learners."""
        entries = read_learners(self.learner) if self.learner else everyone(self.goal(TAU))
        learners = self.learner or [f"{name}:{_written(params)}".rstrip(":") for name, params in entries]
        self.run_learners(entries, {"learners": learners}, others=self.others or ())


def _written(params: Mapping[str, Any]) -> str:
    """Parameters as on the command line."""
    return ",".join(f"{name}={value}" for name, value in params.items())


def read_learners(given: Sequence[str]) -> list[Entry]:
    """Learners with their parameters, from texts such as "ucb-bqrl:planner=greedy,c_conf=0.01", each given once.

    >>> read_learners(["ucb-bqrl:planner=greedy,c_conf=0.01", "mine.py:Mine", "pack.module:Mine:rate=0.5"])
    [('ucb-bqrl', {'planner': 'greedy', 'c_conf': 0.01}), ('mine.py:Mine', {}), ('pack.module:Mine', {'rate': 0.5})]
    """
    entries: list[Entry] = []
    for text in given:
        name, _, rest = re.sub(":(?=[^:=]*=)", "\0", text.strip(), count=1).partition("\0")
        head, _, tail = map(str.strip, name.partition(":"))
        if head in LEARNERS | ADAPTERS:  # a parameter without a value, which is no class
            name, rest = head, rest or tail
        name, rest = name.strip(), rest.strip()
        params = re.split(",(?=[^,]*=)", rest) if rest else []  # a part without "=" belongs to the value before it
        entry = (name, read_params(params))
        if entry in entries:
            raise ArgumentError(f"the learner {text!r} is given twice; drop one of them")
        entries.append(entry)
    return entries
