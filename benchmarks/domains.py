"""The benchmark domains beside this checkout: undiscounted exact, discounted 0.9 over 100 stages as a bracket."""

from __future__ import annotations

import time
from pathlib import Path

from timing import machine, table

import bqrl

FOLDER = Path(__file__).parents[2] / "shared" / "domains"
DOMAINS = {
    "riverswim": (9, 100),
    "machine": (1, 100),
    "population": (44, 20),
    "cliff": (37, 100),
    "inventory2": (20, 10),
}


def main() -> None:
    print(machine())
    if not FOLDER.is_dir():
        print(f"no domain files at {FOLDER.name}/ beside this checkout")
        return
    exact, bracket = [], []
    for name, (start, horizon) in DOMAINS.items():
        mdp = bqrl.load(FOLDER / f"{name}.csv", horizon=horizon, start=str(start))
        begun = time.perf_counter()
        plan = bqrl.solve(mdp, 0.1)
        neutral = bqrl.solve(mdp, 0.1, planner="expected")
        seconds = time.perf_counter() - begun
        points = plan.details["curve"].points.size
        exact.append(
            (name, horizon, points, plan.value, neutral.value, plan.policy_margin.below, str(plan.certain), seconds)
        )
        mdp = bqrl.load(FOLDER / f"{name}.csv", horizon=100, start=str(start), discount=0.9)
        begun = time.perf_counter()
        plan = bqrl.solve(mdp, 0.1, points=4000 if name == "inventory2" else 20_000)
        bracket.append(
            (
                name,
                plan.value,
                plan.upper,
                plan.gap,
                "exact" if plan.law_upper is None else "bracket",
                time.perf_counter() - begun,
            )
        )
    table(
        "Undiscounted, tau 0.1",
        ("domain", "horizon", "points", "best quantile", "risk-neutral", "margin", "proven", "seconds"),
        exact,
    )
    table("Discount 0.9, 100 stages, tau 0.1", ("domain", "value", "upper", "gap", "policy's law", "seconds"), bracket)


if __name__ == "__main__":
    main()
