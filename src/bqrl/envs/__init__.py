"""Named problems, each a builder of an MDP."""

from bqrl.envs.asset_selling import asset_selling
from bqrl.envs.registry import make, make_env, names

__all__ = ["asset_selling", "make", "make_env", "names"]
