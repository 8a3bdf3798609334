"""Total-variation consequence of the confidence set (lemma of that name).

If the true kernel P* and the optimistic kernel P^t both lie within the l1 radius f(N) of the empirical kernel, the
triangle inequality gives, for every row,

    TV(P^t, P*) = ||P^t - P*||_1 / 2 <= f(N).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_value
from bqrl.mdp.arrays import BoolArray, FloatArray, read_only
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.uncertain import check_radius

ROUNDING = 1e-12


def total_variation(mdp: MDP, other: MDP) -> FloatArray:
    """TV between the rows of two kernels (H, S, A): of the next state, or of (s', reward) where rewards depend on it."""
    mdp, other = check_mdp(mdp), check_mdp(other, "other")
    if (mdp.H, mdp.S, mdp.A) != (other.H, other.S, other.A):
        raise bad_value("other", other, f"have the size of mdp, {mdp!r}", repr(other))
    return np.stack([_stage_distance(mdp, other, h) for h in range(mdp.H)])


def _stage_distance(mdp: MDP, other: MDP, h: int) -> FloatArray:
    """Return TV per row of one stage (S, A); the two problems may list their outcomes in different orders."""
    by_row = mdp.row_reward is not None and other.row_reward is not None
    here, there = mdp.stage(h), other.stage(h)
    if not np.array_equal(here.available, there.available):
        raise bad_value("other", other, "have the same actions as mdp", f"different actions at stage {h}")
    if by_row and not np.array_equal(here.row_reward, there.row_reward):  # type: ignore[arg-type]
        got = f"different rewards at stage {h}; only the kernels may differ"
        raise bad_value("other", other, "have the same rewards as mdp", got)
    keys, mass = [], []
    for stage, sign in ((here, 1.0), (there, -1.0)):
        rows = np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start))
        reward = np.zeros(rows.size) if by_row else stage.reward
        keys.append(np.column_stack([rows, stage.successor, reward]))
        mass.append(sign * stage.probability)
    outcome, which = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    moved = np.abs(np.bincount(which.ravel(), weights=np.concatenate(mass), minlength=len(outcome)))
    halves = np.bincount(outcome[:, 0].astype(np.int64), weights=moved, minlength=mdp.S * mdp.A) / 2.0
    return np.asarray(halves.reshape(mdp.S, mdp.A))


def rows_inside(mdp: MDP, estimate: MDP, radius: Any) -> BoolArray:
    """Return which rows of `mdp` (H, S, A) lie in the l1 balls around the rows of `estimate`, up to rounding."""
    distance = 2.0 * total_variation(mdp, estimate)
    return np.asarray(distance <= check_radius(mdp, radius) + ROUNDING)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TotalVariation:
    """The lemma on the confidence set of one episode; every array has shape (H, S, A)."""

    variation: FloatArray  # TV between the optimistic and the true kernel
    bound: FloatArray  # f(N), which bounds `variation` where both kernels lie in the set
    covered: BoolArray  # where both kernels lie in the set

    @property
    def holds(self) -> bool:
        """Whether the bound holds on every covered row."""
        return bool(np.all(self.variation[self.covered] <= self.bound[self.covered] + ROUNDING))


def total_variation_consequence(mdp: MDP, optimistic: MDP, estimate: MDP, radius: Any) -> TotalVariation:
    """Return TV(P^t, P*) of every row, and its bound f(N) (total-variation consequence of the confidence set).

    Parameters
    ----------
    mdp, optimistic, estimate : MDP
        The true, the optimistic and the empirical kernel.
    radius : float or array_like of shape (S, A) or (H, S, A)
        The l1 radii f(N) of the confidence set.

    Returns
    -------
    TotalVariation

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("AssetSelling")
    >>> total_variation_consequence(mdp, mdp, mdp, 0.1).holds
    True
    """
    mdp, optimistic = check_mdp(mdp), check_mdp(optimistic, "optimistic")
    estimate = check_mdp(estimate, "estimate")
    covered = rows_inside(mdp, estimate, radius) & rows_inside(optimistic, estimate, radius)
    return TotalVariation(
        variation=read_only(total_variation(mdp, optimistic)),
        bound=read_only(np.broadcast_to(check_radius(mdp, radius), covered.shape)),
        covered=read_only(covered),
    )
