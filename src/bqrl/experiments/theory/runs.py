"""What the experiments share: who is told how far they are, the seed of every run, and a run in full."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bqrl.learners.record import Record
from bqrl.learners.run import Run
from bqrl.mdp.model import MDP


class Watch(Protocol):
    """Who listens to an experiment."""

    def phase(self, text: str, total: int | None = None) -> None:
        """What is being done now, and of how many steps."""

    def tick(self) -> None:
        """One more step is done."""


class Silence:
    """A watch that says nothing."""

    def phase(self, text: str, total: int | None = None) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""


def run_seed(root: int, *place: int) -> int:
    """The seed of the run at that place; adding a run never changes another's.

    >>> run_seed(1, 0, 2) == run_seed(1, 0, 2) != run_seed(1, 0, 3)
    True
    """
    return int(np.random.SeedSequence(root, spawn_key=place).generate_state(1, np.uint64)[0])


def played(mdp: MDP, learner: str, tau: float, episodes: int, seed: int, **options: Any) -> Record:
    """The record of one run; options as in `bqrl.learn`."""
    run = Run(mdp, learner, tau, episodes, seed, **options)
    while run.t < run.total:
        run.step()
    return run.record()
