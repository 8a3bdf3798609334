"""The search for the width that decides a buffered quantile, and what the policies met on the way are worth.

F(z, d) of buffered.py is convex in the width d, being a maximum of functions that are linear between lattice widths. The
search moves to the target with the largest bound, narrows its minimum over lattice widths, then intersects supporting
lines in the cells beside it. The policy that attains the bound's (z, d) may itself score far below it, so every policy
met is evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MixturePolicy, TargetPolicy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.sweep import OPTIMISTIC, Sweep, sweep
from bqrl.planners.target import MAX_BYTES, as_law

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
    grid: Lattice
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
