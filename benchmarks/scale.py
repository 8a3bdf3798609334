"""Plans of large problems: what `bqrl.forecast` expects, then seconds, memory and the answer; one process each.

Without a table of transitions: a point in a box of n x n x n cells, ten actions and five events, each pair with a
displacement and a reward of its own; the walls stop it. With a table: a walker on 250 x 250 cells, and an inventory of two
products, whose tables of actions would not fit. `solve` gives the best 0.1-quantile over all policies, its policy and the exact
law of that policy. By default 10^5 and 10^6 states run; `--all` runs every case (minutes, 10 GB), and names choose some. A plan
that does not fit into `--gb` uses a folder. `--append FILE` adds a line of JSON per case.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
from timing import machine, table

import bqrl

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
    """A walker on n x n cells that starts anywhere and slips to either side; each cell pays its own amount, from 0 to 20."""
    pays = np.random.default_rng(0).integers(0, 21, n * n)
    ways = np.array([(0, 1), (1, 0), (0, -1), (-1, 0)])

    def step(cells: np.ndarray, actions: np.ndarray, turns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        across, down = np.divmod(cells, n)
        way = ways[(actions + turns) % 4]
        after = np.clip(across + way[..., 0], 0, n - 1) * n + np.clip(down + way[..., 1], 0, n - 1)
        return after, pays[after]

    return bqrl.from_step(
        step, range(4), {0: 0.8, 1: 0.1, 3: 0.1}, 50, dict.fromkeys(range(n * n), n**-2), vectorized=True
    )


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


CASES: dict[str, tuple[str, Callable[[], bqrl.MDP | bqrl.StepModel]]] = {
    "100k": ("10^5 states, 51 needs", partial(box, 47, 5)),  # side of the box, largest reward of a stage
    "1m": ("10^6 states, 51 needs", partial(box, 100, 5)),
    "1m-501": ("10^6 states, 501 needs", partial(box, 100, 50)),
    "10m": ("10^7 states, 51 needs", partial(box, 216, 5)),
    "grid": ("grid of 250 x 250 cells, H = 50", grid),
    "two-products": ("two products, 230 x 230 stocks, H = 60", inventory),
}
QUICK = "100k", "1m"


def measure(name: str, gigabytes: float) -> dict[str, str | float]:
    """Return what was forecast and measured for one case."""
    what, build = CASES[name]
    begun = time.perf_counter()
    model = build()
    built = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder:
        room: dict[str, float | str] = {"max_bytes": gigabytes * 1e9}
        expected = bqrl.forecast(model, **room)
        if not expected.fits:
            room["folder"] = folder
            expected = bqrl.forecast(model, **room)
        print(f"{what}: {expected}", file=sys.stderr, flush=True)
        begun, busy = time.perf_counter(), time.process_time()
        plan = bqrl.solve(model, tau=0.1, **room)
        planned, busy = time.perf_counter() - begun, time.process_time() - busy
    return {
        "what": what, "states": model.S, "transitions": expected.transitions, "needs": expected.points, "way": expected.way,
        "folder": "folder" in room, "build": built, "forecast": expected.seconds, "plan": planned, "processor": busy,
        "forecast_gb": expected.bytes / 1e9, "gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        "value": plan.value, "time": datetime.now(UTC).isoformat(timespec="seconds"), "machine": machine(),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*CASES, []], help="cases")
    parser.add_argument("--all", action="store_true", help="all cases")
    parser.add_argument("--gb", type=float, default=11.0, help="memory of a plan")
    parser.add_argument("--append", type=Path, help="file for one line of JSON per case")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.names[0], given.gb)))
        return
    print(machine())
    found = []
    for name in CASES if given.all else given.names or QUICK:
        command = [sys.executable, __file__, name, "--one", "--gb", str(given.gb)]
        found.append(json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout))
        if given.append is not None:
            with given.append.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found[-1]) + "\n")
    table(
        "solve(tau=0.1)",
        ("what", "states", "build, s", "forecast, s", "plan, s", "processor, s", "forecast, GB", "memory, GB", "value"),
        [
            (
                one["what"], f"{one['states']:,}", f"{one['build']:.1f}", f"{one['forecast']:.0f}", f"{one['plan']:.0f}",
                f"{one['processor']:.0f}", f"{one['forecast_gb']:.2f}", f"{one['gb']:.2f}", f"{one['value']:g}",
            )
            for one in found
        ],
    )  # fmt: skip


if __name__ == "__main__":
    main()
