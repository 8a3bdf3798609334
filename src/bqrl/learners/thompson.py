"""Thompson sampling for MDPs, also called posterior sampling (Thompson 1933; Strens 2000; Osband et al. 2013).

Before every episode a kernel is drawn from the posterior, and the best policy of the drawn model is played:

    P_h(. | s, a) ~ Dirichlet( (prior / k + N_h(s, a, .)) / scale^2 )   over the k outcomes of the known support, row by row.

`prior` is the weight of the prior in visits, spread evenly over the support. `scale` approximately multiplies the standard
deviation of the posterior; 1 is the posterior itself. Rows that are known exactly are not drawn. Rows that share noise are
images of one drawn event law. If the problem stores one kernel for all stages, counts are pooled and one kernel is drawn for
all stages; `stationary=False` counts per stage.

Deviation: planning on a drawn model needs the reward function, which the paper grants to UCB-BQRL and UCBVI only.
Deviation: rows that cannot matter are not drawn: their state cannot be reached at the stage, or their outcomes have equal
values under every kernel. The distribution of the plan is the same.
"""

from __future__ import annotations

import numpy as np

from bqrl.checks import number
from bqrl.learners.model_based import ModelBased
from bqrl.learners.protocol import Task
from bqrl.learners.shared_counts import SharedUnits
from bqrl.loops.model_based import sampled_values
from bqrl.policies.markov import MarkovPolicy


class Thompson(ModelBased):
    """Thompson sampling with a Dirichlet posterior for every row."""

    name, label, colour = "thompson", "Thompson", "#009E73"
    tuned = "scale"

    def __init__(
        self, task: Task, rng: np.random.Generator, scale: float = 0.3, prior: float = 2.5, stationary: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng, stationary)
        self.scale, self.prior = number(scale, "scale", 0.0, ends="()"), number(prior, "prior", 0.0, ends="()")
        counts = self.counts
        matters = (self.ceiling > self.floor) & self.model.reachable[:-1, :, None]
        if counts.M == 1:
            matters = matters.max(axis=0, keepdims=True)
        self._units = counts.units(matters & counts.available & ~counts.known)
        self._prior = self.prior / np.repeat(self._units.sizes, self._units.sizes)

    def plan(self) -> MarkovPolicy:
        """Return the best policy of a model drawn from the posterior."""
        units, model = self._units, self.arrays
        shapes = units.shapes(self._prior, self.scale * self.scale)
        gammas = self.rng.standard_gamma(shapes)
        if isinstance(units, SharedUnits):
            kernel = units.spread(units.normalise(gammas, shapes), model.probability.copy())
            model = model._replace(probability=kernel)
        sampled_values(tuple(model), units.place, gammas, self.Q, self.V, self.actions)
        return self._current_policy()
