"""Forward passes of a policy: the probabilities (masses) of the sums it collects, and its state-action occupancy.

The forward pass carries, for every state, the mass of each sum of rewards collected so far:

    m_0(s, 0) = mu(s),    m_{h+1}(s', g + r) += P_h(s', r | s, a) m_h(s, g)    with a = the policy's action at (h, s, g).

The need of a target policy, target - g, follows from the sum, so one pass serves Markov and target policies.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
from numba import get_num_threads

from bqrl.errors import SizeError
from bqrl.loops.layout import Moves, Rows
from bqrl.loops.plain import by_numpy, plain_mass
from bqrl.loops.rollout import push_mass, push_mass_threads
from bqrl.loops.threads import run_loop
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.find_grid import refit_grid, returns_grid
from bqrl.mdp.grid import (
    BLOCK_BYTES,
    EMPTY,
    NO_JUMPS,
    Grid,
    Lattice,
    ReturnSet,
    Rounded,
    by_products,
    distinct_moves,
    merge_close,
    row_shift,
)
from bqrl.mdp.model import MDP, per_structure
from bqrl.mdp.outcomes import REWARD
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.pairs import Pairs, check_played, limited_pairs
from bqrl.policies.protocol import Policy, check_fits
from bqrl.policies.shares import shares_in
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

MAX_MASSES = 2**34  # bytes of the masses of one stage


@per_structure
def sums_on(mdp: MDP, columns: Grid) -> Sums:
    """Return the sums on a grid, computed once per problem and grid."""
    return sums_of(mdp, columns)


def push_forward(mdp: MDP, policy: MarkovPolicy | TargetPolicy, columns: Grid) -> tuple[FloatArray, FloatArray]:
    """Return the final sums and their masses under a policy that depends on the state and the sum only."""
    ((values, mass),) = deque(stage_masses(mdp, policy, columns), maxlen=1)
    return values, mass.sum(axis=0)


def push_with_mean(
    mdp: MDP, policy: MarkovPolicy | TargetPolicy, columns: Grid
) -> tuple[FloatArray, FloatArray, float]:
    """Return the result of `push_forward` and the exact mean, the sum of expected rewards, which are not rounded to a grid."""
    mean = 0.0
    for h, (values, mass) in enumerate(stage_masses(mdp, policy, columns)):
        if h < mdp.H:
            if isinstance(policy, TargetPolicy):
                table, column = policy.decisions(h, policy.target - values, mdp.reachable[h])
                played = table[:, column]
            else:
                played = policy.actions[h][:, None]
            paid = np.take_along_axis(expected_rewards(mdp, h), played.astype(np.int64), axis=1)
            mean += mdp.discount**h * float((paid * mass).sum())
    return values, mass.sum(axis=0), mean


def expected_rewards(mdp: MDP, h: int, name: str = REWARD) -> FloatArray:
    """Return the expected reward, or the mean of the further outcome `name`, of every action of stage `h`, shape (S, A)."""
    stage = mdp.stage(h)
    rows = np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start))
    paid = stage.reward if name == REWARD else _outcome_means(mdp, name)[h]
    mean: FloatArray = np.bincount(rows, stage.probability * paid, mdp.S * mdp.A).astype(np.float64)
    return mean.reshape(mdp.S, mdp.A)


@per_structure
def _outcome_means(mdp: MDP, name: str) -> list[FloatArray]:
    """Return the mean of a further outcome given each outcome of every stage; stages that share values share arrays."""
    assert mdp.further is not None
    means, rows = read_only(mdp.further.means(name)), mdp.S * mdp.A
    if mdp.stationary:
        return [means[h if len(means) > 1 else 0] for h in range(mdp.H)]
    return [means[0, mdp.row_start[h * rows] : mdp.row_start[(h + 1) * rows]] for h in range(mdp.H)]


def stage_masses(
    mdp: MDP, policy: MarkovPolicy | TargetPolicy, columns: Grid, sums: Sums | None = None
) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Yield the possible sums before each stage and at the end, each with the probability (S, sums) of state and sum.

    `sums` are those of the problem on this grid, if the caller has them.
    """
    if sums is None:
        sums = sums_on(mdp, columns) if columns.exact else sums_of(mdp, columns)  # a rounded grid is used once
    mass = mdp.mu[:, None].copy()
    for h in range(mdp.H):
        yield sums.values(h), mass
        stage = mdp.stage(h)
        action, column = played_by_sum(mdp, policy, h, sums)
        out = empty_masses(mdp.S, sums.count(h + 1))
        if by_products(mdp, columns, stage):
            _push_products(mdp.dense(h), row_shift(mdp, sums.moves(h), h), action, column, mass, out)
        else:
            rows = Rows(stage.row_start, stage.successor, stage.probability)
            push_stage(rows, sums.moves(h), action, column, mass, out)
        mass = out
    yield sums.values(mdp.H), mass


def empty_masses(rows: int, sums: int) -> FloatArray:
    """Return masses of 0, one row per state or pair and one column per sum; raise SizeError if there are too many."""
    needed = 8 * rows * sums
    if needed > MAX_MASSES:
        got, limit = (f"{size / 2**30:.3g} GiB" for size in (needed, MAX_MASSES))
        raise SizeError(
            f"the masses of {rows} states and {sums} sums of rewards must fit into {limit}, got {got}; lower max_points or "
            "points, or use simulate", needed=needed, limit=MAX_MASSES, name="max_points",
        )  # fmt: skip
    return np.zeros((rows, sums))


def push_stage(
    rows: Rows, moves: Moves, action: ActionArray, column: IntArray, mass: FloatArray, out: FloatArray
) -> None:
    """Run `push_mass` on the action tables of a stage (S, columns), with threads if the stage is large."""
    work = rows.successor.size * len(mass) // (rows.start.size - 1) * out.shape[1]
    flat = np.ascontiguousarray(action).reshape(-1)
    if by_numpy(work):
        plain_mass(rows, moves, flat, column, mass, out)
        return
    arguments = rows, moves, read_only(flat), column, mass, out
    run_loop(
        work,
        lambda: push_mass(*arguments, (0, out.shape[1]), False),
        lambda: push_mass_threads(*arguments, get_num_threads()),
    )


def _push_products(
    kernel: FloatArray, gain: IntArray, action: ActionArray, column: IntArray, mass: FloatArray, out: FloatArray
) -> None:
    """Compute `push_mass` for dense rows: shift the mass of each row by its reward, then multiply by the rows of the kernel."""
    S, A = mass.shape[0], kernel.shape[0] // mass.shape[0]
    block = max(1, BLOCK_BYTES // (8 * out.shape[1] * (A if action.shape[1] > 1 else 1)))
    for first in range(0, S, block):
        states = slice(first, min(S, first + block))
        here = mass[states]
        s, g = np.nonzero(here)
        row = (first + s) * A + action[states][s, column[g]]
        begun = np.full(kernel.shape[0], row.size)  # where the mass of each row begins
        begun[row[::-1]] = np.arange(row.size)[::-1]
        rows = row[begun[row] == np.arange(row.size)]
        begun[rows] = np.arange(rows.size)
        spread = np.zeros((rows.size, out.shape[1]))
        spread[begun[row], g + gain[row]] = here[s, g]
        if first == 0:
            np.matmul(kernel[rows].T, spread, out=out)
        else:
            out += kernel[rows].T @ spread


def played_by_sum(mdp: MDP, policy: Policy, h: int, sums: Sums) -> tuple[ActionArray, IntArray]:
    """Return an action table of stage `h`, one row per state, and the column of each sum in it; its actions exist."""
    if isinstance(policy, MarkovPolicy):
        action, column = policy.actions[h][:, None], np.zeros(sums.count(h), np.int64)
    else:
        assert isinstance(policy, TargetPolicy)
        action, column = policy.decisions(h, policy.target - sums.values(h), mdp.reachable[h])
    if action.max() >= mdp.A or not mdp.stage(h).available.all():
        met = np.repeat(np.flatnonzero(mdp.reachable[h]), action.shape[1])
        check_played(mdp, h, met, action[mdp.reachable[h]].ravel())
    return action, column


def play_shares(mdp: MDP, policy: Policy) -> FloatArray:
    """Return the occupancy P(the episode is in s at stage h and the policy plays a), shape (H, S, A); exact."""
    check_fits(policy, mdp)
    if isinstance(policy, MixturePolicy):
        parts = zip(policy.weights, policy.policies, strict=True)
        return np.asarray(sum(w * play_shares(mdp, part) for w, part in parts))
    if isinstance(policy, StochasticPolicy):
        return _stochastic_shares(mdp, policy)
    shares = np.zeros((mdp.H, mdp.S, mdp.A))
    columns = sums_grid(mdp, policy) if isinstance(policy, TargetPolicy) else None
    if isinstance(policy, TargetPolicy) and columns is not None:
        for h, (sums, mass) in zip(range(mdp.H), stage_masses(mdp, policy, columns), strict=False):
            table, column = policy.decisions(h, policy.target - sums, mdp.reachable[h])
            played = table[:, column]
            for a in range(mdp.A):
                shares[h, :, a] = np.where(played == a, mass, 0.0).sum(axis=1)
    else:
        for h, pairs in zip(range(mdp.H), pairs_of(mdp, policy), strict=False):
            if pairs.shares is None:
                np.add.at(shares[h], (pairs.state, pairs.action), pairs.probability)
            else:
                np.add.at(shares[h], pairs.state, pairs.probability[:, None] * pairs.shares)
    return shares


def _stochastic_shares(mdp: MDP, policy: StochasticPolicy) -> FloatArray:
    """Return `play_shares` of a stochastic policy: the probability of each state times those of its actions."""
    shares, mass = shares_in(mdp, policy.probabilities), mdp.mu
    for h in range(mdp.H):
        shares[h] *= mass[:, None]
        stage = mdp.stage(h)
        source, i = stage.outcomes_of(np.arange(mdp.S * mdp.A))
        moved = shares[h].reshape(-1)[source] * stage.probability[i]
        mass = np.bincount(stage.successor[i], moved, mdp.S).astype(np.float64)
    return shares


def pairs_of(mdp: MDP, policy: Policy) -> Iterator[Pairs]:
    """Yield the pairs (state, memory) that a policy can reach; raise SizeError if there are too many."""
    remedy = "plan on this problem or use simulate" if isinstance(policy, TargetPolicy) else "use simulate"
    return limited_pairs(policy, mdp, remedy, least=int(mdp.reachable.sum()), drawn=True)


def sums_grid(mdp: MDP, policy: TargetPolicy) -> Grid | None:
    """Return a grid of the sums of rewards that determine the need of a target policy in `mdp`; None if there is none.

    The policy may have been planned for another problem. If that problem has another discount, its needs do not follow from
    the discounted sums of this one.
    """
    if policy.grid.discount != mdp.discount:
        return None
    return refit_grid(policy.grid, mdp) if isinstance(policy.grid, Rounded) else returns_grid(mdp)


# -- sums of rewards ---------------------------------------------------------------------------------------------------------


class SumRange:
    """Sums on a uniform grid: all whole steps between the least and the greatest sum over the reachable states."""

    def __init__(self, mdp: MDP, grid: Lattice) -> None:
        self.mdp, self.grid = mdp, grid
        low, high = np.zeros((2, mdp.S), np.int64)
        self.lowest, self.size = np.zeros(mdp.H + 1, np.int64), np.ones(mdp.H + 1, np.int64)
        for h in range(mdp.H):
            stage, units = mdp.stage(h), grid.stage_units(mdp, h)
            source = np.repeat(np.arange(mdp.S), np.diff(stage.row_start[:: mdp.A]))
            used = np.flatnonzero(mdp.reachable[h][source])
            source, successor = source[used], stage.successor[used]
            before_low, before_high = low, high
            low, high = np.full(mdp.S, np.iinfo(np.int64).max), np.full(mdp.S, np.iinfo(np.int64).min)
            np.minimum.at(low, successor, before_low[source] + units[used])
            np.maximum.at(high, successor, before_high[source] + units[used])
            met = mdp.reachable[h + 1]
            self.lowest[h + 1] = low[met].min()
            self.size[h + 1] = high[met].max() - low[met].min() + 1

    def count(self, h: int) -> int:
        """Return the number of sums before stage `h`."""
        return int(self.size[h])

    def values(self, h: int) -> FloatArray:
        """Return the sums before stage `h`, computed exactly as the grid computes its points."""
        return self.grid.steps_value(np.arange(self.size[h]) + self.lowest[h], 0, h)

    def moves(self, h: int) -> Moves:
        """Return the shift of every outcome of stage `h`."""
        return Moves(self.grid.stage_units(self.mdp, h) + (self.lowest[h] - self.lowest[h + 1]), NO_JUMPS)


class SumSets:
    """Sums on a grid that is a set of returns: each sum is collected on some path."""

    def __init__(self, mdp: MDP, grid: ReturnSet) -> None:
        self.mdp, self.grid = mdp, grid
        by_state = [np.zeros(1) if p > 0 else EMPTY for p in mdp.mu]
        self.sets = [np.zeros(1)]
        for h in range(mdp.H):
            found: list[list[FloatArray]] = [[] for _ in range(mdp.S)]
            for s, u, t in distinct_moves(mdp, h, grid.stage_units(mdp, h)):
                found[t].append(by_state[s] + mdp.discount**h * grid.rewards[u])
            by_state = [merge_close(np.concatenate(parts), grid.slack) if parts else EMPTY for parts in found]
            self.sets.append(merge_close(np.concatenate(by_state), grid.slack))

    def count(self, h: int) -> int:
        """Return the number of sums before stage `h`."""
        return self.sets[h].size

    def values(self, h: int) -> FloatArray:
        """Return the sums before stage `h`."""
        return self.sets[h]

    def moves(self, h: int) -> Moves:
        """Return the reward index of every outcome of stage `h`, and where each reward takes each sum."""
        total = self.sets[h][None, :] + self.grid.discount**h * self.grid.rewards[:, None]
        landings = np.searchsorted(self.sets[h + 1], total - self.grid.slack, side="left")
        return Moves(self.grid.stage_units(self.mdp, h).copy(), landings)


Sums = SumRange | SumSets


def sums_of(mdp: MDP, grid: Grid) -> Sums:
    """Return the sums that may have been collected before each stage."""
    if isinstance(grid, Lattice):
        return SumRange(mdp, grid)
    assert isinstance(grid, ReturnSet)
    return SumSets(mdp, grid)
