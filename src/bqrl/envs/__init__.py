"""Named problems, each a builder of an MDP."""

from bqrl.envs.asset_selling import asset_selling
from bqrl.envs.registry import about, make, make_env, names

__all__ = ["about", "asset_selling", "make", "make_env", "names"]
