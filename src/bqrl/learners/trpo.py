"""TRPO (Schulman et al. 2015) on softmax tables: a natural-gradient step within a bound on the mean KL divergence.

    direction = (F + damping)^-1 g  by conjugate gradients,   step length sqrt( 2 radius / direction' (F + damping) direction ),

The step is shortened until the surrogate mean( ratio * adv ) improves and the mean KL divergence over the states of the batch
is at most `radius`. F is the exact Fisher matrix of a softmax table under the states of the batch. See `actor_critic` for the
tables, the critic and the advantages.
"""

from __future__ import annotations

import numpy as np

from bqrl.checks import number, whole
from bqrl.learners.actor_critic import MAX_BATCH, ActorCritic
from bqrl.learners.protocol import Task
from bqrl.loops.actor_critic import EpisodeBatch
from bqrl.loops.trpo import Region, trust_region_step

SHRINK, TRIES = 0.8, 10  # factor and number of steps of the line search


class TRPO(ActorCritic):
    """Trust-region policy optimisation; `radius` is the largest mean KL divergence of one update."""

    name, label, colour = "trpo", "TRPO", "#8A8D1E"
    tuned = "radius"

    def __init__(
        self, task: Task, rng: np.random.Generator, radius: float = 0.02, batch: int = 20, damping: float = 0.1,
        iterations: int = 15, trace: float = 0.95, value_rate: float = 0.3, sharing: float = 2.0,
        discount: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng, batch, trace, value_rate, sharing, discount)
        radius, damping = number(radius, "radius", 0.0, ends="()"), number(damping, "damping", 0.0, ends="()")
        self.region = Region(
            sharing=self.sharing, radius=radius, damping=damping,
            iterations=whole(iterations, "iterations", 1, most=MAX_BATCH), shrink=SHRINK, tries=TRIES,
        )  # fmt: skip

    def improve(self, batch: EpisodeBatch) -> None:
        """Take one step; none if the line search finds no improvement."""
        trust_region_step(self.parts, batch, self.region)
