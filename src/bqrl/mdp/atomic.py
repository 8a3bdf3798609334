"""Old home of `bqrl.mdp.files.atomic`."""

from bqrl.mdp.files.atomic import replacing, write_whole

__all__ = ["replacing", "write_whole"]
