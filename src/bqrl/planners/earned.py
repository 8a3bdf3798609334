"""Sweeps over the pairs (state, earned so far) that can be met: exact for any rewards and any discount while they are few.

The pairs of each stage are enumerated forwards, over all actions. For a terminal cost c(g) of the return g, one backward pass
gives the least expected cost of every pair,

    V_H(s, g) = c(g),    V_h(s, g) = min_a sum_{s', r} P_h(s', r | s, a) V_{h+1}(s', g + discount^h r),

for a block of costs at once: c(g) = 1{g < x} for the targets x of a quantile, c(g) = (z - g)^+ for CVaR. Sums that differ by
no more than their rounding error are one pair. Where the lattice of the returns is fine or missing but few sums can be met
(compounding capital, a discount over a dozen stages, irrational rewards), this is exact where a grid rounds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bqrl.laws.law import reaches, size_of
from bqrl.loops.earned import best_actions, least_costs, least_costs_threads
from bqrl.loops.threads import run_loop
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.find_grid import distinct_rewards, sum_error
from bqrl.mdp.grid import drop_close
from bqrl.mdp.model import MDP
from bqrl.planners.expected import best_mean
from bqrl.planners.sweep import TIE_TOL
from bqrl.policies.earned import Earned, EarnedPolicy
from bqrl.policies.target import action_dtype

MOVE_BYTES = 60  # memory per move while the pairs of a stage are sorted
SAMPLED_FROM = 2**18  # moves of a stage from which a part of them is followed first
SAMPLED = 8  # this part of them, and again when there are as many times more
BLOCK_CELLS = 2**23  # values of the pairs of one stage for one block of targets
MAX_CURVE_WORK = 2e10  # moves times targets of a whole guarantee curve: about a minute on two cores
NO_BEGIN, NO_CHILD = np.empty(0, np.int64), np.empty(0, np.int32)

Cost = Callable[[FloatArray], FloatArray]  # returns (n,) -> costs (n,)


class MetStage(NamedTuple):
    """The pairs before one stage, by state and then by amount; their moves are described in loops/earned.py."""

    state: IntArray  # (n,)
    total: FloatArray  # (n,)
    begin: IntArray  # (n,)
    child: NDArray[np.int32]  # (moves,) empty at the end


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MetPairs:
    """All pairs that can be met before each stage and at the end."""

    mdp: MDP
    stages: tuple[MetStage, ...]  # H + 1
    slack: float  # sums that differ by at most this are equal
    returns: FloatArray  # (m,) the possible returns, increasing
    final: FloatArray  # the return of every pair at the end

    @property
    def count(self) -> int:
        """Number of pairs of all stages."""
        return sum(stage.state.size for stage in self.stages)

    @property
    def moves(self) -> int:
        """Number of moves of all stages."""
        return sum(stage.child.size for stage in self.stages)

    @property
    def block(self) -> int:
        """Number of targets that one pass serves."""
        return max(1, min(64, BLOCK_CELLS // max(stage.state.size for stage in self.stages)))

    def least_costs(self, costs: FloatArray) -> FloatArray:
        """Return the least expected costs from the start, shape (b,), for terminal costs of shape (final pairs, b)."""
        after = costs
        for h in range(self.mdp.H - 1, -1, -1):
            here, stage = self.stages[h], self.mdp.stage(h)
            now = np.empty((here.state.size, costs.shape[1]))
            arguments = (here.state, here.begin, here.child, stage.row_start, stage.probability, self.mdp.A, after, now)
            run_loop(here.child.size * costs.shape[1], least_costs, least_costs_threads, *arguments)
            after = now
        first = self.stages[0].state
        return self.mdp.mu[first] @ after

    def shortfalls(self, targets: FloatArray) -> FloatArray:
        """Return the smallest probability of a return below each target."""
        return self._in_blocks(targets, lambda x: (self.final[:, None] < x[None, :]).astype(np.float64))

    def missing(self, targets: FloatArray) -> FloatArray:
        """Return the smallest mean of (z - G)^+ for each target z."""
        return self._in_blocks(targets, lambda z: np.maximum(z[None, :] - self.final[:, None], 0.0))

    def _in_blocks(self, targets: FloatArray, costs: Callable[[FloatArray], FloatArray]) -> FloatArray:
        """Return the least costs of all targets, one pass per block."""
        parts = [self.least_costs(costs(targets[i : i + self.block])) for i in range(0, targets.size, self.block)]
        return np.concatenate(parts)

    def policy(self, target: float, cost: Cost | None = None) -> EarnedPolicy:
        """Return the policy of least expected cost, ties broken by the mean; by default that of a return below `target`."""
        mdp, decisions = self.mdp, list[Earned]()
        costs = (self.final < target - self.slack).astype(np.float64) if cost is None else cost(self.final)
        after = np.column_stack([costs, np.zeros(costs.size)])
        mean_tie = 1e-12 * size_of(self.returns)
        for h in range(mdp.H - 1, -1, -1):
            here, stage = self.stages[h], mdp.stage(h)
            now, action = np.empty((here.state.size, 2)), np.empty(here.state.size, action_dtype(mdp.A))
            best_actions(
                here.state, here.begin, here.child, stage.row_start, stage.probability, mdp.discount**h * stage.reward, mdp.A,
                after, TIE_TOL, mean_tie, now, action,
            )  # fmt: skip
            decisions.append(Earned(np.searchsorted(here.state, np.arange(mdp.S + 1)), here.total, action))
            after = now
        return EarnedPolicy(decisions[::-1], best_mean(mdp)[1].actions, target, mdp.discount, self.slack, mdp.paid)


def met_pairs(mdp: MDP, max_moves: float, max_bytes: float) -> MetPairs | None:
    """Return the pairs that can be met, or None if a stage has more moves than `max_moves` or memory allows.

    The result is None as well if rewards differ by less than the rounding error of their sums.
    """
    rewards = distinct_rewards(mdp)
    slack = sum_error(mdp.H) * float(np.abs(rewards).max())
    if np.any(np.diff(np.union1d(rewards, 0.0)) < 4.0 * slack):
        return None
    most = min(max_moves, max_bytes / MOVE_BYTES)
    fewest = [int(_counts(mdp, h, mdp.reachable[h]).sum()) for h in range(mdp.H)]  # one sum in every state
    if max(fewest) > most or 4 * sum(fewest) > max_bytes:
        return None  # it would be found later, after enumerating many pairs
    state = np.flatnonzero(mdp.mu)
    total, stages, stored, sampled = np.zeros(state.size), list[MetStage](), 0, SAMPLED_FROM
    for h in range(mdp.H):
        moves = int(_counts(mdp, h, state).sum())
        stored += 24 * state.size + 4 * moves
        if moves > max_moves or stored + MOVE_BYTES * moves > max_bytes:
            return None
        if moves > sampled:
            if _too_many(mdp, h, state, total, slack, most):
                return None
            sampled = SAMPLED * moves
        found = _followed(mdp, h, state, total, slack)
        if found is None:
            return None
        stages.append(MetStage(state, total, found.begin, found.child))
        state, total = found.state, found.total
    returns = drop_close(np.sort(total), slack)
    final = returns[np.searchsorted(returns, total + slack, side="right") - 1]
    stages.append(MetStage(state, total, NO_BEGIN, NO_CHILD))
    return MetPairs(mdp=mdp, stages=tuple(stages), slack=slack, returns=returns, final=final)


def _counts(mdp: MDP, h: int, states: IntArray | BoolArray) -> IntArray:
    """Return the number of moves from each of the states at a stage."""
    return np.diff(mdp.stage(h).row_start[:: mdp.A])[states]


def _too_many(mdp: MDP, h: int, state: IntArray, total: FloatArray, slack: float, most: float) -> bool:
    """Return whether some of these pairs lead to more than `most` moves at a later stage; then all of them do."""
    moves = int(_counts(mdp, h, state).sum())
    size = moves // SAMPLED
    for k in range(h, mdp.H - 1):
        step = -(-moves // size)
        part = _followed(mdp, k, state[::step], total[::step], slack)
        if part is None:
            return True
        state, total = part.state, part.total
        moves = int(_counts(mdp, k + 1, state).sum())
        if moves > most:
            return True
    return False


def _followed(mdp: MDP, h: int, state: IntArray, total: FloatArray, slack: float) -> MetStage | None:
    """Return the pairs that are met after the given ones, with the moves to them; None if sums are close and not one."""
    stage, counts = mdp.stage(h), _counts(mdp, h, state)
    begin = np.cumsum(counts) - counts
    source = np.repeat(np.arange(state.size), counts)
    i = np.repeat(stage.row_start[state * mdp.A] - begin, counts) + np.arange(source.size)
    after, earned = stage.successor[i], total[source] + mdp.discount**h * stage.reward[i]
    order = np.lexsort((earned, after))
    after, earned = after[order], earned[order]
    new = np.r_[True, (np.diff(after) != 0) | (np.diff(earned) > slack)]
    ends = np.r_[np.flatnonzero(new)[1:], after.size] - 1
    if np.any(earned[ends] - earned[new] > slack):
        return None
    child = np.empty(after.size, np.int32)
    child[order] = np.cumsum(new) - 1
    return MetStage(after[new].astype(np.int64), earned[new], begin, child)


def search_target(pairs: MetPairs, tau: float, error: float) -> tuple[FloatArray, FloatArray]:
    """Return targets and their shortfalls, among them the best target at this level and the one above it.

    Shortfalls grow with the target, so each pass narrows the range by the number of targets that it serves. If rounding errors
    of relative size `error` could change the answer, the search continues to the highest target that they leave open.
    """
    known: dict[int, float] = {0: 0.0}  # no return is below the smallest one
    for level in (tau, tau / (1.0 - error)):
        low, high = 0, pairs.returns.size
        for i, short in known.items():
            low, high = (max(low, i), high) if reaches(short, level) else (low, min(high, i))
        while high - low > 1:
            asked = np.unique(np.linspace(low + 1, high - 1, min(pairs.block, high - low - 1)).astype(np.int64))
            found = pairs.shortfalls(pairs.returns[asked])
            known |= dict(zip(asked.tolist(), found.tolist(), strict=True))
            reached = reaches(np.maximum.accumulate(found), level)
            n = int(np.count_nonzero(reached))
            low, high = (int(asked[n - 1]) if n else low), (int(asked[n]) if n < asked.size else high)
        if high == pairs.returns.size or known[high] * (1.0 - error) >= tau:
            break
    places = np.array(sorted(known))
    return pairs.returns[places], np.array([known[i] for i in places.tolist()])


def search_cvar(pairs: MetPairs, tau: float, tolerance: float) -> tuple[float, float, float]:
    """Return the best CVaR at level tau, its target z, and an upper bound within `tolerance` of it.

    CVaR = max_z { z - J(z) / tau } over the possible returns z, J(z) = min over policies of E (z - G)^+. The maximum over
    policies is not concave in z, so every target counts. J grows by at most the distance of two targets, which bounds it
    between targets a < b: J(z) >= max(J(a), J(b) - (b - z)), so the value there is at most b - (J(b) - J(a)) - J(a) / tau.
    Targets between are tried only while this exceeds the best value.
    """
    m = pairs.returns.size
    known = dict[int, float]()
    asked = np.unique(np.linspace(0, m - 1, min(pairs.block, m)).astype(np.int64))
    while True:
        known |= dict(zip(asked.tolist(), pairs.missing(pairs.returns[asked]).tolist(), strict=True))
        places = np.array(sorted(known))
        z, J = pairs.returns[places], np.array([known[i] for i in places.tolist()])
        values = z - J / tau
        best = int(values.argmax())
        bound = z[1:] - np.diff(J) - J[:-1] / tau
        open_still = (np.diff(places) > 1) & (bound > values[best] + tolerance)
        if not open_still.any():
            inside = bound[np.diff(places) > 1]
            return float(values[best]), float(z[best]), float(max(values[best], inside.max(initial=-np.inf)))
        worst = np.flatnonzero(open_still)
        worst = worst[np.argsort(-bound[worst], kind="stable")][: pairs.block]
        each = max(1, pairs.block // worst.size)
        parts = [np.linspace(places[i], places[i + 1], each + 2)[1:-1].astype(np.int64) for i in worst.tolist()]
        asked = np.setdiff1d(np.concatenate(parts), places)
