"""The return of a given policy: its exact law, or a bracket of it, and sampled episodes.

The forward pass carries, for every state, the mass of each sum of rewards collected so far:

    m_0(s, 0) = mu(s),    m_{h+1}(s', g + r) += P_h(s', r | s, a) m_h(s, g)    with a = the policy's action at (h, s, g).

A target policy sees its need, target - g, in the sum itself, so one pass serves Markov and target policies; the other
kinds walk through their (finitely many) memories.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.kernels.rollout import draw_many
from bqrl.laws.bracket import LawBracket
from bqrl.laws.law import Law
from bqrl.mdp.find_grid import MAX_POINTS, MAX_SET, grid, rounded
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.grid import Grid, Rounded
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy, MixturePolicy, Policy, TargetPolicy, check_fits
from bqrl.planners.follow import check_played, push_forward, sums_on

BRACKET_POINTS = 20_000
MAX_ATOMS = 20_000  # (state, memory, sum) triples of one stage up to which a policy's own support is followed
THREADS_FROM = 1_000_000  # outcomes times columns of a stage from which threads pay


def evaluate(
    mdp: MDP,
    policy: Policy,
    *,
    points: int = BRACKET_POINTS,
    max_points: int = MAX_POINTS,
    max_set: int = MAX_SET,
    max_atoms: int = MAX_ATOMS,
) -> Law | LawBracket:
    """Exact law of the return of `policy` in `mdp`; a LawBracket where neither an exact grid nor its own support fits.

    `max_points` and `max_set` bound the grid of all returns, `max_atoms` the returns that this policy can have. Beyond
    them `points` is the size of a rounded grid, and the bracket narrows in proportion to it.
    """
    check_fits(policy, mdp)
    if isinstance(policy, MixturePolicy):
        limits = {"points": points, "max_points": max_points, "max_set": max_set, "max_atoms": max_atoms}
        return _mixture([evaluate(mdp, part, **limits) for part in policy.policies], policy.weights)
    rounds = isinstance(policy, TargetPolicy) and not policy.grid.exact
    exact = None if rounds else grid(mdp, max_points, max_set)
    if exact is not None:
        return _law_on(mdp, policy, exact)
    if isinstance(policy, (MarkovPolicy, TargetPolicy)):
        own = _own_support(mdp, policy, max_atoms)
        if own is not None:
            return own
    if isinstance(policy, TargetPolicy) and isinstance(policy.grid, Rounded):
        if policy.grid.units.shape[-1] != mdp.reward.shape[-1]:
            raise ValueError("a policy on a rounded grid can be evaluated only on the problem it was planned for")
        law, error = _law_on(mdp, policy, policy.grid), policy.grid.error
        return LawBracket(law.shift(-error), law) if policy.grid.up else LawBracket(law, law.shift(error))
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
        points, mass = push_forward(mdp, policy, columns)
        return Law(points, mass)
    return _walk_memories(mdp, policy, columns)


def _own_support(mdp: MDP, policy: MarkovPolicy | TargetPolicy, max_atoms: int) -> Law | None:
    """Law on the returns that this policy can have, followed one by one; None where they are more than `max_atoms`."""
    s = np.flatnonzero(mdp.mu)
    mass, total = mdp.mu[s], np.zeros(s.size)
    memory = policy.start_many(np.zeros(s.size))
    size = max(1.0, float(np.abs(mdp.reward).max()) * mdp.H)
    for h in range(mdp.H):
        if s.size > max_atoms:
            return None
        stage = mdp.stage(h)
        a = policy.act_many(h, s, memory)
        check_played(mdp, h, s, a)
        source, i = stage.outcomes_of(s * mdp.A + a)
        reward, after = stage.reward[i], stage.successor[i].astype(np.int64)
        before = None if memory is None else memory[source]
        memory = policy.next_many(before, h, s[source], a[source], reward, after)
        total = total[source] + mdp.discount**h * reward
        mass, s = mass[source] * stage.probability[i], after
        keys = [s, np.rint(total * (1e11 / size))]
        if memory is not None:
            keys.append(np.rint(memory * (1e11 / size)))
        order = np.lexsort(keys)
        new = np.r_[True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0)]
        first = order[new]
        mass = np.add.reduceat(mass[order], np.flatnonzero(new))
        s, total = s[first], total[first]
        memory = None if memory is None else memory[first]
    return Law(total, mass)


def _walk_memories(mdp: MDP, policy: Policy, columns: Grid) -> Law:
    """Law under any deterministic policy, following every (state, memory) that can be met."""
    sums = sums_on(mdp, columns)
    mass: dict[tuple[int, Any], FloatArray] = {}
    for s in np.flatnonzero(mdp.mu).tolist():
        mass[s, policy.start()] = np.array([mdp.mu[s]])
    for h in range(mdp.H):
        gain, landings = sums.moves(h)
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
        check_played(mdp, h, s, a)
        draw_many(stage.row_start, stage.probability, s * mdp.A + a, u[:, 2 + h], outcome)
        reward, after = stage.reward[outcome], stage.successor[outcome].astype(np.int64)
        memory = policy.next_many(memory, h, s, a, reward, after)
        total += mdp.discount**h * reward
        s = after
    return total
