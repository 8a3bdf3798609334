"""Sixteen rows (problem, level) on which learners are compared: small problems that differ in what must be explored.

`SHARED` holds the rows of asset selling once more, with one law of offers behind all rows.
"""

from __future__ import annotations

from collections.abc import Callable

import gymnasium

import bqrl
from bqrl.theory import hard_instance


def frozen_lake() -> bqrl.MDP:
    """Gymnasium's slippery lake, 4 x 4, forty steps."""
    return bqrl.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=40)


def zoo(name: str, **params: object) -> Callable[[], bqrl.MDP]:
    """Builder of a named problem."""
    return lambda: bqrl.envs.make(name, **params)


OFFERS = [
    ("uniform", 0.1), ("uniform", 0.5), ("geometric", 0.1), ("geometric", 0.5), ("geometric", 0.9), ("two-humped", 0.5),
]  # fmt: skip
Row = tuple[str, Callable[[], bqrl.MDP], float]
ROWS: list[Row] = [
    *((f"asset selling, {law}", zoo("AssetSelling", distribution=law), tau) for law, tau in OFFERS),
    ("hard family", lambda: hard_instance(0.5, 1 / 16, A=3, H=3, best=2), 0.5),
    ("river swim", zoo("RiverSwim"), 0.25),
    ("river swim", zoo("RiverSwim"), 0.5),
    ("gambler", zoo("Gambler"), 0.5),
    ("garnet", zoo("Garnet"), 0.25),
    ("garnet", zoo("Garnet"), 0.5),
    ("safe or risky", zoo("SafeOrRisky"), 0.1),
    ("deep sea", zoo("DeepSea"), 0.5),
    ("bandit", zoo("Bandit"), 0.5),
    ("frozen lake", frozen_lake, 0.9),
]
SHARED: list[Row] = [
    (f"shared law, {law}", zoo("AssetSelling", distribution=law, shared=True), tau) for law, tau in OFFERS
]
