"""Promises from logged episodes: whether they hold, what they are worth, and the time to read a large log.

    python benchmarks/logs.py                              read and fit a log of a million steps
    python benchmarks/logs.py coverage FILE.csv 500 300    append lines for 500 logs of 300 episodes per cell; resumes
    python benchmarks/logs.py table FILE.csv... [C.png]    summarise the files, and draw the promise against the episodes
    python benchmarks/logs.py icu                          10,000 episodes of ICU-Sepsis under the expert policy

Coverage is the share of simulated logs in which a promise holds in the true model, with its Clopper-Pearson interval; that of
both promises at once, the new plan's and the old policy's, must be at least the confidence. Five problems, three kinds of
logging: "fixed" plays every action alike; "cuts" does, too, and cuts every twentieth episode off after a random step;
"adaptive" replans after each tenth of the log on the frequencies so far and then plays the action with the best mean in 7 of
10 steps, and is declared as such. The seed of a log is its cell, so that the same cell has the same bits in every run.

Options of coverage: `--part I/N` makes every N-th repetition only, so that N processes with a file each share the work;
`--seconds S` stops after the log in which S seconds are over; `--logging fixed` and `--problem machine` limit the cells.
"""

from __future__ import annotations

import argparse
import csv
import math
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

import bqrl
from bqrl.envs.icu_sepsis import _folder as data_folder
from bqrl.logs.estimate import Estimate
from bqrl.logs.fit import fit
from bqrl.mdp.model import MDP
from bqrl.planners.expected import best_mean

TAU, CONFIDENCE = 0.1, 0.95
LOGGING = ("fixed", "adaptive", "cuts")
CONFIDENCES = (0.95, 0.9)
CUT = 0.05  # share of the episodes that are cut off
WAYS = ("nothing known", "support known", "shared noise")
EPISODES = (300, 1000, 3000, 10_000)
REPLANS = 10  # of the adaptive logging policy
FIELDS = (
    "problem", "logging", "episodes", "repetition", "confidence", "known", "promise", "truth", "claimed", "plug_in", "old",
    "old_truth",
)  # fmt: skip


def problems() -> dict[str, MDP]:
    """Problems small enough for repeated logs, with shared noise where there is a law to share; all are stationary."""
    make = bqrl.envs.make
    return {
        "asset selling": make("AssetSelling", offers=8, horizon=5, start=2, shared=True),
        "inventory": make("Inventory", capacity=4, horizon=5, demand=2.0, mass=0.99, shared=True),
        "machine": make("MachineReplacement", horizon=6, shared=True),
        "river swim": make("RiverSwim", horizon=16, positions=4),
        "random": make("Garnet", states=6, actions=2, horizon=5),
    }


def uniform(mdp: MDP) -> np.ndarray:
    """Every available action alike, shape (H, S, A)."""
    available = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A))
    return available / available.sum(axis=2, keepdims=True)


def towards_mean(mdp: MDP) -> np.ndarray:
    """The best mean of a model in 7 of 10 steps and any action else, shape (H, S, A)."""
    policy = best_mean(mdp)[1]
    best = np.array([[policy.act(h, s, policy.start()) for s in range(mdp.S)] for h in range(mdp.H)])
    return 0.7 * np.eye(mdp.A)[best] + 0.3 * uniform(mdp)


def played(mdp: MDP, policy: np.ndarray, episodes: int, rng: np.random.Generator, first: int = 0) -> dict[str, Any]:
    """A log of the policy as columns of numbers, with the place of every outcome in the model."""
    s = rng.choice(mdp.S, episodes, p=mdp.mu)
    parts: dict[str, list[np.ndarray]] = defaultdict(list)
    for h in range(mdp.H):
        a = (rng.random(episodes)[:, None] > np.cumsum(policy[h, s], axis=1)).sum(axis=1).clip(0, mdp.A - 1)
        stage, row = mdp.stage(h), s * mdp.A + a
        total = np.r_[0.0, np.cumsum(stage.probability)]
        begin, end = stage.row_start[row], stage.row_start[row + 1]
        place = np.searchsorted(total, total[begin] + rng.random(episodes), side="right").clip(begin + 1, end) - 1
        s_next = stage.successor[place]
        columns = (np.arange(first, first + episodes), np.full(episodes, h), s, a, stage.reward[place], s_next, place)
        names = ("episode", "stage", "state", "action", "reward", "next_state", "place")
        for name, column in zip(names, columns, strict=True):
            parts[name].append(column)
        s = s_next
    return {name: np.concatenate(columns) for name, columns in parts.items()}


def simulated(mdp: MDP, kind: str, episodes: int, rng: np.random.Generator) -> dict[str, Any]:
    """A log of one kind, labelled with the names of the model."""
    if kind != "adaptive":
        log = played(mdp, uniform(mdp), episodes, rng)
    else:
        size, policy, parts = episodes // REPLANS, uniform(mdp), []
        row = np.repeat(np.arange(mdp.S * mdp.A), np.diff(mdp.row_start))
        counts = np.zeros(mdp.successor.size)
        for i in range(REPLANS):
            parts.append(played(mdp, policy, size, rng, first=i * size))
            counts += np.bincount(parts[-1]["place"], minlength=counts.size)
            seen = np.bincount(row, counts)[row]
            guess = np.where(seen > 0, counts / np.maximum(seen, 1.0), 1.0 / np.bincount(row)[row])
            policy = towards_mean(mdp.with_probability(guess))
        log = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return cut_off(labelled(mdp, log), mdp.H, rng) if kind == "cuts" else labelled(mdp, log)


def cut_off(log: dict[str, Any], H: int, rng: np.random.Generator) -> dict[str, Any]:
    """The log with some episodes cut off after a random step, whose successor is not recorded."""
    episodes = int(log["episode"].max()) + 1
    last = np.where(rng.random(episodes) < CUT, rng.integers(0, H, episodes), H)[log["episode"]]
    at = log["stage"] == last
    marked = log | {"next_state": np.where(at, "", log["next_state"]), "end": np.where(at, "truncated", "")}
    return {name: column[log["stage"] <= last] for name, column in marked.items()}


def labelled(mdp: MDP, log: dict[str, Any]) -> dict[str, Any]:
    """The log with the names of the model instead of numbers."""
    states = np.array([mdp.state_label(s) for s in range(mdp.S)])
    actions = np.array([mdp.action_label(a) for a in range(mdp.A)])
    names = {"state": states[log["state"]], "action": actions[log["action"]], "next_state": states[log["next_state"]]}
    return {name: column for name, column in (log | names).items() if name != "place"}


def embedded(mdp: MDP, estimate: Estimate) -> MDP:
    """The true model in the numbering of an estimate; states that the log does not show lead to the worst."""
    names = {name: i for i, name in enumerate(estimate.mdp.state_names or ())}
    actions = {name: i for i, name in enumerate(estimate.mdp.action_names or ())}
    end, unseen = estimate.added
    listed = [(s, a, s, 1.0, r) for s, r in ((end, 0.0), (unseen, float(mdp.reward.min()))) for a in actions.values()]
    for s in range(mdp.S):
        for a in range(mdp.A):
            if mdp.state_label(s) not in names or mdp.action_label(a) not in actions:
                continue
            for s_next, p, r in zip(*mdp.outcomes(0, s, a), strict=True):
                place = names.get(mdp.state_label(int(s_next)), unseen)
                if p > 0:
                    listed.append((names[mdp.state_label(s)], actions[mdp.action_label(a)], place, p, r))
    return MDP(listed, start=names[mdp.state_label(mdp.start)], horizon=mdp.H)


def fitted(mdp: MDP, log: dict[str, Any], way: str, kind: str = "fixed", confidence: float = CONFIDENCE) -> Estimate:
    """The estimate with what is known beforehand; every problem is stationary."""
    adaptive = kind == "adaptive"
    if way == "nothing known":
        bounds = (float(mdp.reward.min()), float(mdp.reward.max()))
        return fit(log, confidence, stationary=True, reward_range=bounds, adaptive=adaptive)
    return fit(log, confidence, model=mdp if way == "shared noise" else mdp.with_noise(None), adaptive=adaptive)


def ways(mdp: MDP) -> tuple[str, ...]:
    """What may be known of a problem."""
    return WAYS if mdp.noise is not None else WAYS[:2]


def true_value(mdp: MDP, plan: bqrl.Plan) -> float:
    """The quantile of a plan's policy in the true model, where an outcome that the log does not show has its own reward."""
    return bqrl.evaluate(mdp, plan.policy, rewards="this model").quantile(TAU)


def promises(mdp: MDP, kind: str, episodes: int, seed: Any) -> Iterator[dict[str, Any]]:
    """For each way and confidence on one simulated log: both promises, the plug-in plan's claim, and all true values."""
    log = simulated(mdp, kind, episodes, np.random.default_rng(seed))
    old_truth = bqrl.evaluate(mdp, bqrl.StochasticPolicy(uniform(mdp))).quantile(TAU)
    for way in ways(mdp):
        first = fitted(mdp, log, way, kind)
        truth = embedded(mdp, first) if first.added else mdp
        plug_in = first.plug_in(TAU)
        for confidence in CONFIDENCES:
            estimate = at_confidence(first, confidence)
            plan = estimate.solve(TAU)
            yield {
                "confidence": confidence, "known": way,
                "promise": plan.value, "truth": true_value(truth, plan),
                "claimed": plug_in.value, "plug_in": true_value(truth, plug_in),
                "old": estimate.old_promise(TAU), "old_truth": old_truth,
            }  # fmt: skip


def at_confidence(estimate: Estimate, confidence: float) -> Estimate:
    """The estimate from the same log at another confidence: frequencies stay, and error probabilities scale."""
    share = (1.0 - confidence) / (1.0 - estimate.confidence)
    balls = replace(estimate.balls, delta=estimate.balls.delta * share)
    return replace(estimate, confidence=confidence, balls=balls, refits={}, trials={}, _memo={})


def coverage(path: Path, asked: argparse.Namespace) -> None:
    """Append the lines of the logs of every problem, logging policy and number of episodes; logs already there are skipped."""
    done = {tuple(line[name] for name in FIELDS[:4]) for line in lines(path)}
    part, parts = asked.part
    cells = product(asked.sizes, range(part - 1, asked.logs, parts), enumerate(problems().items()), enumerate(LOGGING))
    begun = time.perf_counter()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if not done:
            writer.writeheader()
        for episodes, k, (i, (name, mdp)), (j, kind) in cells:
            if name not in (asked.problem or (name,)) or kind not in (asked.logging or LOGGING):
                continue
            if time.perf_counter() - begun > asked.seconds:
                break
            cell = {"problem": name, "logging": kind, "episodes": episodes, "repetition": k}
            if tuple(map(str, cell.values())) not in done:
                writer.writerows([cell | found for found in promises(mdp, kind, episodes, (i, j, episodes, k))])
                file.flush()


def share_of_work(text: str) -> tuple[int, int]:
    """Part I of N, from the text I/N."""
    part, parts = map(int, text.split("/"))
    if not 1 <= part <= parts:
        raise ValueError(text)
    return part, parts


def lines(path: Path) -> list[dict[str, str]]:
    """The lines of a file of results; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def summary(paths: list[Path]) -> list[tuple[object, ...]]:
    """One row per confidence, problem, logging policy, knowledge and number of episodes."""
    cells: dict[tuple[str, ...], list[dict[str, float]]] = defaultdict(list)
    for line in chain.from_iterable(map(lines, paths)):
        key = tuple(line[name] for name in ("confidence", "problem", "logging", "known", "episodes"))
        cells[key].append({name: float(line[name]) for name in FIELDS[6:]})
    best = {name: bqrl.guarantee_curve(mdp)(TAU) for name, mdp in problems().items()}
    rows: list[tuple[object, ...]] = []
    for (confidence, name, kind, way, episodes), found in cells.items():
        promise, truth, claimed, plug_in, old, old_truth = (np.array([one[key] for one in found]) for key in FIELDS[6:])
        new_holds, old_holds = promise <= truth + 1e-9, old <= old_truth + 1e-9
        rows.append(
            (
                float(confidence), name, kind, way, int(episodes), len(found),
                *(share(held) for held in (new_holds & old_holds, new_holds, old_holds)),
                float(np.median(np.maximum(promise, old))), float(np.median(promise)), float(np.median(old)),
                float(np.median(truth)), best[name], float(np.median(plug_in)), float(np.mean(claimed > plug_in + 1e-9)),
            )
        )  # fmt: skip
    order = {name: i for i, name in enumerate((*problems(), *LOGGING, *WAYS))}
    return sorted(rows, key=lambda row: (-float(str(row[0])), *(order[str(row[i])] for i in (1, 2, 3)), row[4]))


def share(held: np.ndarray) -> str:
    """The share of the logs in which a promise held, with its 95 % Clopper-Pearson interval."""
    found = binomtest(int(held.sum()), held.size).proportion_ci(0.95, "exact")
    return f"{held.mean():.3f} [{found.low:.3f}, {found.high:.3f}]"


def large_file(steps: int) -> None:
    """Time and peak memory of reading a log of so many steps."""
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.csv"
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("episode", "stage", "state", "action", "reward"))
            state, action = rng.integers(0, 50, steps), rng.integers(0, 4, steps)
            writer.writerows(
                (i // 10, i % 10, f"s{s}", f"a{a}", int(s) % 5)
                for i, (s, a) in enumerate(zip(state, action, strict=True))
            )
        begun = time.perf_counter()
        fit(path, stationary=True, reward_range=(0, 5))
        seconds = time.perf_counter() - begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{steps} steps: read and fitted in {seconds:.1f} s, peak memory {peak:.2f} GiB")


def icu(episodes: int = 10_000) -> None:
    """Promises of a log of the expert policy, restricted to admissible actions, where outcomes and rewards are known."""
    mdp, begun = bqrl.envs.make("ICUSepsis"), time.perf_counter()
    with np.load(data_folder() / "dynamics.npz", allow_pickle=False) as data:
        expert = np.where(mdp.available[0], data["expert_policy"], 0.0)
    total = expert.sum(axis=1, keepdims=True)
    policy = np.broadcast_to(
        np.where(total > 0, expert / np.where(total > 0, total, 1.0), uniform(mdp)[0]), uniform(mdp).shape
    )
    log = labelled(mdp, played(mdp, policy, episodes, np.random.default_rng(0)))
    estimate = fit(log, CONFIDENCE, model=mdp)
    print(estimate)
    for tau in (0.1, 0.3, 0.5):
        plan, logged = estimate.solve(tau), estimate.logged(tau)
        truth, best = bqrl.evaluate(mdp, plan.policy).quantile(tau), bqrl.guarantee_curve(mdp)(tau)
        expert_truth = bqrl.evaluate(mdp, bqrl.StochasticPolicy(policy)).quantile(tau)
        later = [one["value"] for one in estimate.projection(tau, (10, 100, 1000))]
        print(
            f"tau {tau}: headline {max(plan.value, logged['lower']):g}; old policy promises {logged['lower']:g}, has {logged}"
        )
        print(f"  true value of the old policy {expert_truth:g}, optimum {best:g}")
        print(f"  new plan ({plan.details['chosen']}) promises {plan.value:g}, its true value {truth:g}")
        print(
            f"  plug-in plan claims {estimate.plug_in(tau).value:g}; projections for 10, 100, 1000 times the data {later}"
        )
        print(f"  {estimate.reason(tau)}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{time.perf_counter() - begun:.0f} s, peak memory {peak:.1f} GiB")


def draw(rows: list[tuple[object, ...]], path: Path) -> None:
    """The median promise against the number of episodes, beside the optimum and the plug-in plan's true value."""
    import altair as alt

    values = []
    for confidence, name, kind, way, episodes, *_, promise, _, _, best, plug_in, _ in rows:
        if kind == LOGGING[0] and confidence == CONFIDENCE:
            values.append({"problem": name, "episodes": episodes, "value": promise, "line": f"promise, {way}"})
            if way == WAYS[1]:
                values.append({"problem": name, "episodes": episodes, "value": best, "line": "optimum"})
                values.append(
                    {"problem": name, "episodes": episodes, "value": plug_in, "line": "plug-in plan, true value"}
                )
    order = [*(f"promise, {way}" for way in WAYS), "plug-in plan, true value", "optimum"]
    base = alt.Chart(alt.Data(values=values)).encode(
        x=alt.X("episodes:Q", scale=alt.Scale(type="log"), axis=alt.Axis(values=sorted(EPISODES)), title="logged episodes"),
        y=alt.Y("value:Q", scale=alt.Scale(zero=False), title=f"{TAU:g}-quantile"),
        color=alt.Color("line:N", sort=order, title=None, legend=alt.Legend(orient="top", columns=3, labelLimit=300)),
        strokeDash=alt.StrokeDash("line:N", sort=order, legend=None),
    )  # fmt: skip
    chart = base.mark_line(point=True).properties(width=220, height=160)
    facets = chart.facet(alt.Facet("problem:N", title=None, sort=list(problems())), columns=3)
    facets.resolve_scale(y="independent").save(str(path), scale_factor=2)


def main() -> None:
    from timing import machine, table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    run = commands.add_parser("coverage")
    run.add_argument("file", type=Path)
    run.add_argument("logs", type=int)
    run.add_argument("sizes", type=int, nargs="+")
    run.add_argument("--part", type=share_of_work, default=(1, 1))
    run.add_argument("--seconds", type=float, default=math.inf)
    run.add_argument("--logging", choices=LOGGING, action="append")
    run.add_argument("--problem", choices=list(problems()), action="append")
    shown = commands.add_parser("table")
    shown.add_argument("files", type=Path, nargs="+")
    commands.add_parser("icu")
    asked = parser.parse_args()
    if asked.command == "coverage":
        coverage(asked.file, asked)
    elif asked.command == "table":
        rows = summary([path for path in asked.files if path.suffix == ".csv"])
        head = (
            "confidence", "problem", "logging", "known", "episodes", "logs", "both hold", "new holds", "old holds", "headline",
            "new plan", "old policy", "new plan, true", "optimum", "plug-in, true", "plug-in breaks",
        )  # fmt: skip
        table(f"medians, tau {TAU}", head, rows)
        for path in asked.files:
            if path.suffix != ".csv":
                draw(rows, path)
    elif asked.command == "icu":
        icu()
    else:
        print(machine())
        large_file(1_000_000)


if __name__ == "__main__":
    main()
