"""The return of a given policy: its exact law, or a bracket of it, and sampled episodes.

The forward pass carries, for every state, the mass of each sum of rewards collected so far:

    m_0(s, 0) = mu(s),    m_{h+1}(s', g + r) += P_h(s', r | s, a) m_h(s, g)    with a = the policy's action at (h, s, g).

A target policy sees its need, target - g, in the sum itself, so one pass serves Markov and target policies; the other
kinds walk through their (finitely many) memories.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.kernels.rollout import draw_outcomes, forward_extremes, push_mass, push_mass_threads
from bqrl.laws.bracket import LawBracket
from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.lattice import MAX_POINTS, MAX_SET, Grid, forward_sets, grid, rounded
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import ActionArray, MarkovPolicy, MixturePolicy, Policy, TargetPolicy, check_fits

BRACKET_POINTS = 20_000
THREADS_FROM = 100_000  # cells of a stage below which starting threads costs more than it saves


def evaluate(
    mdp: MDP, policy: Policy, *, points: int = BRACKET_POINTS, max_points: int = MAX_POINTS, max_set: int = MAX_SET
) -> Law | LawBracket:
    """Exact law of the return of `policy` in `mdp`; a LawBracket where no exact grid fits the given sizes.

    `points` is the size of the rounded grid then: the bracket narrows in proportion to it.
    """
    check_fits(policy, mdp)
    if isinstance(policy, MixturePolicy):
        parts = [evaluate(mdp, p, points=points, max_points=max_points, max_set=max_set) for p in policy.policies]
        return _mixture(parts, policy.weights)
    if isinstance(policy, TargetPolicy) and not policy.grid.exact:
        if policy.grid.units.shape[-1] != mdp.reward.shape[-1]:
            raise ValueError("a policy on a rounded grid can be evaluated only on the problem it was planned for")
        law = _law_on(mdp, policy, policy.grid)
        return LawBracket(law, law.shift(policy.grid.error))
    exact = grid(mdp, max_points, max_set)
    if exact is not None:
        return _law_on(mdp, policy, exact)
    if isinstance(policy, MarkovPolicy):
        return LawBracket(*(_law_on(mdp, policy, rounded(mdp, points, up=up)) for up in (False, True)))
    raise ValueError(
        f"the returns of this problem fit no exact grid (max_points={max_points}, max_set={max_set}), and a {policy.kind} "
        "policy can then not be followed; evaluate policy.to_labels(mdp) with larger limits, or a policy planned here"
    )


def _mixture(parts: list[Law | LawBracket], weights: FloatArray) -> Law | LawBracket:
    exact = [part for part in parts if isinstance(part, Law)]
    if len(exact) == len(parts):
        return Law.mixture(exact, weights)
    ends = [(part, part) if isinstance(part, Law) else (part.lower, part.upper) for part in parts]
    return LawBracket(Law.mixture([low for low, _ in ends], weights), Law.mixture([high for _, high in ends], weights))


def _law_on(mdp: MDP, policy: Policy, columns: Grid) -> Law:
    if isinstance(policy, (MarkovPolicy, TargetPolicy)):
        points, mass = _push_forward(mdp, policy, columns)
        return Law(points, mass)
    return _walk_memories(mdp, policy, columns)


class Sums:
    """The sums of rewards that may have been collected before each stage: columns of the forward pass."""

    def __init__(self, mdp: MDP, columns: Grid) -> None:
        self.mdp, self.grid = mdp, columns
        if columns.sets is not None:
            self._collect_sets()
        else:
            self._collect_range()

    def _collect_range(self) -> None:
        """Lowest and number of sums in steps, over the states that can be met."""
        mdp = self.mdp
        low, high = np.zeros(mdp.S, np.int64), np.zeros(mdp.S, np.int64)
        self.lowest, self.size = np.zeros(mdp.H + 1, np.int64), np.ones(mdp.H + 1, np.int64)
        for h in range(mdp.H):
            stage = mdp.stage(h)
            units = self.grid.stage_units(mdp, h)
            low, high = forward_extremes(stage.row_start, stage.successor, units, mdp.A, low, high, mdp.reachable[h])
            met = mdp.reachable[h + 1]
            self.lowest[h + 1] = low[met].min()
            self.size[h + 1] = high[met].max() - low[met].min() + 1

    def _collect_sets(self) -> None:
        self.sets = forward_sets(self.mdp, self.grid)

    def count(self, h: int) -> int:
        """Number of columns before stage `h`."""
        return self.sets[h].size if self.grid.sets is not None else int(self.size[h])

    def values(self, h: int) -> FloatArray:
        """The sums themselves, exactly as the grid's own values count them."""
        if self.grid.sets is not None:
            return self.sets[h]
        steps = np.arange(self.size[h]) + self.lowest[h]
        if self.grid.scale is not None and self.grid.exact_offset is not None:
            base = self.grid.exact_offset[0] - self.grid.exact_offset[h]
            return (base + steps * self.grid.scale[0]) / self.grid.scale[1]
        return (self.grid.offset[0] - self.grid.offset[h]) + steps * self.grid.step

    def gain(self, h: int) -> tuple[IntArray, IntArray]:
        """Column shift of every outcome of stage `h`, and for a set the table of landings."""
        units = self.grid.stage_units(self.mdp, h)
        if self.grid.sets is None:
            return units + (self.lowest[h] - self.lowest[h + 1]), np.empty((0, 0), np.int64)
        assert self.grid.rewards is not None
        total = self.sets[h][None, :] + self.grid.discount**h * self.grid.rewards[:, None]
        return units, np.searchsorted(self.sets[h + 1], total - self.grid.slack, side="left")


def _push_forward(mdp: MDP, policy: MarkovPolicy | TargetPolicy, columns: Grid) -> tuple[FloatArray, FloatArray]:
    """Final sums and their masses under a policy that looks at the state and the sum alone."""
    from numba import get_num_threads

    sums = Sums(mdp, columns)
    mass = mdp.mu[:, None].copy()
    for h in range(mdp.H):
        stage = mdp.stage(h)
        action, column = _actions_by_sum(policy, h, sums)
        _check_available(stage.available, action, mdp, h)
        gain, landings = sums.gain(h)
        out = np.zeros((mdp.S, sums.count(h + 1)))
        moves = (stage.row_start, stage.successor, stage.probability, gain, landings, mdp.A, action, column, mass, out)
        if out.size > THREADS_FROM:
            push_mass_threads(*moves, get_num_threads())
        else:
            push_mass(*moves, 0, out.shape[1])
        mass = out
    return sums.values(mdp.H), mass.sum(axis=0)


def _actions_by_sum(policy: MarkovPolicy | TargetPolicy, h: int, sums: Sums) -> tuple[ActionArray, IntArray]:
    if isinstance(policy, MarkovPolicy):
        return policy.actions[h][:, None], np.zeros(sums.count(h), np.int64)
    return policy.actions[h], policy.column(h, policy.target - sums.values(h))


def _check_available(available: Any, action: ActionArray, mdp: MDP, h: int) -> None:
    if action.max() >= mdp.A:
        raise ValueError(
            f"the policy plays action {action.max()} at stage {h}, the problem has actions 0 to {mdp.A - 1}"
        )
    wrong = ~np.take_along_axis(available, action.astype(np.int64), axis=1).all(axis=1) & mdp.reachable[h]
    if wrong.any():
        raise ValueError(
            f"the policy plays an action that does not exist in state {mdp.state_label(int(wrong.argmax()))} at stage {h}"
        )


def _walk_memories(mdp: MDP, policy: Policy, columns: Grid) -> Law:
    """Law under any deterministic policy, following every (state, memory) that can be met."""
    sums = Sums(mdp, columns)
    mass: dict[tuple[int, Any], FloatArray] = {}
    for s in np.flatnonzero(mdp.mu).tolist():
        mass[s, policy.start()] = np.array([mdp.mu[s]])
    for h in range(mdp.H):
        gain, landings = sums.gain(h)
        stored = 0 if mdp.stationary else h
        first, n = mdp.row_start[stored * mdp.S * mdp.A], sums.count(h + 1)
        after: dict[tuple[int, Any], FloatArray] = {}
        for (s, memory), row in mass.items():
            some = np.flatnonzero(row)  # sums that this state cannot have might leave the range of the next stage
            a = policy.act(h, s, memory)
            q = (stored * mdp.S + s) * mdp.A + a
            successors, probabilities, rewards = mdp.outcomes(h, s, a)
            for j, (t, p, r) in enumerate(zip(successors.tolist(), probabilities, rewards.tolist(), strict=True)):
                if p > 0.0:
                    place = gain[mdp.row_start[q] - first + j]
                    target = after.setdefault((t, policy.next(memory, h, s, a, r, t)), np.zeros(n))
                    landed = landings[place, some] if landings.size else some + place
                    np.add.at(target, landed, p * row[some])
        mass = after
    return Law(sums.values(mdp.H), sum(mass.values()))


def simulate(mdp: MDP, policy: Policy, episodes: int = 10_000, seed: int | np.random.Generator = 0) -> FloatArray:
    """Returns of `episodes` sampled episodes, shape (episodes,); the same seed gives the same bits."""
    check_fits(policy, mdp)
    if isinstance(episodes, bool) or not isinstance(episodes, (int, np.integer)) or episodes < 1:
        raise ValueError(f"episodes must be a whole number of at least 1, got {episodes!r}")
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(seed)
    u = rng.random((episodes, mdp.H + 2))  # the policy's coin, the first state, then one draw a transition
    memory = policy.start_many(u[:, 0])
    s = np.minimum(np.searchsorted(np.cumsum(mdp.mu), u[:, 1], side="right"), np.flatnonzero(mdp.mu)[-1])
    total, outcome = np.zeros(episodes), np.empty(episodes, np.int64)
    for h in range(mdp.H):
        stage = mdp.stage(h)
        a = policy.act_many(h, s, memory)
        missing = ~stage.available[s, a]
        if missing.any():
            raise ValueError(
                f"the policy plays an action that does not exist in state {mdp.state_label(int(s[missing.argmax()]))}"
                f" at stage {h}"
            )
        draw_outcomes(stage.row_start, stage.probability, s * mdp.A + a, u[:, 2 + h], outcome)
        reward, after = stage.reward[outcome], stage.successor[outcome].astype(np.int64)
        memory = policy.next_many(memory, h, s, a, reward, after)
        total += mdp.discount**h * reward
        s = after
    return total
