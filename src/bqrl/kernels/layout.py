"""Named groups of arrays that kernels share, so that a loop takes a few meaningful arguments.

A loop that runs once per episode takes its group as a plain tuple and names it in its first line: at every call from Python
Numba reads the field names of a named tuple, which can take longer than the loop itself.
"""

from typing import Any, NamedTuple


class Rows(NamedTuple):
    """Outcomes of the rows (s, a) of one stage: those of row q = s * A + a are start[q] .. start[q + 1]."""

    start: Any  # (S*A + 1,)
    successor: Any  # (n,)
    probability: Any  # (n,)


class Moves(NamedTuple):
    """Where outcomes move the columns of a stage: column c goes to c + shift[i], clipped, or to jumps[shift[i], c]."""

    shift: Any  # (n,) per outcome
    jumps: Any  # (rewards, columns), or (0, 0) on a uniform grid


class Ball(NamedTuple):
    """l1 balls around the rows of one stage.

    `order` lists the states by rising value of every column of the next stage, and `values` holds those values with one
    column per row; both are empty unless all rows of the stage share them. Where `missing` is positive, the last outcome of
    the row stays outside the ball and takes at most this mass from the others.
    """

    half: Any  # (S*A,) half the radius of every row, or empty
    sense: float  # +1: best case (the least expectation); -1: worst case (the greatest)
    order: Any  # (columns, S)
    values: Any  # (columns, S)
    missing: Any  # (S*A,), or empty


class Goal(NamedTuple):
    """What a stage minimises: value - weight * mean reward; within `tie` (relative) the larger mean wins."""

    mean_reward: Any  # (S*A,)
    weight: float
    tie: float
    mean_tie: float


class Pages(NamedTuple):
    """Values of the next stage and of this one, each followed by the means, and the actions; see backward.py."""

    after: Any  # (S, layers * next columns)
    now: Any  # (S, layers * columns)
    action: Any  # (S, columns), or empty: then the pages hold values only


class Stages(NamedTuple):
    """All stages of a problem on a uniform grid; K = 1 stored kernel serves every stage, or K = H."""

    start: Any  # (K*S*A + 1,)
    successor: Any  # (nnz,)
    shift: Any  # (H, widest) columns that each outcome of a stage moves in a backward sweep
    gain: Any  # (H, widest) reward of each outcome in steps
    shared: Any  # (H,) whether the rows of the stage share one order of the states (see Ball)
    size: Any  # (H + 1,) points of each stage
    lowest: Any  # (H + 1,) lowest point of each stage in steps
    mu: Any  # (S,)
    met: Any  # (H + 1, S) the states that a sweep visits
    A: int


class Tables(NamedTuple):
    """Action tables of all stages in one buffer: stage h is flat[begin[h] : begin[h + 1]] as (S, columns)."""

    flat: Any
    begin: Any  # (H + 1,)


class Dynamics(NamedTuple):
    """What plays an episode: the kernel with its rewards, and the steps that they pay. See Stages for the shapes."""

    start: Any
    successor: Any
    probability: Any  # (nnz,)
    reward: Any  # (H or 1, nnz)
    gain: Any
    lowest: Any
    mu: Any
    A: int
