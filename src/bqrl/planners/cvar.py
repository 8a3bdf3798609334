"""CVaR: the best policy of every level from one sweep for all targets, and a proven curve.

    CVaR_tau(G) = max_z { z - E (z - G)^+ / tau },    hence    max over policies = max_z { z - J(z) / tau },

where J(z) is the smallest E (z - G)^+ over all policies. J does not depend on the level, so one sweep with terminal cost n^+
serves every level. Targets z on the lattice lose nothing, because the term in braces is concave and piecewise linear in z between
possible returns. A deterministic target policy attains the optimum over all policies. At level 1 the CVaR is the mean; near
level 0 it is the highest return that some policy reaches for certain.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import number
from bqrl.laws.law import MASS_TOL, size_of
from bqrl.laws.objectives import CVaR
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.cluster import Cluster
from bqrl.planners.earned import MetPairs, search_cvar
from bqrl.planners.evaluate import BRACKET_POINTS, law_bracket
from bqrl.planners.expected import risk_neutral
from bqrl.planners.facts import Bracketed, Fact, NeutralWins
from bqrl.planners.plan import GAP_TOL, Plan, is_steady
from bqrl.planners.room import Room, check_memory, fits
from bqrl.planners.sweep import Sweep, rounding_error
from bqrl.planners.target import QUICK_CURVE, LevelCurve, check_level
from bqrl.planners.terminal import cost_sweep
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.target import TargetPolicy

TIE = 1e-12  # values this close, relative to the size of the returns, tie


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CVaRCurve(LevelCurve):
    """The best achievable CVaR at every level; made by `guarantee_curve(mdp, bqrl.CVaR)`.

    `curve(tau)` is the value at a level or at an array of levels, `curve.policy(tau)` a policy that attains it, and
    `curve.plan(tau)` the plan. If returns have no lattice (`curve.exact` is False), values are proven lower bounds and
    `curve.upper(tau)` gives proven upper bounds. The arrays are read-only.

    Attributes
    ----------
    mdp : MDP
        The problem.
    points : ndarray of shape (m,)
        The possible returns z in increasing order.
    missing : ndarray of shape (m,)
        J(z): the smallest mean of (z - G)^+ over all policies.
    sweep : Sweep or MetPairs
        The sweep behind the curve.
    error : float
        Bound on the relative rounding error of `missing`.
    optimistic : tuple of two ndarrays or None
        The same two arrays of the sweep on returns rounded up; None if the curve is exact.
    by_choice : bool
        Whether the curve is bracketed because `points` was given although an exact grid fits.

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("SafeOrRisky")
    >>> curve = bqrl.guarantee_curve(mdp, bqrl.CVaR)
    >>> curve(0.1), curve.plan(0.2).value == bqrl.solve(mdp, bqrl.CVaR(0.2)).value, round(curve(1.0), 6)
    (10.0, True, 16.5)
    """

    mdp: MDP
    missing: FloatArray
    sweep: Sweep | MetPairs

    def _values(self, levels: FloatArray) -> FloatArray:
        """Return the best CVaR; at level 1, the best mean."""
        best = [(self.points - self.missing / tau).max() for tau in np.atleast_1d(levels).tolist()]
        return np.array(best).reshape(levels.shape)

    def upper(self, tau: float) -> float:
        """Return a proven upper bound on the best CVaR, with an allowance for rounding errors.

        Parameters
        ----------
        tau : float
            The level.

        Returns
        -------
        float
            The bound; the value itself if they differ by rounding errors only.
        """
        value, (points, missing) = self(tau), self.optimistic or (self.points, self.missing)
        bound = float(self._cut((points - missing * (1.0 - self.error) / tau).max()))
        return bound if bound - value > GAP_TOL * size_of(self.points[[0, -1]]) else float(value)

    def target(self, tau: float) -> float:
        """Return the target z that attains the value at this level; of several, that with the best mean."""
        values = self.points - self.missing / check_level(tau)
        tied = np.flatnonzero(values >= values.max() - TIE * size_of(self.points[[0, -1]]))
        means = None if isinstance(self.sweep, MetPairs) else self.sweep.mean
        return float(self.points[tied[0 if means is None else means[tied].argmax()]])

    def policy(self, tau: float) -> TargetPolicy | EarnedPolicy:
        """Return a policy that attains the best CVaR at this level."""
        return self.policy_for(self.target(tau))

    def policy_for(self, target: float) -> TargetPolicy | EarnedPolicy:
        """Return the policy with the smallest mean of (target - G)^+; ties are broken by the mean."""
        z = number(target, "target")
        if isinstance(self.sweep, MetPairs):
            return self.sweep.policy(z, lambda g: np.maximum(z - g, 0.0))
        return self.sweep.policy(z)

    def plan(self, tau: float) -> Plan:
        """Return the plan at this level, as that of `solve(mdp, CVaR(tau))`."""
        mdp, goal, notes = self.mdp, CVaR(tau), list[Fact]()
        policy: Any = self.policy(tau)
        law, law_upper = law_bracket(mdp, policy)
        pairs = self.sweep if isinstance(self.sweep, MetPairs) else None
        details: dict[str, Any] = {"target": policy.target} | (
            {"sweeps": 1 if self.exact else 2} if pairs is None else {"pairs": pairs.count}
        )
        if pairs is None or self.points.size == pairs.returns.size:  # a part of the curve is not shown
            details["curve"] = self
        if not self.exact:
            notes.append(Bracketed(points=self.points.size, by_choice=self.by_choice, lattice=True))
            neutral, mean_law, mean_upper = risk_neutral(mdp, self.points.size)
            if goal(mean_law) > goal(law):  # possible on a coarse grid, whose bounds are loose
                policy, law, law_upper = neutral, mean_law, mean_upper
                notes.append(NeutralWins())
        value, certain = goal(law), is_steady(law, goal.tau, goal.tau, rounding_error(mdp))
        upper = max(value, self.upper(tau))
        if upper - value <= GAP_TOL * size_of(law.values):
            upper = value  # they differ only by rounding
        return Plan(
            objective=goal, planner="target", policy=policy, law=law, law_upper=law_upper, value=value, upper=upper,
            nominal=value, certain=certain, exact=self.exact, mdp=mdp, units=mdp.units, facts=tuple(notes), details=details,
        )  # fmt: skip

    def rows(self) -> list[dict[str, float]]:
        """Return one row per target that is best at some level: from `level` on, CVaR is `target` - `missing` / level."""
        z, J = _lower_hull(self.points, self.missing)
        levels = np.r_[0.0, np.diff(J) / np.diff(z)]
        return [
            {"level": a, "value": float(self(a)) if a > 0.0 else b, "target": b, "missing": c}
            for a, b, c in zip(levels.tolist(), z.tolist(), J.tolist(), strict=True)
        ]

    def __repr__(self) -> str:
        kind = "exact" if self.exact else "bracketed"
        return f"CVaRCurve(from {self.rows()[0]['value']:.6g} to {self(1.0):.6g}, {kind})"


def _lower_hull(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the corners of the largest convex function below the points with slopes in [0, 1), from the last with slope 0.

    A point that is not below the line between its neighbours is no corner, and all such points are dropped at once.
    """
    while x.size > 2:
        corner = np.r_[True, np.diff(np.diff(y) / np.diff(x)) > MASS_TOL, True]
        if corner.all():
            break
        x, y = x[corner], y[corner]
    slope = np.diff(y) / np.diff(x)
    kept = np.r_[slope > MASS_TOL, True] & np.r_[True, slope < 1.0 - MASS_TOL]
    return x[kept], y[kept]


def cvar_on_pairs(pairs: MetPairs, tau: float | None = None) -> CVaRCurve:
    """Return the curve over the pairs that can be met; with `tau` and many pairs, only the target that decides there."""
    targets = pairs.returns
    if tau is not None and pairs.moves * targets.size > QUICK_CURVE:
        targets = np.array([search_cvar(pairs, tau, GAP_TOL * size_of(targets))[1]])
    error = rounding_error(pairs.mdp)
    return CVaRCurve(mdp=pairs.mdp, points=targets, missing=pairs.missing(targets), sweep=pairs, error=error)


def cvar_curve(
    mdp: MDP, *, points: int | None, room: Room, tick: Callable[[int], None] | None = None, or_rounded: bool = False
) -> CVaRCurve:
    """Return the curve on the lattice of the returns, or on returns rounded down and up.

    With `or_rounded` the curve is a bracket if the lattice does not fit into memory.
    """
    error, shared = rounding_error(mdp), room.cluster is not None
    exact, optimistic = lattice(mdp), None
    columns = exact if points is None else None
    # two sweeps, because the needs above the highest return double the columns
    if columns is not None and not fits(mdp, columns, room.max_bytes, or_rounded=or_rounded, sweeps=2, shared=shared):
        columns = None
    if columns is None:
        columns, high = (rounded_grid(mdp, points or BRACKET_POINTS, up=up) for up in (False, True))
        check_memory(mdp, columns, room.max_bytes, sweeps=2, shared=shared)
        optimistic = _missing(mdp, high, None, room.cluster)[:2]
    z, J, done = _missing(mdp, columns, tick, room.cluster)
    return CVaRCurve(
        mdp=mdp, points=z, missing=J, sweep=done, error=error, optimistic=optimistic,
        by_choice=optimistic is not None and exact is not None,
    )  # fmt: skip


def _missing(
    mdp: MDP, columns: Lattice, tick: Callable[[int], None] | None, cluster: Cluster | None
) -> tuple[FloatArray, FloatArray, Sweep]:
    """Return every target z of a grid, J(z), and the sweep behind them."""
    z = columns.points(0)
    done = cost_sweep(mdp, columns, z - z[0], tick=tick, cluster=cluster)
    return z, done.root[: z.size], done
