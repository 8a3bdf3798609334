"""Old home of names that moved to `bqrl.mdp.arrays` and `bqrl.mdp.build`."""

from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.build import Table, check_horizon

__all__ = ["BoolArray", "FloatArray", "IntArray", "Table", "check_horizon"]
