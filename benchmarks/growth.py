"""How the time of the all-tau sweep grows: exponents of a power law fitted to measured times.

One size grows while the others stay: stages (rewards only in the last one, so that the points stay), transitions (states,
or successors a row) and points (rewards in finer steps). One thread, so that no size decides how many work, and its processor
time, which other programs disturb little. Where the successors of a state lie anywhere, the part of the exponent above 1 is
memory: larger problems leave the caches.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial

import numba
import numpy as np
from _problems import sparse
from timing import interleaved, machine, table

from bqrl.mdp.find_grid import returns_grid
from bqrl.mdp.model import MDP
from bqrl.planners.sweep import sweep


def with_last_reward(S: int, A: int, k: int, H: int, top: int) -> MDP:
    """A stationary kernel that pays 0 .. top at the last stage alone: top + 1 points at every stage."""
    base = sparse(S, A, k, H, top)
    rewards = np.zeros((H, S, A))
    rewards[-1] = base.row_reward[0]
    return MDP(base.dense(0).reshape(S, A, S), rewards, horizon=H)


def exponent(sizes: list[int], problems: list[MDP]) -> tuple[float, list[float]]:
    seconds = interleaved(*(partial(sweep, m, returns_grid(m)) for m in problems), clock=time.process_time)
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]), seconds


def growths() -> Iterator[tuple[str, str, float, float, float]]:
    """Yield what grows, its sizes, the first and the last time, and the exponent."""
    stages, states, successors, points = [20, 40, 80, 160], [500, 1000, 2000, 4000], [8, 16, 32, 64], [10, 20, 40, 80]
    for name, sizes, problems in (
        ("stages H", stages, [with_last_reward(400, 4, 16, H, 200) for H in stages]),
        ("transitions, by states, successors near by", states, [sparse(S, 4, 10, 20, 5, near=50) for S in states]),
        ("transitions, by states, successors anywhere", states, [sparse(S, 4, 10, 20, 5) for S in states]),
        ("transitions, by successors of a row", successors, [sparse(500, 4, k, 20, 5) for k in successors]),
        ("points", points, [sparse(500, 4, 10, 20, top) for top in points]),
    ):
        slope, seconds = exponent(sizes, problems)
        yield name, f"{sizes[0]} .. {sizes[-1]}", seconds[0], seconds[-1], slope


def main() -> None:
    numba.set_num_threads(1)
    print(machine())
    table(
        "Growth of the all-tau sweep with policy (bar: exponent 1.1)",
        ("in", "sizes", "first", "last", "exponent"),
        list(growths()),
    )


if __name__ == "__main__":
    main()
