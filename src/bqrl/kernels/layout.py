"""Named groups of arrays that kernels share, so that a loop takes a few meaningful arguments."""

from typing import Any, NamedTuple


class Rows(NamedTuple):
    """Outcomes of the rows (s, a) of one stage: outcome i of row q = s * A + a lies in start[q] .. start[q + 1]."""

    start: Any  # (S*A + 1,)
    successor: Any  # (n,)
    probability: Any  # (n,)


class Moves(NamedTuple):
    """Where outcomes move the columns of a stage: column c goes to c + shift[i], clipped, or to jumps[shift[i], c]."""

    shift: Any  # (n,) per outcome
    jumps: Any  # (rewards, columns), or (0, 0) on a uniform grid
