"""The learner "envelope" with one setting: share of the way from random play to the certified optimum, and trading.

Prints one JSON object per run and, at the end, a table of means over the seeds. In the twelve models the value of the final
policy is exact; in `Trading` (continuous price and stock, the numbers of `bqrl.envs.mean_reversion`) it is the CVaR of 20,000 new
episodes. With --out, finished runs are kept in a file and not repeated. `--learner sb3 --set '{"algorithm": "PPO"}'` runs a
learner for the mean on the same episodes. Needs the extra `deep`; a run of 30,000 episodes takes some minutes on one core.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import gymnasium as gym
import numpy as np

import bqrl

ROWS = {
    "AssetSelling": 0.1, "SafeOrRisky": 0.1, "RiverSwim": 0.25, "MachineReplacement": 0.1, "Inventory": 0.1, "Gambler": 0.5,
    "TreatmentChoice": 0.1, "PerishableInventory": 0.1, "Staffing": 0.1, "SlipperyCliff": 0.1, "Portfolio": 0.1, "DeepSea": 0.5,
    "Trading": 0.5,
}  # fmt: skip
SETTING = {"updates": 0.5}  # of the learner envelope


class Trading(gym.Env):
    """Mean-reverting trading with 21 trades per period and ten periods; observations are the price and the stock."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(21)
    kappa, sigma, phi, psi, periods = 2.0, 1.0, 0.005, 0.5, 10

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.price, self.stock, self.period = 1.0, 0.0, 0
        return np.array([self.price, self.stock], np.float32), {}

    def step(self, action):
        trade = -2.0 + 0.2 * int(action)
        decay = np.exp(-self.kappa / self.periods)
        noise = self.sigma * np.sqrt((1.0 - decay**2) / (2.0 * self.kappa)) * self.np_random.normal()
        price, stock = 1.0 + (self.price - 1.0) * decay + noise, self.stock + trade
        reward = stock * (price - self.price) - self.phi * trade**2 - self.psi * (stock**2 - self.stock**2)
        self.price, self.stock, self.period = price, stock, self.period + 1
        seen = np.array([price, stock], np.float32)
        return seen, float(reward), self.period == self.periods, False, {}


def one(learner: str, problem: str, episodes: int, seed: int, cvar: bool, params: dict) -> dict:
    begin, tau = time.perf_counter(), ROWS[problem]
    goal = bqrl.CVaR(tau) if cvar or problem == "Trading" else bqrl.Quantile(tau)
    row = {"learner": learner, "problem": problem, "objective": goal.text, "episodes": episodes, "seed": seed, **params}
    more = {"horizon": Trading.periods} if problem == "Trading" else {}
    world = Trading() if problem == "Trading" else bqrl.envs.make(problem)
    record = bqrl.learn(world, learner, objective=goal, episodes=episodes, seed=seed, progress=False, **more, **params)
    row["seconds"] = round(time.perf_counter() - begin, 1)
    if problem == "Trading":
        sample = bqrl.simulate(world, record.final_policy, 20_000, seed=10_000 + seed)
        worst = np.sort(sample)[: int(tau * sample.size)]
        return row | {
            "final": float(worst.mean()),
            "mean": float(sample.mean()),
            "error": float(worst.std() / worst.size**0.5),
        }
    exists = np.array(np.broadcast_to(world.available, (world.H, world.S, world.A)), float)
    at_random = bqrl.evaluate(world, exists / np.maximum(exists.sum(axis=2, keepdims=True), 1.0))
    best, worst, final = record.optimum.value(goal), goal(at_random), float(record.value()[-1])
    return row | {"optimum": best, "random": worst, "final": final, "share": round((final - worst) / (best - worst), 4)}


def table(rows: list[dict]) -> str:
    """Return the means over the seeds, one line per learner and problem."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault((row["learner"], row.get("algorithm", ""), row["problem"]), []).append(row)
    lines = ["| learner | problem | optimum | value | share | seeds |", "|---|---|---|---|---|---|"]
    for (learner, algorithm, problem), found in groups.items():
        optimum, share = (np.mean([row.get(key, np.nan) for row in found]) for key in ("optimum", "share"))
        value = np.mean([row["final"] for row in found])
        lines.append(
            f"| {learner} {algorithm} | {problem} | {optimum:.4g} | {value:.4g} | {share:.3f} | {len(found)} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=30_000)
    parser.add_argument("--learner", default="envelope")
    parser.add_argument("--problem", action="append", choices=list(ROWS), help="only this one; may be repeated")
    parser.add_argument("--cvar", action="store_true", help="CVaR instead of the quantile")
    parser.add_argument("--set", default="{}", help="parameters of the learner as JSON, e.g. '{\"updates\": 3}'")
    parser.add_argument("--out", type=Path, help="file of finished runs, one JSON object per line")
    given = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print('skipped: needs PyTorch (pip install "bqrl[deep]")', file=sys.stderr)
        return
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    params = (SETTING if given.learner == "envelope" else {}) | json.loads(given.set)
    text = given.out.read_text() if given.out is not None and given.out.exists() else ""
    rows = [json.loads(line) for line in text.splitlines()]
    key = lambda row: {name: row.get(name) for name in ("learner", "problem", "objective", "episodes", "seed", *params)}  # noqa: E731
    done = [key(row) for row in rows]
    jobs = []
    for seed in range(given.seeds):
        for problem in given.problem or ROWS:
            goal = bqrl.CVaR(ROWS[problem]) if given.cvar or problem == "Trading" else bqrl.Quantile(ROWS[problem])
            job = {"learner": given.learner, "problem": problem, "episodes": given.episodes, "seed": seed}
            if key(job | params | {"objective": goal.text}) not in done:
                jobs.append((*job.values(), given.cvar, params))
    with ProcessPoolExecutor(given.cores, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(one, *job) for job in jobs]):
            rows.append(future.result())
            print(json.dumps(rows[-1]), flush=True)
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
