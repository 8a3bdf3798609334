"""The target sweep in exact fractions: settles ties that rounding leaves open, on small problems.

Probabilities and the level are read as the numbers a person means: 0.1 is 1/10, 5/6 is 5/6 though its float lies above it. A
row whose readings do not sum to 1 keeps its floats exactly as they are, divided by their sum.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np

from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import TargetPolicy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import Plan, check_levels
from bqrl.planners.target import as_law, exact_grid

MAX_WORK = 3_000_000  # products of fractions, about two seconds a million
READ_DENOMINATOR = 10**6


def plan_rational(mdp: MDP, tau: float) -> Plan:
    """The best policy for the tau-quantile by exact arithmetic; ValueError where the problem is too large for it."""
    begun = time.perf_counter()
    tau, _ = check_levels(tau, 0.0)
    columns = exact_grid(mdp)
    if columns is None or mdp.discount < 1.0:
        raise ValueError("arithmetic='rational' needs undiscounted returns on a lattice or in a small set")
    work = sum(mdp.stage(h).successor.size * int(columns.size[h]) for h in range(mdp.H))
    if work > MAX_WORK:
        raise ValueError(
            f"arithmetic='rational' would take {work} products of fractions, the limit is {MAX_WORK}; use the default"
            " arithmetic, whose plan.certain says whether rounding matters"
        )
    shortfall, actions = rational_sweep(mdp, columns)
    level = _meant(tau)
    if not _faithful(level, tau):
        level = Fraction(repr(tau))  # no short fraction: the decimal as it is written
    best = max(i for i, short in enumerate(shortfall) if short < level)
    target = float(columns.points(0)[best])
    policy = TargetPolicy(columns, actions, target)
    law = as_law(evaluate(mdp, policy))
    note = f"decided in exact fractions: the shortfall {shortfall[best]} is below {level}"
    return Plan(
        tau, 0.0, "target", policy, law, target, target, target, True, True, seconds=time.perf_counter() - begun,
        notes=(note,), details={"shortfall": shortfall},
    )  # fmt: skip


def rational_sweep(mdp: MDP, columns: Grid) -> tuple[list[Fraction], list[np.ndarray]]:
    """W_0 of every target as fractions, and the action tables; ties by the exact mean, then the lower action."""
    short = [[Fraction(0), Fraction(1)] for _ in range(mdp.S)]
    mean = [[Fraction(0)] * 2 for _ in range(mdp.S)]
    reading = {float(r): _meant(r) for r in np.unique(mdp.reward)}
    actions = []
    for h in range(mdp.H - 1, -1, -1):
        stage, (shift, jumps) = mdp.stage(h), columns.moves(mdp, h)
        probability = read_rows(stage.probability, stage.row_start)
        n, top = int(columns.size[h]) + 1, int(columns.size[h + 1])
        table = np.zeros((mdp.S, n), np.int16)
        short_here, mean_here = [[Fraction(0)] * n for _ in range(mdp.S)], [[Fraction(0)] * n for _ in range(mdp.S)]
        for s in range(mdp.S):
            for c in range(n):
                best: tuple[Fraction, Fraction] | None = None
                for a in range(mdp.A):
                    rows = range(int(stage.row_start[s * mdp.A + a]), int(stage.row_start[s * mdp.A + a + 1]))
                    if not rows:
                        continue
                    lost = gained = Fraction(0)
                    for i in rows:
                        t, p = int(stage.successor[i]), probability[i]
                        after = int(jumps[shift[i], c]) if jumps.size else c + int(shift[i])
                        after = min(max(after, 0), top)
                        lost += p * short[t][after]
                        gained += p * (reading[float(stage.reward[i])] + mean[t][after])
                    if best is None or (lost, -gained) < best:
                        best = (lost, -gained)
                        table[s, c] = a
                if best is not None:
                    short_here[s][c], mean_here[s][c] = best[0], -best[1]
        short, mean = short_here, mean_here
        actions.append(table)
    first = read_rows(mdp.mu, np.array([0, mdp.S]))
    root = [sum((first[s] * short[s][c] for s in range(mdp.S)), Fraction(0)) for c in range(int(columns.size[0]))]
    return root, actions[::-1]


def read_rows(probability: np.ndarray, row_start: np.ndarray) -> list[Fraction]:
    """Probabilities as fractions whose rows sum to exactly 1."""
    exact = [_meant(p) for p in probability]
    for begin, end in zip(row_start[:-1].tolist(), row_start[1:].tolist(), strict=True):
        row = exact[begin:end]
        if not row:
            continue
        if sum(row) != 1 or not all(map(_faithful, row, probability[begin:end])):
            raw = [Fraction(float(p)) for p in probability[begin:end]]
            total = sum(raw)
            exact[begin:end] = [p / total for p in raw]
    return exact


def _meant(number: float) -> Fraction:
    """The short fraction next to a float: 0.8333333333333334 is 5/6."""
    return Fraction(float(number)).limit_denominator(READ_DENOMINATOR)


def _faithful(fraction: Fraction, number: float) -> bool:
    """Whether the two differ by rounding alone."""
    return abs(float(fraction) - number) <= min(4e-16, 4e-10 * number)  # a tiny level is not 0
