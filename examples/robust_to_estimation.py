"""The true value of a plan on estimated probabilities, and how a radius makes its promise hold.

The pump of pump.csv is logged for some episodes with random actions. The logs show how often each outcome occurred; the
possible outcomes and their rewards are known. A plan on the estimated probabilities selects a promise that looks good by
chance, so the promise is often broken. A robust plan keeps its promise for all probabilities within the confidence radius of
each row, and hence, with 95 % confidence, for the true ones.

    python examples/robust_to_estimation.py
"""

import argparse
from pathlib import Path

import numpy as np

import bqrl
from bqrl.theory import radius

TAU, DELTA = 0.1, 0.05


def log(mdp: bqrl.MDP, episodes: int, rng: np.random.Generator) -> np.ndarray:
    """Number of times that each (s, a, s_next) was seen under random actions."""
    env, seen = mdp.as_env(), np.zeros((mdp.S, mdp.A, mdp.S))
    env.reset(seed=int(rng.integers(2**31)))
    for _ in range(episodes):
        s, _ = env.reset()
        for _ in range(mdp.H):
            a = int(rng.integers(mdp.A))
            s_next, *_ = env.step(a)
            seen[s, a, s_next] += 1
            s = s_next
    return seen


def possible(mdp: bqrl.MDP) -> tuple[np.ndarray, np.ndarray]:
    """Prior knowledge: which (s, a, s_next) are possible, and their rewards."""
    support, rewards = np.zeros((mdp.S, mdp.A, mdp.S), bool), np.zeros((mdp.S, mdp.A, mdp.S))
    for s, a in np.ndindex(mdp.S, mdp.A):
        successors, _, paid = mdp.outcomes(0, s, a)
        support[s, a, successors], rewards[s, a, successors] = True, paid
    return support, rewards


def estimate(seen: np.ndarray, support: np.ndarray, rewards: np.ndarray, H: int) -> tuple[bqrl.MDP, np.ndarray]:
    """The model that the logs suggest, and the l1 radius of every row; rows never seen are uniform."""
    S, A, _ = seen.shape
    visits, size = seen.sum(axis=2), support.sum(axis=2)
    P = np.where(visits[..., None] > 0, seen / np.maximum(visits, 1)[..., None], support / size[..., None])
    # With `support` the ball includes outcomes that are possible but were not seen. Counts of all stages are pooled.
    wide = radius(visits, S, A, int(visits.sum()), H, DELTA, size)
    return bqrl.MDP(P, rewards, horizon=H, support=support), wide


def main(quick: bool) -> None:
    truth = bqrl.load(Path(__file__).parent / "pump.csv", horizon=12, start="1")
    repeats = 5 if quick else 40
    print(f"best possible promise at tau = {TAU} if the probabilities are known: {bqrl.solve(truth, TAU).value:g}\n")
    print(f"{'':>8}   {'plan on the estimate':^24}   {'robust plan':^24}")
    print(f"{'episodes':>8}   {'promise':>7} {'truth':>7} {'kept':>8}   {'promise':>7} {'truth':>7} {'kept':>8}")
    for episodes in (30, 100) if quick else (30, 100, 300, 1000):
        results = []
        for seed in range(repeats):
            seen = log(truth, episodes, np.random.default_rng(seed))
            guess, wide = estimate(seen, *possible(truth), truth.H)
            plans = (bqrl.solve(guess, TAU), bqrl.solve(guess, TAU, radius=wide, attitude="robust"))
            results.append([(plan.value, bqrl.evaluate(truth, plan.policy).quantile(TAU)) for plan in plans])
        promise, value = np.moveaxis(np.array(results), -1, 0)
        kept = (value >= promise).sum(axis=0)
        columns = [f"{promise[:, i].mean():7.1f} {value[:, i].mean():7.1f} {kept[i]:>3}/{repeats:<3}" for i in (0, 1)]
        print(f"{episodes:>8}   {columns[0]:>24}   {columns[1]:>24}")
    print("\npromise, truth: means over the logs; kept: logs for which the true quantile is at least the promise")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few and short logs")
    main(parser.parse_args().quick)
