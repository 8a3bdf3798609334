"""Optimistic and robust sweeps over l1 balls against the plain sweep of the same problem."""

from __future__ import annotations

import numpy as np
from _problems import dense, sparse
from timing import interleaved, machine, table

from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.sweep import OPTIMISTIC, ROBUST, sweep

RADII = (0.05, 0.2, 0.5, 1.0)


def compare(name: str, mdp, repetitions: int) -> list[tuple[object, ...]]:
    columns = returns_grid(mdp)
    half = [np.full((mdp.H, mdp.S * mdp.A), radius / 2) for radius in RADII]
    runs = [
        lambda h=h, sense=sense: sweep(mdp, columns, half=h, sense=sense)
        for h in half
        for sense in (OPTIMISTIC, ROBUST)
    ]
    plain, *moved = interleaved(lambda: sweep(mdp, columns), *runs, repetitions=repetitions)
    return [
        (f"{name}, {columns.size[0]} points", radius, plain, optimistic / plain, robust / plain)
        for radius, optimistic, robust in zip(RADII, moved[::2], moved[1::2], strict=True)
    ]


def main() -> None:
    print(machine())
    rows = compare("32 successors, rewards by (s, a)", sparse(200, 4, 32, 20, 10), 15)
    rows += compare("32 successors, rewards by (s, a, s')", sparse(200, 4, 32, 20, 10, by_outcome=True), 15)
    rows += compare("8 successors, rewards by (s, a)", sparse(200, 4, 8, 20, 10), 15)
    rows += compare("dense rows of 500", dense(500, 4, 10, 20), 3)
    table(
        "Sweeps over an l1 ball, in plain sweeps (bars: 5 up to 32 successors, 40 for dense rows of 500)",
        ("problem", "radius", "plain, seconds", "optimistic", "robust"),
        rows,
    )


if __name__ == "__main__":
    main()
