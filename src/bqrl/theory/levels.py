"""The scalar quantile level of a target policy: a process that starts at tau and is a martingale.

The quantile-MDP literature (and the paper's pi[mu, Gamma]) carries a level q_h instead of the need. With W_h(s, n) the
smallest probability of missing the need n, and the margin rho* = tau - W_0(start, x*),

    q_h = W_h(s, n) + rho*.

Under the policy that attains W, the probability of missing the need is a martingale, and so is q: it is the probability of
a miss that the policy still allows, plus the part of tau that the optimum leaves unused. It starts at tau and ends at rho*
(need reached) or 1 + rho* (need missed).

Corrected: a level must lie in [0, 1], so q is clipped at 1. The clipped level remains a martingale until the need is
almost certainly missed; where q_{h+1} would exceed 1 its clipped value is smaller, so that in general the clipped level is
a supermartingale. `martingale_drift` computes the drift of both.

A policy should act on the need rather than on the level, because needs with different best actions may share one level:
all needs that are certain to be reached have level rho*, and all that are certain to be missed have 1 + rho*.
`GuaranteeCurve.level_policy` acts on the level, as if the need were the largest one with that level. It attains the same
quantile, but its actions and its mean may differ. After a miss the clipped level 1 makes it choose a new need: the largest
that it misses with probability at most 1 - rho*.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import number, whole, wrong, wrong_type
from bqrl.errors import GridError
from bqrl.kernels.layout import Rows
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.planners.ball_loops import follow
from bqrl.planners.plan import Plan
from bqrl.planners.target import GuaranteeCurve
from bqrl.theory.inputs import NO_GRID, as_level


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Levels:
    """Levels of every stage, state and need at one tau; call it with (h, s, need)."""

    curve: GuaranteeCurve
    tau: float
    target: float  # x*, the need before the first stage
    margin: float  # rho*
    table: tuple[FloatArray, ...]  # H + 1 arrays (S, columns), clipped at 1; the last column is a certain miss

    def __call__(self, h: int, s: int, need: float) -> float:
        """The level q_h(s, need)."""
        h, s = whole(h, "h", 0, self.curve.mdp.H), whole(s, "s", 0, self.curve.mdp.S - 1)
        need = number(need, "need")
        return float(self.table[h][s, self.curve.sweep.grid.column(h, need)])

    def path(self, states: Any, rewards: Any) -> FloatArray:
        """Levels (H + 1,) before each stage and at the end of an episode with states (H + 1,) and rewards (H,)."""
        H, grid = self.curve.mdp.H, self.curve.sweep.grid
        for name, value, length in (("states", states, H + 1), ("rewards", rewards, H)):
            if len(value) != length:
                raise wrong(name, value, f"have length {length}", len(value))
        need, q = self.target, np.empty(H + 1)
        for h in range(H):
            q[h] = self(h, int(states[h]), need)
            need = float(grid.reduced(need, h, float(rewards[h])))
        q[H] = self(H, int(states[H]), need)
        return q


def levels(curve: GuaranteeCurve | Plan, tau: float | None = None) -> Levels:
    """The levels of the optimal target policy at `tau`.

    Parameters
    ----------
    curve : GuaranteeCurve or Plan
        A curve made by `guarantee_curve(mdp, keep=True)`, or a plan of the target planner that contains one.
    tau : see `bqrl.theory`
        For a plan its own level by default.

    Returns
    -------
    Levels

    Examples
    --------
    >>> import bqrl
    >>> found = levels(bqrl.guarantee_curve(bqrl.envs.make("AssetSelling"), keep=True), 0.1)
    >>> round(found(0, 5, found.target), 12)
    0.1
    """
    if isinstance(curve, Plan):
        tau = curve.tau if tau is None else tau
        curve = curve.details.get("curve")  # type: ignore[assignment]
    if not isinstance(curve, GuaranteeCurve):
        rule = "be a GuaranteeCurve, or a Plan of planner='target' with beta=0"
        raise wrong_type(
            "curve", curve, rule, type(curve).__name__, remedy="make one with guarantee_curve(mdp, keep=True)"
        )
    if tau is None:
        raise wrong_type("tau", tau, "be a number in (0, 1)", remedy="write levels(curve, 0.1)")
    tau = as_level(tau)
    if curve.sweep.values is None:
        remedy = "make it with guarantee_curve(mdp, keep=True)"
        raise wrong("curve", curve, "hold the shortfalls of every stage", "the first stage only", remedy=remedy)
    if not curve.exact:
        raise GridError(f"the table of levels {NO_GRID}", name="curve")
    margin = curve.margin(tau).below
    table = tuple(read_only(np.minimum(W + margin, 1.0)) for W in curve.sweep.values)
    return Levels(curve=curve, tau=tau, target=float(curve(tau)), margin=margin, table=table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """Difference between q_h and E[q_{h+1} | h, s, n], over all stages, states and needs."""

    unclipped: float  # largest absolute drift of W + rho*; rounding error only
    clipped: float  # largest decrease of the level clipped at 1; at most rho*
    start: float  # distance between tau and the mean level at the start


def martingale_drift(found: Levels) -> Drift:
    """The exact drift of the level, with and without clipping, under the actions of the optimal policy.

    Parameters
    ----------
    found : Levels
        The levels of a curve.

    Returns
    -------
    Drift

    Examples
    --------
    >>> import bqrl
    >>> curve = bqrl.guarantee_curve(bqrl.envs.make("AssetSelling"), keep=True)
    >>> martingale_drift(levels(curve, 0.1)).unclipped < 1e-12
    True
    """
    if not isinstance(found, Levels):
        raise wrong_type("found", found, "be Levels", type(found).__name__, remedy="make them with levels(curve, tau)")
    curve, mdp = found.curve, found.curve.mdp
    grid, values, actions = curve.sweep.grid, curve.sweep.values, curve.sweep.actions
    assert values is not None
    raw = clipped = 0.0
    for h in range(mdp.H):
        stage, met = mdp.stage(h), mdp.reachable[h]
        policy = Rows(stage.row_start, stage.successor, stage.probability), grid.moves(mdp, h), actions[h]
        expected, expected_clipped = np.empty(values[h].shape), np.empty(values[h].shape)
        follow(*policy, np.ascontiguousarray(values[h + 1]), expected)
        follow(*policy, np.array(found.table[h + 1]), expected_clipped)
        raw = max(raw, float(np.abs(values[h] - expected)[met].max()))
        clipped = max(clipped, float((found.table[h] - expected_clipped)[met].max()))
    first = grid.column(0, found.target)
    start = abs(float(mdp.mu @ values[0][:, first]) + found.margin - found.tau)
    return Drift(unclipped=raw, clipped=clipped, start=start)
