"""What buffered certificates and l1 balls cost, in sweeps of the plain quantile."""

from __future__ import annotations

import numpy as np
from _problems import dense, sparse
from timing import interleaved, machine, table

import bqrl
from bqrl.mdp.lattice import grid
from bqrl.planners.sweep import OPTIMISTIC, ROBUST, sweep


def buffered() -> None:
    rows = []
    for name, mdp in (("dense S=100", dense(100, 4, 20, 5)), ("sparse S=1000", sparse(1000, 4, 8, 20, 5))):
        columns = grid(mdp)
        for tau, beta in ((0.1, 0.05), (0.5, 0.2), (0.9, 0.9)):
            plan = bqrl.solve(mdp, tau, beta=beta)
            one, whole = interleaved(
                lambda mdp=mdp, columns=columns: sweep(mdp, columns),
                lambda mdp=mdp, tau=tau, beta=beta: bqrl.solve(mdp, tau, beta=beta),
                repetitions=3,
            )
            rows.append((f"{name}, tau {tau}, beta {beta}", one, whole, whole / one, plan.details["sweeps"], plan.gap))
    table(
        "Buffered certificate at 101 points (bar: 40 sweeps' worth of time)",
        ("problem", "one sweep s", "certificate s", "ratio", "sweeps run", "gap left"),
        rows,
    )


def balls() -> None:
    rows = []
    problems = (
        ("32 successors, rewards by (s,a)", sparse(200, 4, 32, 20, 10), 5),
        ("32 successors, rewards by outcome", sparse(200, 4, 32, 20, 10, by_outcome=True), 5),
        ("dense rows of 500", dense(500, 5, 5, 40), 40),
    )
    for name, mdp, bar in problems:
        columns = grid(mdp)
        half = np.full((mdp.H, mdp.S * mdp.A), 0.05)
        plain, optimistic, robust = interleaved(
            lambda mdp=mdp, columns=columns: sweep(mdp, columns),
            lambda mdp=mdp, columns=columns, half=half: sweep(mdp, columns, half=half, sense=OPTIMISTIC),
            lambda mdp=mdp, columns=columns, half=half: sweep(mdp, columns, half=half, sense=ROBUST),
            repetitions=3,
        )
        rows.append((name, plain, optimistic / plain, robust / plain, bar))
    table(
        "Sweep over l1 balls of radius 0.1, policy and means included",
        ("problem", "plain s", "optimistic / plain", "robust / plain", "bar"),
        rows,
    )


def main() -> None:
    print(machine())
    buffered()
    balls()


if __name__ == "__main__":
    main()
