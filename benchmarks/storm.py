"""The all-tau sweep against the model checker Storm, whose fastest way is one query on the target-unfolded model.

Storm answers max P(F reached) for all states (stage, state, need) and so for every target at once, as the sweep does. Its
solution method is the fastest of those it offers here. Building the model in Storm is counted and not counted; unfolding it
in NumPy before that never is.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np
from _problems import dense
from timing import interleaved, machine, table

from bqrl.planners.curve import guarantee_curve

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

METHODS = ("VALUE_ITERATION", "TOPOLOGICAL", "INTERVAL_ITERATION")


def silently(function, *arguments):
    """Result of a call that may write warnings straight to the terminal."""
    kept = os.dup(1), os.dup(2)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
        try:
            return function(*arguments)
        finally:
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
            os.close(kept[0])
            os.close(kept[1])


def compare(S: int, A: int, H: int, top: int) -> tuple[object, ...]:
    from storm_oracle import storm_model, storm_query, unfold

    mdp = dense(S, A, H, top)
    unfolded = unfold(mdp)
    begun = time.perf_counter()
    model = storm_model(unfolded)
    building = time.perf_counter() - begun
    queries = {}
    for method in METHODS:
        begun = time.perf_counter()
        chances = silently(storm_query, model, method)[unfolded.first]
        queries[method] = time.perf_counter() - begun
    method = min(queries, key=queries.__getitem__)
    (ours,) = interleaved(lambda: guarantee_curve(mdp), repetitions=15)
    reached = 1.0 - guarantee_curve(mdp).shortfall[1:]
    apart = float(np.abs(chances[: reached.size] - reached).max())
    query = queries[method]
    whole = building + query
    by = method.lower().replace("_", " ")
    return S, f"{unfolded.rows.size:,}", building, query, by, ours, query / ours, whole / ours, apart


def main() -> None:
    print(machine())
    try:
        import stormpy
    except ImportError:
        print("stormpy is not installed: nothing to compare with")
        return
    table(
        f"A=5, H=20, rewards 0..5, every target at once; Storm {stormpy.__version__} (bars at S=50: 100 and 500 times)",
        ("S", "transitions", "building", "query", "by", "sweep", "query / sweep", "whole / sweep", "apart"),
        [compare(S, 5, 20, 5) for S in (20, 50, 100)],
    )


if __name__ == "__main__":
    main()
