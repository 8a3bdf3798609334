"""Growth of regret with the number of episodes T on four rows (problem, level), beside the lower bound where it applies.

Each run of `--episodes` episodes gives the regret at every smaller T: the sum of the gaps between the optimal quantile and the
quantile of the policy played. The table shows the mean regret at T = 200, 2,000 and 20,000 (or the nearest measured T) and the
exponent a of regret ~ T^a from T = 200 on, with its standard error (jackknife over seeds). A learner that is stuck has
exponent 1; logarithmic regret has an exponent near 0.

On the hard family every learner has regret of at least c H min(T, A / rho^2) for some choice of the best action.
`hard_lower_bound` computes this bound (`rate`), and a tighter one with the same proof (`direct`); both are drawn.

The radius of UCB-BQRL contains the logarithm of the number of episodes, here that of the whole run.

The default of 2,000 episodes takes some minutes; `--episodes 20000` takes about an hour on one core.

`--json FILE` writes the curves of all runs, `--load FILE` draws from such a file without running, and `--images DIR` writes
regret_growth.png and regret_growth.svg.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from _suite import ROWS

import bqrl
from bqrl.papers.ucb_bqrl.theory.hard_family import growth_exponent
from bqrl.results.charts import BROWN, GREY, Curve, altair, image, lines, with_title
from bqrl.results.learning_curves import learner_colours
from bqrl.study.scores import Contender, band_name, mean_band
from bqrl.theory import hard_lower_bound

FIRST, POINTS = 200, 25  # smallest T, and number of T
FIRST_SEED = 800_000
SHOWN = (200, 2_000, 20_000)
LEARNERS = {"psrl": "psrl (default)", "ucb-bqrl": "UCB-BQRL"}
HARD = {"tau": 0.5, "rho": 1 / 16, "A": 3, "H": 3}  # of the row "hard family"
CHOSEN = [("hard family", 0.5), ("asset selling, uniform", 0.1), ("river swim", 0.5), ("bandit", 0.5)]


def one(job: tuple[str, float, str, int, list[int]]) -> dict[str, Any]:
    """One run: its regret after each number of episodes `at`."""
    problem, tau, learner, seed, at = job
    mdp = next(build for name, build, level in ROWS if (name, level) == (problem, tau))()
    start = time.perf_counter()
    record = bqrl.learn(mdp, learner, tau, at[-1], seed, progress=False)
    regret = np.cumsum(record.gap(tau))[np.array(at) - 1]
    seconds = round(time.perf_counter() - start, 1)
    found = {"problem": problem, "tau": tau, "learner": learner, "seed": seed, "seconds": seconds}
    print(f"{problem}, {tau:g}: {learner}, seed {seed}: regret {regret[-1]:.4g}, {seconds} s", flush=True)
    return found | {"regret": regret.tolist()}


def regrets(runs: list[dict[str, Any]], problem: str, tau: float, learner: str) -> np.ndarray:
    """Regret by seed and number of episodes."""
    wanted = (problem, tau, learner)
    return np.array([run["regret"] for run in runs if (run["problem"], run["tau"], run["learner"]) == wanted])


def report(runs: list[dict[str, Any]], at: np.ndarray) -> None:
    """Print mean regret at a few T and the exponent of every row and learner."""
    places = list(dict.fromkeys(int(np.abs(np.log(at / T)).argmin()) for T in SHOWN))
    head = "".join(f"{f'T = {at[j]}':>14}" for j in places)
    print(f"\n{'row':30}{'learner':>12}{head}{'exponent':>16}{'s per run':>12}")
    for problem, tau in CHOSEN:
        for learner in LEARNERS:
            curves = regrets(runs, problem, tau, learner)
            slope, error = growth_exponent(at, curves[None], FIRST)
            fitted = "-" if slope is None else f"{slope:.2f} ± {error:.2f}"
            means = "".join(f"{x:14.4g}" for x in curves.mean(axis=0)[places])
            seconds = np.mean(
                [run["seconds"] for run in runs if (run["problem"], run["learner"]) == (problem, learner)]
            )
            print(f"{f'{problem}, {tau:g}':30}{learner:>12}{means}{fitted:>16}{seconds:12.1f}")
        if problem == "hard family":
            bounds = [hard_lower_bound(**HARD, T=int(at[j])) for j in places]
            print(f"{'':30}{'direct':>12}{''.join(f'{bound.direct:14.4g}' for bound in bounds)}")
            print(f"{'':30}{'rate':>12}{''.join(f'{bound.rate:14.4g}' for bound in bounds)}")


def panel(runs: list[dict[str, Any]], at: np.ndarray, problem: str, tau: float) -> Any:
    """The curves of one row."""
    x, curves, exponents = at.astype(float), [], []
    for learner, label in LEARNERS.items():
        found = regrets(runs, problem, tau, learner)
        mean, (low, high) = found.mean(axis=0), mean_band(found)
        some = mean > 0.0  # zero has no place on a logarithmic axis
        curves.append(Curve(label, x[some], mean[some], np.maximum(low, 0.1 * mean)[some], high[some]))
        slope, _ = growth_exponent(at, found[None], FIRST)
        exponents.append("no fit" if slope is None else f"{slope:.2f}")
    if problem == "hard family":
        bounds = [hard_lower_bound(**HARD, T=int(T)) for T in at]
        for name in ("direct", "rate"):
            y = np.array([getattr(bound, name) for bound in bounds])
            label = "lower bound" if name == "direct" else "c H min(T, A / \N{GREEK SMALL LETTER RHO}²)"
            curves.append(Curve(label, x, y))
    exponent = ", ".join(f"{name} {a}" for name, a in zip(LEARNERS, exponents, strict=True))
    note = f"Band: {band_name(len(found))}. Exponents: {exponent}."
    colours = learner_colours(Contender(label=label, learner=name) for name, label in LEARNERS.items())
    colours |= {curve.label: colour for curve, colour in zip(curves[len(LEARNERS) :], (GREY, BROWN), strict=False)}
    log = {"x": {"type": "log"}, "y": {"type": "log"}}
    layers = lines(curves, "episodes T", "regret", scales=log, colours=colours).layers
    title = f"{problem[0].upper()}{problem[1:]}, τ = {tau:g}"
    return with_title(altair().layer(*layers), title, note).properties(width=360, height=260)


def draw(runs: list[dict[str, Any]], at: np.ndarray) -> Any:
    """Four panels; the configuration of a panel becomes that of the whole."""
    alt = altair()
    panels = [panel(runs, at, *row) for row in CHOSEN]
    config = panels[0].config
    for each in panels:
        each.config = alt.Undefined
    chart = alt.concat(*panels, columns=2).resolve_scale(color="independent")
    chart.config = config
    return chart


def main() -> None:
    """Run, print, save and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--episodes", type=int, default=2_000, help=f"at least {10 * FIRST}; 20,000 for the full picture"
    )
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the curves of all runs here")
    parser.add_argument("--load", type=Path, help="draw the runs of this file; nothing is run")
    parser.add_argument(
        "--images", type=Path, help="write regret_growth.png and .svg into this folder, e.g. docs/images"
    )
    given = parser.parse_args()
    if given.load:
        stored = json.loads(given.load.read_text(encoding="utf-8"))
        at, runs = np.array(stored["at"]), stored["runs"]
    else:
        if given.episodes < 10 * FIRST or given.seeds < 2:
            parser.error(f"--episodes must be at least {10 * FIRST} and --seeds at least 2")
        at = np.unique(np.geomspace(FIRST, given.episodes, POINTS).round().astype(np.int64))
        seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
        jobs = [(*row, learner, seed, at.tolist()) for seed in seeds for row in CHOSEN for learner in LEARNERS]
        with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
            runs = list(pool.map(one, jobs))
    if given.json:
        lines = ",\n".join(json.dumps(run) for run in runs)
        given.json.write_text(f'{{"at": {at.tolist()},\n"runs": [\n{lines}\n]}}\n', encoding="utf-8")
    report(runs, at)
    if given.images:
        chart = draw(runs, at)
        for kind in ("png", "svg"):
            (given.images / f"regret_growth.{kind}").write_bytes(image(chart, kind))


if __name__ == "__main__":
    main()
