"""Quantile planning by tracking the amount still needed: the exact planner, for every tau at once.

On a finite support Q_tau(G) >= x exactly when P(G < x) < tau. Let W_h(s, n) be the smallest probability, over all
history-dependent policies, of collecting less than n from stage h on:

    W_H(s, n) = 1{n > 0},    W_h(s, n) = min_a sum_{s'} P_h(s' | s, a) W_{h+1}(s', n - r_h(s, a)).

One sweep gives W_0(start, x) for every x, hence the best quantile x*(tau) = max{x : W_0(start, x) < tau} for every tau
together with a policy that acts on (stage, state, remaining need). All terms are nonnegative, so the relative error of W
is at most gamma = 2 H (k + 2) 2^-53: a target is certainly reached if W (1 + gamma) < tau and certainly missed if
W (1 - gamma) >= tau.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from bqrl.checks import bad_value, number, numbers
from bqrl.display import Charted
from bqrl.errors import ArgumentError, SizeError
from bqrl.laws.law import MASS_TOL, Law, Margin
from bqrl.laws.objectives import Quantile, check_levels
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import MAX_POINTS, MAX_SET, cut_to_possible, lattice, returns_grid, rounded_grid
from bqrl.mdp.grid import Grid, Lattice, freeze
from bqrl.mdp.model import MDP
from bqrl.mdp.unstored import StepModel
from bqrl.planners.cluster import Cluster
from bqrl.planners.earned import MetPairs, met_pairs, search_target
from bqrl.planners.evaluate import BRACKET_POINTS, law_bracket
from bqrl.planners.expected import is_settled, risk_neutral
from bqrl.planners.facts import Bracketed, Fact, NeutralWins, StoredInSingle, Tied
from bqrl.planners.on_demand import SINGLE, OnDemand, narrows, stage_line, values_first
from bqrl.planners.options import Folder, Gap, MaxBytes, Pairs, Points, Precision, Tick
from bqrl.planners.plan import Plan, equal_values
from bqrl.planners.room import MAX_BYTES, Room, check_memory, check_room
from bqrl.planners.sweep import Sweep, best_column, rounding_error, sweep, sweep_bytes, sweep_work
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.forward import push_forward
from bqrl.policies.levels import QuantileLevelPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy

MAX_CELLS = 20_000_000  # states times rounded returns of a finite model of continuous states
MAX_MOVES = 2e7  # of one stage of a plan on pairs
QUICK_MOVES = 1e6  # the same where a bracket is the alternative: enumerating in vain costs a fraction of a second
LARGE_WORK = 2e9  # of a sweep on an exact grid from which pairs are tried first: several seconds
QUICK_BYTES = 2e6  # of a sweep that is neither forecast nor shared: it takes a fraction of a second
QUICK_CURVE = 2e8  # moves times targets up to which the whole curve is computed beside a plan


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LevelCurve(Charted):
    """What the curves of quantiles and of CVaR have in common: the possible returns, and the sweep behind the curve."""

    mdp: MDP | StepModel
    points: FloatArray
    sweep: Sweep | OnDemand | MetPairs
    error: float
    optimistic: tuple[FloatArray, FloatArray] | None = None
    by_choice: bool = False

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, freeze(getattr(self, one.name)))
        if isinstance(self.sweep, Sweep):
            object.__setattr__(self, "sweep", self.sweep.frozen())

    @property
    def exact(self) -> bool:
        """Whether values are exact rather than bracketed."""
        return self.optimistic is None

    @property
    def cluster(self) -> Cluster | None:
        """The workers that computed the curve."""
        return getattr(self.sweep, "cluster", None)

    @property
    def work(self) -> int:
        """Number of elementary steps of one pass for one policy."""
        if isinstance(self.sweep, MetPairs):
            return self.sweep.moves
        if isinstance(self.mdp, StepModel):
            return int(self.mdp.count @ self.sweep.grid.size) * self.mdp.max_outcomes
        return sweep_work(self.mdp, self.sweep.grid) // self.mdp.A

    def __call__(self, tau: float | FloatArray) -> Any:
        """Return the best value at level(s) tau in (0, 1]."""
        levels = np.asarray(check_level(tau) if np.isscalar(tau) else numbers(tau, "tau"))
        if not np.all((levels > 0.0) & (levels <= 1.0)):
            raise bad_value("tau", tau, "be in (0, 1]")
        best = self._cut(self._values(levels))
        return float(best) if levels.ndim == 0 else best

    def _values(self, levels: FloatArray) -> FloatArray:
        raise NotImplementedError

    def _cut(self, values: FloatArray) -> FloatArray:
        """Return the values cut to the possible returns; the values of an exact curve are possible already."""
        if self.exact:
            return values
        assert isinstance(self.mdp, MDP)  # a StepModel has an exact grid
        return cut_to_possible(self.mdp, values)

    def plan(self, tau: float) -> Plan:
        """Return the plan at this level; its policy is evaluated in the problem itself."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GuaranteeCurve(LevelCurve):
    """The best achievable tau-quantile for every tau; made by `guarantee_curve`.

    `curve(tau)` is the value at a level or at an array of levels, in the unit of the rewards, and `curve.policy(tau)` a policy
    that attains it. If the problem has no exact grid of returns (`curve.exact` is False), values are proven lower bounds and
    `curve.upper(tau)` gives proven upper bounds. The arrays are read-only.

    Attributes
    ----------
    mdp : MDP
        The problem.
    points : ndarray of shape (m,)
        The possible returns x in increasing order.
    shortfall : ndarray of shape (m,)
        W_0(start, x): the smallest probability of a return below x over all policies.
    sweep : Sweep, OnDemand or MetPairs
        The sweep behind the curve: on a grid, with its action tables or with policies computed on demand, or over the pairs
        that can be met.
    error : float
        Bound on the relative rounding error of `shortfall`.
    optimistic : tuple of two ndarrays or None
        Points and shortfalls of the sweep on returns rounded up; None if the curve is exact.
    by_choice : bool
        Whether the curve is bracketed because `points` was given although an exact grid fits.
    precision : str
        "float32" if the shortfalls were stored in 32 bits; `error` then includes it, and values are proven lower bounds.

    Examples
    --------
    >>> import bqrl
    >>> curve = bqrl.guarantee_curve(bqrl.envs.make("SafeOrRisky"))
    >>> curve(0.1), curve([0.05, 0.5]).tolist(), curve.policy(0.1).target
    (12.0, [11.0, 18.0], 12.0)
    """

    shortfall: FloatArray
    precision: str = "float64"

    def _values(self, levels: FloatArray) -> FloatArray:
        """Return the best quantiles; at level 1, the highest return that some policy can reach."""
        return self.points[best_column(self._proven, levels)]

    @property
    def _proven(self) -> FloatArray:
        """The shortfalls; proven upper bounds on them if they were stored in 32 bits, which may round a tie down."""
        return self.shortfall * (1.0 + self.error) if self.precision == "float32" else self.shortfall

    def upper(self, tau: float) -> float:
        """Return a proven upper bound on the best quantile, with an allowance for rounding errors.

        Parameters
        ----------
        tau : float
            The level.

        Returns
        -------
        float
            The bound; the value itself if the curve is exact and the value certain.
        """
        tau, (points, shortfall) = check_level(tau), self.optimistic or (self.points, self.shortfall)
        open_still = np.flatnonzero(np.maximum.accumulate(shortfall) * (1.0 - self.error) < tau)
        return max(self.ceiling(tau), float(self._cut(points[open_still[-1]])))

    def ceiling(self, tau: float) -> float:
        """Return the upper bound without the allowance for rounding errors; it converges to the value on finer grids.

        Ties are decided by MASS_TOL, as everywhere else.
        """
        tau, (points, shortfall) = check_level(tau), self.optimistic or (self.points, self.shortfall)
        return max(float(self(tau)), float(self._cut(points[best_column(shortfall, tau)])))

    def margin(self, tau: float) -> Margin:
        """Return the distances of the level from the shortfalls of the best target x* and of the next higher target x'.

        Each shortfall belongs to the best policy for its target, whereas `Plan.policy_margin` refers to one policy.

        Parameters
        ----------
        tau : float
            The level.

        Returns
        -------
        Margin
            `below` = tau - W(x*) and `above` = W(x') - tau, or 1 - tau if x* is the highest return.
        """
        tau = check_level(tau)
        i, shortfall = int(best_column(self._proven, tau)), self._proven
        following = shortfall[i + 1] if i + 1 < self.points.size else 1.0
        return Margin(tau - float(shortfall[i]), float(following) - tau)

    def certain(self, tau: float) -> bool:
        """Return True if rounding errors cannot have changed the answer at this level."""
        tau = check_level(tau)
        reached = bool(self.shortfall[best_column(self.shortfall, tau)] * (1.0 + self.error) < tau)
        return reached and self.upper(tau) == self.ceiling(tau)

    def policy(self, tau: float) -> TargetPolicy | EarnedPolicy:
        """Return a policy that attains the best quantile at this level."""
        return self.policy_for(float(self.points[best_column(self._proven, check_level(tau))]))

    def policy_for(self, target: float) -> TargetPolicy | EarnedPolicy:
        """Return the policy with the smallest probability of a return below `target`; ties are broken by the mean."""
        return self.sweep.policy(number(target, "target"))

    def chance(self, target: float) -> tuple[float, float]:
        """Return proven bounds on the best probability of reaching `target`, for a curve on a grid."""
        assert not isinstance(self.sweep, MetPairs)
        short = float(self.sweep.root[int(self.sweep.grid.column(0, target))]) * (1.0 + self.error)
        points, shortfall = self.optimistic or (self.points, self.shortfall)
        place = int(np.searchsorted(points, target - 1e-12 * max(1.0, abs(target))))
        least = float(shortfall[place]) if place < points.size else 1.0
        return max(0.0, 1.0 - short), 1.0 - least * (1.0 - self.error)

    def plan(self, tau: float) -> Plan:
        """Return the plan at this level, as that of `solve(mdp, tau)`."""
        return plan_from_curve(self, check_level(tau))

    def level_policy(self, tau: float) -> QuantileLevelPolicy:
        """Return a policy with the same quantile in the paper's scalar form; requires a curve made with `keep=True`."""
        if not isinstance(self.sweep, Sweep) or not isinstance(self.sweep.values, tuple):
            raise ArgumentError(
                "level_policy requires the shortfalls of every stage, got the first only; make the curve with keep=True",
                name="keep",
                value=False,
            )
        targets = self.policy(tau)
        assert isinstance(targets, TargetPolicy)
        return QuantileLevelPolicy(targets, self.sweep.values, tau, self.margin(tau).below)

    @property
    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Levels and values of the curve's steps: values[i] is the best quantile for tau in (levels[i], levels[i+1]]."""
        levels, values = best_steps(self.points, self._proven)
        values = self._cut(values)
        first = np.r_[True, np.diff(values) > 0.0]  # several targets may be cut to one possible return
        return levels[first], values[first]

    def rows(self) -> list[dict[str, float]]:
        """Return one row per step: `value` is the best quantile for levels above `level_above`."""
        return [{"level_above": float(a), "value": float(b)} for a, b in zip(*self.steps, strict=True)]

    def __repr__(self) -> str:
        levels, values = self.steps
        kind = "exact" if self.exact else "bracketed"
        return f"GuaranteeCurve({levels.size} steps from {values[0]:.6g} to {values[-1]:.6g}, {kind})"


def check_level(tau: Any) -> float:
    """Return `tau` as a level in (0, 1]."""
    return number(tau, "tau", 0.0, 1.0, "(]")


def best_steps(points: FloatArray, shortfall: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the levels and values of `GuaranteeCurve.steps`, from the shortfall of every target."""
    grown = np.maximum.accumulate(shortfall)
    last = np.r_[np.diff(grown) > MASS_TOL, True]  # the highest of several targets with the same shortfall
    return grown[last], points[last]


def plan_target(
    mdp: MDP | StepModel, tau: float, *, points: Points = None, gap: Gap = None, pairs: Pairs = None,
    max_bytes: MaxBytes = MAX_BYTES, folder: Folder = None, precision: Precision = "float64", cluster: Any = None,
    tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the best policy for the tau-quantile; without an exact grid, a bracket on `points` points or of width `gap`.

    `pairs` True plans on the pairs of a state and an amount earned that can be met, and False never does; by default this is
    done where they are few and no exact grid fits. `folder`, `precision` and `cluster` are those of `guarantee_curve`.
    """
    tau, _ = check_levels(tau)
    by_default = (points, pairs, folder, cluster, precision) == (None, None, None, None, "float64")
    curve = quick_curve(mdp, max_bytes, tick) if by_default and isinstance(mdp, MDP) else None
    if curve is None:
        room = check_room(max_bytes, folder, precision, cluster)
        curve = curve_at(mdp, tau, points=points, gap=gap, pairs=pairs, room=room, tick=tick)
    return plan_from_curve(curve, tau)


def quick_curve(mdp: MDP, max_bytes: float, tick: Callable[[int], None] | None) -> GuaranteeCurve | None:
    """Return the curve by one sweep on the exact grid, the ordinary case; None if there is none or it is not small."""
    grid = returns_grid(mdp, MAX_POINTS, MAX_SET)
    if grid is None or sweep_bytes(mdp, grid) > min(max_bytes, QUICK_BYTES) or sweep_work(mdp, grid) >= LARGE_WORK:
        return None
    done = sweep(mdp, grid, tick=tick)
    return GuaranteeCurve(
        mdp=mdp, points=grid.points(0), shortfall=done.root[:-1], sweep=done, error=rounding_error(mdp)
    )


def plan_from_curve(curve: GuaranteeCurve, tau: float) -> Plan:
    """Return the plan at one level; its policy is evaluated in the problem itself."""
    policy: Policy = curve.policy(tau)
    if isinstance(policy, TargetPolicy) and isinstance(curve.sweep, Sweep) and curve.exact:
        assert isinstance(curve.mdp, MDP)  # a model without a table is never swept with its tables
        return _exact_plan(curve, tau, policy, Law(*push_forward(curve.mdp, policy, curve.sweep.grid)))
    law, law_upper = law_bracket(curve.mdp, policy, cluster=curve.cluster)
    if curve.exact:
        return _exact_plan(curve, tau, policy, law)
    assert not isinstance(curve.sweep, MetPairs)  # pairs are exact
    assert isinstance(curve.mdp, MDP)  # and so is the grid of a StepModel
    proven = law.quantile(tau) if law_upper is None else curve(tau)
    neutral, mean_law, mean_upper = risk_neutral(curve.mdp, int(curve.points.size), curve.cluster)
    if mean_law.quantile(tau) > proven:  # possible on a coarse grid, whose bounds are loose
        policy, law, law_upper, proven = neutral, mean_law, mean_upper, mean_law.quantile(tau)
    value = max(proven, law.quantile(tau))
    error = 0.0 if law_upper is None else curve.sweep.grid.error
    notes: list[Fact] = [Bracketed(points=curve.points.size, by_choice=curve.by_choice, law_error=error)]
    if policy is neutral:
        notes.append(NeutralWins())
    certain = curve.certain(tau) and (policy is not neutral or is_settled(law, tau, 0.0, curve.error))
    if not certain:
        notes.append(Tied())
    notes += _stored_in_single(curve)
    return Plan(
        objective=Quantile(tau), planner="target", policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(curve.upper(tau), value), nominal=value, certain=certain, exact=False, facts=tuple(notes),
        mdp=curve.mdp, units=curve.mdp.units, details={"curve": curve},
    )  # fmt: skip


def _exact_plan(curve: GuaranteeCurve, tau: float, policy: Policy, law: Law) -> Plan:
    value = law.quantile(tau)
    certain = curve.certain(tau) and value == float(curve(tau))
    upper = value if certain else max(value, curve.upper(tau))
    certain = certain or equal_values(value, upper, law)  # the tied targets are equal up to rounding
    notes = () if certain else (Tied(decidable=curve.mdp.discount == 1.0),)
    details: dict[str, Any] = {"curve": curve}
    if isinstance(curve.sweep, MetPairs):
        known = details if curve.points.size == curve.sweep.returns.size else {}  # a part of the curve is not shown
        details = known | {"pairs": curve.sweep.count}
    return Plan(
        objective=Quantile(tau), planner="target", policy=policy, law=law, value=value, upper=upper, nominal=value,
        certain=certain, exact=True, mdp=curve.mdp if isinstance(curve.mdp, MDP) else None, units=curve.mdp.units,
        facts=(*notes, *_stored_in_single(curve)), details=details,
    )  # fmt: skip


def _stored_in_single(curve: GuaranteeCurve) -> list[Fact]:
    """Return the note on shortfalls that were stored in 32 bits."""
    return [StoredInSingle(error=curve.error)] if curve.precision == "float32" else []


# -- other ways: a rounded grid, pairs that can be met, values first, workers ------------------------------------------------


def curve_at(
    mdp: MDP | StepModel, tau: float, *, points: int | None = None, gap: float | None = None, pairs: bool | None = None,
    room: Room, tick: Callable[[int], None] | None = None,
) -> GuaranteeCurve:  # fmt: skip
    """Return the curve of `plan_target`; over many pairs only the points that decide at this level."""
    met = choose_pairs(mdp, pairs, points, room)
    if met is not None:
        return curve_on_pairs(met, None if met.moves * met.returns.size <= QUICK_CURVE else tau)
    curve = curve_over(mdp, points=points, room=room, tick=tick, or_rounded=gap is not None)
    while not curve.exact and gap is not None and (width := curve.ceiling(tau) - curve(tau)) > gap:
        curve = curve_over(mdp, points=finer_size(curve.points.size, width / gap), room=room, tick=tick)
    return curve


def finer_size(points: int, excess: float) -> int:
    """Return the size of the next grid if a bracket is `excess` times too wide; widths are proportional to 1 / size."""
    return int(np.ceil(points * min(max(1.2 * excess, 1.5), 8.0)))


def choose_pairs(
    mdp: MDP | StepModel, wanted: bool | None, points: int | None, room: Room, *, averaged: bool = False
) -> MetPairs | None:
    """Return the pairs that can be met if they are to be used instead of a grid, else None.

    `wanted` True requires them and False forbids them. None uses them if they are few and either no exact grid fits into
    memory or the sweep on it would be far more work. With `averaged` the planner requires a lattice; otherwise any exact grid
    serves. Pairs require a stored model, and their probabilities have 64 bits.
    """
    if room.single or isinstance(mdp, StepModel):
        if wanted:
            remedy = "omit precision" if room.single else "build it with stored=True"
            raise bad_value(
                "pairs", True, f"be omitted {'with float32' if room.single else 'for a StepModel'}", remedy=remedy
            )
        return None
    if wanted is False or (wanted is None and points is not None):
        return None
    if averaged:
        room = replace(room, max_bytes=room.max_bytes / 2)  # needs above the highest return double the columns
    exact: Grid | None = lattice(mdp) if averaged else returns_grid(mdp, MAX_POINTS, MAX_SET)
    limit: float = MAX_MOVES
    if wanted is None:
        work = 0 if exact is None else sweep_work(mdp, exact)
        if exact is None:
            limit = QUICK_MOVES
        elif room.tables_fit(mdp, exact) or (not averaged and room.values_fit(mdp, exact)):
            limit = min(MAX_MOVES, work / 1000)
            if work < LARGE_WORK:
                return None
    found = met_pairs(mdp, limit, room.max_bytes)
    if found is None and wanted:
        raise SizeError(
            f"pairs=True requires at most {MAX_MOVES:.0e} moves per stage within max_bytes={room.max_bytes:.2g} and rewards that "
            "rounding errors do not blur, got more moves or closer rewards; omit pairs", needed=MAX_MOVES, limit=MAX_MOVES,
            name="pairs",
        )  # fmt: skip
    return found


def curve_on_pairs(pairs: MetPairs, tau: float | None = None) -> GuaranteeCurve:
    """Return the whole curve over the pairs, or only the points that decide at the level `tau`."""
    error = rounding_error(pairs.mdp)
    found = (pairs.returns, pairs.shortfalls(pairs.returns)) if tau is None else search_target(pairs, tau, error)
    return GuaranteeCurve(mdp=pairs.mdp, points=found[0], shortfall=found[1], sweep=pairs, error=error)


def curve_over(
    mdp: MDP | StepModel, *, points: int | None, room: Room, keep: bool = False, tick: Callable[[int], None] | None = None,
    half: FloatArray | None = None, or_rounded: bool = False,
) -> GuaranteeCurve:  # fmt: skip
    """Return the curve of `guarantee_curve`, or with `half` (see `sweep`) the optimistic curve over l1 balls.

    With `or_rounded` the curve is a bracket if the exact grid does not fit into memory.
    """
    stored = isinstance(mdp, MDP)
    for name, given, default in (("points", points, None), ("keep", keep, False)):
        if given != default and not stored:
            raise bad_value(name, given, "be omitted for a StepModel", remedy="build it with stored=True")
    plain = half is None and not keep  # otherwise the tables of all stages are needed
    exact, optimistic = returns_grid(mdp, MAX_POINTS, MAX_SET) if isinstance(mdp, MDP) else mdp.grid, None
    if exact is not None and stored and (or_rounded or points is not None):
        fitting = room.tables_fit(mdp, exact) or (plain and (room.values_fit(mdp, exact) or room.cluster is not None))
        exact = exact if fitting else None
    columns: Grid
    if exact is not None and points is None:
        columns = exact
    else:
        assert isinstance(mdp, MDP)
        columns, high = (rounded_grid(mdp, points or BRACKET_POINTS, up=up) for up in (False, True))
    if plain:
        room.check(mdp, columns)
    else:
        assert isinstance(mdp, MDP)
        check_memory(mdp, columns, room.max_bytes)
    shared = room.cluster if plain else None
    if columns is not exact:
        assert isinstance(mdp, MDP)
        if half is None and narrows(mdp, high):
            root = values_first(mdp, high, max_bytes=room.max_bytes, precision=room.precision, cluster=shared).root
        else:
            root = sweep(mdp, high, policy=False, half=half, cluster=shared).root
        optimistic = high.points(0), root[:-1]
    done: Sweep | OnDemand
    with stage_line(mdp, columns, tick) as say:
        lean = shared is not None and narrows(mdp, columns)
        if isinstance(columns, Lattice) and (lean or (plain and shared is None and not room.tables_fit(mdp, columns))):
            done = values_first(
                mdp, columns, max_bytes=room.max_bytes, folder=room.folder, precision=room.precision, cluster=shared,
                tick=say,
            )  # fmt: skip
        else:
            assert isinstance(mdp, MDP)  # a model without a table is never swept with its tables
            done = sweep(mdp, columns, keep=keep, tick=say, half=half, cluster=shared)
    error = rounding_error(mdp) + (1.001 * mdp.H * SINGLE if room.single else 0.0)
    return GuaranteeCurve(
        mdp=mdp, points=columns.points(0), shortfall=done.root[:-1], sweep=done, error=error, optimistic=optimistic,
        by_choice=optimistic is not None and exact is not None, precision=room.precision,
    )  # fmt: skip
