"""Plans for 10^5, 10^6 and 10^7 states without a table of transitions: seconds and memory, one process each.

The problem: a point in a box of n x n x n cells, ten actions and five events, each pair with a displacement and a reward of its
own; the walls stop it. `solve` gives the best 0.1-quantile over all policies, its policy and the exact law of that policy. By
default the sizes up to 10^6 run; `--all` adds 10^7 states (minutes, 10 GB).
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

import numpy as np
from timing import machine, table

import bqrl

SIZES = {  # side of the box, largest reward of a stage, whether by default
    "10^5 states, 51 needs": (47, 5, True),
    "10^6 states, 51 needs": (100, 5, True),
    "10^6 states, 501 needs": (100, 50, False),
    "10^7 states, 51 needs": (216, 5, False),
}
H, A, E = 10, 10, 5


def box(n: int, top: int) -> bqrl.StepModel:
    """The model without a table."""
    rng = np.random.default_rng(0)
    moves = rng.integers(-n // 5, n // 5 + 1, (A * E, 3))
    pays = rng.integers(0, top + 1, A * E)
    pays[:2] = 0, top

    def step(states: np.ndarray, actions: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cell = actions * E + events
        after = states + moves[cell]
        np.clip(after, 0, n - 1, out=after)
        return after, pays[cell]

    noise = {e: p for e, p in enumerate((0.1, 0.2, 0.4, 0.2, 0.1))}
    return bqrl.from_step(
        step, list(range(A)), noise, H, (n // 2,) * 3, vectorized=True, stored=False, max_states=20_000_000
    )


def measure(name: str) -> None:
    """Print one line: states, seconds of building and of planning, memory in GB, and the answer."""
    n, top, _ = SIZES[name]
    begun = time.perf_counter()
    model = box(n, top)
    built = time.perf_counter() - begun
    begun = time.perf_counter()
    plan = bqrl.solve(model, tau=0.1, max_bytes=11e9)
    planned = time.perf_counter() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    work = float((model.count * model.grid.size).sum()) * A * E
    print(
        f"{name}|{model.S:,}|{built:.1f}|{planned:.1f}|{memory:.2f}|{1e9 * planned / work:.2f}|{plan.value:g}",
        flush=True,
    )


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        measure(sys.argv[2])
        return
    print(machine())
    rows = []
    for name, (_, _, default) in SIZES.items():
        if default or "--all" in sys.argv:
            done = subprocess.run(
                [sys.executable, __file__, "--one", name], stdout=subprocess.PIPE, text=True, check=True
            )
            rows.append(done.stdout.strip().split("|"))
    table(
        f"solve(tau=0.1) without a table, {A} actions, {E} events, H = {H}",
        ("what", "states", "build, s", "plan, s", "memory, GB", "ns per outcome and need", "value"),
        rows,
    )


if __name__ == "__main__":
    main()
