"""TRPO (Schulman et al. 2015): a natural-gradient step inside a ball of mean KL divergence, on softmax tables.

    direction = (F + damping)^-1 g  by conjugate gradients,   step length sqrt( 2 radius / direction' (F + damping) direction ),

shrunk until the surrogate mean( ratio * adv ) gains and the mean KL of the batch's states stays within `radius`. F is exact:
the Fisher matrix of a softmax table under the batch's states. See `actor_critic` for the tables, critic and advantages.
"""

from __future__ import annotations

import numpy as np

from bqrl.learners.actor_critic import ActorCritic
from bqrl.learners.common import number, whole
from bqrl.learners.protocol import Task
from bqrl.learners.trpo_loops import trust_region_step
from bqrl.mdp.arrays import FloatArray

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
        self.radius = number("radius", radius, 0.0)
        self.damping = number("damping", damping, 0.0)
        self.iterations = whole("iterations", iterations)

    def improve(self, advantage: FloatArray) -> None:
        """One step, or none where the line search finds no gain."""
        trust_region_step(
            self.parts, self.sharing, self.available, self.chances, self.states, self.actions, advantage, self.radius,
            self.damping, self.iterations, SHRINK, TRIES,
        )  # fmt: skip
