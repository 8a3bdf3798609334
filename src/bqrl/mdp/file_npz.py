"""Old home of `bqrl.mdp.files.npz`."""

from bqrl.mdp.files.npz import pack, unpack

__all__ = ["pack", "unpack"]
