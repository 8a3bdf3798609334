"""All learners, one of them with two planners, on asset selling with unknown probabilities, scored exactly in every episode.

The gap of an episode is the best achievable tau-quantile minus that of the evaluated policy; its sum over the episodes is
the regret of the quantile. All learners share the seeds, and with them the randomness of the environment.

    python examples/compare_learners.py
    python examples/compare_learners.py --out learners.png          # with the extra "plots"
"""

import argparse
from pathlib import Path

import numpy as np

import bqrl

LEARNERS = {
    "psrl": ("psrl", {}),
    "ucb-bqrl, target planner": ("ucb-bqrl", {"planner": "target"}),
    "ucb-bqrl, greedy planner": ("ucb-bqrl", {"planner": "greedy"}),
    "ucbvi": ("ucbvi", {}),
    "thompson": ("thompson", {}),
    "q-learning": ("q-learning", {}),
    "sarsa": ("sarsa", {}),
    "ppo": ("ppo", {}),
    "trpo": ("trpo", {}),
}


def main(tau: float, episodes: int, seeds: int, out: Path | None, quick: bool) -> None:
    if quick:
        episodes, seeds = min(episodes, 60), 1
    mdp = bqrl.envs.make("AssetSelling", distribution="geometric")  # not the uniform rows that learners start from
    best = bqrl.guarantee_curve(mdp)(tau)
    print(f"{episodes} episodes, {seeds} seed{'' if seeds == 1 else 's'}; best {tau:g}-quantile {best:.4f}\n")
    print(f"{'':<26}{'cumulative gap':>16}{'regret of the mean':>20}{'final quantile':>16}")
    learners = [(name, learner, params) for name, (learner, params) in LEARNERS.items()]
    experiment = bqrl.compare(mdp, learners, tau, episodes, seeds=range(1, seeds + 1), workers=1)
    for row in experiment.rows():
        final = np.mean([record.quantile(tau)[-1] for record in experiment.records[row["learner"]]])
        print(f"{row['learner']:<26}{row['gap']:>16.2f}{row['mean_regret']:>20.2f}{final:>16.4f}")
    if out is not None:
        experiment.chart().save(str(out))
        print(f"wrote {out}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tau", type=float, default=0.1)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="draw the curves into this .png, .pdf or .svg file")
    parser.add_argument("--quick", action="store_true", help="one short run of each learner")
    main(**vars(parser.parse_args()))
