"""Cumulative gap against the exact optimum at episode 2000, and expected-return regret, for every learner.

All learners have their default parameters. Uniform, geometric and two-humped offers; tau 0.1, 0.5, 0.9. Takes some minutes.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

OFFERS = ("uniform", "geometric", "two-humped")
LEVELS = (0.1, 0.5, 0.9)
LEARNERS = [
    ("psrl", "psrl", {}),
    ("ucb-bqrl (target)", "ucb-bqrl", {"planner": "target"}),
    ("ucb-bqrl (target, adaptive buffer)", "ucb-bqrl", {"planner": "target", "buffer": "adaptive"}),
    ("ucb-bqrl (target, no buffer)", "ucb-bqrl", {"planner": "target", "buffer": "point"}),
    ("ucb-bqrl (greedy)", "ucb-bqrl", {"planner": "greedy"}),
    *((name, name, {}) for name in ("ucbvi", "thompson", "q-learning", "sarsa", "ppo", "trpo")),
]


def one(job: tuple[str, str, dict, float, int, int]) -> tuple[float, float]:
    import bqrl

    offers, learner, params, tau, episodes, seed = job
    mdp = bqrl.envs.make("AssetSelling", distribution=offers)
    record = bqrl.learn(mdp, learner, tau, episodes, seed, progress=False, **params)
    return float(record.gap(tau).sum()), float(record.expected_regret().sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    seeds = range(500_000, 500_000 + given.seeds)
    print(
        f"{given.seeds} seeds, {given.episodes} episodes: mean cumulative gap +- standard deviation | expected-return regret"
    )
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        for offers in OFFERS:
            print(f"\n{offers} offers{'':24}" + "".join(f"{f'tau {tau}':>28}" for tau in LEVELS))
            for title, learner, params in LEARNERS:
                cells = []
                for tau in LEVELS:
                    jobs = [(offers, learner, params, tau, given.episodes, seed) for seed in seeds]
                    found = np.array(list(pool.map(one, jobs, chunksize=2)))
                    cells.append(
                        f"{found[:, 0].mean():9.2f} +-{found[:, 0].std(ddof=1):7.2f} |{found[:, 1].mean():7.1f}"
                    )
                print(f"{title:36}" + "".join(f"{cell:>28}" for cell in cells), flush=True)


if __name__ == "__main__":
    main()
