"""Old home of `bqrl.mdp.gymnasium`."""

from bqrl.mdp.gymnasium import MDPEnv, from_gymnasium

__all__ = ["MDPEnv", "from_gymnasium"]
