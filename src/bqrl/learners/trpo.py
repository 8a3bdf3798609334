"""TRPO (Schulman et al. 2015): a natural-gradient step inside a ball of mean KL divergence, on softmax tables.

    direction = (F + damping)^-1 g  by conjugate gradients,   step length sqrt( 2 radius / direction' (F + damping) direction ),

shrunk until the surrogate mean( ratio * adv ) gains and the mean KL over the states of the batch is within `radius`. F is the
exact Fisher matrix of a softmax table under the states of the batch. See `actor_critic` for the tables, critic and advantages.
"""

from __future__ import annotations

import numpy as np

from bqrl.checks import number, whole
from bqrl.learners.actor_critic import MAX_BATCH, ActorCritic
from bqrl.learners.actor_critic_loops import Batch
from bqrl.learners.protocol import Task
from bqrl.learners.trpo_loops import Region, trust_region_step

SHRINK, TRIES = 0.8, 10  # the line search


class TRPO(ActorCritic):
    """Trust-region policy optimisation; `radius` is the largest mean KL divergence of one update."""

    name = "trpo"
    tuned = "radius"

    def __init__(
        self, task: Task, rng: np.random.Generator, radius: float = 0.02, batch: int = 20, damping: float = 0.1,
        iterations: int = 15, trace: float = 0.95, value_rate: float = 0.3, sharing: float = 2.0,
        discount: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng, batch, trace, value_rate, sharing, discount)
        radius, damping = number(radius, "radius", 0.0, ends="()"), number(damping, "damping", 0.0, ends="()")
        self.region = Region(
            sharing=self.sharing,
            radius=radius,
            damping=damping,
            iterations=whole(iterations, "iterations", 1, most=MAX_BATCH),
            shrink=SHRINK,
            tries=TRIES,
        )

    def improve(self, batch: Batch) -> None:
        """Take one step, or none if the line search finds no gain."""
        trust_region_step(self.parts, batch, self.region)
