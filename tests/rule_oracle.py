"""The best rule without memory of a small problem, by trying all of them in exact fractions; imports no planner."""

from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
from oracles import exact_outcomes

from bqrl.mdp.model import MDP


def cells(mdp: MDP) -> list[tuple[int, int, list[int]]]:
    """Stage, state and available actions of every decision that can occur under some rule."""
    return [
        (h, s, np.flatnonzero(mdp.stage(h).available[s]).tolist())
        for h in range(mdp.H)
        for s in np.flatnonzero(mdp.reachable[h]).tolist()
    ]


def all_rules(mdp: MDP, rule: str, cap: int) -> list[dict[tuple[int, int], int]] | None:
    """Every rule of a kind as (stage, state) -> action; None if there are more than `cap`. Thresholds: states by number."""
    decisions = cells(mdp)
    if rule == "state":
        shared = {s: set(range(mdp.A)) for _, s, _ in decisions}
        for _, s, actions in decisions:
            shared[s] &= set(actions)
        if np.prod([float(len(a)) for a in shared.values()]) > cap:
            return None
        drawn = [dict(zip(shared, picked, strict=True)) for picked in product(*map(sorted, shared.values()))]
        return [{(h, s): one[s] for h, s, _ in decisions} for one in drawn]
    by_stage = []
    for h in range(mdp.H):
        here = [(s, actions) for k, s, actions in decisions if k == h]
        if np.prod([float(len(a)) for _, a in here]) > cap:
            return None
        by_stage.append(
            [{(h, s): a for (s, _), a in zip(here, p, strict=True)} for p in product(*(a for _, a in here))]
        )
    if rule == "stage-state":
        return _joined(by_stage, cap)
    free = {(h, s) for h, s, actions in decisions if len(actions) > 1}
    found = []
    for sign in (1, -1):
        rising = [[one for one in stage if _rises(one, free, sign)] for stage in by_stage]
        joined = _joined(rising, cap)
        if joined is None:
            return None
        found += joined
    return found


def _rises(stage: dict[tuple[int, int], int], free: set[tuple[int, int]], sign: int) -> bool:
    ordered = [sign * a for cell, a in sorted(stage.items()) if cell in free]
    return ordered == sorted(ordered)


def _joined(by_stage: list[list[dict]], cap: int) -> list[dict] | None:
    if np.prod([float(len(stage)) for stage in by_stage]) > cap:
        return None
    return [{cell: a for part in parts for cell, a in part.items()} for parts in product(*by_stage)]


def exact_laws(mdp: MDP, rules: list[dict]) -> list[dict[Fraction, Fraction]]:
    """The exact law of the return of every rule."""
    outcomes = {(h, s, a): exact_outcomes(mdp, h, s, a) for h, s, actions in cells(mdp) for a in actions}
    first = {(s, Fraction(0)): Fraction(float(p)).limit_denominator(10**6) for s, p in enumerate(mdp.mu) if p > 0}
    laws = []
    for rule in rules:
        mass = dict(first)
        for h in range(mdp.H):
            after: dict[tuple[int, Fraction], Fraction] = defaultdict(Fraction)
            for (s, g), m in mass.items():
                for t, p, r in outcomes[h, s, rule[h, s]]:
                    after[t, g + r] += m * p
            mass = after
        law: dict[Fraction, Fraction] = defaultdict(Fraction)
        for (_, g), m in mass.items():
            law[g] += m
        laws.append(law)
    return laws


def quantile(law: dict[Fraction, Fraction], tau: Fraction) -> Fraction:
    """The lower quantile of an exact law."""
    running = Fraction(0)
    for x in sorted(law):
        running += law[x]
        if running >= tau:
            return x
    return max(law)


def buffered(law: dict[Fraction, Fraction], tau: Fraction, beta: Fraction) -> Fraction:
    """The mean of the quantiles of the levels tau - beta to tau."""
    running, total = Fraction(0), Fraction(0)
    for x in sorted(law):
        before, running = running, running + law[x]
        total += x * max(Fraction(0), min(running, tau) - max(before, tau - beta))
    return total / beta
