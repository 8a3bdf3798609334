"""Seven learners on asset selling with an unknown kernel, each scored exactly in every episode.

The gap of an episode is the best achievable tau-quantile minus that of the policy in force; summed over the episodes it is
the regret of the quantile. Seeds are shared, and so is the chance of the environment.

    python examples/compare_learners.py
    python examples/compare_learners.py --out learners.png          # with Matplotlib
"""

import argparse
from pathlib import Path

import numpy as np

import bqrl

LEARNERS = {
    "ucb-bqrl, target planner": ("ucb-bqrl", {"planner": "target"}),
    "ucb-bqrl, greedy planner": ("ucb-bqrl", {"planner": "greedy"}),
    "ucbvi": ("ucbvi", {}),
    "thompson": ("thompson", {}),
    "q-learning": ("q-learning", {}),
    "sarsa": ("sarsa", {}),
    "ppo": ("ppo", {}),
    "trpo": ("trpo", {}),
}


def draw(gaps: dict[str, np.ndarray], tau: float, out: Path) -> None:
    """Mean cumulative gap of every learner, with the range over the seeds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.add_subplot(xlabel="episode", ylabel="cumulative gap", title=f"Regret of the {tau:g}-quantile")
    for name, runs in gaps.items():
        total = runs.cumsum(axis=1)
        (line,) = axes.plot(total.mean(axis=0), label=name)
        axes.fill_between(
            np.arange(total.shape[1]), total.min(axis=0), total.max(axis=0), alpha=0.15, color=line.get_color()
        )
    axes.set_yscale("symlog", linthresh=1.0)
    axes.legend(fontsize=7, ncols=2)
    figure.savefig(out, dpi=150)
    print(f"wrote {out}")


def main(tau: float, episodes: int, seeds: int, out: Path | None, quick: bool) -> None:
    if quick:
        episodes, seeds = min(episodes, 60), 1
    mdp = bqrl.envs.make("AssetSelling", distribution="geometric")  # not the uniform rows that learners start from
    best = bqrl.guarantee_curve(mdp)(tau)
    print(f"{episodes} episodes, {seeds} seeds; best {tau:g}-quantile {best:.4f}\n")
    print(f"{'':<26}{'cumulative gap':>16}{'regret of the mean':>20}{'final quantile':>16}")
    gaps = {}
    for name, (learner, params) in LEARNERS.items():
        records = [bqrl.learn(mdp, learner, tau, episodes, seed, **params) for seed in range(1, seeds + 1)]
        gaps[name] = np.array([record.gap() for record in records])
        lost = np.mean([record.expected_regret().sum() for record in records])
        final = np.mean([record.quantile(tau)[-1] for record in records])
        print(f"{name:<26}{gaps[name].sum(axis=1).mean():>16.2f}{lost:>20.2f}{final:>16.4f}")
    if out is not None:
        draw(gaps, tau, out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tau", type=float, default=0.1)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="draw the curves into this .png, .pdf or .svg file")
    parser.add_argument("--quick", action="store_true", help="one short run of each learner")
    main(**vars(parser.parse_args()))
