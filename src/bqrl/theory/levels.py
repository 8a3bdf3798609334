"""The scalar state-quantile view of a target policy: a level that starts at tau and is a martingale.

The quantile-MDP literature (and the paper's pi[mu, Gamma]) carries a level q_h in place of the need. With W_h(s, n) the
smallest probability of missing the need n and margin rho* = tau - W_0(start, x*),

    q_h = W_h(s, n) + rho*.

W is the probability of missing under the policy played, so q is a martingale along its episodes: the share of bad luck
that is still allowed, plus what the optimum leaves unused. It starts at tau and ends at rho* (reached) or 1 + rho* (missed).
Corrected: clipped at 1, as a level in [0, 1] has to be, it is still a martingale until the need is nearly lost; where
q_{h+1} would exceed 1 the clipped level falls short of it, so in general it is a supermartingale. `martingale_drift` tells
both apart.

Act on the need, not on the level: several needs may have one level (all that are safe have rho*, all that are lost 1 + rho*,
and steps of the return law that no policy can hit lie between), and their actions need not agree. The policy that is
re-targeted from its level, `GuaranteeCurve.level_policy`, takes the most demanding need of the level; the probability of
missing is the same for it, so it attains the same quantile, though it may play differently and have another mean. Once
its need is lost the clipped level 1 makes it aim anew, at the highest need that it misses with probability 1 - rho* at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.kernels.ball import follow
from bqrl.mdp.forms import FloatArray
from bqrl.planners.plan import Plan, check_levels
from bqrl.planners.target import GuaranteeCurve


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Levels of every stage, state and need for one tau; call it with (h, s, need)."""

    curve: GuaranteeCurve
    tau: float
    target: float  # x*: the need before the first stage
    margin: float  # rho*
    table: tuple[FloatArray, ...]  # H + 1 arrays (S, columns), clipped at 1; columns as in the grid, the last is 'lost'

    def __call__(self, h: int, s: int, need: float) -> float:
        """q_h(s, need)."""
        return float(self.table[h][s, self.curve.sweep.grid.column(h, need)])

    def path(self, states: Any, rewards: Any) -> FloatArray:
        """Levels along one episode of H + 1 states and H rewards, shape (H + 1,)."""
        H, grid = self.curve.mdp.H, self.curve.sweep.grid
        if len(states) != H + 1 or len(rewards) != H:
            raise ValueError(f"an episode has {H + 1} states and {H} rewards, got {len(states)} and {len(rewards)}")
        need, q = self.target, np.empty(H + 1)
        for h in range(H):
            q[h] = self(h, int(states[h]), need)
            need = float(grid.reduced(need, h, float(rewards[h])))
        q[H] = self(H, int(states[H]), need)
        return q


def levels(found: GuaranteeCurve | Plan, tau: float | None = None) -> Levels:
    """The levels that belong to the optimal target policy at `tau`.

    `found` is a curve made by `guarantee_curve(mdp, keep=True)`, or a plan by the target planner that holds one (its own
    tau by default).
    """
    curve = found.details.get("curve") if isinstance(found, Plan) else found
    if not isinstance(curve, GuaranteeCurve):
        raise TypeError("levels needs a GuaranteeCurve, or a Plan of planner='target' with beta=0")
    if tau is None:
        if not isinstance(found, Plan):
            raise TypeError("tau is missing; give the level, e.g. levels(curve, 0.1)")
        tau = found.tau
    tau, _ = check_levels(tau, 0.0)
    if curve.sweep.values is None:
        raise ValueError(
            "levels need the shortfalls of every stage; make the curve with guarantee_curve(mdp, keep=True)"
        )
    if not curve.exact:
        raise ValueError("levels need returns on an exact grid; this curve is bracketed")
    margin = curve.margin(tau).below
    table = tuple(np.minimum(W + margin, 1.0) for W in curve.sweep.values)
    return Levels(curve, tau, float(curve(tau)), margin, table)


@dataclass(frozen=True, slots=True)
class Drift:
    """How far E[q_{h+1} | h, s, n] is from q_h, over all stages, states and needs."""

    unclipped: float  # largest |drift| of W + rho*: rounding only
    clipped: float  # largest fall of the level clipped at 1: at most rho*
    start: float  # distance of the (mean) first level from tau


def martingale_drift(found: Levels) -> Drift:
    """What is left of the martingale property, exactly, on every cell under the action played there."""
    curve, mdp = found.curve, found.curve.mdp
    grid, values, actions = curve.sweep.grid, curve.sweep.values, curve.sweep.actions
    if values is None or actions is None:
        raise ValueError("the drift needs the values and actions of every stage; make the curve with keep=True")
    raw = clipped = 0.0
    for h in range(mdp.H):
        stage, met = mdp.stage(h), mdp.reachable[h]
        shift, jumps = grid.moves(mdp, h)
        for W, W_next, which in ((values[h], values[h + 1], "raw"), (found.table[h], found.table[h + 1], "clipped")):
            out = np.empty(W.shape)
            rows = (stage.row_start, stage.successor, stage.probability, shift, jumps, mdp.A, actions[h])
            follow(*rows, np.ascontiguousarray(W_next), out)
            fall = (W - out)[met]
            if which == "raw":
                raw = max(raw, float(np.abs(fall).max()))
            else:
                clipped = max(clipped, float(fall.max()))
    first = found.curve.sweep.grid.column(0, found.target)
    return Drift(raw, clipped, abs(float(mdp.mu @ values[0][:, first]) + found.margin - found.tau))
