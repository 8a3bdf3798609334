"""How the time of a sweep grows: exponents in the horizon, in the number of transitions and in the number of points."""

from __future__ import annotations

from functools import partial

import numpy as np
from _problems import sparse
from timing import interleaved, machine, table

from bqrl.mdp.lattice import grid
from bqrl.planners.sweep import sweep


def exponent(problems) -> tuple[list[float], float]:
    """Times of the problems and the slope of log time over log size; each is twice the size of the one before."""
    runs = [partial(sweep, mdp, grid(mdp)) for mdp in problems]
    times = interleaved(*runs, repetitions=4)
    return times, float(np.polyfit(np.arange(len(times)) * np.log(2.0), np.log(times), 1)[0])


def main() -> None:
    print(machine())
    # Work is transitions x points x stages. A longer horizon brings more points, so the step grows with it.
    series = {
        "horizon": [sparse(2000, 4, 10, H, 2000 // H) for H in (10, 20, 40, 80)],
        "transitions": [sparse(S, 4, 10, 20, 10) for S in (2000, 4000, 8000, 16000)],
        "points": [sparse(2000, 4, 10, 20, top) for top in (10, 20, 40, 80)],
    }
    rows = []
    for name, problems in series.items():
        times, slope = exponent(problems)
        rows.append((name, *times, slope, 1.1))
    table(
        "Time of a sweep, each step twice the size", ("in the number of", "1", "2", "4", "8", "exponent", "bar"), rows
    )


if __name__ == "__main__":
    main()
