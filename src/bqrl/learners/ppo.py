"""PPO (Schulman et al. 2017) on softmax tables: clipped ratios, epochs of minibatches, Adam.

    maximise  mean over the batch of  min( ratio * adv, clip(ratio, 1 - clip, 1 + clip) * adv ) + entropy * H(policy)

where ratio = pi(a | h, s) / pi_played(a | h, s). See `actor_critic` for the tables, the critic and the advantages.

Deviation: the value table is fitted by its own least-squares pass, not by a value term in the same loss, because the tables
share no parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import number, whole
from bqrl.learners.actor_critic import MAX_BATCH, ActorCritic
from bqrl.learners.protocol import Task
from bqrl.loops.actor_critic import EpisodeBatch
from bqrl.loops.ppo import Adam, Rule, ppo_epochs
from bqrl.mdp.arrays import BoolArray


class PPO(ActorCritic):
    """Proximal policy optimisation; `learning_rate` is the learning rate of Adam."""

    name, label, colour = "ppo", "PPO", "#8C5A2B"
    tuned = "learning_rate"
    stored = (*ActorCritic.stored, "mean", "square", "steps")

    def __init__(
        self, task: Task, rng: np.random.Generator, learning_rate: float = 0.01, batch: int = 20, epochs: int = 6,
        minibatch: int = 100, clip: float = 0.2, entropy: float = 0.01, trace: float = 0.95, value_rate: float = 0.3,
        sharing: float = 2.0, discount: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng, batch, trace, value_rate, sharing, discount)
        rate = number(learning_rate, "learning_rate", 0.0, ends="()")
        self.epochs = whole(epochs, "epochs", 1, most=MAX_BATCH)
        size = whole(minibatch, "minibatch", 1, most=MAX_BATCH)
        clip, entropy = number(clip, "clip", 0.0, ends="()"), number(entropy, "entropy", 0.0)
        self.rule = Rule(sharing=self.sharing, minibatch=size, clip=clip, entropy=entropy, rate=rate)
        self.mean, self.square, self.steps = np.zeros(self.parts.size), np.zeros(self.parts.size), 0
        self._visited = super()._moving()

    def _moving(self) -> BoolArray:
        """Return the parts that were ever visited: their moments decay, and the parts follow."""
        return self._visited

    def improve(self, batch: EpisodeBatch) -> None:
        """Run `epochs` epochs over the batch, with minibatches in random order."""
        orders = np.tile(np.arange(batch.advantage.size), (self.epochs, 1))
        self.rng.permuted(orders, axis=1, out=orders)
        self.steps = ppo_epochs(self.parts, batch, orders, self.rule, Adam(self.mean, self.square), self.steps)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self._visited = np.any((np.abs(self.mean) + self.square).reshape(-1, self.task.A), axis=1)
