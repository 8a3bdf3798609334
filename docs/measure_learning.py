"""Print the tables of docs/learning.md: `python docs/measure_learning.py`. Takes some ten minutes on one core.

Asset selling, 2000 episodes, seeds 1 to 10 (not those of the paper). The gap is the exact optimum minus the exact
quantile of the current policy, summed over the episodes; a spread is the standard deviation over the seeds. Counts are per
stage and the radius is small, as in the study of the paper.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import bqrl

EPISODES = 2000
SEEDS = range(1, 11)
PARAMS = {"stationary": False, "c_conf": 0.008}


def measured(distribution: str, tau: float, **params: object) -> tuple[float, float, float]:
    """Mean and standard deviation of the cumulative gap, and seconds per run."""
    mdp = bqrl.envs.make("AssetSelling", distribution=distribution)
    bqrl.learn(mdp, "ucb-bqrl", tau, 5, 0, **PARAMS, **params)  # kernels loaded before the clock starts
    begun = time.perf_counter()
    gaps = [bqrl.learn(mdp, "ucb-bqrl", tau, EPISODES, seed, **PARAMS, **params).gap().sum() for seed in SEEDS]
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1)), (time.perf_counter() - begun) / len(gaps)


def replanning() -> None:
    """Effect of the replanning factor on speed and regret."""
    print("| replan_factor | seconds per run | gap, tau 0.1 | gap, tau 0.5 |\n|---|---|---|---|")
    for factor in (1.0, 1.1, 1.5, 2.0, 4.0):
        low, middle = (measured("uniform", tau, replan_factor=factor) for tau in (0.1, 0.5))
        print(
            f"| {factor:g} | {low[2]:.2f} | {low[0]:.1f} ± {low[1]:.1f} | {middle[0]:.1f} ± {middle[1]:.1f} |",
            flush=True,
        )


def buffers() -> None:
    """Effect of the buffer schedule, for each law of the offers."""
    schedules = ("log", "power:0.25", "power:0.5", "adaptive", "point")
    print("| offers | tau | " + " | ".join(schedules) + " |\n|---|---|" + "---|" * len(schedules))
    for distribution in ("uniform", "geometric", "two-humped"):
        for tau in (0.1, 0.5, 0.9):
            cells = [measured(distribution, tau, buffer=schedule) for schedule in schedules]
            print(
                f"| {distribution} | {tau:g} | " + " | ".join(f"{mean:.1f}" for mean, _, _ in cells) + " |", flush=True
            )


TABLES = {"replanning": replanning, "buffers": buffers}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n")
        TABLES[name]()
