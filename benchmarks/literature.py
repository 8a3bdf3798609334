"""All learners on problems of the literature on static risk: the share of the way from random play to the certified optimum.

    share = (value of the final policy - value of uniformly random play) / (certified optimum - value of random play)

Values are those of the objective, exact or within the proven rounding of the score. Every finished run is a line of the file of
runs, so an interrupted command continues where it stopped, and more seeds play only the missing runs. Seeds are played in turn,
for all problems and learners, and those of learners that plan before every episode at the end. A learner whose runs on a
problem have taken more than `--cap` seconds gets no further seeds there.

    python benchmarks/literature.py --minutes 9          plays for about nine minutes, then writes the table
    python benchmarks/literature.py --minutes 0          writes the table into docs/learners.md
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import bqrl
from bqrl.envs.published import CODE, PUT
from bqrl.learners.registry import everyone, serves
from bqrl.policies.shares import uniform
from bqrl.results.learning import label_of

EPISODES, SEEDS, FIRST_SEED = 1000, 20, 800_000
RUNS = Path(__file__).parent / "baselines" / "literature.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "learners.md"
BEGIN, END = "<!-- literature: begin -->\n\n", "\n<!-- literature: end -->"
Q, C = bqrl.Quantile, bqrl.CVaR
PROBLEMS: dict[str, tuple[str, dict[str, Any], bqrl.Objective]] = {
    "noisy cliff": ("NoisyCliff", {}, Q(0.1)),
    "blackjack": ("Blackjack", {}, Q(0.6)),
    "guarded maze": ("GuardedMaze", {}, C(0.2)),
    "gambler's ruin": ("QuantileDomain", {"domain": "ruin"}, Q(0.25)),
    "trading, 5 trades": ("MeanReversion", {}, C(0.5)),
    "American put": ("AmericanPut", PUT | {"substeps": 5}, C(0.2)),
    "betting game, eighths": ("BettingGame", CODE, C(0.2)),
}
LONG = ("psrl", "ucb-bqrl")  # plan before every episode; their runs come last
LARGE = "betting game, eighths"  # 6,662 states; also last
SKIPPED = {(LARGE, name) for name in LONG}  # a plan on 6,662 states before every episode; not tried
FIELDS = ("problem", "learner", "seed")


def read(path: Path) -> list[dict[str, Any]]:
    """The runs of the file; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def ends(title: str) -> tuple[bqrl.MDP, float, float]:
    """A problem with the value of random play and the certified optimum."""
    name, params, goal = PROBLEMS[title]
    mdp = bqrl.envs.make(name, **params)
    return mdp, float(goal(bqrl.evaluate(mdp, uniform(mdp)))), bqrl.solve(mdp, goal).value


def play(runs: list[dict[str, Any]], seeds: int, minutes: float, cap: float) -> Iterator[dict[str, Any]]:
    """Yield the missing runs, seed by seed, until the time is over."""
    begun, known = time.monotonic(), {}
    done = {tuple(run[key] for key in FIELDS) for run in runs}
    taken: dict[tuple[str, str], float] = {}
    for run in runs:
        taken[run["problem"], run["learner"]] = taken.get((run["problem"], run["learner"]), 0.0) + run["seconds"]
    for last, seed in product((False, True), range(FIRST_SEED, FIRST_SEED + seeds)):
        for title, (_, _, goal) in PROBLEMS.items():
            for name, params in everyone(goal):
                label = label_of(name, params)
                if (
                    (name in LONG or title == LARGE) != last
                    or (title, name) in SKIPPED
                    or (title, label, seed) in done
                    or taken.get((title, label), 0.0) > cap
                ):
                    continue
                if time.monotonic() - begun > 60.0 * minutes:
                    return
                if title not in known:
                    known[title] = ends(title)
                mdp, random, best = known[title]
                start = time.perf_counter()
                found = bqrl.compare(
                    mdp, [(label, name, params)], objective=goal, episodes=EPISODES, seeds=[seed], workers=1
                )
                seconds = time.perf_counter() - start
                value = float(found.records[label][0].value()[-1])
                taken[title, label] = taken.get((title, label), 0.0) + seconds
                yield {
                    "problem": title, "learner": label, "seed": seed, "value": value, "random": random, "best": best,
                    "share": (value - random) / (best - random), "seconds": round(seconds, 2),
                }  # fmt: skip


def table(runs: list[dict[str, Any]], seeds: int) -> str:
    """The mean shares, one row per learner and one column per problem; a count in brackets if there are fewer seeds."""
    titles = [title for title in PROBLEMS if any(run["problem"] == title for run in runs)]
    head = " | ".join(f"{title}, {PROBLEMS[title][2].label}" for title in titles)
    lines = [f"| learner | {head} |", f"|{' -- |' * (len(titles) + 1)}"]
    for name, params in everyone():
        label, cells = label_of(name, params), []
        for title in titles:
            mine = [run["share"] for run in runs if (run["problem"], run["learner"]) == (title, label)]
            few = f" ({len(mine)})" if len(mine) < seeds else ""
            served = serves(bqrl.learners.registry.LEARNERS[name], PROBLEMS[title][2])
            cells.append(f"{np.mean(mine):.2f}{few}" if mine else "not run" if served else "\N{EN DASH}")
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Play the missing runs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--minutes", type=float, default=600.0, help="start no run after this time")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds per learner and problem")
    parser.add_argument("--runs", type=Path, default=RUNS, help="the file of runs")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that holds the table")
    given = parser.parse_args()
    runs = read(given.runs)
    with given.runs.open("a", encoding="utf-8") as file:
        for run in play(runs, given.seeds, given.minutes, given.cap):
            file.write(json.dumps(run) + "\n")
            file.flush()
            print(f"{run['problem']:24}{run['learner']:28}{run['share']:8.3f}{run['seconds']:8.1f} s", flush=True)
    shown = table(read(given.runs), given.seeds)
    print(shown)
    before, rest = given.page.read_text(encoding="utf-8").split(BEGIN)
    given.page.write_text(before + BEGIN + shown + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
