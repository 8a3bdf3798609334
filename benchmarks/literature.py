"""All learners on problems of the literature on static risk: the share of the way from random play to the certified optimum.

    share = (value of the final policy - value of uniformly random play) / (certified optimum - value of random play)

The final policy is the one that the learner would be judged by after its last episode. Values are those of the objective, exact
or within the proven rounding of the score. Every finished run is a line of the file of runs, so an interrupted command continues
where it stopped, and more seeds play only the missing runs. A run depends on its problem, learner and seed only, not on the
number of workers. One run of each learner and problem comes first; then those quickest runs that fill the time, long ones first.

    python benchmarks/literature.py --minutes 9 --workers 2     plays for about nine minutes, then writes the table
    python benchmarks/literature.py --minutes 0                 writes the table into docs/learners.md
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

import bqrl
from bqrl.envs.published import CODE, PUT
from bqrl.learners.registry import LEARNERS, everyone, serves
from bqrl.learners.run import Run
from bqrl.policies.shares import uniform
from bqrl.results.learning import label_of

SEEDS, FIRST_SEED = 20, 800_000
RUNS = Path(__file__).parent / "baselines" / "literature.jsonl"
PAGE = Path(__file__).parents[1] / "docs" / "learners.md"
BEGIN, END = "<!-- literature: begin -->\n\n", "\n<!-- literature: end -->"
Q, C = bqrl.Quantile, bqrl.CVaR
QUANTILE = frozenset({"psrl", "ucb-bqrl"})  # plan for the objective before every episode: hours for 75,000 episodes


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A problem with its objective, the episodes of a run and the learners that are not run on it."""

    name: str
    goal: bqrl.Objective
    params: dict[str, Any] = field(default_factory=dict)
    episodes: int = 1000
    skipped: frozenset[str] = frozenset()
    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # parameters of learners


PUBLISHED = 75_000  # episodes; the default of the public code of return capping, which plays both problems
PROBLEMS = {
    "noisy cliff": Problem(name="NoisyCliff", goal=Q(0.1)),
    "blackjack": Problem(name="Blackjack", goal=Q(0.6)),
    "guarded maze": Problem(name="GuardedMaze", goal=C(0.2), skipped=frozenset({"UCB-BQRL, greedy planner"})),
    "gambler's ruin": Problem(name="QuantileDomain", params={"domain": "ruin"}, goal=Q(0.25)),
    "trading, 5 trades": Problem(name="MeanReversion", goal=C(0.5), skipped=frozenset({"UCB-BQRL, greedy planner"})),
    "American put": Problem(name="AmericanPut", params=PUT | {"substeps": 5}, goal=C(0.2)),
    "betting game": Problem(
        name="BettingGame", params=CODE, goal=C(0.2), skipped=frozenset({"UCB-BQRL, greedy planner"}),
        options={"target-q": {"needs": 400}}),
    "guarded maze, 75,000 episodes": Problem(
        name="GuardedMaze", goal=C(0.2), episodes=PUBLISHED, skipped=QUANTILE | {"target-q"}),
    "betting game, 75,000 episodes": Problem(
        name="BettingGame", params=CODE, goal=C(0.2), episodes=PUBLISHED, skipped=QUANTILE,
        options={"target-q": {"needs": 400}}),
}  # fmt: skip
MARGIN = 0.85  # share of the time that is filled with runs, by estimate; the ends of long runs leave gaps
Cell = tuple[str, str, tuple[tuple[str, Any], ...]]  # problem, learner, parameters
Active = dict[tuple[Cell, int], Future[dict[str, Any]]]  # the runs that are being played


def read(path: Path) -> list[dict[str, Any]]:
    """The runs of the file; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def cells() -> list[Cell]:
    """All problems with the learners that are run on them."""
    return [
        (title, name, tuple(params.items()))
        for title, problem in PROBLEMS.items()
        for name, params in everyone(problem.goal)
        if not {name, label_of(name, params)} & problem.skipped
    ]


@lru_cache(maxsize=2)
def model(title: str) -> bqrl.MDP:
    """The problem with this title."""
    return bqrl.envs.make(PROBLEMS[title].name, **PROBLEMS[title].params)


def ends(title: str) -> tuple[float, float]:
    """The value of random play and the certified optimum."""
    mdp, goal = model(title), PROBLEMS[title].goal
    return float(goal(bqrl.evaluate(mdp, uniform(mdp)))), bqrl.solve(mdp, goal).value


def play(cell: Cell, seed: int, episodes: int | None = None) -> dict[str, Any]:
    """One run: the value of its final policy. The policies on the way are not scored."""
    title, name, params = cell
    problem, mdp = PROBLEMS[title], model(title)
    start = time.process_time()
    given = dict(params) | problem.options.get(name, {})
    run = Run(mdp, name, problem.goal, episodes or problem.episodes, seed, **given)
    run.scorer = None
    for _ in range(run.total):
        run.step()
    policy = run.learner.evaluated() or run.learner.plan()
    value = float(problem.goal(bqrl.evaluate(mdp, policy)))
    seconds = round(time.process_time() - start, 2)
    return {"problem": title, "learner": label_of(name, dict(params)), "seed": seed, "value": value, "seconds": seconds}


def missing(
    runs: list[dict[str, Any]], active: Active, seeds: int, cap: float, titles: Sequence[str]
) -> list[tuple[float, Cell, int]]:
    """The missing runs with the seconds that they may take, the first of each cell first, then the quickest first.

    A cell waits for its first run; if that takes longer than the cap, the cell has fewer seeds.
    """
    found = []
    for cell in cells():
        if cell[0] not in titles:
            continue
        label = label_of(cell[1], dict(cell[2]))
        mine = {run["seed"]: run["seconds"] for run in runs if (run["problem"], run["learner"]) == (cell[0], label)}
        playing = {seed for other, seed in active if other == cell}
        if not mine and playing:
            continue
        each = float(np.mean(list(mine.values()))) if mine else 0.0
        wanted = seeds if each <= cap else max(1, int(seeds * cap / each))
        wanted = wanted if mine else 1
        found += [
            (each, cell, seed) for seed in range(FIRST_SEED, FIRST_SEED + wanted) if seed not in {*mine, *playing}
        ]
    return sorted(found, key=lambda one: (one[0], one[2]))


def following(runs: list[tuple[float, Cell, int]], seconds: float) -> tuple[Cell, int]:
    """The run to be started next: a first one, or the longest of the quickest runs that fill the time of all workers."""
    if runs[0][0] == 0.0:
        return runs[0][1:]
    total = np.cumsum([each for each, _, _ in runs])
    return runs[max(0, int(np.searchsorted(total, seconds, side="right")) - 1)][1:]


def warm(name: str) -> None:
    """Compile what a learner needs, so that the workers find it compiled."""
    for cell in cells():
        if cell[1] == name and cell[0] in ("noisy cliff", "American put"):
            play(cell, 0, episodes=3)


def play_all(
    runs: list[dict[str, Any]], seeds: int, minutes: float, cap: float, workers: int, titles: Sequence[str]
) -> Iterator[dict[str, Any]]:
    """Yield the missing runs as they end; start none after the time, and none whose estimate exceeds what is left."""
    begun, active = time.monotonic(), Active()
    if minutes <= 0.0:
        return
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):  # of workers: one thread adds in the same order everywhere
        os.environ[f"{library}_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
        known = dict(zip(titles, pool.map(ends, titles), strict=True))
        list(pool.map(warm, LEARNERS))
        print(f"problems solved and loops compiled in {time.monotonic() - begun:.0f} s", flush=True)
        while True:
            left = 60.0 * minutes - (time.monotonic() - begun)
            while len(active) < workers and left > 0.0:
                waiting = [one for one in missing(runs, active, seeds, cap, titles) if one[0] < left]
                if not waiting:
                    break
                cell, seed = following(waiting, MARGIN * workers * left)
                active[cell, seed] = pool.submit(play, cell, seed)
            if not active:
                return
            wait(active.values(), return_when=FIRST_COMPLETED)
            for key in [key for key, one in active.items() if one.done()]:
                run = active.pop(key).result()
                random, best = known[run["problem"]]
                runs.append(run | {"random": random, "best": best, "share": (run["value"] - random) / (best - random)})
                yield runs[-1]


def table(runs: list[dict[str, Any]], seeds: int) -> str:
    """The mean shares, one row per learner and one column per problem; a count in brackets if there are fewer seeds."""
    titles = list(PROBLEMS)
    head = " | ".join(f"{title}, {PROBLEMS[title].goal.label}" for title in titles)
    lines = [f"| learner | {head} |", f"|{' -- |' * (len(titles) + 1)}"]
    for name, params in everyone():
        label, shown = label_of(name, params), []
        for title in titles:
            mine = [run["share"] for run in runs if (run["problem"], run["learner"]) == (title, label)]
            few = f" ({len(mine)})" if len(mine) < seeds else ""
            served = serves(LEARNERS[name], PROBLEMS[title].goal)
            shown.append(f"{np.mean(mine):.2f}{few}" if mine else "not run" if served else "\N{EN DASH}")
        lines.append(f"| {label} | {' | '.join(shown)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Play the missing runs and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--minutes", type=float, default=600.0, help="start no run that would end after this time")
    parser.add_argument("--workers", type=int, default=1, help="processes")
    parser.add_argument("--cap", type=float, default=60.0, help="seconds of a run above which a cell has fewer seeds")
    parser.add_argument("--problems", nargs="+", choices=PROBLEMS, default=list(PROBLEMS), help="only these columns")
    parser.add_argument("--runs", type=Path, default=RUNS, help="the file of runs")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that holds the table")
    given = parser.parse_args()
    with given.runs.open("a", encoding="utf-8") as file:
        for run in play_all(read(given.runs), given.seeds, given.minutes, given.cap, given.workers, given.problems):
            file.write(json.dumps(run) + "\n")
            file.flush()
            print(f"{run['problem']:31}{run['learner']:28}{run['share']:8.3f}{run['seconds']:8.1f} s", flush=True)
    shown = table(read(given.runs), given.seeds)
    print(shown)
    before, rest = given.page.read_text(encoding="utf-8").split(BEGIN)
    given.page.write_text(before + BEGIN + shown + END + rest.split(END)[1], encoding="utf-8")


if __name__ == "__main__":
    main()
