"""The learner "envelope" with one setting on twelve problems: share of the way from random play to the certified optimum.

Prints one JSON object per run, with the exact value of the final policy in the model. Needs the extra
`deep`. A run of 3000 episodes takes one to three minutes on one core.
"""

import argparse
import json
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

ROWS = {
    "AssetSelling": 0.1, "SafeOrRisky": 0.1, "RiverSwim": 0.25, "MachineReplacement": 0.1, "Inventory": 0.1, "Gambler": 0.5,
    "TreatmentChoice": 0.1, "PerishableInventory": 0.1, "Staffing": 0.1, "SlipperyCliff": 0.1, "Portfolio": 0.1, "DeepSea": 0.5,
}  # fmt: skip


def one(problem: str, tau: float, episodes: int, seed: int, cvar: bool, params: dict) -> dict:
    import numpy as np

    import bqrl
    from bqrl.laws.objectives import value_rows

    begin, mdp = time.perf_counter(), bqrl.envs.make(problem)
    goal = bqrl.CVaR(tau) if cvar else bqrl.Quantile(tau)
    record = bqrl.learn(mdp, "envelope", objective=goal, episodes=episodes, seed=seed, progress=False, **params)
    seconds, value = time.perf_counter() - begin, record.value()
    exists = np.array(np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A)), float)
    at_random = bqrl.evaluate(mdp, exists / np.maximum(exists.sum(axis=2, keepdims=True), 1.0))
    best, worst = (
        record.optimum.value(goal),
        float(value_rows(goal, at_random.values, at_random.probabilities[None])[0]),
    )
    neutral = goal(bqrl.solve(mdp, bqrl.Mean()).law)
    return {
        "problem": problem, "objective": goal.text, "episodes": episodes, "seed": seed, **params, "optimum": best,
        "random": worst, "neutral": neutral, "final": value[-1],
        "share": round((value[-1] - worst) / (best - worst), 4),
        "target": record.notes["target"][-1], "seconds": round(seconds, 1),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--episodes", type=int, default=3000)
    parser.add_argument("--problem", action="append", choices=list(ROWS), help="only this one; may be repeated")
    parser.add_argument("--cvar", action="store_true", help="CVaR instead of the quantile")
    parser.add_argument("--set", default="{}", help="parameters of the learner as JSON, e.g. '{\"updates\": 3}'")
    given = parser.parse_args()
    try:
        import torch  # noqa: F401
    except ImportError:
        print('skipped: needs PyTorch (pip install "bqrl[deep]")', file=sys.stderr)
        return
    os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
    rows = [(name, ROWS[name]) for name in given.problem or ROWS]
    jobs = [
        (*row, given.episodes, seed, given.cvar, json.loads(given.set)) for seed in range(given.seeds) for row in rows
    ]
    shares: dict[str, list[float]] = {name: [] for name, _ in rows}
    with ProcessPoolExecutor(given.cores, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(one, *job) for job in jobs]):
            found = done.result()
            shares[found["problem"]].append(found["share"])
            print(json.dumps(found), flush=True)
    means = {name: round(sum(values) / len(values), 4) for name, values in shares.items()}
    print(json.dumps({"mean_share": means, "at_least_0.97": [name for name, mean in means.items() if mean >= 0.97]}))


if __name__ == "__main__":
    main()
