"""The values of a sweep on clusters of 1, 2 and 4 processes of this machine, beside one process: time, memory, overhead.

Two problems: 10^6 states without a table and 51 needs, whose states are cut, and 10^5 states with a table and 301 needs, whose
columns are cut. The overhead is the processor time of the client and all workers divided by that of one process, which a busy
machine disturbs less than elapsed time. Memory is what
a worker took at its peak beyond what it had before, the model included (Linux only).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from scale import box
from timing import machine, table

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.planners.cluster import LOOP, SENT, STEP, as_cluster
from bqrl.planners.on_demand import values_first

PROBLEMS: dict[str, Callable[[], Any]] = {
    "10^6 states, 51 needs": lambda: box(100, 5),
    "10^5 states, 301 needs": lambda: walk(100_000, 4, 3, 30, 10),
}


def walk(S: int, A: int, k: int, H: int, top: int) -> bqrl.MDP:
    """A ring on which each action moves to `k` states near by, with rewards 0 .. top by outcome."""
    rng = np.random.default_rng(0)
    s, a, i = np.indices((S, A, k)).reshape(3, -1)
    chance = rng.dirichlet(np.ones(k), S * A).reshape(-1)
    reward = rng.integers(0, top + 1, s.size).astype(float)
    reward[:2] = 0.0, top
    kernel = {"state": s, "action": a, "next_state": (s + i - 1 + a) % S, "probability": chance, "reward": reward}
    return bqrl.MDP(kernel, horizon=H, start=np.full(S, 1.0 / S))


def memory(name: str) -> float:
    """A line of /proc/self/status in GB: VmRSS, the memory of this process, or VmHWM, its peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1e6


def begin() -> float:
    """Forget the peak so far; return the memory of this process."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def measured(mdp: Any, cluster: Any = None) -> tuple[float, float, bytes]:
    """Seconds, seconds of the processor of this process, and the bits of the answer."""
    grid = mdp.grid if isinstance(mdp, bqrl.StepModel) else lattice(mdp)
    begun, own = time.perf_counter(), time.process_time()
    root = values_first(mdp, grid, max_bytes=float("inf"), cluster=cluster).root
    return time.perf_counter() - begun, time.process_time() - own, root.tobytes()


def compare(name: str) -> list[tuple[object, ...]]:
    from distributed import Client, LocalCluster

    mdp, small = PROBLEMS[name](), box(10, 5) if "10^6" in name else walk(200, 4, 3, 30, 10)
    measured(small)  # compiles
    wall, alone, bits = measured(mdp)
    rows: list[tuple[object, ...]] = [(name, "one process", wall, alone, "", "")]
    for workers in (1, 2, 4):
        with (
            LocalCluster(
                n_workers=workers, threads_per_worker=1, dashboard_address=None, host="127.0.0.1", memory_limit=None
            ) as local,
            Client(local) as client,
        ):
            shared = as_cluster(client)
            measured(small, shared)
            before = client.run(begin)
            spent = sum(client.run(time.process_time).values())
            wall, own, found = measured(mdp, shared)
            total = own + sum(client.run(time.process_time).values()) - spent
            peaks = client.run(memory, "VmHWM")
            assert found == bits, "other bits"
        most = max(size - before[worker] for worker, size in peaks.items())
        rows.append((name, f"{workers} workers", wall, total, f"{total / alone:.2f}", most))
    return rows


def constants() -> list[tuple[object, ...]]:
    """The constants of the cost model (`choose_way`), measured on one core of this machine; the network is its own memory."""
    from distributed.protocol import deserialize_bytes, serialize_bytes

    numba.set_num_threads(1)
    stored, stepped, block = walk(100_000, 4, 3, 30, 10), box(47, 5), np.random.default_rng(0).random(25_000_000)
    columns = lattice(stored).size + 1
    measured(walk(200, 4, 3, 30, 10)), measured(box(10, 5))  # compile
    loop = measured(stored)[1] / (stored.successor.size * float(columns[:-1].sum()))
    outcomes = stepped.S * stepped.A * stepped.max_outcomes
    own = measured(stepped)[1] / outcomes - loop * float((stepped.grid.size[:-1] + 1).sum())
    begun = time.process_time()
    deserialize_bytes(serialize_bytes(block))
    sent = (time.process_time() - begun) / block.nbytes
    return [
        ("loop, per outcome and column", LOOP * 1e9, loop * 1e9),
        ("step function, per outcome", STEP * 1e9, own / stepped.H * 1e9),
        ("sent, per byte, without the network", SENT * 1e9, sent * 1e9),
    ]


def main() -> None:
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")
    print(machine())
    if "--constants" in sys.argv:
        table("Constants of the cost model", ("what", "assumed, ns", "measured, ns"), constants())
        return
    rows = [row for name in PROBLEMS if len(sys.argv) < 2 or sys.argv[1] in name for row in compare(name)]
    table(
        "Values for every target, same bits (bar: overhead 1.5)",
        ("problem", "where", "seconds", "processor, s", "overhead", "GB per worker"),
        rows,
    )


if __name__ == "__main__":
    main()
