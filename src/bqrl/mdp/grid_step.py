"""Finite models that bracket a problem with continuous states; made by `from_step` with `grid=`.

**With an order** (`monotone`). Let s' = f(s, a, e) and r = g(s, a, e). Orient every coordinate so that more never hurts: f and g
do not decrease in s, and the actions of s also exist above s. A coordinate without a sign must stay on its grid points (a finite
chain); two states are compared only if they agree in it. Let floor(s) round every coordinate to the grid towards the worse
side, and let "lost" lie below every state.

  Lower model: x' = floor(f(x, a, e)), reward g(x, a, e), "lost" if x' leaves the grid on the worse side. Let W be its smallest
  probability of ending short of a need n, and a(x, n) the action that attains it.
  (1) W falls with x and rises with n: by induction, the best action of x also exists in u >= x, and leads there to a state that
      is at least as good with a need that is at most as large. "lost" never reaches a need, so it is below all others.
  (2) The policy a(floor(s), n), with the true need n, ends short with probability at most W(floor(s), n) in the continuous
      problem: its action exists in s; floor(f(s, a, e)) >= floor(f(floor(s), a, e)) and n - g(s, a, e) <= n - g(floor(s), a, e);
      then the induction hypothesis and (1).
  Upper model: the same with ceil. For every policy of the continuous problem the probability of ending short is at least
  W_up(ceil(s), n): its action at s also exists in ceil(s), and the inequalities turn round. Leaving the grid on the better side
  leads to "won", which reaches every need.

(1) and (2) use only that the cost at the end rises with the need, so they hold for means and for CVaR as well. They do not say
that the law of the return of the policy is better than its law in the lower model: only its cost at its own target is. The
lower model must contain every grid point, because floor(s) need not be a state that the lower model itself can reach.

Rewards outside the grid. Without `reward_range` "lost" is a miss at every target and "won" reaches every target; quantiles and
chances are then still proven, means are not. With `reward_range=(low, high)`, which must hold in every state, "lost" pays
`low` per stage: the order in (1) needs a bound per reward, not a bound on the return of the states outside.

Returns without a lattice. The needs of the lower model use rewards that are rounded down, which keeps g monotone.

Continuous events are cut into cells (`bqrl.mdp.cells`). The lower model takes the worse end of a cell and the upper model the
better end; both are proven if f and g are monotone in the event, too. An infinite end leads to "lost" or "won".

**Without an order** (`lipschitz`). If |f(s, a, e) - f(u, a, e')| <= L |s - u| + L_e |e - e'|, and g has the constants K, K_e, the
policy follows the chain of rounded states that the real events drive. The distance from the true state is at most
d_0 = |start - its grid point|, d_{h+1} = L d_h + L_e c + rho, with c half a noise cell and rho the largest rounding error of a
step, so the returns of the two differ by at most eps = sum over h of discount^h (K d_h + K_e c), event by event. Hence the
optimum lies within eps of the optimum of the chain, and the policy attains the lower end. (The term K_e c is needed wherever the
reward depends on a continuous event.) All states must have the same actions, and the policy must learn the events. A run of the
chain that leaves the grid is lost in the lower and won in the upper model.

**Affine coordinates, for means and CVaR** (`affine`, with `lipschitz`). Let f and g be affine in coordinates x for every action
and event, and also in the event if it is continuous. The other coordinates stay on their grid points; neither they nor the
actions depend on x. The largest mean V_h is then convex in x, a maximum of affine functions, with slopes of at most lam_h = K +
discount L lam_{h+1}, lam_H = 0.

  Upper model: E V(f) <= E I V(f), where I interpolates between the grid points: a convex function lies below its chords. A next
  state between two grid points becomes a draw between the two with the same mean. A cell of events becomes a draw between its
  ends with the same mean. Beyond the grid, and in an infinite cell, the slope bounds what is missing.
  Lower model: the policy follows the chain of rounded states that the real events drive, as above. Given the chain, its return is
  affine in x with a slope of at most lam, so E V(x') over all events that lead from a row to grid point j is at least V(j)
  minus lam |b|, where b is the mean rounding error of these events; the mean event stands for a cell. The errors of a smooth law
  cancel almost completely, so that both ends converge with the square of the spacing.
  CVaR averages the cost max(n, 0) of the need n that is left over, which is not affine. Yet the two models differ from the truth
  by spreads of mean zero: the draws above, and below the events that lead from a row to one grid point, with their mean reward.
  A spread d of the return costs at most what the curvature of the cost allows, of the order of d^2 near n = 0 and nothing
  elsewhere. `bqrl.planners.affine` raises or lowers the cost by that much. The policy below counts the mean rewards, so that it
  knows nothing of the spreads; the policy above may know the draws, which only helps it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bqrl.checks import bad_value
from bqrl.errors import ModelError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.cells import Cells
from bqrl.mdp.model import MDP
from bqrl.mdp.step_function import StepFunction

LOST, GONE = -1, -2  # codes of the state that has left the grid, and of the state after its payment
SNAP = 1e-9  # a value this close to a grid point, relative to the spacing, is that point


class EveryState(MDP):
    """A model whose grids of returns cover every state, because the policy may meet states that the model cannot reach."""

    __slots__ = ()

    @classmethod
    def of(cls, mdp: MDP) -> EveryState:
        """Return the same model as one of this kind."""
        twin = cls.__new__(cls)
        twin._store(**mdp.__getstate__())
        return twin

    @property
    def reachable(self) -> BoolArray:
        """Every state counts as reachable at every stage, shape (H + 1, S)."""
        return np.ones((self.H + 1, self.S), bool)


@dataclass(frozen=True, eq=False, kw_only=True)
class GridModel:
    """A problem with continuous states between two finite models; made by `from_step` with `grid=`.

    `solve`, `guarantee_curve` and `simulate` accept it. A policy of its plans acts on continuous states: tuples in the order of
    `grid`; `actions[a]` is the action of index a.

    Attributes
    ----------
    lower, upper : MDP
        The finite models. With `lipschitz` they are one model, unless a state can leave the grid.
    grid : dict
        The grid points of every coordinate.
    error : ndarray of shape (H,)
        With `lipschitz`: by how much the discounted reward of each stage may differ from that of the chain; else 0.
    actions : tuple
        The actions as `step` receives them.

    Examples
    --------
    >>> import bqrl, numpy as np
    >>> def step(state, action, event):
    ...     (wealth,) = state
    ...     return (wealth * (1.0 + action * event),), 0.1 * wealth
    >>> grid = {"wealth": np.linspace(0.0, 4.0, 81)}
    >>> model = bqrl.from_step(step, [0.0, 0.5], {-0.3: 0.4, 0.4: 0.6}, 4, (1.0,), grid=grid, monotone={"wealth": 1})
    >>> model
    GridModel(81 grid points of wealth, H=4, monotone)
    """

    lower: MDP
    upper: MDP
    grid: dict[str, FloatArray]
    error: FloatArray
    function: StepFunction
    laws: list[Cells]
    H: int
    start: dict[tuple[float, ...], float]
    discount: float
    signs: FloatArray | None  # (d,) +1, -1, or 0 for a finite chain; None with `lipschitz`
    infinite: tuple[bool, bool]  # whether a miss (a win) outside the grid has no finite reward in the models
    ends: tuple[float, float]  # the returns of runs that stay on the grid lie between these
    invert: Callable[..., Any] | None = None
    build: Callable[..., GridModel]  # builds the same problem on another grid
    linear: BoolArray | None = None  # (d,) the coordinates of `affine`; None if it was not declared
    slopes: Any = None  # with `affine`: grid_affine.Slopes

    @property
    def actions(self) -> tuple[Any, ...]:
        """The actions as `step` receives them."""
        return self.function.actions

    @property
    def points(self) -> int:
        """Number of grid points."""
        return math.prod(points.size for points in self.grid.values())

    @cached_property
    def planned(self) -> MDP:
        """The lower model for the law of the return: with `monotone` its grids of returns cover every grid point."""
        if self.linear is not None:
            rule = "be omitted unless solve is called for Mean, CVaR or MeanCVaR"
            raise bad_value("affine", list(self.grid), rule, remedy="build the model without it")
        return self.lower if self.signs is None else EveryState.of(self.lower)

    @property
    def total_error(self) -> float:
        """By how much the return may differ from that of the chain of rounded states; 0 with `monotone`."""
        return float(self.error.sum())

    @property
    def rounded(self) -> BoolArray:
        """Which coordinates are rounded, so that a finer grid helps; the others are finite chains."""
        if self.signs is not None:
            return self.signs != 0
        return np.ones(len(self.grid), bool) if self.linear is None else self.linear

    def law(self, h: int) -> Cells:
        """Return the law of the event of stage `h`."""
        return self.laws[h if len(self.laws) > 1 else 0]

    @cached_property
    def _lookup(self) -> IntArray:
        """State of the lower model at every grid point, -1 if it has none."""
        table = np.full([points.size for points in self.grid.values()], -1)
        codes = np.array([code for code in self.lower.state_values or () if code[0] >= 0])
        at = [s for s, code in enumerate(self.lower.state_values or ()) if code[0] >= 0]
        table[tuple(codes.T)] = at
        return table

    def locate(self, states: Any) -> IntArray:
        """Return the states of the lower model for continuous states (n, d); -1 outside the grid."""
        given = np.asarray(states, float).reshape(-1, len(self.grid))
        side = "nearest" if self.signs is None else "down"
        signs = self.signs if self.linear is None else self.linear.astype(float)
        codes, out, _ = round_states(given, list(self.grid.values()), signs, side)
        out &= self.linear is None  # beyond the ends of an affine coordinate the chain stays at the end
        return np.where(out, -1, self._lookup[tuple(np.where(out[:, None], 0, codes).T)])

    def refined(self) -> GridModel:
        """Return the model on a grid with half the spacing, and with twice as many noise cells."""
        halved = {}
        for (name, points), moves in zip(self.grid.items(), self.rounded, strict=True):
            halved[name] = np.union1d(points, (points[1:] + points[:-1]) / 2.0) if moves else points
        return self.build(halved, 2)

    def __repr__(self) -> str:
        sizes = " x ".join(str(points.size) for points in self.grid.values())
        kind = "monotone" if self.signs is not None else f"lipschitz, error {self.total_error:.3g}"
        kind = kind if self.linear is None else "affine"
        return f"GridModel({sizes} grid points of {', '.join(self.grid)}, H={self.H}, {kind})"


def round_states(
    states: FloatArray, points: list[FloatArray], signs: FloatArray | None, side: str
) -> tuple[IntArray, BoolArray, FloatArray]:
    """Return grid indices (n, d), which states leave the grid on that side (n,), and the distances moved (n, d).

    `side` is "down" (towards the worse), "up" or "nearest". A coordinate of sign 0 must lie on a grid point.
    """
    codes, out = np.empty(states.shape, np.int64), np.zeros(len(states), bool)
    for j, p in enumerate(points):
        v, sign = states[:, j], 1.0 if signs is None else float(signs[j])
        right = np.clip(np.searchsorted(p, v), 1, p.size - 1)
        near = np.where(v - p[right - 1] <= p[right] - v, right - 1, right)
        snapped = np.abs(v - p[near]) <= SNAP * (p[right] - p[right - 1])
        if side == "nearest" or sign == 0.0:
            out |= (v < p[0] - (p[1] - p[0]) / 2.0) | (v > p[-1] + (p[-1] - p[-2]) / 2.0)
            if sign == 0.0 and not snapped.all():
                raise _not_on_grid(states[int((~snapped).argmax())], j)
            codes[:, j] = near
        elif (side == "down") == (sign > 0.0):
            codes[:, j] = np.where(snapped, near, np.searchsorted(p, v, side="right") - 1)
            out |= codes[:, j] < 0
        else:
            codes[:, j] = np.where(snapped, near, np.searchsorted(p, v))
            out |= codes[:, j] >= p.size
    inside = np.stack([p[np.clip(codes[:, j], 0, p.size - 1)] for j, p in enumerate(points)], axis=1)
    return codes, out, np.abs(inside - states)


def state_label(code: tuple[int, ...], points: list[FloatArray]) -> str:
    """Return a grid point as text."""
    return f"({', '.join(f'{p[i]:.6g}' for p, i in zip(points, code, strict=True))})"


def _not_on_grid(state: FloatArray, j: int) -> ModelError:
    return ModelError(
        f"a coordinate without a sign in monotone must stay on its grid points, got {state[j]:.6g} in coordinate {j + 1}; give "
        "it a sign, add the point to the grid or use lipschitz", name="grid",
    )  # fmt: skip
