"""Print the tables of docs/learning.md: `python docs/measure_learning.py`. This takes about ten minutes on one core.

Names of tables as arguments print only these. `exploration` has its own settings, stated there; for the others:
asset selling, 2000 episodes, seeds 1 to 10 (not those of the paper). The gap is the exact optimum minus the exact
quantile of the current policy, summed over the episodes; a spread is the standard deviation over the seeds. Counts are per
stage and the radius is small, as in the study of the paper.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import bqrl
from bqrl.policies.shares import uniform

EPISODES = 2000
SEEDS = range(1, 11)
PARAMS = {"stationary": False, "c_conf": 0.008}


def measured(distribution: str, tau: float, **params: object) -> tuple[float, float, float]:
    """Mean and standard deviation of the cumulative gap, and seconds per run."""
    mdp = bqrl.envs.make("AssetSelling", distribution=distribution)
    bqrl.learn(mdp, "ucb-bqrl", tau, 5, 0, **PARAMS, **params)  # compile the loops before the clock starts
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


def exploration() -> None:
    """Share of the loss of random play on two problems that differ in what exploring costs; 1,000 episodes, seeds 1 to 5."""
    staged = {"stationary": False}
    treatment = bqrl.envs.make("TreatmentChoice", horizon=10)
    gambler = bqrl.envs.make("Gambler", goal=10, win_probability=0.55, horizon=6, start=3)
    rows: list[tuple[str, bqrl.MDP, float, str, dict[str, Any]]] = [
        ("treatment choice", treatment, 0.5, "psrl", {}),
        ("treatment choice", treatment, 0.5, "ucb-bqrl", {}),
        ("treatment choice", treatment, 0.5, "ucb-bqrl", staged),
        ("treatment choice", treatment, 0.5, "ucb-bqrl", staged | {"c_conf": "visits"}),
        ("gambler", gambler, 0.3, "ucb-bqrl", staged),
        ("gambler", gambler, 0.3, "ucb-bqrl", staged | {"c_conf": "visits"}),
    ]
    print("| problem | level | learner | parameters | share | of each seed |\n|---|---|---|---|---|---|")
    for name, mdp, tau, learner, params in rows:
        loss = bqrl.guarantee_curve(mdp)(tau) - bqrl.evaluate(mdp, uniform(mdp)).quantile(tau)
        shares = [bqrl.learn(mdp, learner, tau, 1000, seed, **params).gap().mean() / loss for seed in range(1, 6)]
        each = ", ".join(f"{share:.2f}" for share in shares)
        print(f"| {name} | {tau:g} | {learner} | {params} | {np.mean(shares):.2f} | {each} |", flush=True)


TABLES = {"replanning": replanning, "buffers": buffers, "exploration": exploration}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n")
        TABLES[name]()
