"""One policy under every kernel in l1 balls around the rows: the largest expected cost of its return.

    V_H(s, g) = cost(g),    V_h(s, g) = max over ||p - P||_1 <= eps of E_p[ V_{h+1}(s', g + r) ]    for the policy's action,

where g is the sum collected so far. The maximum is taken separately at every (stage, state, sum), so the kernel may depend on
the sum: the result bounds the worst case over fixed kernels from above, which is what a guarantee needs. Mass moves within
the outcomes that the model lists. With shared noise the ball belongs to the law of the events; the image of that ball in a
row is the ball of the same radius around the row, and each row takes its own worst law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bqrl.errors import GridError, SizeError
from bqrl.laws.law import size_of
from bqrl.loops.ball import robust_stage, robust_stage_threads
from bqrl.loops.layout import Ball, Moves, Rows
from bqrl.loops.threads import run_loop
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.find_grid import returns_grid, rounded_grid
from bqrl.mdp.grid import NO_JUMPS, Grid, Rounded
from bqrl.mdp.model import MDP
from bqrl.planners.sweep import NO_ORDER, NO_TABLE, NONE_MISSING, ROBUST
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.forward import Sums, empty_masses, sums_grid, sums_of, sums_on
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.pairs import Pairs, reached_pairs
from bqrl.policies.protocol import Policy
from bqrl.policies.shares import shares_in
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

FIXED_POINTS = 2000  # of a rounded grid of sums
MAX_MOVES = 20_000_000  # per stage of a policy over pairs
FEW_MOVES = 300_000  # of all stages, up to which a policy on a grid is followed over pairs
ONE_SUM = np.zeros(1, np.int64)


class Played(NamedTuple):
    """One stage of a policy over nodes (states, or pairs of a state and a memory) and sums."""

    rows: Rows  # of the nodes
    model_row: IntArray | None  # the row of the model behind each row of the nodes; None if they are the same
    moves: Moves  # of the sums
    action: ActionArray  # (nodes, columns)
    column: IntArray  # (sums,) column of `action` for every sum
    shares: FloatArray | None = None  # (nodes, A) action probabilities in place of `action`


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FixedPolicy:
    """A policy as stages of nodes and sums."""

    stages: tuple[Played, ...]
    first: FloatArray  # (nodes,) probability of each node at the start
    final: FloatArray  # (nodes at the end, sums) the return, or a proven lower bound on it
    returns: FloatArray  # its distinct values in increasing order

    @property
    def work(self) -> int:
        """Number of elementary steps of one pass for one cost."""
        return sum(one.rows.successor.size * one.column.size for one in self.stages)

    def worst_costs(
        self, half: FloatArray, cost: Callable[[FloatArray], FloatArray], missing: FloatArray | None = None
    ) -> FloatArray:
        """Return the largest expected costs over the ball, shape (d,); `cost` maps returns (...) to costs (..., d).

        `half` and `missing` (H, S*A) are as in `sweep`.
        """
        value = np.array(cost(self.final), order="C")
        for h in range(len(self.stages) - 1, -1, -1):
            value = _one_stage(self.stages[h], half[h], NONE_MISSING if missing is None else missing[h], value)
        return np.asarray(np.tensordot(self.first, value[:, 0, :], axes=1))


def _one_stage(played: Played, half: FloatArray, missing: FloatArray, after: FloatArray) -> FloatArray:
    """Return the worst expected costs before one stage, shape (nodes, sums, d)."""
    rows, which = played.rows, played.model_row
    lost = missing if which is None or not missing.size else missing[which]
    own = np.array(half if which is None else half[which])
    ball = Ball(half=own, sense=ROBUST, order=NO_ORDER, values=NO_TABLE, missing=np.array(lost))

    def run(action: ActionArray, column: IntArray) -> FloatArray:
        out = np.empty((len(action), played.column.size, after.shape[2]))
        arguments = rows, ball, played.moves, read_only(action), column, after, out
        run_loop(rows.successor.size * out[0].size, robust_stage, robust_stage_threads, *arguments)
        return out

    if played.shares is None:
        return run(played.action, played.column)
    nodes, A = played.shares.shape
    total = np.zeros((nodes, played.column.size, after.shape[2]))
    for a in range(A):
        always = np.full((nodes, 1), a, played.action.dtype)
        total += played.shares[:, a, None, None] * run(always, np.zeros_like(played.column))
    return total


def robust_work(mdp: MDP, sums: Sums) -> int:
    """Return the number of elementary steps of one pass over states and sums for one cost."""
    return sum(int(mdp.stage(h).successor.size) * sums.count(h) for h in range(mdp.H))


def fixed_policy(mdp: MDP, policy: Policy, columns: Grid | None = None) -> FixedPolicy:
    """Return a policy over states and sums on a grid, or over the pairs that it can reach; a mixture has several.

    A deterministic policy that reaches few of the sums of its grid is followed over the pairs, too. If no exact grid fits,
    sums are rounded down, and so are the returns.
    """
    chosen = columns is None
    if columns is None:
        columns = _columns(mdp, policy)
    if columns is None:
        return _over_pairs(mdp, policy, None)
    sums = sums_on(mdp, columns) if columns.exact else sums_of(mdp, columns)
    if not isinstance(policy, (MarkovPolicy, TargetPolicy, StochasticPolicy)):
        return _over_pairs(mdp, policy, sums)
    few = few_pairs(mdp, policy) if chosen and columns.exact and not isinstance(policy, StochasticPolicy) else None
    if few is not None:
        return _of_pairs(mdp, few, None, sums.values(mdp.H))
    empty_masses(mdp.S, max(sums.count(h) for h in range(mdp.H + 1)))  # raises SizeError if there are too many
    shares = shares_in(mdp, policy.probabilities) if isinstance(policy, StochasticPolicy) else None
    stages = []
    for h in range(mdp.H):
        stage, column = mdp.stage(h), np.zeros(sums.count(h), np.int64)
        action = np.zeros((mdp.S, 1), np.int16)
        if isinstance(policy, TargetPolicy):
            action, column = policy.actions[h], policy.column(h, policy.target - sums.values(h))
        elif isinstance(policy, MarkovPolicy):
            action = policy.actions[h][:, None]
        rows = Rows(stage.row_start, stage.successor, stage.probability)
        stages.append(Played(rows, None, sums.moves(h), action, column, None if shares is None else shares[h]))
    too_high = columns.error if isinstance(columns, Rounded) and columns.up else 0.0
    returns = sums.values(mdp.H) - too_high
    final = np.broadcast_to(returns, (mdp.S, returns.size))
    return FixedPolicy(stages=tuple(stages), first=mdp.mu, final=final, returns=returns)


def _columns(mdp: MDP, policy: Policy) -> Grid | None:
    """Return the grid of sums for a policy; None if it is followed over the pairs of state, memory and sum that it reaches."""
    if isinstance(policy, EarnedPolicy):
        return None
    if isinstance(policy, TargetPolicy):
        return sums_grid(mdp, policy)
    exact = returns_grid(mdp)
    if exact is None and isinstance(policy, (MarkovPolicy, StochasticPolicy)):
        return rounded_grid(mdp, FIXED_POINTS)
    if exact is None:
        raise GridError(
            f"a {policy.kind} policy requires an exact grid of returns, got a problem without one; convert it with to_markov"
        )
    return exact


def few_pairs(mdp: MDP, policy: Policy) -> list[Pairs] | None:
    """Return the pairs of a deterministic policy, with sums as part of them; None if they have more than FEW_MOVES moves."""
    listed, moves = list[Pairs](), 0
    try:
        for pairs in reached_pairs(policy, mdp, _unit(mdp), FEW_MOVES, listed=True):
            listed.append(pairs)
            moves += pairs.outcome.size
            if moves > FEW_MOVES:
                return None
    except SizeError:
        return None
    return listed


def _unit(mdp: MDP) -> float:
    """Return the distance up to which sums are equal."""
    return 1e-11 * size_of(mdp.reward) * mdp.H or 1e-300


def _over_pairs(mdp: MDP, policy: Policy, sums: Sums | None) -> FixedPolicy:
    """Return a deterministic policy over its pairs of state and memory, with sums beside them or as part of the pairs."""
    listed = reached_pairs(policy, mdp, None if sums is not None else _unit(mdp), MAX_MOVES, listed=True)
    return _of_pairs(mdp, list(listed), sums)


def _of_pairs(mdp: MDP, listed: list[Pairs], sums: Sums | None, exact: FloatArray | None = None) -> FixedPolicy:
    """Return the policy with these pairs; sums that are part of them end as the nearest of the `exact` returns, if given."""
    stages = []
    for h, pairs in enumerate(listed[:-1]):
        start, child = np.searchsorted(pairs.source, np.arange(pairs.state.size + 1)), pairs.child.astype(np.int32)
        rows = Rows(*map(read_only, (start, child, mdp.stage(h).probability[pairs.outcome])))
        moves = Moves(np.zeros(pairs.outcome.size, np.int64), NO_JUMPS)
        column = ONE_SUM
        if sums is not None:
            all_moves = sums.moves(h)
            moves, column = all_moves._replace(shift=all_moves.shift[pairs.outcome]), np.zeros(sums.count(h), np.int64)
        action = np.zeros((pairs.state.size, 1), np.int16)
        stages.append(Played(rows, pairs.state * mdp.A + pairs.action, moves, action, column))
    total = listed[-1].total
    if exact is not None:
        total = exact[np.searchsorted((exact[1:] + exact[:-1]) / 2.0, total)]
    final, returns = total[:, None], np.unique(total)
    if sums is not None:
        returns = sums.values(mdp.H)
        final = np.broadcast_to(returns, (listed[-1].state.size, returns.size))
    return FixedPolicy(stages=tuple(stages), first=listed[0].probability, final=final, returns=returns)
