"""Planning for the buffered quantile, with a certificate.

For a law of returns G (design of the target planner; z is a target, d = z - y a width):

    beta * Q^beta_tau(G) = max_z min_{d >= 0} { beta z + (tau - beta) d - E[clip(z - G, 0, d)] }.

For one width d a sweep with terminal cost clip(n, 0, d) gives J_d(z) = min over policies of E[clip(z - G, 0, d)] for all
targets z at once, so F(z, d) = beta z + (tau - beta) d - J_d(z) bounds every policy, and

    U = max_z min_d F(z, d) / beta

is an upper bound on the optimum for any set of widths. F(z, .) is convex, being a maximum of functions that are linear
between lattice widths. With real widths U is exactly the optimum over randomized policies (minimax), attained by one
coin at the start between at most two target policies with the same z. The search below moves to the target with the
largest bound, narrows its minimum over lattice widths, then intersects supporting lines in the cells beside it.

L is the exact buffered quantile of the best deterministic policy met on the way: the policy that attains U's (z, d) may
itself score far below U, so every candidate is evaluated. At width 0 the sweep is identically zero, and up to one step
J_d = d W: the policy of W serves there. A buffer no wider than the margin tau - W_0(x*) changes nothing: the optimum is
then the point quantile itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqrl.kernels.tolerance import MASS_TOL
from bqrl.laws.functionals import reaches
from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.lattice import Grid, lattice, rounded
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MixturePolicy, Policy, TargetPolicy
from bqrl.planners.branch import MAX_NODES, begin
from bqrl.planners.derandomize import without_coin
from bqrl.planners.evaluate import BRACKET_POINTS, evaluate
from bqrl.planners.plan import GAP_TOL, Plan, check_levels, level_error
from bqrl.planners.sweep import OPTIMISTIC, Sweep, rounding_error, sweep
from bqrl.planners.target import (
    MAX_BYTES,
    as_law,
    check_memory,
    finer,
    guarantee_curve,
    plan_from_curve,
    risk_neutral,
    sweep_bytes,
)

LINE_TOL = 1e-12  # bounds closer than this, relative to the returns' size, count as equal in the search


@dataclass(slots=True, eq=False)
class Found:
    """A policy met in the search and the exact law of its return."""

    policy: TargetPolicy
    law: Law


@dataclass(slots=True, eq=False)
class WidthSearch:
    """Bounds F(z, d) for the widths swept so far, and the policies met; distances in steps of the lattice."""

    mdp: MDP
    grid: Grid
    tau: float
    beta: float
    half: FloatArray | None = None
    sense: float = OPTIMISTIC
    evaluated: MDP | None = None  # where policies are scored; the problem itself unless rewards are rounded
    max_bytes: int = MAX_BYTES  # of the action tables kept; a policy whose table is gone is swept for again
    sweeps: dict[float, Sweep] = field(default_factory=dict)
    found: dict[tuple[float, int], Found] = field(default_factory=dict)

    @property
    def targets(self) -> FloatArray:
        """Every lattice target z."""
        return self.grid.points(0)

    def bound(self, d: float) -> FloatArray:
        """F(z, d) / beta for every target; d in steps."""
        z = self.targets
        if d == 0.0:
            return z
        if d not in self.sweeps:
            self.sweeps[d] = self._sweep(d)
            self._forget()
        shortfall = self.sweeps[d].root[: z.size]
        step = self.grid.step
        return z + ((self.tau - self.beta) * d - shortfall) * (step / self.beta)

    def _sweep(self, d: float) -> Sweep:
        extra = max(1, int(np.ceil(d)))
        cost = np.minimum(np.arange(extra + 1.0), d)
        return sweep(self.mdp, self.grid, cost, extra=extra, half=self.half, sense=self.sense)

    def _forget(self) -> None:
        """Drop the oldest action tables beyond `max_bytes`; the bounds stay."""
        held = 0
        for d, done in reversed(self.sweeps.items()):
            if done.actions is not None:
                held += sum(table.nbytes for table in done.actions)
                if held > self.max_bytes:
                    self.sweeps[d] = replace(done, actions=None)

    def policy(self, d: float, column: int) -> Found:
        """The policy that attains J_d(z) at the target of `column`, with its law."""
        d = max(d, 1.0)  # below one step J_d = d W
        if (d, column) not in self.found:
            self.bound(d)
            done = self.sweeps[d] if self.sweeps[d].actions is not None else self._sweep(d)
            assert done.actions is not None
            policy = TargetPolicy(self.grid, done.actions, float(self.targets[column]), done.extra)
            law = as_law(evaluate(self.evaluated or self.mdp, policy))
            self.found[d, column] = Found(policy, law)
        return self.found[d, column]

    def line(self, law: Law, column: int, d: FloatArray | float) -> FloatArray:
        """F_pi(z, d) / beta of one law: a lower bound on F(z, .), linear between lattice widths."""
        z = float(self.targets[column])
        widths = np.atleast_1d(np.asarray(d, dtype=np.float64)) * self.grid.step
        short = np.clip(z - law.values[None, :], 0.0, widths[:, None]) @ law.probabilities
        return z + ((self.tau - self.beta) * widths - short) / self.beta

    def upper(self) -> tuple[float, int, float]:
        """U, its target column and its width, once the search has settled."""
        size = max(1.0, float(np.abs(self.targets[[0, -1]]).max()))
        longest = float(self.targets.size - 1)
        for start in (longest, 1.0):
            if start > 0:
                self.bound(start)
        while True:
            widths = sorted({0.0, *self.sweeps})
            table = np.array([self.bound(d) for d in widths])
            best_width = table.argmin(axis=0)
            ceiling = table.min(axis=0)
            column = int(ceiling.argmax())
            w = int(best_width[column])
            following = self._next_width(widths, table[:, column], w, column)
            if following is None:
                following = self._cut(widths, column, w, LINE_TOL * size)
            if following is None:
                return float(ceiling[column]), column, widths[w]
            self.bound(following)

    def _next_width(self, widths: list[float], values: FloatArray, w: int, column: int) -> float | None:
        """A lattice width inside the wider interval beside the minimum, or None once both neighbours are known."""
        whole = [(d, v) for d, v in zip(widths, values, strict=True) if d == int(d)]
        d0 = widths[w]
        left = max((d for d, _ in whole if d < d0), default=None)
        right = min((d for d, _ in whole if d > d0), default=None)
        top = float(column)  # a width beyond z - lowest changes nothing
        choices = []
        if left is not None and np.ceil(d0) - left > 1:
            choices.append((d0 - left, left, d0))
        if right is not None and right - np.floor(d0) > 1 and d0 < top:
            choices.append((right - d0, d0, min(right, top + 1)))
        for _, lo, hi in sorted(choices, reverse=True):
            middle = (
                float(np.floor((lo + hi) / 2))
                if lo >= 4 or hi - lo <= 4
                else max(np.floor(np.sqrt((lo + 1) * hi)), lo + 1)
            )
            for d in (float(middle), float(np.floor(lo)) + 1.0):
                if lo < d < hi and d not in self.sweeps:
                    return d
        return None

    def _cut(self, widths: list[float], column: int, w: int, tol: float) -> float | None:
        """The lowest point of the supporting lines in the cells beside the minimum, or None once it is attained."""
        d0 = widths[w]
        cells = {float(np.floor(d0)), float(np.ceil(d0)) - 1.0}
        current = float(self.bound(d0)[column])
        lowest, place = np.inf, d0
        for cell in sorted(c for c in cells if 0.0 <= c < max(self.targets.size - 1, 1)):
            ends = np.array([cell, cell + 1.0])
            swept = [d for d in widths if cell <= d <= cell + 1.0]
            laws = [self.policy(d, column).law for d in swept]
            lines = np.array([self.line(law, column, ends) for law in laws])
            d, value = _lowest_of_lines(ends, lines)
            if value < lowest:
                lowest, place = value, d
        if lowest >= current - tol or place in self.sweeps or any(abs(place - d) < 1e-9 for d in widths):
            return None
        return place


def _lowest_of_lines(ends: FloatArray, lines: FloatArray) -> tuple[float, float]:
    """Where in a cell the maximum of lines, each given by its values at both ends, is lowest, and that value."""
    candidates = [0.0, 1.0]
    for i in range(len(lines)):
        for j in range(i):
            slopes = (lines[i, 1] - lines[i, 0]) - (lines[j, 1] - lines[j, 0])
            if slopes != 0.0:
                t = (lines[j, 0] - lines[i, 0]) / slopes
                if 0.0 < t < 1.0:
                    candidates.append(float(t))
    t = np.array(candidates)
    envelope = (lines[:, :1] * (1 - t) + lines[:, 1:] * t).max(axis=0)
    best = int(envelope.argmin())
    return float(ends[0] + t[best]), float(envelope[best])


def plan_buffered(
    mdp: MDP,
    tau: float,
    beta: float,
    *,
    randomized: bool = False,
    exact: bool = False,
    points: int | None = None,
    gap: float | None = None,
    max_nodes: int = MAX_NODES,
    max_bytes: int = MAX_BYTES,
    tick: Callable[[int], None] | None = None,
) -> Plan:
    """The best policy for the buffered quantile, with a proven upper bound.

    `randomized` returns the two-policy mix whose value is the upper bound; `exact` proves the best deterministic policy
    (up to `gap`, where one is given): where the policy found falls short of the bound, first by a policy that lets chance
    within the problem play the coin, then by branching over histories, at most `max_nodes` times. Without a lattice the
    plan is a bracket, on `points` points or of width `gap`.
    """
    begun = time.perf_counter()
    tau, beta = check_levels(tau, beta)
    if gap is not None and not gap > 0.0:
        raise ValueError(f"gap must be positive, got {gap}")
    columns = lattice(mdp) if points is None else None
    if columns is not None and sweep_bytes(mdp, columns) > max_bytes // 2:  # wide buffers double the columns
        columns = None
    if columns is None:
        if randomized or exact:
            asked = "randomized" if randomized else "exact"
            raise ValueError(f"{asked}=True needs returns on a lattice; this problem has none of a fitting size")
        size = points or BRACKET_POINTS
        plan = _bracket(mdp, tau, beta, size, max_bytes)
        while gap is not None and (width := plan.gap or 0.0) > gap:
            growth = finer(size, width / gap) / size
            size = finer(size, width / gap)
            finer_plan = _bracket(mdp, tau, beta, size, max_bytes)
            upper = min(bound for one in (plan, finer_plan) if (bound := one.upper) is not None)
            plan = replace(max(finer_plan, plan, key=lambda one: one.value), upper=upper)
            left = plan.gap or 0.0  # a part that shrinks with the grid, and one that stays
            if left > max(gap, 0.8 * width) and growth * left - width > (growth - 1.0) * gap:
                note = f"finer grids do not bring it to {gap:g}: what is left lies between policies without a coin and with one"
                plan = replace(plan, notes=(*plan.notes, note))
                break
        return plan.with_time(time.perf_counter() - begun)
    curve = guarantee_curve(mdp, max_bytes=max_bytes, tick=tick)
    if curve.exact and beta <= curve.margin(tau).below - MASS_TOL and curve.certain(tau):
        point = plan_from_curve(curve, tau)
        value = as_law(point.law).buffered_quantile(tau, beta)
        note = f"the buffer lies within the margin {curve.margin(tau).below:.3g}: the optimum is the quantile itself"
        return _plan(mdp, tau, beta, point.policy, value, curve(tau), (note,), begun, {"sweeps": 1}, certain=True)

    search = WidthSearch(mdp, columns, tau, beta, max_bytes=max_bytes // 2)
    bound, column, width = search.upper()
    policy, value = best_deterministic(search, column, width)
    upper = max(min(bound, curve.upper(tau)) if curve.exact else bound, value)
    details: dict[str, Any] = {"sweeps": len(search.sweeps), "target": float(search.targets[column]), "width": width}
    tol = GAP_TOL * max(1.0, abs(upper))
    if randomized and value < upper - tol:
        mix, mixed = best_mix(search, column)
        return _plan(mdp, tau, beta, mix, mixed, max(upper, mixed), (), begun, details)
    if exact and value < upper - tol:
        best, value, notes = _best_alone(search, column, width, upper, tol if gap is None else gap, max_nodes)
        found = {"randomized": upper} if gap is None else {}  # the best is proven: only a coin could reach this
        plan = _plan(mdp, tau, beta, best, value, max(upper, value), notes, begun, details | found)
        return (
            plan
            if plan.certain
            else replace(plan, notes=(*notes, "all that up to rounding: a probability ties with a level"))
        )
    return _plan(mdp, tau, beta, policy, value, upper, (), begun, details)


def _best_alone(
    search: WidthSearch, column: int, width: float, upper: float, gap: float, max_nodes: int
) -> tuple[Policy, float, tuple[str, ...]]:
    """The best policy without a coin, its value and what is proven of it; `upper` is what a coin reaches."""
    mdp, tau, beta = search.mdp, search.tau, search.beta
    policy: Policy
    policy, value = best_deterministic(search, column, width)
    how = "the policy found"
    for alone in without_coin(mdp, search.grid, float(search.targets[column]), width, tau - beta):
        reached = as_law(evaluate(mdp, alone)).buffered_quantile(tau, beta)
        if reached > value:
            policy, value, how = alone, reached, "chance within the problem plays the coin: without one this policy"
    if value >= upper - gap:
        tight = upper - value <= GAP_TOL * max(1.0, abs(upper))
        close = "reaches the bound" if tight else f"comes within {upper - value:.1g} of the bound"
        return policy, value, (f"{how} {close}",)
    ceiling = np.min([search.bound(d) for d in (0.0, *search.sweeps)], axis=0)
    targets = search.targets[ceiling > value + gap]
    branches = begin(mdp, search.grid, tau, beta, targets, list(search.sweeps), width, value)
    if branches is None:
        raise ValueError(
            f"the best policy without a coin is worth between {value:.10g} and {upper:.10g}, and this problem has too many "
            f"histories to search for more; allow gap={_rounded_up(upper - value)} or use randomized=True"
        )
    left = branches.run(gap, max_nodes)
    if branches.best is not None:
        policy, value = branches.policy(), branches.value
    if left > value + gap:
        raise ValueError(
            f"the best policy without a coin is worth between {value:.10g} and {left:.10g}, and {max_nodes} nodes of the "
            f"search prove no more; allow gap={_rounded_up(left - value)}, raise max_nodes or use randomized=True"
        )
    if gap > GAP_TOL * max(1.0, abs(upper)):
        return (
            policy,
            value,
            (f"no policy without a coin exceeds this by more than {_rounded_up(max(left - value, gap))}",),
        )
    return policy, value, (f"proven best deterministic policy; one coin at the start reaches {upper:.6g}",)


def _rounded_up(x: float) -> str:
    """Two digits that are not less.

    >>> _rounded_up(1.3333), _rounded_up(0.0301)
    ('1.4', '0.031')
    """
    unit = 10.0 ** (np.floor(np.log10(x)) - 1.0)
    return f"{np.ceil(x * (1.0 + 1e-9) / unit) * unit:.2g}"


def _plan(
    mdp: MDP, tau: float, beta: float, policy: Any, value: float, upper: float, notes: tuple[str, ...], begun: float,
    details: dict[str, Any], *, certain: bool | None = None,
) -> Plan:  # fmt: skip
    law = evaluate(mdp, policy)
    if abs(upper - value) <= LINE_TOL * max(1.0, abs(value)):
        upper = value  # they differ by rounding alone
    if certain is None:
        certain = level_error(as_law(law), tau, beta, rounding_error(mdp)) <= GAP_TOL * max(1.0, abs(value))
    return Plan(
        tau, beta, "target", policy, law, value, upper, as_law(law).buffered_quantile(tau, beta), certain, True,
        seconds=time.perf_counter() - begun, notes=notes, details=details,
    )  # fmt: skip


def best_deterministic(search: WidthSearch, column: int, width: float) -> tuple[TargetPolicy, float]:
    """The best buffered quantile among the policies met in the search and their neighbours."""
    near = {float(np.floor(width)), float(np.ceil(width)), width, 1.0}
    for d in sorted(near | {d for d in search.sweeps if abs(d - width) <= 2.0}):
        if d in search.sweeps or d == 1.0:
            for c in (column - 1, column, column + 1):
                if 0 <= c < search.targets.size:
                    search.policy(d, c)
    scores = {key: found.law.buffered_quantile(search.tau, search.beta) for key, found in search.found.items()}
    best = max(scores, key=lambda key: (scores[key], search.found[key].law.mean()))
    return search.found[best].policy, scores[best]


def best_mix(search: WidthSearch, column: int) -> tuple[MixturePolicy | TargetPolicy, float]:
    """The coin between two policies with the target of `column` that attains the upper bound."""
    met = [found for (_, c), found in search.found.items() if c == column]
    widths = np.arange(column + 1.0)
    lines = np.array([search.line(found.law, column, widths) for found in met])
    best, chosen = -np.inf, (0, 0, 1.0)
    for i in range(len(met)):
        for j in range(i + 1):
            weight, value = _best_weight(lines[i], lines[j])
            if value > best + 1e-15:
                best, chosen = value, (i, j, weight)
    i, j, weight = chosen
    if weight >= 1.0 or i == j:
        return met[i].policy, met[i].law.buffered_quantile(search.tau, search.beta)
    law = Law.mixture([met[i].law, met[j].law], [weight, 1.0 - weight])
    mix = MixturePolicy([met[i].policy, met[j].policy], [weight, 1.0 - weight])
    return mix, law.buffered_quantile(search.tau, search.beta)


def _best_weight(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    """Weight w that maximises min(w a + (1 - w) b), a concave function of w, and that maximum."""
    candidates = [0.0, 1.0]
    lo, hi = 0.0, 1.0
    for _ in range(60):  # the slope at the middle tells the side; the last two active pieces then meet in the optimum
        w = (lo + hi) / 2
        k = int((w * a + (1 - w) * b).argmin())
        if a[k] > b[k]:
            lo, left = w, k
            candidates.append(w)
        else:
            hi, right = w, k
            candidates.append(w)
    if 0.0 < lo and hi < 1.0:
        slope = (a[left] - b[left]) - (a[right] - b[right])
        if slope != 0.0:
            candidates.append(float(np.clip((b[right] - b[left]) / slope, 0.0, 1.0)))
    weights = np.array(candidates)
    floor = (weights[:, None] * a + (1 - weights[:, None]) * b).min(axis=1)
    k = int(floor.argmax())
    return float(weights[k]), float(floor[k])


def _bracket(mdp: MDP, tau: float, beta: float, points: int, max_bytes: int) -> Plan:
    """Proven bracket where no lattice fits: the bound from returns rounded up, the policy from returns rounded down."""
    low, high = rounded(mdp, points), rounded(mdp, points, up=True)
    check_memory(mdp, low, max_bytes // 2)
    over = WidthSearch(mdp, high, tau, beta, max_bytes=max_bytes // 4)
    upper, _, _ = _quick_upper(over)
    under = WidthSearch(mdp, low, tau, beta, max_bytes=max_bytes // 4)
    _, column, width = _quick_upper(under)
    for d in sorted(under.sweeps, key=lambda d: abs(d - width))[:3]:  # a mix's two policies belong to neighbours
        under.policy(d, column)
    short = np.maximum.accumulate(under.sweeps[1.0].root[: under.targets.size])
    for level in (tau, tau - beta / 2, tau - beta):  # the quantiles that are averaged
        under.policy(1.0, int(np.flatnonzero(reaches(short, level))[-1]))
    policy: Policy
    policy, value = best_deterministic(under, column, width)
    law = evaluate(mdp, policy)
    why = "no lattice of returns fits" if lattice(mdp) is None else "a grid of so many points was asked for"
    notes = [f"{why}: bracket on {low.size[0]} points"]
    neutral, mean_law = risk_neutral(mdp, int(low.size[0]))
    if (of_mean := as_law(mean_law).buffered_quantile(tau, beta)) > value:
        policy, law, value = neutral, mean_law, of_mean
        notes.append("the risk-neutral policy has the best value that is proven on this grid")
    certain = level_error(as_law(law), tau, beta, rounding_error(mdp)) <= GAP_TOL * max(1.0, abs(value))
    return Plan(
        tau, beta, "target", policy, law, value, max(upper, value), value, certain, False, notes=tuple(notes),
        details={"sweeps": len(over.sweeps) + len(under.sweeps)},
    )  # fmt: skip


def _quick_upper(search: WidthSearch) -> tuple[float, int, float]:
    """A valid bound from few widths: any set of widths bounds the optimum, and a bracket needs no last digit."""
    longest = max(1.0, float(search.targets.size - 1))
    for d in np.unique(np.round(np.geomspace(1.0, longest, 9))):
        search.bound(float(d))
    for _ in range(12):
        widths = sorted({0.0, *search.sweeps})
        table = np.array([search.bound(d) for d in widths])
        column = int(table.min(axis=0).argmax())
        w = int(table[:, column].argmin())
        sides = [(widths[w] + widths[k]) / 2 for k in (w - 1, w + 1) if 0 <= k < len(widths)]
        fresh = [float(np.round(d)) for d in sides if float(np.round(d)) not in search.sweeps and np.round(d) > 0]
        if not fresh:
            break
        for d in fresh:
            search.bound(d)
    widths = sorted({0.0, *search.sweeps})
    table = np.array([search.bound(d) for d in widths])
    column = int(table.min(axis=0).argmax())
    return float(table[:, column].min()), column, widths[int(table[:, column].argmin())]
