"""Promises from logged episodes: coverage on five problems and two logging policies, and the time to read a large log.

    python benchmarks/logs.py [repetitions] [episodes]

Coverage is the share of simulated logs whose promise the true model keeps; it must be at least the confidence.
"""

from __future__ import annotations

import csv
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import bqrl
from bqrl.logs.estimate import Estimate
from bqrl.logs.fit import fit
from bqrl.mdp.model import MDP
from bqrl.planners.expected import best_mean

TAU, CONFIDENCE = 0.1, 0.95
LOGGING = ("uniform", "expert")  # every action alike; the best mean in 7 of 10 steps and any action else
WAYS = ("nothing known", "support known", "shared noise")


def problems() -> dict[str, MDP]:
    """Problems small enough for repeated logs, with shared noise where there is a law to share."""
    make = bqrl.envs.make
    return {
        "asset selling": make("AssetSelling", offers=8, horizon=5, start=2, shared=True),
        "inventory": make("Inventory", capacity=4, horizon=5, demand=2.0, mass=0.99, shared=True),
        "machine": make("MachineReplacement", horizon=6, shared=True),
        "river swim": make("RiverSwim", horizon=8, positions=4),
        "random": make("Garnet", states=6, actions=2, horizon=5),
    }


def logging_policy(mdp: MDP, kind: str) -> np.ndarray:
    """Action probabilities (H, S, A)."""
    available = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A))
    uniform = available / available.sum(axis=2, keepdims=True)
    if kind == "uniform":
        return uniform
    expert = np.zeros(uniform.shape)
    policy = best_mean(mdp)[1]
    for h in range(mdp.H):
        for s in range(mdp.S):
            expert[h, s, policy.act(h, s, policy.start())] = 1.0
    return 0.7 * expert + 0.3 * uniform


def played(mdp: MDP, policy: np.ndarray, episodes: int, rng: np.random.Generator) -> dict[str, Any]:
    """A log of the policy as columns, labelled with the names of the model."""
    s = rng.choice(mdp.S, episodes, p=mdp.mu)
    parts: dict[str, list[np.ndarray]] = {name: [] for name in ("stage", "state", "action", "reward", "next_state")}
    for h in range(mdp.H):
        a = (rng.random(episodes)[:, None] > np.cumsum(policy[h, s], axis=1)).sum(axis=1).clip(0, mdp.A - 1)
        s_next, reward = np.empty(episodes, np.int64), np.empty(episodes)
        u = rng.random(episodes)
        for row in np.unique(s * mdp.A + a):
            here = np.flatnonzero(s * mdp.A + a == row)
            successor, probability, paid = mdp.outcomes(h, int(row) // mdp.A, int(row) % mdp.A)
            i = np.searchsorted(np.cumsum(probability), u[here], side="right").clip(0, successor.size - 1)
            s_next[here], reward[here] = successor[i], paid[i]
        for name, column in (("stage", np.full(episodes, h)), ("state", s), ("action", a), ("next_state", s_next)):
            parts[name].append(column)
        parts["reward"].append(reward)
        s = s_next
    log: dict[str, Any] = {name: np.concatenate(columns) for name, columns in parts.items()}
    states, actions = (
        np.array([name(i) for i in range(n)]) for name, n in ((mdp.state_label, mdp.S), (mdp.action_label, mdp.A))
    )
    log["state"], log["next_state"] = states[log["state"]], states[log["next_state"]]
    return log | {"action": actions[log["action"]], "episode": np.tile(np.arange(episodes), mdp.H)}


def embedded(mdp: MDP, estimate: Estimate) -> MDP:
    """The true model in the numbering of an estimate; states that the log does not show lead to the worst."""
    names = {name: i for i, name in enumerate(estimate.mdp.state_names or ())}
    actions = {name: i for i, name in enumerate(estimate.mdp.action_names or ())}
    end, unseen = estimate.added
    lowest = float(mdp.reward.min())
    listed = []
    for h in range(mdp.H):
        for s in range(mdp.S):
            for a in range(mdp.A):
                if mdp.state_label(s) not in names or mdp.action_label(a) not in actions:
                    continue
                for s_next, p, r in zip(*mdp.outcomes(h, s, a), strict=True):
                    place = names.get(mdp.state_label(int(s_next)), unseen)
                    if p > 0:
                        listed.append((h, names[mdp.state_label(s)], actions[mdp.action_label(a)], place, p, r))
        listed += [(h, s, a, s, 1.0, r) for s, r in ((end, 0.0), (unseen, lowest)) for a in actions.values()]
    return MDP(listed, start=names[mdp.state_label(mdp.start)])


def fitted(mdp: MDP, log: dict[str, Any], way: str) -> Estimate:
    """The estimate with what is known beforehand; every problem is stationary."""
    if way == "nothing known":
        bounds = (float(mdp.reward.min()), float(mdp.reward.max()))
        return fit(log, CONFIDENCE, stationary=True, reward_range=bounds)
    return fit(log, CONFIDENCE, model=mdp if way == "shared noise" else mdp.with_noise(None))


def promises(
    mdp: MDP, kind: str, way: str, episodes: int, repetitions: int, seed: int = 0
) -> Iterator[dict[str, float]]:
    """Promise, true value of the promised plan and true value of the plug-in plan, log by log."""
    policy = logging_policy(mdp, kind)
    for rng in np.random.default_rng(seed).spawn(repetitions):
        estimate = fitted(mdp, played(mdp, policy, episodes, rng), way)
        truth = embedded(mdp, estimate) if estimate.added else mdp
        plan, plug_in = estimate.solve(TAU), estimate.plug_in(TAU)
        yield {
            "promise": plan.value,
            "truth": bqrl.evaluate(truth, plan.policy).quantile(TAU),
            "plug_in": bqrl.evaluate(truth, plug_in.policy).quantile(TAU),
            "claimed": plug_in.value,
        }


def ways(mdp: MDP) -> tuple[str, ...]:
    """What may be known of a problem."""
    return WAYS if mdp.noise is not None else WAYS[:2]


def coverage(repetitions: int, episodes: int) -> list[tuple[object, ...]]:
    """One row per problem, logging policy and knowledge."""
    rows = []
    for name, mdp in problems().items():
        best = bqrl.guarantee_curve(mdp)(TAU)
        for kind in LOGGING:
            for way in ways(mdp):
                found = list(promises(mdp, kind, way, episodes, repetitions))
                promise, truth, plug_in, claimed = (np.array([one[key] for one in found]) for key in found[0])
                rows.append(
                    (
                        name, kind, way, best, float(np.mean(promise <= truth + 1e-9)), float(np.median(promise)),
                        float(np.median(claimed)), float(np.median(plug_in)), float(np.mean(claimed > plug_in + 1e-9)),
                    )
                )  # fmt: skip
                print(rows[-1], flush=True)
    return rows


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


def main() -> None:
    from timing import machine, table

    repetitions, episodes = (int(text) for text in (*sys.argv[1:], "500", "2000")[:2])
    print(machine())
    large_file(1_000_000)
    table(
        f"{repetitions} logs of {episodes} episodes, tau {TAU}, confidence {CONFIDENCE}",
        (
            "problem",
            "logging",
            "known",
            "optimum",
            "coverage",
            "promise",
            "plug-in claims",
            "plug-in true",
            "plug-in breaks",
        ),
        coverage(repetitions, episodes),
    )


if __name__ == "__main__":
    main()
