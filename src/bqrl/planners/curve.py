"""Curves: the best value of every level, from one sweep; for continuous states from the curves of the two finite models."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from bqrl.checks import bad_type, bad_value, whole
from bqrl.display import Charted
from bqrl.laws.objectives import Buffered, CVaR, Objective, Quantile
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.unstored import StepModel
from bqrl.planners.cvar import CVaRCurve, cvar_curve, cvar_on_pairs
from bqrl.planners.earned import MAX_CURVE_WORK
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.room import MAX_BYTES, Room, check_room, exact_grid
from bqrl.planners.target import MAX_CELLS, GuaranteeCurve, choose_pairs, curve_on_pairs, curve_over
from bqrl.policies.on_grid import GridPolicy
from bqrl.policies.protocol import Policy

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)  # of the rows of a curve


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GridCurve(Charted):
    """Bounds on the best quantile, or CVaR, of every level for continuous states; made by `guarantee_curve`.

    Attributes
    ----------
    model : GridModel
        The problem.
    low, high : GuaranteeCurve or CVaRCurve
        The curves of its two finite models.

    Examples
    --------
    >>> import bqrl, numpy as np
    >>> def step(state, action, event):
    ...     return (state[0] + action * event,), action * event
    >>> grid = {"wealth": np.linspace(-2.0, 2.0, 41)}
    >>> model = bqrl.from_step(step, [0, 1], {-0.5: 0.1, 0.5: 0.9}, 3, (0.0,), grid=grid, monotone={"wealth": 1})
    >>> curve = bqrl.guarantee_curve(model)
    >>> curve(0.2), curve.upper(0.2)
    (1.0, 1.0)
    """

    model: GridModel
    low: GuaranteeCurve | CVaRCurve
    high: GuaranteeCurve | CVaRCurve

    def __call__(self, tau: float) -> float:
        """Return the proven lower end at level tau, which the policy attains; -inf if too many runs leave the grid."""
        value, model = float(self.low(tau)), self.model
        return -math.inf if model.infinite[0] and value < model.ends[0] - _slack(model) else value - model.total_error

    def upper(self, tau: float) -> float:
        """Return the proven upper bound at level tau; inf if too many runs leave the grid."""
        value, model = float(self.high.upper(tau)), self.model
        return math.inf if model.infinite[1] and value > model.ends[1] + _slack(model) else value + model.total_error

    def chance(self, target: float) -> tuple[float, float, Policy]:
        """Return the bounds on the best probability of reaching `target`, and the policy that attains the lower one."""
        low, high = target + self.model.total_error, target - self.model.total_error
        low = max(low, self.model.ends[0]) if self.model.infinite[0] else low
        high = min(high, self.model.ends[1]) if self.model.infinite[1] else high
        assert isinstance(self.low, GuaranteeCurve)
        assert isinstance(self.high, GuaranteeCurve)
        return self.low.chance(low)[0], self.high.chance(high)[1], self.low.policy_for(low)

    def policy(self, tau: float) -> GridPolicy:
        """Return a policy that attains the lower end at this level."""
        return GridPolicy(self.low.policy(tau), self.model)

    def rows(self) -> list[dict[str, float]]:
        """Return one row per level: the proven lower and upper end."""
        return [{"level": tau, "value": self(tau), "upper": self.upper(tau)} for tau in LEVELS]

    def __repr__(self) -> str:
        return f"GridCurve({self.model!r})"


def _slack(model: GridModel) -> float:
    """Return a tolerance for returns at the ends of what a run on the grid can pay."""
    return 1e-9 * max(1.0, abs(model.ends[0]), abs(model.ends[1]))


def curve_objective(goals: Iterable[Objective]) -> Callable[[float], Quantile | Buffered] | None:
    """Return what a curve shows on which all these objectives lie: Quantile or CVaR; None if there is none."""
    goals = list(goals)
    if all(isinstance(goal, Quantile) for goal in goals):
        return Quantile
    return CVaR if all(isinstance(goal, Buffered) and goal.beta == goal.tau for goal in goals) else None


@overload
def guarantee_curve(
    mdp: GridModel, objective: Callable[[float], Quantile | Buffered] = ..., *, points: int | None = ...,
    max_bytes: float = ..., keep: bool = ..., folder: str | Path | None = ..., precision: str = ..., cluster: Any = ...,
    tick: Callable[[int], None] | None = ...,
) -> GridCurve: ...  # fmt: skip
@overload
def guarantee_curve(
    mdp: MDP | StepModel | str, objective: type[Quantile] = ..., *, points: int | None = ..., max_bytes: float = ...,
    keep: bool = ..., folder: str | Path | None = ..., precision: str = ..., cluster: Any = ...,
    tick: Callable[[int], None] | None = ...,
) -> GuaranteeCurve: ...  # fmt: skip
@overload
def guarantee_curve(
    mdp: MDP | StepModel | str, objective: Callable[[float], Buffered], *, points: int | None = ..., max_bytes: float = ...,
    keep: bool = ..., folder: str | Path | None = ..., precision: str = ..., cluster: Any = ...,
    tick: Callable[[int], None] | None = ...,
) -> CVaRCurve: ...  # fmt: skip
@overload
def guarantee_curve(
    mdp: MDP | StepModel | str, objective: Callable[[float], Quantile | Buffered], *, points: int | None = ...,
    max_bytes: float = ..., keep: bool = ..., folder: str | Path | None = ..., precision: str = ..., cluster: Any = ...,
    tick: Callable[[int], None] | None = ...,
) -> GuaranteeCurve | CVaRCurve: ...  # fmt: skip
def guarantee_curve(
    mdp: MDP | GridModel | StepModel | str, objective: Callable[[float], Quantile | Buffered] = Quantile, *,
    points: int | None = None, max_bytes: float = MAX_BYTES, keep: bool = False, folder: str | Path | None = None,
    precision: str = "float64", cluster: Any = None, tick: Callable[[int], None] | None = None,
) -> GuaranteeCurve | CVaRCurve | GridCurve:  # fmt: skip
    """Return the best achievable quantile, or CVaR, of every level, with policies that attain it, from one sweep.

    If the action tables of a quantile curve do not fit into `max_bytes`, the sweep computes the values alone, and
    `curve.policy(tau)` computes a policy when it is asked for; the values and policies are the same.

    Without an exact grid of returns (a discount, rewards without a common step) the sweep runs twice, on returns rounded
    down and rounded up, and the curve is a proven bracket.

    Parameters
    ----------
    mdp : MDP, GridModel, StepModel or str
        The problem, or its name as for `solve`.
    objective : Quantile or CVaR
        What the curve shows at every level: `bqrl.Quantile` or `bqrl.CVaR`, without a level.
    points : int or None
        Size of the rounded grid; if given, it is used even if an exact grid fits.
    max_bytes : float
        Limit on the memory of a sweep.
    keep : bool
        Whether to keep the shortfalls of every stage, which `level_policy` requires.
    folder : str or Path or None
        A folder for checkpoints of large policies; without one they are kept in memory. Nothing is left there.
    precision : str
        "float64", or "float32" to store shortfalls in half the memory; `error`, and with it `certain` and `upper`, then
        include the larger rounding error.
    cluster : str or distributed.Client or None
        The address of a Dask scheduler, or a client of it: its workers share the sweep, and the curve and its policies have the
        same bits. `max_bytes` then limits each worker, and the actions of a policy on this machine. Trusted networks only.
    tick : callable or None
        Called with the index of each stage when it is finished.

    Returns
    -------
    GuaranteeCurve, CVaRCurve or GridCurve
        The curve; for continuous states a `GridCurve`, which holds proven bounds.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    >>> guarantee_curve(mdp)(0.5), guarantee_curve(mdp, CVaR)(0.5)
    (1.0, 0.5)
    """
    if objective not in (Quantile, CVaR):
        rule, got = "be bqrl.Quantile or bqrl.CVaR, without a level", getattr(objective, "__name__", None)
        raise bad_type("objective", objective, rule, got, remedy="use solve for others")
    averaged = objective is CVaR
    points = None if points is None else whole(points, "points", 2)
    if averaged:
        kept = {"keep": (keep, False), "folder": (folder, None), "precision": (precision, "float64")}
        for name, (value, default) in kept.items():
            if value != default:
                raise bad_value(name, value, "be omitted with CVaR", remedy="it serves quantile curves")
    room = check_room(max_bytes, folder, precision, cluster)
    if keep and room.cluster is not None:
        raise bad_value("keep", keep, "be False with a cluster", remedy="omit one of them")
    if isinstance(mdp, GridModel):
        if averaged and any(mdp.infinite):
            rule = "be given to from_step for a CVaR curve if states can leave the grid"
            raise bad_value("reward_range", None, rule, remedy="widen the grid or state bounds on the rewards")
        low = _curve_within(mdp.planned, points, room, averaged)
        high = low if mdp.upper is mdp.lower else _curve_within(mdp.upper, points, room, averaged)
        return GridCurve(model=mdp, low=low, high=high)
    mdp = mdp if isinstance(mdp, StepModel) else check_mdp(mdp)
    if isinstance(mdp, StepModel):
        if averaged:
            raise bad_type("mdp", mdp, "be an MDP for a CVaR curve", "a StepModel", remedy="build it with stored=True")
        return curve_over(mdp, points=points, room=room, keep=keep, tick=tick)
    pairs = None if keep else choose_pairs(mdp, None, points, room, averaged=averaged)
    if pairs is not None and pairs.moves * pairs.returns.size <= MAX_CURVE_WORK:
        return cvar_on_pairs(pairs) if averaged else curve_on_pairs(pairs)
    if averaged:
        return cvar_curve(mdp, points=points, room=room, tick=tick)
    return curve_over(mdp, points=points, room=room, keep=keep, tick=tick)


def _curve_within(mdp: MDP, points: int | None, room: Room, averaged: bool) -> GuaranteeCurve | CVaRCurve:
    """Return the curve on an exact grid of moderate size, else on as many rounded returns as MAX_CELLS allows."""
    exact = exact_grid(mdp, room.max_bytes, or_rounded=True) if points is None else None
    if points is None and (exact is None or mdp.S * int(exact.size[0]) > 4 * MAX_CELLS):
        points = int(min(BRACKET_POINTS, max(200, MAX_CELLS // mdp.S)))
    curve = cvar_curve if averaged else curve_over
    return curve(mdp, points=points, room=room, or_rounded=True)
