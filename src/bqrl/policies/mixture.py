"""Mixtures: one of several policies, drawn once before the first stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bqrl.checks import bad_type, one_line, random_seed
from bqrl.errors import PolicyError
from bqrl.loops.draws import draw
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Fault
from bqrl.policies.protocol import Policy


class MixturePolicy(Policy):
    """One of several policies, drawn once before the first stage; `solve(..., randomized=True)` may return one.

    The memory is the index of the policy that was drawn, with the memory of that policy.

    Parameters
    ----------
    policies : sequence of Policy
        The policies.
    weights : array_like of float
        Their probabilities, which sum to 1; the attributes `policies` and `weights` hold both.
    seed : int or None
        Seed of the draws of `start()`; None draws fresh entropy. `start(u)` draws by the uniform number u.

    Examples
    --------
    >>> import bqrl
    >>> mixture = bqrl.MixturePolicy([bqrl.MarkovPolicy([[0]]), bqrl.MarkovPolicy([[1]])], [0.25, 0.75])
    >>> mixture.act(0, 0, mixture.start(0.5))
    1
    """

    kind = "mixture"

    def __init__(self, policies: Sequence[Policy], weights: Any, seed: int | None = 0) -> None:
        if not isinstance(policies, Sequence) or not all(isinstance(policy, Policy) for policy in policies):
            raise bad_type("policies", policies, "be a list of policies")
        self.policies = tuple(policies)
        try:
            self.weights: FloatArray = read_only(np.array(weights, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise bad_type("weights", weights, "hold one number per policy") from None
        if not self.policies or self.weights.shape != (len(self.policies),):
            rule = f"hold one number per policy ({len(self.policies)})"
            raise PolicyError(f"weights must {rule}, got shape {self.weights.shape}")
        if np.any(self.weights < 0) or not abs(self.weights.sum() - 1.0) <= SUM_TOL:
            raise PolicyError(f"weights must be probabilities that sum to 1, got {one_line(self.weights.tolist())}")
        sizes = sorted({(policy.H, policy.S) for policy in self.policies} - {(0, 0)})
        if len(sizes) > 1:
            raise PolicyError(f"the policies of a mixture must have the same (H, S), got {sizes[0]} and {sizes[1]}")
        self.H, self.S = sizes[0] if sizes else (0, 0)
        self._coin = np.random.default_rng(random_seed(seed))  # used only if start() is called without u

    def drawn(self, u: float) -> tuple[int, float]:
        """Return the index of the policy that the uniform number `u` draws, and a uniform number for a nested mixture."""
        i = draw(self.weights.tolist(), 0, self.weights.size, u)
        rest = (u - float(self.weights[:i].sum())) / float(self.weights[i])
        return i, min(max(rest, 0.0), np.nextafter(1.0, 0.0))

    def start(self, u: float | None = None) -> tuple[int, Any]:
        """Return the index of the policy that is drawn, and its memory."""
        i, rest = self.drawn(self._coin.random() if u is None else u)
        part = self.policies[i]
        return i, part.start(rest) if isinstance(part, MixturePolicy) else part.start()

    def start_many(self, u: FloatArray) -> Any:
        """Return the memories of many episodes before the first stage."""
        return [self.start(float(x)) for x in u]

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action of the policy that was drawn."""
        self._check(h, s, memory)
        return self.policies[memory[0]].act(h, s, memory[1])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> tuple[int, Any]:
        """Return the index and the next memory of the policy that was drawn."""
        return memory[0], self.policies[memory[0]].next(memory[1], h, s, action, reward, s_next)

    def check_unrolled(self) -> None:
        """Raise PolicyError: the action also depends on the draw at the start."""
        raise PolicyError(
            "expected a policy without a random draw at the start, got a mixture; convert its parts instead"
        )

    def reward_fault(self, mdp: MDP) -> Fault | None:
        """Return the fault of the first part that has one."""
        return next((fault for part in self.policies if (fault := part.reward_fault(mdp)) is not None), None)

    def arrays(self) -> dict[str, Any]:
        """Return the weights and the arrays of every part."""
        flat: dict[str, Any] = {"weights": self.weights}
        for i, policy in enumerate(self.policies):
            flat |= {f"part{i}_{key}": value for key, value in policy.file_arrays().items()}
        return flat

    def __repr__(self) -> str:
        shares = ", ".join(f"{w:.4g} x {policy!r}" for w, policy in zip(self.weights, self.policies, strict=True))
        return f"MixturePolicy({shares})"
