"""The target sweep in exact fractions, to decide ties on small problems.

Probabilities and the level are read as short fractions: 0.1 is 1/10, and the float next to 5/6 is 5/6. If the fractions of
a row do not sum to 1, the exact values of its floats are used, divided by their sum.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated

import numpy as np

from bqrl.errors import GridError, SizeError
from bqrl.laws.objectives import Quantile, check_levels
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import evaluate
from bqrl.planners.facts import DecidedInFractions
from bqrl.planners.options import one_of
from bqrl.planners.plan import Plan
from bqrl.planners.room import exact_grid
from bqrl.planners.sweep import sweep_work
from bqrl.policies.target import TargetPolicy

MAX_WORK = 3_000_000  # products of fractions; a million takes about two seconds
READ_DENOMINATOR = 10**6  # largest denominator of a short fraction


def plan_rational(mdp: MDP, tau: float, arithmetic: Annotated[str, one_of("float", "rational")] = "rational") -> Plan:
    """Return the best policy for the tau-quantile by exact arithmetic; raise SizeError if the problem is too large for it."""
    tau, _ = check_levels(tau)
    columns = exact_grid(mdp)
    if columns is None or mdp.discount < 1.0:
        text = "arithmetic='rational' requires undiscounted returns on an exact grid, got a problem without one"
        raise GridError(f"{text}; use arithmetic='float'", name="arithmetic")
    work = sweep_work(mdp, columns)
    if work > MAX_WORK:
        raise SizeError(
            f"arithmetic='rational' must stay within {MAX_WORK} products of fractions, got {work}; use arithmetic='float', "
            "whose plan.certain says whether rounding matters", needed=work, limit=MAX_WORK, name="arithmetic",
        )  # fmt: skip
    shortfall, actions = rational_sweep(mdp, columns)
    level = _read(tau)
    best = max(i for i, short in enumerate(shortfall) if short < level)
    target = float(columns.points(0)[best])
    policy = TargetPolicy(columns, actions, target)
    note = DecidedInFractions(shortfall=shortfall[best], level=level)
    return Plan(
        objective=Quantile(tau), planner="target", policy=policy, law=evaluate(mdp, policy), value=target, upper=target,
        nominal=target, certain=True, exact=True, facts=(note,), details={"shortfall": shortfall},
    )  # fmt: skip


def rational_sweep(mdp: MDP, columns: Grid) -> tuple[list[Fraction], list[np.ndarray]]:
    """Return W_0 of every target as a fraction, and the action tables; ties go to the larger mean, then the lower action."""
    short = [[Fraction(0), Fraction(1)] for _ in range(mdp.S)]
    mean = [[Fraction(0)] * 2 for _ in range(mdp.S)]
    reading = {r: _read(r) for r in np.unique(mdp.reward).tolist()}
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
    """Return the probabilities as fractions whose rows sum to exactly 1."""
    exact = [_short_fraction(p) for p in probability]
    for begin, end in zip(row_start[:-1].tolist(), row_start[1:].tolist(), strict=True):
        row = exact[begin:end]
        if not row:
            continue
        if sum(row) != 1 or not all(map(_is_close, row, probability[begin:end])):
            raw = [Fraction(float(p)) for p in probability[begin:end]]
            total = sum(raw)
            exact[begin:end] = [p / total for p in raw]
    return exact


def _read(number: float) -> Fraction:
    """Return a short fraction that differs from the number by rounding only or, if there is none, its decimal expansion."""
    short = _short_fraction(number)
    return short if _is_close(short, number) else Fraction(repr(number))


def _short_fraction(number: float) -> Fraction:
    """Return the closest fraction with a small denominator: 0.8333333333333334 is 5/6."""
    return Fraction(float(number)).limit_denominator(READ_DENOMINATOR)


def _is_close(fraction: Fraction, number: float) -> bool:
    """Return whether the two differ only by rounding."""
    size = abs(number)
    return abs(float(fraction) - number) <= min(4e-16 * max(1.0, size), 4e-10 * size)  # a tiny number is not 0
