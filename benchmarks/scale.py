"""Plans of large problems: seconds, memory and the answer, one process each.

Without a table of transitions: a point in a box of n x n x n cells, ten actions and five events, each pair with a
displacement and a reward of its own; the walls stop it. With a table: a walker on 250 x 250 cells, and an inventory of two
products, whose tables of actions would not fit. `solve` gives the best 0.1-quantile over all policies, its policy and the exact
law of that policy. By default the sizes up to 10^6 run; `--all` adds 10^6 states with 501 needs, 10^7 states (minutes, 10 GB)
and the problems with a table.
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


def grid(n: int = 250) -> bqrl.MDP:
    """A walker on n x n cells that slips to either side; each cell pays its own amount, from 0 to 20."""
    pays = np.random.default_rng(0).integers(0, 21, n * n)
    ways = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])

    def step(cells: np.ndarray, actions: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        across, down = np.divmod(cells, n)
        way = ways[(actions + turns) % 4]
        after = np.clip(across + way[..., 0], 0, n - 1) * n + np.clip(down + way[..., 1], 0, n - 1)
        return after, pays[after]

    return bqrl.from_step(step, range(4), {0: 0.8, 1: 0.1, 3: 0.1}, 50, n * n // 2, vectorized=True)


def inventory(room: int = 230) -> bqrl.MDP:
    """Two products, up to five of each ordered a day, zero to three of each demanded."""
    prices, costs = np.array([10, 15]), np.array([4, 6])
    demands = {4 * a + b: p * q for a, p in enumerate((0.2, 0.3, 0.3, 0.2)) for b, q in enumerate((0.4, 0.3, 0.2, 0.1))}

    def step(stocks: np.ndarray, orders: np.ndarray, events: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        ordered, demanded = (np.stack(np.divmod(numbers, base), -1) for numbers, base in ((orders, 6), (events, 4)))
        level = np.minimum(stocks + ordered, room - 1)
        sold = np.minimum(level, demanded)
        return level - sold, sold @ prices - ordered @ costs

    return bqrl.from_step(step, range(36), demands, 60, (0, 0), vectorized=True)


TABLES = {"grid of 250 x 250 cells, H = 50": grid, "two products, 230 x 230 stocks, H = 60": inventory}


def measure(name: str) -> None:
    """Print one line: states, seconds of building and of planning, memory in GB, and the answer."""
    begun = time.perf_counter()
    if name in TABLES:
        model = TABLES[name]()
        print(bqrl.forecast(model, max_bytes=11e9), file=sys.stderr)
    else:
        model = box(*SIZES[name][:2])
    built = time.perf_counter() - begun
    begun, busy = time.perf_counter(), time.process_time()
    plan = bqrl.solve(model, tau=0.1, max_bytes=11e9)
    planned, busy = time.perf_counter() - begun, time.process_time() - busy
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{name}|{model.S:,}|{built:.1f}|{busy:.0f}|{planned:.1f}|{memory:.2f}|{plan.value:g}", flush=True)


def main() -> None:
    if len(sys.argv) == 3 and sys.argv[1] == "--one":
        measure(sys.argv[2])
        return
    print(machine())
    rows = []
    every = "--all" in sys.argv
    for name in [n for n, (_, _, default) in SIZES.items() if default or every] + [*TABLES] * every:
        done = subprocess.run([sys.executable, __file__, "--one", name], stdout=subprocess.PIPE, text=True, check=True)
        rows.append(done.stdout.strip().split("|"))
    table(
        "solve(tau=0.1)",
        ("what", "states", "build, s", "plan, processor, s", "plan, s", "memory, GB", "value"),
        rows,
    )


if __name__ == "__main__":
    main()
