"""The best deterministic policy for a buffered quantile, if the policy found so far is below the randomized bound.

First the mixture of two policies that attains the bound U of buffered.py is derandomised: the randomness of the problem
replaces the coin. If the derandomised policy does not attain the bound, a search over histories follows (branch.py).

Both policies of the mixture have the same target z and are optimal at the width d that minimises F(z, .). They differ in
X = P(z - G > k), where k <= d <= k + 1 in steps. The coin brings X to tau - beta, where F_pi(z, .) is constant between k
and k + 1. If many histories lead to the decision at which the two policies differ, some histories can follow one policy and
the others the other policy. To arrange this, the construction follows one history. At each step the outcomes are ordered.
After the first outcomes, play continues with the policy of largest X among all policies optimal at d. After the last
outcomes, it continues with the policy of smallest X. The outcome in between continues the history. The remaining distance of
X from tau - beta is at most the probability of the history.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from bqrl.errors import SizeError
from bqrl.laws.law import size_of
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.branch import begin
from bqrl.planners.evaluate import evaluate
from bqrl.planners.facts import BestDeterministic, Fact, NearRandomized
from bqrl.planners.plan import GAP_TOL
from bqrl.planners.sweep import sweep
from bqrl.planners.widths import WidthSearch
from bqrl.policies.labels import LabelPolicy, label_graph
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy

LEVEL_TIE = 1e-11  # relative; the width, and so the values of actions that tie at it, is known only up to rounding
MAX_MOVES = 5_000_000  # transitions between (state, need) pairs under a policy
MAX_WALKS = 500  # number of orders of the outcomes to try
ENOUGH = 1e-12  # in steps; a loss this small ends the search
LEAST, MOST, START = -1, -2, -3  # how play continues ("way"); numbers from 0 on are steps of the followed history
Memory = tuple[int, float]  # the continuation and the remaining need


def prove_deterministic(
    search: WidthSearch, column: int, width: float, policy: Policy, value: float, upper: float, gap: float, max_nodes: int,
) -> tuple[Policy, float, Fact]:  # fmt: skip
    """Return the best deterministic policy, its value, and what is proven about it.

    `policy` is the best policy so far, with value `value`. `upper` is the value of the best randomized policy. A distance of
    `gap` from the optimum is accepted. SizeError if `max_nodes` nodes do not prove this distance.
    """
    mdp, tau, beta = search.mdp, search.tau, search.beta
    for candidate in derandomise(mdp, search.grid, float(search.targets[column]), width, tau - beta):
        reached = evaluate(mdp, candidate).buffered_quantile(tau, beta)
        if reached > value:
            policy, value = candidate, reached
    ceiling = np.min([search.bound(d) for d in (0.0, *search.sweeps)], axis=0)
    upper = min(upper, max(value, float(ceiling.max())))  # policies tried since then may have added widths
    if value >= upper - gap:
        tight = upper - value <= GAP_TOL * size_of(search.targets)
        return policy, value, NearRandomized(gap=0.0 if tight else upper - value)
    targets = search.targets[ceiling > value + gap]
    branches = begin(mdp, search.grid, tau, beta, targets, list(search.sweeps), width, value)
    if branches is None:
        raise _proof_error(value, upper, "the problem has too many histories for a search", "allow")
    left = branches.run(gap, max_nodes)
    if branches.best is not None:
        policy, value = branches.policy(), branches.value
    if left > value + gap:
        raise _proof_error(value, left, f"{max_nodes} nodes of the search prove no more", "raise max_nodes, allow")
    left_open = max(left - value, gap) if gap > GAP_TOL * size_of(search.targets) else 0.0
    return policy, value, BestDeterministic(randomized=upper, gap=left_open)


def _proof_error(value: float, upper: float, reason: str, remedy: str) -> SizeError:
    """Return the error for a search that proves nothing; `limit` is the best value found, `needed` the remaining bound."""
    return SizeError(
        f"expected the best deterministic policy, got a value between {value:.10g} and {upper:.10g}, because {reason}; {remedy} "
        f"gap={_round_up(upper - value)} or use randomized=True", needed=upper, limit=value, name="gap",
    )  # fmt: skip


def _round_up(x: float) -> str:
    """Return `x` rounded up to two digits.

    >>> _round_up(1.3333), _round_up(0.0301)
    ('1.4', '0.031')
    """
    unit = 10.0 ** (np.floor(np.log10(x)) - 1.0)
    return f"{np.ceil(x * (1.0 + 1e-9) / unit) * unit:.2g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """Two policies optimal at a width: those with the smallest and the largest probability X of missing by over k steps."""

    least: TargetPolicy
    most: TargetPolicy
    low: tuple[FloatArray, ...]  # X of `least` per stage 0..H (S, columns)
    high: tuple[FloatArray, ...]  # X of `most`

    def ends(self, h: int, s: IntArray, need: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the smallest and the largest X from stage `h` on."""
        column = self.least.column(h, need)
        return self.low[h][s, column], self.high[h][s, column]


@dataclass(slots=True, kw_only=True)
class Walk(Policy):
    """A policy that follows one history and continues with `least` or `most` elsewhere; the memory is (way, need)."""

    ways: Ways
    first: dict[int, int] = field(default_factory=dict)  # way of each first state
    action: list[int] = field(default_factory=list)  # action at each step of the followed history
    after: list[dict[tuple[int, float], int]] = field(default_factory=list)  # way by (successor, reward), per step

    def start(self, u: float | None = None) -> Memory:
        """Return START and the target; the first state then determines the way."""
        return START, self.ways.least.target

    def act(self, h: int, s: int, memory: Memory) -> int:
        """Return the action of the current way."""
        way = self.first[s] if memory[0] == START else memory[0]
        if way >= 0:
            return self.action[way]
        return (self.ways.least if way == LEAST else self.ways.most).act(h, s, memory[1])

    def next(self, memory: Memory, h: int, s: int, action: int, reward: float, s_next: int) -> Memory:
        """Return the way and the need after an outcome."""
        way = self.first[s] if memory[0] == START else memory[0]
        if way >= 0:
            way = self.after[way][s_next, reward]
        return way, self.ways.least.next(memory[1], h, s, action, reward, s_next)


def derandomise(mdp: MDP, columns: Lattice, target: float, width: float, level: float) -> Iterator[LabelPolicy]:
    """Yield deterministic policies optimal at (target, width), each with P(target - G > k steps) close to `level`."""
    if columns.cells * mdp.successor.size // (mdp.A * (1 if mdp.stationary else mdp.H)) > MAX_MOVES:
        return
    for k in sorted({max(int(np.ceil(width)) - 1, 0), int(width)}):
        least, low = _extreme_policy(mdp, columns, target, width, k, 1.0)
        most, high = _extreme_policy(mdp, columns, target, width, k, -1.0)
        ways = Ways(least=least, most=most, low=low, high=high)
        best, loss = Walk(ways=ways), np.inf
        rng = np.random.default_rng(0)
        for _ in range(MAX_WALKS):
            walk, miss = _walk(mdp, ways, level, rng)
            lost = miss * (k + 1 - width) if miss > 0.0 else -miss * (width - k)  # the decrease of F within the cell
            if lost < loss:
                best, loss = walk, lost
            if loss <= ENOUGH:
                break
        yield label_graph(best, mdp)


def _extreme_policy(
    mdp: MDP, columns: Lattice, target: float, width: float, k: int, sign: float
) -> tuple[TargetPolicy, tuple[FloatArray, ...]]:
    """Return the policy with the smallest X (sign +1) or the largest X (-1) of those optimal at (target, width), and its X."""
    steps = np.arange(max(k, int(np.ceil(width)) - 1) + 2.0)
    second = np.where(steps > k, sign, 0.0)
    done = sweep(mdp, columns, np.minimum(steps, width), extra=steps.size - 1, second=second, tie=LEVEL_TIE, keep=True)
    assert done.means is not None
    return done.policy(target), tuple(-sign * means for means in done.means)


def _walk(mdp: MDP, ways: Ways, level: float, rng: np.random.Generator) -> tuple[Walk, float]:
    """Return a walk that brings X as close to `level` as its history allows, and the remaining excess of X.

    The order of the outcomes is random; some orders come closer to the level than others.
    """
    walk, chance, columns = Walk(ways=ways), 1.0, ways.least.grid
    s: IntArray = np.flatnonzero(mdp.mu)
    p, need = mdp.mu[s], np.full(s.size, ways.least.target)
    low, high = ways.ends(0, s, need)
    way, j, level = _share(p, low, high, level, 0, rng)
    walk.first = dict(zip(s.tolist(), way.tolist(), strict=True))
    for h in range(mdp.H):
        if j is None:
            break
        chance *= float(p[j])
        here, still = int(s[j]), float(need[j])
        choices = []
        for a in sorted({ways.least.act(h, here, still), ways.most.act(h, here, still)}):
            successors, q, r = mdp.outcomes(h, here, a)
            t = successors.astype(np.int64)
            left = np.asarray(columns.reduced(still, h, r))
            ends = ways.ends(h + 1, t, left)
            beside = max(float(q @ ends[0]) - level, level - float(q @ ends[1]), 0.0)
            choices.append((beside, a, t, q, r, left, ends))
        _, a, s, p, r, need, (low, high) = min(choices, key=lambda choice: choice[:2])
        way, j, level = _share(p, low, high, level, h + 1, rng)
        walk.action.append(a)
        walk.after.append(dict(zip(zip(s.tolist(), r.tolist(), strict=True), way.tolist(), strict=True)))
    return walk, chance * (float(p @ np.where(way == LEAST, low, high)) - level)


def _share(
    p: FloatArray, low: FloatArray, high: FloatArray, level: float, step: int, rng: np.random.Generator
) -> tuple[IntArray, int | None, float]:
    """Return the way of each outcome, the outcome that continues the history or None, and the X that it (or all) must have."""
    order = rng.permutation(p.size)
    gain = p * np.maximum(high - low, 0.0)
    lowest = float(p @ low)
    reached = lowest + np.cumsum(gain[order])
    enough = np.flatnonzero((reached >= level) & (gain[order] > 0.0))
    if lowest >= level or enough.size == 0:
        return np.full(p.size, LEAST if lowest >= level else MOST), None, level
    place = int(enough[0])
    j = int(order[place])
    way = np.full(p.size, MOST)
    way[order[place + 1 :]] = LEAST
    way[j] = step
    return way, j, float(high[j] - (reached[place] - level) / p[j])
