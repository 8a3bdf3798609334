"""Stochastic policies: actions are drawn from probabilities by stage and state."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

import numpy as np

from bqrl.checks import bad_type, random_seed
from bqrl.errors import PolicyError
from bqrl.loops.draws import draw
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.policies.protocol import Policy
from bqrl.policies.shares import check_shares


class StochasticPolicy(Policy):
    """Action probabilities by stage and state; the policy has no memory.

    `evaluate`, `simulate` and the scores of `learn` average over the draws exactly; only `act` draws. A learner returns one
    from `plan` to explore, or from `evaluated` to be scored by its draws.

    Parameters
    ----------
    probabilities : array_like of float, shape (H, S, A)
        Action probabilities, which sum to 1 up to 1e-6; all 0 in a state that is never reached.
    seed : int or None
        Seed of the draws of `act`; None draws fresh entropy.

    Attributes
    ----------
    probabilities : ndarray of shape (H, S, A)
        The same, read-only.

    Examples
    --------
    >>> import bqrl
    >>> bqrl.evaluate(bqrl.envs.make("SafeOrRisky"), bqrl.StochasticPolicy([[[0.5, 0.5]]] * 10)).quantile(0.1)
    9.0
    """

    kind = "stochastic"

    def __init__(self, probabilities: Any, seed: int | None = 0) -> None:
        try:
            given = np.asarray(probabilities)
        except ValueError:  # nested lists of different lengths
            given = np.asarray(None)
        if given.dtype.kind not in "fiu":
            raise bad_type("probabilities", probabilities, "be an array of numbers", type(probabilities).__name__)
        if given.ndim != 3 or given.size == 0:
            raise PolicyError(f"probabilities must have shape (H, S, A), got {given.shape}")
        table = np.array(given, dtype=np.float64)
        check_shares(table, np.ones(table.shape, bool), np.any(table, axis=2))
        self._hold(table, random_seed(seed))

    @classmethod
    def unchecked(cls, probabilities: FloatArray) -> StochasticPolicy:
        """Return the policy of probabilities that compiled loops computed, without a copy: learners make one per episode."""
        policy = cls.__new__(cls)
        policy._hold(probabilities, 0)
        return policy

    def _hold(self, table: FloatArray, seed: int) -> None:
        self.probabilities: FloatArray = read_only(table)
        self.H, self.S = table.shape[:2]
        self._seed = seed

    def shares(self, h: int, s: int) -> FloatArray:
        """Return the action probabilities (A,) at stage `h` in state `s`."""
        return self.probabilities[h, s]

    @cached_property
    def _coin(self) -> np.random.Generator:
        """The random stream of `act`; evaluation and simulation never use it."""
        return np.random.default_rng(self._seed)

    def act(self, h: int, s: int, memory: Any = None) -> int:
        """Return an action drawn at stage `h` in state `s`, from the policy's own stream."""
        self._check(h, s, 0)
        shares = self.shares(h, s).tolist()
        if not any(shares):
            raise PolicyError(
                f"expected a state with action probabilities, got state {s} at stage {h + 1}", stage=h, state=s
            )
        return draw(shares, 0, len(shares), self._coin.random())

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Raise PolicyError: a pass over histories would mistake one draw for the policy."""
        self.check_unrolled()

    def check_unrolled(self) -> NoReturn:
        """Raise PolicyError: actions are drawn."""
        remedy = "convert MarkovPolicy(policy.probabilities.argmax(axis=2)) for its most probable actions"
        raise PolicyError(f"expected a policy that draws no actions, got a stochastic policy; {remedy}")

    def arrays(self) -> dict[str, Any]:
        """Return the probabilities."""
        return {"probabilities": self.probabilities}

    def __repr__(self) -> str:
        return f"StochasticPolicy(H={self.H}, S={self.S}, A={self.shares(0, 0).size})"
