"""Print the tables of docs/learners.md and docs/simulators.md: `python docs/measure_learning.py`, about ten minutes on one core.

Names of tables as arguments print only these. `exploration` and `blackjack` state their own settings; for the others:
asset selling, 2000 episodes, seeds 1 to 10 (not those of the paper). The gap is the exact optimum minus the exact
quantile of the current policy, summed over the episodes; a spread is the standard deviation over the seeds. Counts are per
stage and the radius is small, as in the study of the paper.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

import bqrl
from bqrl.envs.blackjack import name as hand_name
from bqrl.policies.shares import uniform

EPISODES = 2000
SEEDS = range(1, 11)
PARAMS = {"stationary": False, "c_conf": 0.008}


def measured(distribution: str, tau: float, **params: object) -> tuple[float, float, float]:
    """Mean and standard deviation of the cumulative gap, and seconds per run."""
    mdp = bqrl.envs.make("AssetSelling", distribution=distribution)
    bqrl.learn(mdp, "ucb-bqrl", tau, 5, 0, **PARAMS, **params)  # compile the loops before the clock starts
    begun = time.perf_counter()
    gaps = [bqrl.learn(mdp, "ucb-bqrl", tau, EPISODES, seed, **PARAMS, **params).gap().sum() for seed in SEEDS]
    return float(np.mean(gaps)), float(np.std(gaps, ddof=1)), (time.perf_counter() - begun) / len(gaps)


def replanning() -> None:
    """Effect of the replanning factor on speed and regret."""
    print("| replan_factor | seconds per run | gap, tau 0.1 | gap, tau 0.5 |\n|---|---|---|---|")
    for factor in (1.0, 1.1, 1.5, 2.0, 4.0):
        low, middle = (measured("uniform", tau, replan_factor=factor) for tau in (0.1, 0.5))
        print(
            f"| {factor:g} | {low[2]:.2f} | {low[0]:.1f} ± {low[1]:.1f} | {middle[0]:.1f} ± {middle[1]:.1f} |",
            flush=True,
        )


def buffers() -> None:
    """Effect of the buffer schedule, for each law of the offers."""
    schedules = ("log", "power:0.25", "power:0.5", "adaptive", "point")
    print("| offers | tau | " + " | ".join(schedules) + " |\n|---|---|" + "---|" * len(schedules))
    for distribution in ("uniform", "geometric", "two-humped"):
        for tau in (0.1, 0.5, 0.9):
            cells = [measured(distribution, tau, buffer=schedule) for schedule in schedules]
            print(
                f"| {distribution} | {tau:g} | " + " | ".join(f"{mean:.1f}" for mean, _, _ in cells) + " |", flush=True
            )


def exploration() -> None:
    """Share of the loss of random play on two problems that differ in what exploring costs; 1,000 episodes, seeds 1 to 5."""
    staged = {"stationary": False}
    treatment = bqrl.envs.make("TreatmentChoice", horizon=10)
    gambler = bqrl.envs.make("Gambler", goal=10, win_probability=0.55, horizon=6, start=3)
    rows: list[tuple[str, bqrl.MDP, float, str, dict[str, Any]]] = [
        ("treatment choice", treatment, 0.5, "psrl", {}),
        ("treatment choice", treatment, 0.5, "ucb-bqrl", {}),
        ("treatment choice", treatment, 0.5, "ucb-bqrl", staged),
        ("treatment choice", treatment, 0.5, "ucb-bqrl", staged | {"c_conf": "visits"}),
        ("gambler", gambler, 0.3, "ucb-bqrl", staged),
        ("gambler", gambler, 0.3, "ucb-bqrl", staged | {"c_conf": "visits"}),
    ]
    print("| problem | level | learner | parameters | share | of each seed |\n|---|---|---|---|---|---|")
    for name, mdp, tau, learner, params in rows:
        loss = bqrl.guarantee_curve(mdp)(tau) - bqrl.evaluate(mdp, uniform(mdp)).quantile(tau)
        shares = [bqrl.learn(mdp, learner, tau, 1000, seed, **params).gap().mean() / loss for seed in range(1, 6)]
        each = ", ".join(f"{share:.2f}" for share in shares)
        print(f"| {name} | {tau:g} | {learner} | {params} | {np.mean(shares):.2f} | {each} |", flush=True)


class OnTable(bqrl.Policy):
    """A policy learned in Blackjack-v1, played in the table of the game; hands that were never met stick."""

    def __init__(self, record: bqrl.Record, mdp: bqrl.MDP) -> None:
        self.policy, self.names, self.hit = record.final_policy, mdp.state_names, mdp.action_names.index("Hit")
        place = {name: s for s, name in enumerate(record.states)}
        hands = [(total, shown, usable) for total in range(4, 22) for shown in range(1, 11) for usable in (0, 1)]
        self.state = {
            hand_name(total, bool(usable), shown): place.get(str((total, shown, usable)))
            for total, shown, usable in hands
        }

    def start(self, u: float | None = None) -> Any:
        """Return the first memory of the learned policy."""
        return self.policy.start()

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action of the learned policy in the state of the hand."""
        met = self.state.get(self.names[s])
        return self.hit if met is not None and self.policy.act(h, met, memory) == 1 else 1 - self.hit

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Return the memory of the learned policy."""
        return self.policy.next(memory, h, 0, 0, reward, 0)  # a target policy remembers its need alone


def blackjack() -> None:
    """Exact share of lost hands of policies that were learned in Blackjack-v1 at level 0.5; 10,000 hands, seed 1."""
    mdp = bqrl.envs.make("Blackjack")
    print("| learner | lost | 0.5-quantile |\n|---|---|---|")
    print(f"| best possible | {bqrl.solve(mdp, 0.5).law.shortfall(0):.3f} | {bqrl.guarantee_curve(mdp)(0.5):g} |")
    for learner in ("thompson", "ucbvi", "psrl", "ucb-bqrl"):
        record = bqrl.learn("Blackjack-v1", learner, 0.5, 10_000, 1, horizon=20)
        law = bqrl.evaluate(mdp, OnTable(record, mdp))
        print(f"| {learner} | {law.shortfall(0):.3f} | {law.quantile(0.5):g} |", flush=True)


TABLES = {"replanning": replanning, "buffers": buffers, "exploration": exploration, "blackjack": blackjack}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        print(f"\n{name}\n")
        TABLES[name]()
