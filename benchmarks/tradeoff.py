"""The time of a trade-off between guarantee and mean: thirty sweeps on ICU-Sepsis and on a random problem.

One row per problem: the exact grid, the sweeps that were needed, seconds in all and in plain all-tau sweeps, and the largest
distance between the best mean found and its proven bound, as a share of the whole fall of the mean.
"""

from __future__ import annotations

import time

from _problems import sparse
from timing import machine, table

import bqrl
from bqrl.mdp.model import MDP


def measure(name: str, mdp: MDP, tau: float) -> dict[str, object]:
    """Time a trade-off after one that compiles the loops."""
    bqrl.tradeoff(mdp, tau=tau, sweeps=3)
    begun = time.perf_counter()
    bqrl.guarantee_curve(mdp)
    plain = time.perf_counter() - begun
    begun = time.perf_counter()
    trade = bqrl.tradeoff(mdp, tau=tau, sweeps=30)
    seconds = time.perf_counter() - begun
    fall = float(trade.mean[0] - trade.mean[-1]) or 1.0
    return {
        "problem": name, "points": int(trade.roots.targets.size), "sweeps": trade.sweeps, "guarantees": trade.guarantee.size,
        "seconds": round(seconds, 2), "in plain sweeps": round(seconds / plain, 1),
        "largest gap": round(float((trade.bound - trade.mean).max()) / fall, 4),
    }  # fmt: skip


def main() -> None:
    print(machine())
    rows = [
        measure("ICU-Sepsis, tau 0.1", bqrl.envs.make("ICUSepsis"), 0.1),
        measure("ICU-Sepsis, tau 0.3", bqrl.envs.make("ICUSepsis"), 0.3),
        measure("S=500, A=5, H=20, random rewards", sparse(500, 5, 10, 20, 20, by_outcome=True), 0.05),
    ]
    table("Thirty sweeps of a trade-off", list(rows[0]), [list(row.values()) for row in rows])


if __name__ == "__main__":
    main()
