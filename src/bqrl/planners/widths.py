"""The search for the width that determines a buffered quantile, and the policies that the search finds.

F(z, d) of buffered.py is convex in the width d. A sweep at one width gives F(z, d) for every target z and a policy that
attains it, and the law of that policy gives a lower bound F_pi(z, .) <= F(z, .) at every width. At the target with the
largest bound, the next sweep is at the width where the maximum of the functions F_pi found so far is lowest. The search ends
when this lowest value equals the bound, which is then exactly min_d F(z, d), or when a policy attains the bound. A bound at
one target also bounds its neighbours; a sweep at width 1, where J equals W, makes these bounds tighter. Learners start at the
width at which their last search ended, and may accept a tolerance larger than rounding error.

Over an l1 ball J_d(z) is the smallest cost over policies and kernels of the ball, so F_pi is computed from the law of a
policy under its best kernel. Learners search the lattice of widths in this way. If this law is not available (robust plans)
or if widths between lattice points matter (`solve`), the search moves on the lattice until both neighbours of the best width
have been swept, and then refines between them. Any set of widths gives a valid bound.

A policy that attains F at the (z, d) of the bound may have a value far below the bound, so every policy found is evaluated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from bqrl.laws.law import Law, size_of
from bqrl.laws.rows import buffered_rows
from bqrl.mdp.arrays import BoolArray, FloatArray
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.cluster import Cluster
from bqrl.planners.evaluate import evaluate
from bqrl.planners.follow import Follower, law_on_points
from bqrl.planners.room import MAX_BYTES
from bqrl.planners.sweep import OPTIMISTIC, Layout, Sweep, fits_one_call, sweep
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.target import TargetPolicy

SHORTFALLS_AFTER = 2  # after this many sweeps, one at width 1 computes the shortfalls W
NARROW = 8.0  # over a ball: if the first width is larger than this, the second sweep is at width 1
STRIDE = 2.0  # over a ball: steps that change the best width by more than this factor are shortened
PATIENCE = 20  # sweeps after which a search on a rounded grid accepts the error of the grid
NEAREST = 8  # number of widths whose laws are compared after PATIENCE sweeps
LINE_TOL = 1e-12  # bounds closer than this, relative to the size of the returns, count as equal in the search


@dataclass(slots=True, kw_only=True, eq=False)
class Candidate:
    """A policy found in the search, and the masses of its return on the points of the grid."""

    policy: TargetPolicy
    points: FloatArray
    mass: FloatArray
    value: float  # its buffered quantile on the grid

    @property
    def law(self) -> Law:
        """The law of the return on the grid."""
        return Law(self.points, self.mass)


@dataclass(slots=True, kw_only=True, eq=False)
class WidthSearch:
    """Bounds F(z, d) for the widths swept so far, and the policies found; widths are in steps of the grid."""

    mdp: MDP
    grid: Lattice
    tau: float
    beta: float
    half: FloatArray | None = None
    sense: float = OPTIMISTIC
    probability: FloatArray | None = None  # another kernel on the outcomes of `mdp`
    layout: Layout | None = None  # prepared by an earlier search on the same problem and grid
    follower: Follower | None = None
    begin: float | None = None  # the width at which an earlier search ended
    swept: dict[float, Sweep] = field(default_factory=dict)  # sweeps of an earlier search on the same kernel
    refine: bool = True  # over a ball: also sweep between lattice widths, for a tighter bound; if False, search by laws
    max_bytes: int = MAX_BYTES  # limit on stored action tables; a sweep is repeated if its tables were dropped
    cluster: Cluster | None = None  # workers that share every sweep
    targets: FloatArray = field(init=False)  # every target z of the grid
    sweeps: dict[float, Sweep] = field(default_factory=dict)
    bounds: dict[float, FloatArray] = field(default_factory=dict)
    found: dict[tuple[float, int], Candidate] = field(default_factory=dict)
    laws: dict[tuple[float, int], FloatArray] = field(default_factory=dict)  # over a ball: laws by width and column
    ended: float = 1.0  # the width at which a later search on a similar kernel should begin

    def __post_init__(self) -> None:
        self.targets = self.grid.points(0) if self.layout is None else self.layout.points
        self.bounds[0.0] = self.targets  # at width 0 the bound is the target itself
        if self.layout is None and self.cluster is None and fits_one_call(self.mdp, int(self.grid.size.max())):
            self.layout = Layout(self.mdp, self.grid)
        if self.follower is None and self.layout is not None:
            self.follower = Follower(self.layout)

    def bound(self, d: float) -> FloatArray:
        """Return F(z, d) / beta for every target; d is in steps."""
        if d not in self.bounds:
            z = self.targets
            self.sweeps[d] = self.swept[d] if d in self.swept else self._sweep(d)
            self._drop_tables()
            shortfall = self.sweeps[d].root[: z.size]
            self.bounds[d] = z + ((self.tau - self.beta) * d - shortfall) * (self.grid.step / self.beta)
        return self.bounds[d]

    def _sweep(self, d: float) -> Sweep:
        """Return the sweep at width d."""
        cost = clipped_cost(d)
        return sweep(
            self.mdp, self.grid, cost, extra=cost.size - 1, half=self.half, sense=self.sense,
            keep=self._by_laws, probability=self.probability, layout=self.layout, cluster=self.cluster,
        )  # fmt: skip

    @property
    def _by_laws(self) -> bool:
        """Whether the search over a ball uses the laws of policies under their best kernels, on lattice widths only."""
        return self.half is not None and self.sense == OPTIMISTIC and not self.refine and self.follower is not None

    @property
    def _possible(self) -> BoolArray:
        assert self.follower is not None
        return self.follower.possible

    def _attaining_law(self, d: float, column: int) -> FloatArray:
        """Return the law that attains J_d(z) at the target of `column`: of a policy and, over a ball, its best kernel."""
        if self.half is None:
            return self.policy(d, column).mass
        if (d, column) not in self.laws:
            assert self.follower is not None
            done = self.sweeps[d] if self.sweeps[d].tables is not None else self._sweep(d)
            kernel = self.mdp.probability if self.probability is None else self.probability
            self.laws[d, column] = self.follower.optimistic_law(done, float(self.targets[column]), self.half, kernel)
        return self.laws[d, column]

    def _drop_tables(self) -> None:
        """Drop the oldest action tables beyond `max_bytes`; the bounds are kept."""
        stored = 0
        for d, done in reversed(self.sweeps.items()):
            stored += sum(table.nbytes for table in (*(done.tables or ()), *(done.values or ())))
            if stored > self.max_bytes:
                self.sweeps[d] = replace(done, tables=None, values=None)

    def policy(self, d: float, column: int) -> Candidate:
        """Return the policy that attains J_d(z) at the target of `column`, with its law on the grid."""
        d = max(d, 1.0)  # below one step J_d = d W
        if (d, column) not in self.found:
            self.bound(d)
            done = self.sweeps[d] if self.sweeps[d].tables is not None else self._sweep(d)
            policy = done.policy(float(self.targets[column]))
            if self.follower is not None:
                mass = self.follower.law(policy, self.probability)
            else:
                mass = law_on_points(self.mdp, policy, self.grid)
            value = float(buffered_rows(self.targets, mass[None], self.tau, self.beta)[0])
            self.found[d, column] = Candidate(policy=policy, points=self.targets, mass=mass, value=value)
        return self.found[d, column]

    def line(self, mass: FloatArray, column: int) -> FloatArray:
        """Return F_pi(z, d) / beta of one law at the widths d = 0, 1, ..., column; it never exceeds F(z, d) / beta.

        E[clip(z - G, 0, d)] is the sum of P(G < z - w) over w = 0, 1, ..., d - 1.
        """
        below = np.cumsum(mass[:column])[::-1]  # P(G < z - w) for w = 0, 1, ...
        short = np.concatenate(([0.0], np.cumsum(below)))
        widths = np.arange(column + 1.0)
        return self.targets[column] + ((self.tau - self.beta) * widths - short) * (self.grid.step / self.beta)

    def upper(self, tolerance: float | None = None) -> tuple[float, int, float]:
        """Return U, its target column and its width; U exceeds min_d F(z, d) or a policy's value by at most `tolerance`.

        The default tolerance is rounding error; searches by laws over a ball always use it. On a rounded grid, the
        tolerance grows with the error of the grid after PATIENCE sweeps: if many targets have the same bound, each of them
        would need its own sweep.
        """
        rounding = LINE_TOL * size_of(self.targets[[0, -1]])
        least = rounding if tolerance is None else tolerance
        longest = float(max(self.targets.size - 1, 1))
        first = math.sqrt(longest) if self.begin is None else self.begin
        self.bound(float(min(max(math.floor(first), 1), longest)))
        if self._by_laws:
            return self._upper_by_laws(rounding)
        while True:
            own = np.min(list(self.bounds.values()), axis=0)
            late = len(self.sweeps) / PATIENCE
            tolerance = max(least, late * self.grid.error) if late >= 1.0 else least
            if self.half is None:
                ceiling, column = self._ceiling(own, tolerance)
                best = self._best_width(column)
                _, following = self._lowest(column, ceiling - tolerance)
                if following is not None and len(self.sweeps) == SHORTFALLS_AFTER and 1.0 not in self.sweeps:
                    following = 1.0
            else:
                ceiling, column = float(own.max()), int(own.argmax())
                best = self._best_width(column)
                following = self._next_width(best, column)
                if following is None and self.refine:
                    following = self._width_between(best, column, ceiling - tolerance)
            if following is None or any(abs(following - d) < 1e-9 for d in self.bounds):
                self.ended = best
                if self.half is None and np.finfo(float).eps / self.beta > LINE_TOL:
                    ceiling = max(ceiling, self._careful_ceiling(own))
                return ceiling, column, best
            self.bound(following)

    def _upper_by_laws(self, tolerance: float) -> tuple[float, int, float]:
        """Return U, its target column and its width, from a search over a ball on lattice widths.

        Far from the widths swept, the functions F_pi are steeper than F, so a step that changes the best width by more than
        a factor STRIDE is shortened to the geometric mean. Only possible returns are targets, because the quantile of a
        policy is a possible return.
        """
        while True:
            own = np.min(list(self.bounds.values()), axis=0)
            column = int(np.where(self._possible, own, -np.inf).argmax())
            self.ended = best = self._best_width(column)
            if self._next_width(best, column) is None:
                return float(own[column]), column, best
            _, column = self._ceiling(own, tolerance)
            self.ended = best = self._best_width(column)
            lowest, wanted = self._lowest(column, math.inf)
            if own[column] - lowest <= tolerance or wanted is None or wanted in self.bounds:
                return float(own[column]), column, best
            if min(self.sweeps) > NARROW:
                wanted = 1.0
            elif best > 1.0 and not best / STRIDE <= wanted <= best * STRIDE:
                mean = float(round(math.sqrt(wanted * best)))
                wanted = wanted if mean in self.bounds else mean
            self.bound(wanted)

    def _best_width(self, column: int) -> float:
        """Return the width with the lowest bound at a column; the smallest such width in case of ties."""
        return min(sorted(self.bounds), key=lambda d: float(self.bounds[d][column]))

    def _ceiling(self, own: FloatArray, tolerance: float) -> tuple[float, int]:
        """Return the largest bound over all targets, and the target to refine; `own` holds the lowest bound of each target.

        A bound at one target also holds at others, with an allowance. E[clip(z + k - G, 0, d + k)] exceeds
        E[clip(z - G, 0, d)] by E[clip(z + k - G, 0, k)], which is at least J_k(z + k). For k = 1 the difference is
        P(G < z + 1), which lies between W(z + 1) and 1, and W(z) is at least J_d(z) / d. Without this, each target between
        two atoms of a law would need its own sweep. Of the targets whose bound is nearly the largest, the one whose own
        bound is tightest is refined, because the bounds of the others derive from it.
        """
        unit, narrowest = self.grid.step / self.beta, min(self.sweeps)
        shared = own.copy()
        if self.half is not None:
            for d, done in sorted(self.sweeps.items()):  # a bound carries over to the target k = d steps higher
                k = int(d)
                shared[k:] = np.minimum(shared[k:], shared[:-k] + (self.tau * d - done.root[k : own.size]) * unit)
        shortfall = self.sweeps[narrowest].root[: own.size] / narrowest
        rise = np.cumsum((self.tau - shortfall) * unit)
        shared = rise + np.minimum.accumulate(shared - rise)
        fall = np.arange(own.size, dtype=np.float64) * ((self.tau - 1.0) * unit)
        shared = fall + np.minimum.accumulate((shared - fall)[::-1])[::-1]
        if self._by_laws:
            shared[~self._possible] = -np.inf
        ceiling = float(shared.max())
        column = np.where(shared >= ceiling - 0.1 * tolerance, own - shared, np.inf).argmin()
        return min(ceiling, float(own.max())), int(column)  # cumulative sums may round up

    def _careful_ceiling(self, own: FloatArray) -> float:
        """Return the bound of `_ceiling`, computed target by target: for small buffers, its cumulative sums lose precision."""
        unit, narrowest = self.grid.step / self.beta, min(self.sweeps)
        rise = ((self.tau - self.sweeps[narrowest].root[: own.size] / narrowest) * unit).tolist()
        fall, shared = (1.0 - self.tau) * unit, own.tolist()
        for i in range(1, own.size):
            shared[i] = min(shared[i], shared[i - 1] + rise[i])
        for i in range(own.size - 2, -1, -1):
            shared[i] = min(shared[i], shared[i + 1] + fall)
        return float(max(shared))

    def _lowest(self, column: int, enough: float) -> tuple[float, float | None]:
        """Return the minimum over d of the maximum of F_pi(z, d) over the policies found, and the width d that attains it.

        The width is None if this minimum, or the value of a policy found, is at least `enough`. Between lattice widths the
        functions are linear, so the minimum lies on the lattice or at an intersection of two lines; over a ball only the
        lattice is searched.
        """
        widths = list(self.sweeps)
        if len(widths) > PATIENCE:  # F is convex: distant widths hardly matter, and each needs a law
            best = self._best_width(column)
            lowest, place = self._lowest_at(sorted(widths, key=lambda d: abs(d - best))[:NEAREST], column, enough)
            if place is None or all(abs(place - d) >= 1e-9 for d in self.bounds):
                return lowest, place
        return self._lowest_at(widths, column, enough)

    def _lowest_at(self, widths: list[float], column: int, enough: float) -> tuple[float, float | None]:
        """Return what `_lowest` returns, for the policies found at the given widths."""
        lines = np.array([self.line(self._attaining_law(d, column), column) for d in widths])
        envelope = lines.max(axis=0)
        i = int(envelope.argmin())
        lowest, place = float(envelope[i]), float(i)
        if self.half is None and max(found.value for found in self.found.values()) >= enough:
            return lowest, None
        for cell in (i - 1, i):
            if 0 <= cell < column and self.half is None:
                d, value = _lowest_of_lines(lines[:, cell : cell + 2])
                if value < lowest:
                    lowest, place = value, cell + d
        return lowest, place if lowest < enough else None

    def _width_between(self, best: float, column: int, enough: float) -> float | None:
        """Return the width that attains the minimum of `_lowest` within the two cells next to the best width, or None."""
        lowest, place = enough, None
        for cell in {int(np.floor(best)), int(np.ceil(best)) - 1}:
            inside = [d for d in self.sweeps if cell <= d <= cell + 1]
            if 0 <= cell < column and inside:
                lines = np.array([self.line(self.policy(d, column).mass, column)[cell : cell + 2] for d in inside])
                d, value = _lowest_of_lines(lines)
                if value < lowest:
                    lowest, place = value, cell + d
        return place

    def _next_width(self, best: float, column: int) -> float | None:
        """Return the lattice width that the search over a ball sweeps next, or None if the best width is certified.

        F(z, .) is convex, so the best width is certified once both its neighbours on the lattice have been swept. Outside
        the range of the widths swept so far the step doubles; inside it is halved.
        """
        whole = sorted(d for d in self.sweeps if d == int(d))
        for d in (math.floor(best), math.ceil(best)):
            if d >= 1.0 and d not in self.sweeps:
                return float(d)
        if best != int(best):
            return None
        left = max((d for d in whole if d < best), default=None)
        right = min((d for d in whole if d > best), default=None)
        if best < max(column, 1) and (right is None or right > best + 1):
            if right is None:
                step = 1.0 if left is None else 2.0 * (best - left)
                return min(best + step, float(column))
            return float((best + right) // 2)
        if best > 1 and (left is None or left < best - 1):
            if left is None:
                step = 1.0 if right is None else 2.0 * (right - best)
                return max(best - step, 1.0)
            return float((best + left + 1) // 2)
        return None


def clipped_cost(d: float) -> FloatArray:
    """Return the terminal cost clip(n, 0, d) for needs of n = 0, 1, ... steps, up to the first need with cost d."""
    return np.minimum(np.arange(max(1, math.ceil(d)) + 1.0), d)


def _lowest_of_lines(lines: FloatArray) -> tuple[float, float]:
    """Return the point of [0, 1] at which the maximum of several lines is lowest, and its value; lines (n, 2) hold end values."""
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
    return float(t[best]), float(envelope[best])


def best_deterministic(
    search: WidthSearch, column: int, width: float, enough: float = np.inf, scored: MDP | None = None
) -> tuple[TargetPolicy, float]:
    """Return the best policy found and its buffered quantile.

    If no policy of the search reaches `enough`, policies at widths and targets near those of the bound are tried too. With
    `scored`, policies are evaluated in that problem instead of on the rounded grid.
    """
    scores: dict[tuple[float, int], float] = {}

    def score() -> tuple[float, int]:
        for key in search.found.keys() - scores.keys():
            found = search.found[key]
            if scored is None:
                scores[key] = found.value
            else:
                scores[key] = evaluate(scored, found.policy).buffered_quantile(search.tau, search.beta)
        best = max(scores.values())
        tied = [key for key in search.found if scores[key] == best]  # in the order in which they were found
        return max(tied, key=lambda key: float(search.found[key].points @ search.found[key].mass))

    search.policy(width, column)
    best = score()
    if scores[best] < enough:
        near = {1.0, width, *(max(1.0, float(f(width)) + k) for f in (np.floor, np.ceil) for k in (-1, 0, 1))}
        near = {d for d in near if d <= max(1, search.targets.size - 1)}
        for d in sorted(near | {d for d in search.sweeps if abs(d - width) <= 2.0}):
            for c in (column - 1, column, column + 1):
                if 0 <= c < search.targets.size:
                    search.policy(d, c)
        best = score()
    return search.found[best].policy, scores[best]


def best_mix(search: WidthSearch, column: int) -> tuple[MixturePolicy | TargetPolicy, float]:
    """Return the mixture of at most two policies with the target of `column` that attains the upper bound, and its value."""
    parts = [found for (_, c), found in search.found.items() if c == column]
    lines = np.array([search.line(found.mass, column) for found in parts])
    best, chosen = -np.inf, (0, 0, 1.0)
    for i in range(len(parts)):
        for j in range(i + 1):
            weight, value = _best_weight(lines[i], lines[j])
            if value > best + 1e-15 * size_of(search.targets):
                best, chosen = value, (i, j, weight)
    i, j, weight = chosen
    if weight >= 1.0 or i == j:
        return parts[i].policy, parts[i].law.buffered_quantile(search.tau, search.beta)
    law = Law.mixture([parts[i].law, parts[j].law], [weight, 1.0 - weight])
    mix = MixturePolicy([parts[i].policy, parts[j].policy], [weight, 1.0 - weight])
    return mix, law.buffered_quantile(search.tau, search.beta)


def _best_weight(a: FloatArray, b: FloatArray) -> tuple[float, float]:
    """Return the weight w that maximises min(w a + (1 - w) b), a concave function of w, and that maximum."""
    candidates = [0.0, 1.0]
    lo, hi = 0.0, 1.0
    for _ in range(60):  # bisect on the sign of the slope; the last two active pieces intersect at the optimum
        w = (lo + hi) / 2
        k = int((w * a + (1 - w) * b).argmin())
        if a[k] > b[k]:
            lo, left = w, k
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
