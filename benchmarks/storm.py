"""The all-tau sweep against Storm: one reachability query on the target-unfolded model, building counted and not counted."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
from _problems import dense
from timing import interleaved, machine, table

import bqrl
from bqrl.mdp.lattice import grid
from bqrl.planners.sweep import sweep

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def main() -> None:
    from storm_oracle import storm_model, storm_query, unfold

    print(machine())
    rows = []
    for S in (20, 50, 100):
        mdp = dense(S, 5, 20, 5)
        columns = grid(mdp)
        (ours,) = interleaved(lambda mdp=mdp, columns=columns: sweep(mdp, columns), repetitions=9)
        begun = time.perf_counter()
        unfolded = unfold(mdp)
        model = storm_model(unfolded)
        built = time.perf_counter() - begun
        begun = time.perf_counter()
        chances = storm_query(model)[unfolded.first]
        query = time.perf_counter() - begun
        curve = bqrl.guarantee_curve(mdp)
        off = np.abs((1 - curve.shortfall[1 : chances.size + 1]) - chances[: curve.shortfall.size - 1]).max()
        rows.append((S, ours * 1e3, query, built, query / ours, (query + built) / ours, off))
    table(
        "All levels at once, A=5, H=20, rewards 0..5 (bars at S=50: 100 times the query, 500 times the whole)",
        ("S", "sweep ms", "Storm query s", "build s", "query / sweep", "whole / sweep", "largest difference"),
        rows,
    )


if __name__ == "__main__":
    main()
