"""Sixteen rows (problem, level) on which learners are compared: small problems that differ in what must be explored."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium
import numpy as np

import bqrl
from bqrl.theory import hard_instance


def river_swim(S: int = 6, H: int = 20, small: float = 1.0, large: float = 50.0) -> bqrl.MDP:
    """Swim left with the current for a small reward at the left bank, or right against it for a large one."""
    rows = []
    for s in range(S):
        rows.append((s, 0, max(s - 1, 0), 1.0, small if s == 0 else 0.0))
        prize = large if s == S - 1 else 0.0
        if s == 0:
            rows += [(s, 1, 0, 0.4, prize), (s, 1, 1, 0.6, prize)]
        elif s == S - 1:
            rows += [(s, 1, s - 1, 0.4, prize), (s, 1, s, 0.6, prize)]
        else:
            rows += [(s, 1, s - 1, 0.05, prize), (s, 1, s, 0.6, prize), (s, 1, s + 1, 0.35, prize)]
    return bqrl.MDP(rows, horizon=H, start=0, action_names=["Left", "Right"])


def gambler(goal: int = 10, p: float = 0.45, H: int = 8) -> bqrl.MDP:
    """Stake part of the capital on a biased coin; the return is the capital at the end, cut at the goal."""
    rows = []
    for capital in range(goal + 1):
        for stake in range(goal // 2 + 1):
            if stake > min(capital, goal - capital):
                continue
            if stake == 0:
                rows.append((capital, 0, capital, 1.0, 0.0))
            else:
                rows.append((capital, stake, capital + stake, p, float(stake)))
                rows.append((capital, stake, capital - stake, 1.0 - p, -float(stake)))
    return bqrl.MDP(rows, horizon=H, start=goal // 2)


def garnet(S: int = 12, A: int = 4, successors: int = 3, top: int = 4, H: int = 10, seed: int = 7) -> bqrl.MDP:
    """A random problem: `successors` random next states per row, whole random rewards 0 .. top by (state, action)."""
    rng = np.random.default_rng(seed)
    P, R = np.zeros((S, A, S)), rng.integers(0, top + 1, (S, A)).astype(float)
    for s in range(S):
        for a in range(A):
            P[s, a, rng.choice(S, successors, replace=False)] = rng.dirichlet(np.ones(successors))
    return bqrl.MDP(P, R, horizon=H)


def safe_or_risky(p: float = 0.55, safe: float = 1.0, risky: float = 3.0, H: int = 10) -> bqrl.MDP:
    """Each stage: a sure small reward, or a larger one with probability p."""
    rows = [(0, 0, 0, 1.0, safe), (0, 1, 0, p, risky), (0, 1, 0, 1.0 - p, 0.0)]
    return bqrl.MDP(rows, horizon=H, action_names=["Safe", "Risky"])


def deep_sea(N: int = 8, prize: float = 100.0, cost: float = 1.0, success: float = 0.95) -> bqrl.MDP:
    """Move left or right while sinking; only N moves to the right in a row reach the prize, and each has its cost.

    The state is the column; a move right succeeds with probability `success` and leads left otherwise. The prize is paid
    for a successful move right in the last column, which only the last stage can meet.
    """
    rows = []
    for s in range(N):
        left, right = max(s - 1, 0), min(s + 1, N - 1)
        rows.append((s, 0, left, 1.0, 0.0))
        gain = prize if s == N - 1 else 0.0
        if s == 0 or left != right:
            rows += [(s, 1, right, success, gain - cost), (s, 1, left, 1.0 - success, -cost)]
    return bqrl.MDP(rows, horizon=N, start=0, action_names=["Left", "Right"])


def bandit() -> bqrl.MDP:
    """One choice: a safe arm that pays 4, or one of four arms that pay 8 with some probability and else 1."""
    rows = [(0, 0, 0, 1.0, 4.0)]
    for a, p in enumerate((0.5, 0.62, 0.45, 0.55), start=1):
        rows += [(0, a, 0, p, 8.0), (0, a, 0, 1.0 - p, 1.0)]
    return bqrl.MDP(rows, horizon=1)


def frozen_lake() -> bqrl.MDP:
    """Gymnasium's slippery lake, 4 x 4, forty steps."""
    return bqrl.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=40)


def asset_selling(distribution: str) -> Callable[[], bqrl.MDP]:
    """Builder of asset selling with the given law of offers."""
    return lambda: bqrl.envs.make("AssetSelling", distribution=distribution)


ROWS: list[tuple[str, Callable[[], bqrl.MDP], float]] = [
    ("asset selling, uniform", asset_selling("uniform"), 0.1),
    ("asset selling, uniform", asset_selling("uniform"), 0.5),
    ("asset selling, geometric", asset_selling("geometric"), 0.1),
    ("asset selling, geometric", asset_selling("geometric"), 0.5),
    ("asset selling, geometric", asset_selling("geometric"), 0.9),
    ("asset selling, two-humped", asset_selling("two-humped"), 0.5),
    ("hard family", lambda: hard_instance(0.5, 1 / 16, A=3, H=3, best=2), 0.5),
    ("river swim", river_swim, 0.25),
    ("river swim", river_swim, 0.5),
    ("gambler", gambler, 0.5),
    ("garnet", garnet, 0.25),
    ("garnet", garnet, 0.5),
    ("safe or risky", safe_or_risky, 0.1),
    ("deep sea", deep_sea, 0.5),
    ("bandit", bandit, 0.5),
    ("frozen lake", frozen_lake, 0.9),
]
