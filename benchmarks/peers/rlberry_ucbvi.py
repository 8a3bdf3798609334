"""Seconds that rlberry-scool's UCBVI, as shipped, takes on asset selling. Runs in the peers' own environment."""

import sys
import time

import numpy as np
from rlberry.envs.finite_mdp import FiniteMDP
from rlberry_scool.agents import UCBVIAgent


def asset_selling() -> FiniteMDP:
    P, R = np.zeros((26, 2, 26)), np.zeros((26, 2))
    P[:, 0, 25] = P[25, 1, 25] = 1.0
    P[:25, 1, :25] = 1 / 25
    R[:25, 0] = np.arange(25) / 24
    return FiniteMDP(R, P, initial_state_distribution=5)


def seconds(episodes: int) -> float:
    agent = UCBVIAgent(asset_selling(), gamma=1.0, horizon=10, stage_dependent=True)
    begun = time.perf_counter()
    agent.fit(budget=episodes)
    return time.perf_counter() - begun


if __name__ == "__main__":
    seconds(20)  # whatever compiles, compiles here
    print("seconds", seconds(int(sys.argv[1])))
