"""The learner "envelope": share of the certified optimum in twelve models, and beside PPO and QR-DQN in continuous problems.

In the models the value of the final policy is exact; a run has 30,000 episodes. The continuous problems are trading (the numbers
of `bqrl.envs.mean_reversion`), a noisy CartPole with a cost and a storage of electricity. They are played as many copies at once,
and a final policy is judged by 20,000 new episodes. PPO of Stable-Baselines3 and QR-DQN of sb3-contrib (default settings, no
discount, a gradient step of QR-DQN per step of the 32 copies) learn the mean in as many steps as the network has.

    python benchmarks/envelope.py --workers 16 --seeds 5 --out runs.jsonl

runs all of them, the longest first, in processes of one thread each, and prints one JSON object per run and a table at the end.
Finished runs are kept in the file and not repeated. Needs the extra `deep`, and for the comparison `sb3`.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import MagicMock

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

import bqrl
from bqrl.learners.score import random_play

MODELS = {
    "AssetSelling": 0.1, "SafeOrRisky": 0.1, "RiverSwim": 0.25, "MachineReplacement": 0.1, "Inventory": 0.1, "Gambler": 0.5,
    "TreatmentChoice": 0.1, "PerishableInventory": 0.1, "Staffing": 0.1, "SlipperyCliff": 0.1, "Portfolio": 0.1, "DeepSea": 0.5,
}  # fmt: skip
EPISODES, SETTING = 30_000, {"updates": 0.5}  # of the learner in the models
COPIES, TRIALS = 32, 20_000


class Copies(gym.vector.VectorEnv):
    """Copies of a continuous problem; one that ends starts anew in the same step. The last observed number is the time."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012
    numbers, actions, periods = 2, 2, 10

    def __init__(self, n=COPIES):
        self.num_envs = n
        self.single_observation_space = gym.spaces.Box(-np.inf, np.inf, (self.numbers + 1,))
        self.single_action_space = gym.spaces.Discrete(self.actions)
        self.observation_space = batch_space(self.single_observation_space, n)
        self.action_space = batch_space(self.single_action_space, n)

    def reset(self, *, seed=None, options=None):
        self.rng = np.random.default_rng(seed)
        self.x, self.t = self.begin(self.num_envs), np.zeros(self.num_envs, int)
        return self.seen(), {}

    def seen(self):
        return np.column_stack([self.x, self.t / self.periods]).astype(np.float32)

    def step(self, actions):
        reward, ended = self.move(np.asarray(actions))
        self.t += 1
        ended = ended | (self.t == self.periods)
        self.x[ended], self.t[ended] = self.begin(int(ended.sum())), 0
        return self.seen(), reward, ended, np.zeros_like(ended), {}


class Trading(Copies):
    """Mean-reverting trading: 21 trades per period, ten periods; price and stock."""

    actions = 21

    def begin(self, n):
        return np.tile([1.0, 0.0], (n, 1))

    def move(self, actions):
        price, stock = self.x.T
        trade, decay = -2.0 + 0.2 * actions, np.exp(-2.0 / 10)
        after = 1.0 + (price - 1.0) * decay + np.sqrt((1.0 - decay**2) / 4.0) * self.rng.normal(size=price.size)
        reward = (stock + trade) * (after - price) - 0.005 * trade**2
        reward -= np.where(self.t == self.periods - 1, 0.5 * (stock + trade) ** 2, 0.0)
        self.x = np.column_stack([after, stock + trade])
        return reward, np.zeros(price.size, bool)


class CartPole(Copies):
    """CartPole with a random force: a step pays 1 less the distance from the centre, and a fall costs 20."""

    numbers, periods = 4, 50

    def begin(self, n):
        return self.rng.uniform(-0.05, 0.05, (n, 4))

    def move(self, actions):
        place, speed, angle, turn = self.x.T
        force = np.where(actions == 1, 10.0, -10.0) + 5.0 * self.rng.normal(size=place.size)
        pull = (force + 0.05 * turn**2 * np.sin(angle)) / 1.1
        bend = (9.8 * np.sin(angle) - np.cos(angle) * pull) / (0.5 * (4.0 / 3.0 - 0.1 * np.cos(angle) ** 2 / 1.1))
        push = pull - 0.05 * bend * np.cos(angle) / 1.1
        self.x = self.x + 0.02 * np.column_stack([speed, push, turn, bend])
        fallen = (np.abs(self.x[:, 0]) > 2.4) | (np.abs(self.x[:, 2]) > 0.2095)
        return np.where(fallen, -20.0, 1.0 - np.abs(self.x[:, 0])), fallen


class Storage(Copies):
    """A store of four units beside a market with a price that is random, high in the evening and sometimes very high."""

    actions, periods = 5, 24

    def begin(self, n):
        return np.tile([0.0, 2.0], (n, 1))

    def move(self, actions):
        noise, level = self.x.T
        after = np.clip(level + actions - 2.0, 0.0, 4.0)
        price = 50.0 - 20.0 * np.sin(2.0 * np.pi * self.t / 24) + noise
        bought = np.where(after > level, (after - level) / 0.9, after - level)  # a tenth is lost
        spike = np.where(self.rng.random(level.size) < 0.02, 60.0, 0.0)
        self.x = np.column_stack([0.8 * noise + 8.0 * self.rng.normal(size=level.size) + spike, after])
        return -bought * price, np.zeros(level.size, bool)


WORLDS = {  # episodes; updates per episode and most needs of the network; level of CVaR
    Trading: (100_000, {"updates": 0.25, "needs": 128, "batch": 256}, 0.5),
    CartPole: (12_800, {"updates": 1.0, "needs": 128}, 0.1),
    Storage: (26_000, {"updates": 0.5, "needs": 128}, 0.1),
}
SECONDS = {
    "Trading": 500,
    "QRDQN": 400,
    "PPO": 300,
    "Portfolio": 150,
    "Storage": 140,
    "PerishableInventory": 120,
}


def played(world, start, act):
    """Return the returns of new episodes, one per copy; `act` maps observations, stage and memory to actions and memory."""
    seen, memory, total, alive = (
        world.reset(seed=123_456)[0],
        start,
        np.zeros(world.num_envs),
        np.ones(world.num_envs, bool),
    )
    for h in range(world.periods):
        actions = act(h, seen, memory)
        seen, reward, ended, _, _ = world.step(actions)
        total += np.where(alive, reward, 0.0)
        memory, alive = memory - reward, alive & ~ended
    return np.sort(total)


def baseline(world, algorithm, steps, seed, device="cpu"):
    """Return how an algorithm for the mean acts after its training."""
    for name in ("pandas", "matplotlib", "cloudpickle"):  # for plots and files, which are not made here
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules.update({each: MagicMock() for each in (name, f"{name}.pyplot", f"{name}.figure")})
    import sb3_contrib
    import stable_baselines3
    import torch
    from stable_baselines3.common.vec_env import VecEnv

    class Bridge(VecEnv):
        def reset(self):
            return world.reset(seed=seed)[0]

        def step_async(self, actions):
            self.actions = actions

        def step_wait(self):
            seen, reward, ended, _, _ = world.step(self.actions)
            return seen, reward.astype(np.float32), ended, [{} for _ in ended]

        def get_attr(self, name, indices=None):
            return [None] * self.num_envs

        def env_is_wrapped(self, kind, indices=None):
            return [False] * self.num_envs

        def set_attr(self, name, value, indices=None): ...

        def env_method(self, name, *args, indices=None, **more): ...

        def close(self): ...

    torch.set_num_threads(1)
    bridge = Bridge(world.num_envs, world.single_observation_space, world.single_action_space)
    kind = stable_baselines3.PPO if algorithm == "PPO" else sb3_contrib.QRDQN
    options = {"n_steps": 64} if algorithm == "PPO" else {"train_freq": 1, "gradient_steps": 1, "learning_starts": 2000}
    options |= {} if algorithm == "PPO" else {"buffer_size": 200_000}
    model = kind("MlpPolicy", bridge, gamma=1.0, seed=seed, device=device, **options)
    model.learn(steps)
    return lambda h, seen, memory: model.predict(seen, deterministic=True)[0]


def one(job: dict) -> dict:
    """Carry out one run and return its row."""
    begin, row = time.process_time(), dict(job)
    goal = {"quantile": bqrl.Quantile, "CVaR": bqrl.CVaR}[row["objective"]](row["level"]) if row["level"] else None
    if row["problem"] in MODELS:
        mdp = bqrl.envs.make(row["problem"])
        record = bqrl.learn(
            mdp, "envelope", objective=goal, episodes=row["episodes"], seed=row["seed"], progress=False, **row["params"]
        )
        best, final, at_random = record.optimum.value(goal), float(record.value()[-1]), goal(random_play(mdp))
        row |= {"optimum": best, "random": at_random, "value": final, "share": (final - at_random) / (best - at_random)}
        return row | {"seconds": round(time.process_time() - begin, 1)}
    kind = next(kind for kind in WORLDS if kind.__name__ == row["problem"])
    start = np.zeros(TRIALS)
    if row["learner"] == "envelope":
        record = bqrl.learn(
            kind(), "envelope", objective=goal, episodes=row["episodes"], seed=row["seed"], horizon=kind.periods,
            progress=False, **row["params"],
        )  # fmt: skip
        start, act = (
            np.full(TRIALS, record.final_policy.target),
            lambda h, seen, memory: record.final_policy.act_many(h, seen, memory),
        )
        row["promised"] = float(record.notes["promised"][-1])
    else:
        act = baseline(kind(), row["learner"], row["episodes"] * kind.periods, row["seed"], **row["params"])
    row["seconds"] = round(time.process_time() - begin, 1)
    total = played(kind(TRIALS), start, act)
    half, tenth = total[: TRIALS // 2], total[: TRIALS // 10]
    return row | {
        "mean": float(total.mean()), "quantile 0.1": float(tenth[-1]), "CVaR 0.1": float(tenth.mean()),
        "CVaR 0.5": float(half.mean()), "error of CVaR 0.5": float(half.std() / half.size**0.5),
    }  # fmt: skip


def all_jobs(seeds: int, episodes: int, comparison: int) -> list[dict]:
    """Return all runs, the longest first."""
    jobs, base = [], {"learner": "envelope", "objective": "quantile"}
    for seed in range(seeds):
        for problem, tau in MODELS.items():
            jobs.append(
                base | {"problem": problem, "level": tau, "episodes": episodes, "seed": seed, "params": SETTING}
            )
    for seed in range(comparison):
        for kind, (n, params, level) in WORLDS.items():
            here = base | {"problem": kind.__name__, "episodes": n, "seed": seed, "params": params}
            jobs += [here | {"level": 0.1}, here | {"objective": "CVaR", "level": level}]
            jobs += [
                here | {"learner": name, "objective": "mean", "level": 0.0, "params": {}} for name in ("PPO", "QRDQN")
            ]

    def cost(job: dict) -> float:
        name = job["problem"] if job["learner"] == "envelope" else job["learner"]
        return -SECONDS.get(name, 100)

    return sorted(jobs, key=cost)


def table(rows: list[dict]) -> str:
    """Return the means over the seeds, one line per learner, problem and objective."""
    groups: dict[tuple, list[dict]] = {}
    for row in rows:
        groups.setdefault(
            (
                row["problem"],
                row["learner"],
                row["objective"],
                row["level"],
                row["episodes"],
                json.dumps(row["params"]),
            ),
            [],
        ).append(row)
    columns = ("optimum", "value", "share", "mean", "quantile 0.1", "CVaR 0.1", "CVaR 0.5", "seconds")
    lines = [
        f"| problem | learner | objective | level | episodes | setting | seeds | {' | '.join(columns)} | shares |",
        "|---" * 16 + "|",
    ]
    for key, found in groups.items():
        numbers = [f"{np.mean([row.get(name, np.nan) for row in found]):.4g}".replace("nan", "") for name in columns]
        shares = " ".join(f"{row['share']:.3f}" for row in sorted(found, key=lambda row: row["seed"]) if "share" in row)
        lines.append(f"| {' | '.join(map(str, key))} | {len(found)} | {' | '.join(numbers)} | {shares} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5, help="of the models")
    parser.add_argument("--comparison", type=int, default=1, help="seeds of the continuous problems; 0 leaves them out")
    parser.add_argument("--episodes", type=int, default=EPISODES, help="in the models")
    parser.add_argument("--problem", action="append", help="only this one; may be repeated")
    parser.add_argument("--objective", action="append", help="only quantile, CVaR or mean; may be repeated")
    parser.add_argument("--learner", action="append", help="only envelope, PPO or QRDQN; may be repeated")
    parser.add_argument("--first-seed", type=int, default=0, help="seed 0 is replaced by this one")
    parser.add_argument("--set", type=json.loads, default={}, help="parameters of the learner, e.g. '{\"updates\": 3}'")
    parser.add_argument(
        "--baseline", type=json.loads, default={}, help='parameter of PPO and QRDQN: \'{"device": "cuda"}\''
    )
    parser.add_argument("--out", type=Path, help="file of finished runs, one JSON object per line")
    given = parser.parse_args()
    if importlib.util.find_spec("torch") is None:
        print('skipped: needs PyTorch (pip install "bqrl[deep]")', file=sys.stderr)
        return
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")  # of the workers
    rows = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out and given.out.exists() else []
    jobs = all_jobs(given.seeds, given.episodes, given.comparison)
    jobs = [
        job | {"seed": job["seed"] + given.first_seed}
        for job in jobs
        if all(job[name] in (getattr(given, name) or [job[name]]) for name in ("problem", "objective", "learner"))
    ]
    for job in jobs:
        job["params"] = {**job["params"], **given.set} if job["learner"] == "envelope" else given.baseline
    jobs = [job for job in jobs if not any(job.items() <= row.items() for row in rows)]
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for future in as_completed([pool.submit(one, job) for job in jobs]):
            try:
                rows.append(future.result())
            except Exception as fault:  # one that fails does not end the others
                print(f"failed: {fault!r}", file=sys.stderr, flush=True)
                continue
            print(json.dumps(rows[-1]), flush=True)
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(table(rows))


if __name__ == "__main__":
    main()
