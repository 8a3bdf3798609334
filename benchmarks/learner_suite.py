"""Learners with shipped defaults on sixteen rows (problem, level): what they lose as a share of what random play loses.

    share = sum of gaps / (episodes * (optimum - quantile of uniformly random play));  1.0 means that nothing was learned.

Learners that plan on a model also run asset selling with one law of offers behind all rows; these rows are outside the mean.
A run is stuck if the mean gap of its last 200 episodes exceeds a tenth of what random play loses. Bands are 95 % bootstrap
intervals over seeds. `--json FILE` writes every run, `--load FILE` reads such a file instead of running, and `--out DIR` writes a
page with the profile over rows. `baselines/learner_suite.json` holds runs of psrl and ucb-bqrl (target) of 2026-11-18; those of
the other learners are of 2026-11-15, before the core was rebuilt.
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
from _suite import ROWS, SHARED, Row

LAST = 200  # episodes at the end that tell whether a run is stuck
STUCK = 0.1  # share of what random play loses
FIRST_SEED = 700_000
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ucb-bqrl (target)": ("ucb-bqrl", {"planner": "target"}),
    "ucb-bqrl (greedy)": ("ucb-bqrl", {"planner": "greedy"}),
    **{name: (name, {}) for name in ("psrl", "ucbvi", "thompson", "q-learning", "sarsa", "ppo", "trpo")},
}


def rows_of(title: str) -> list[Row]:
    """The rows on which a learner runs: shared noise makes no difference without a model."""
    import bqrl.learners.run as run

    return ROWS + SHARED if run.LEARNERS[LEARNERS[title][0]].needs_rewards else ROWS


def one(job: tuple[int, str, int, int]) -> dict[str, Any]:
    """One run: its share, the share of its last episodes, and its seconds."""
    import bqrl
    from bqrl.policies.shares import uniform

    place, title, episodes, seed = job
    problem, build, tau = rows_of(title)[place]
    mdp = build()
    learner, params = LEARNERS[title]
    begun = time.perf_counter()
    record = bqrl.learn(mdp, learner, tau, episodes, seed, progress=False, **params)
    seconds = time.perf_counter() - begun
    gap = record.gap(tau)
    loss = float(bqrl.guarantee_curve(mdp)(tau)) - float(bqrl.evaluate(mdp, uniform(mdp)).quantile(tau))
    return {
        "problem": problem, "tau": tau, "learner": title, "seed": seed, "gap": float(gap.sum()),
        "share": float(gap.mean() / loss), "last": float(gap[-LAST:].mean() / loss), "seconds": round(seconds, 3),
    }  # fmt: skip


def band(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95 % bootstrap interval of the mean over the last axis' seeds."""
    drawn = values[..., rng.integers(0, values.shape[-1], (2000, values.shape[-1]))].mean(axis=-1)
    low, high = np.quantile(drawn.mean(axis=0) if drawn.ndim > 1 else drawn, [0.025, 0.975])
    return float(low), float(high)


def report(runs: list[dict[str, Any]], titles: list[str]) -> None:
    """Print one line per row and learner, then the mean over rows, the worst row and the stuck runs."""
    rng = np.random.default_rng(0)
    for title in titles:
        shares: dict[str, np.ndarray] = {}
        print(f"\n{title}\n{'row':32}{'share':>8}  {'95 % band':>15}{'stuck':>8}{'gap':>9}")
        for problem, _, tau in rows_of(title):
            mine = [r for r in runs if (r["problem"], r["tau"], r["learner"]) == (problem, tau, title)]
            if not mine:
                continue
            row, share = f"{problem}, {tau:g}", np.array([r["share"] for r in mine])
            stuck, gap = np.mean([r["last"] > STUCK for r in mine]), np.mean([r["gap"] for r in mine])
            low, high = band(share, rng)
            if problem not in {name for name, _, _ in SHARED}:
                shares[row] = share
            print(f"{row:32}{share.mean():8.3f}  {f'{low:.3f}-{high:.3f}':>15}{stuck:8.0%}{gap:9.1f}")
        if shares:
            table = np.array(list(shares.values()))
            low, high = band(table, rng)
            worst = int(table.mean(axis=1).argmax())
            print(f"{'mean over rows, unshared':32}{table.mean():8.3f}  {f'{low:.3f}-{high:.3f}':>15}")
            print(f"{'worst row':32}{table.mean(axis=1).max():8.3f}  ({list(shares)[worst]})", flush=True)


def profile(runs: list[dict[str, Any]], titles: list[str], folder: Path) -> None:
    """Write a folder with the share of every learner on every row as a table, a chart and a page."""
    from bqrl.results.charts import altair, with_charts, with_title
    from bqrl.results.learning_curves import learner_colours
    from bqrl.results.page import page
    from bqrl.results.result import Result, ResultTable, add_files, write
    from bqrl.study.scores import Contender

    rng, rows = np.random.default_rng(0), []
    for title in titles:
        for problem, _, tau in rows_of(title):
            mine = [r for r in runs if (r["problem"], r["tau"], r["learner"]) == (problem, tau, title)]
            if mine:
                share, stuck = np.array([r["share"] for r in mine]), np.mean([r["last"] > STUCK for r in mine])
                low, high = band(share, rng)
                row = {"row": f"{problem}, {tau:g}", "learner": title, "share": float(share.mean())}
                rows.append(row | {"low": low, "high": high, "stuck": float(stuck), "runs": len(mine)})
    names = list(dict.fromkeys(row["row"] for row in rows))

    def charts() -> dict[str, Any]:
        alt = altair()
        names_and_params = ((title, *LEARNERS[title]) for title in titles)
        contenders = [Contender(label=title, learner=name, params=params) for title, name, params in names_and_params]
        colours = learner_colours(contenders)
        scale = alt.Scale(domain=titles, range=[colours[title] for title in titles])
        colour = alt.Color("learner:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=4))
        loss = "share of what random play loses"
        base = alt.Chart(alt.Data(values=rows)).encode(
            y=alt.Y("row:N", title=None, sort=names, axis=alt.Axis(labelLimit=260)), color=colour
        )
        layers = alt.layer(
            base.mark_rule(opacity=0.5, clip=True).encode(x=alt.X("low:Q", title=loss), x2="high:Q"),
            base.mark_point(filled=True, size=60, opacity=0.9).encode(x=alt.X("share:Q", title=loss)),
        )
        note = "Sum of gaps over what uniformly random play loses. Rule: 95 % bootstrap band of the mean over seeds."
        return {"profile": with_title(layers, "What each learner loses on each row", note, height=26 * len(names))}

    heads = {"low": "95 % band, low", "high": "95 % band, high", "stuck": "share of runs that are stuck"}
    table = ResultTable(
        rows=rows, titles=heads, caption="What the learners lose, one row per problem, level and learner"
    )
    result = Result(
        kind="suite", title="Learners on sixteen rows", settings={"stuck above": STUCK, "last episodes": LAST},
        tables={"shares": table}, charts={}, sentences=[],
    )  # fmt: skip
    result = with_charts(result, charts)
    write(result, folder)
    add_files(folder, {"index.html": page(result).encode()})


def main() -> None:
    """Run, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--learner", action="append", choices=list(LEARNERS), help="only this one; may be repeated")
    parser.add_argument("--row", action="append", help="only rows whose name contains this text; may be repeated")
    parser.add_argument("--json", type=Path, help="write every run here")
    parser.add_argument("--load", type=Path, action="append", help="read runs from this file; nothing is run")
    parser.add_argument("--out", type=Path, help="write the profile over rows as a page into this folder")
    given = parser.parse_args()
    titles = given.learner or list(LEARNERS)
    if given.load:
        runs = [run for path in given.load for run in json.loads(path.read_text(encoding="utf-8"))["runs"]]
        titles = [title for title in titles if any(run["learner"] == title for run in runs)]
    seeds = range(FIRST_SEED, FIRST_SEED + given.seeds)
    if not given.load:
        jobs = [
            (i, title, given.episodes, seed)
            for title in titles
            for i, (problem, _, _) in enumerate(rows_of(title))
            if not given.row or any(text in problem for text in given.row)
            for seed in seeds
        ]
        with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
            runs = list(pool.map(one, jobs, chunksize=5))
    report(runs, titles)
    if given.out:
        profile(runs, titles, given.out)
    if given.json:
        settings = {"episodes": given.episodes, "seeds": list(seeds), "last": LAST, "stuck": STUCK}
        lines = ",\n".join(json.dumps(run) for run in runs)
        given.json.write_text(f'{{"settings": {json.dumps(settings)},\n"runs": [\n{lines}\n]}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
