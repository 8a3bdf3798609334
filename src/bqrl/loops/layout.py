"""Named groups of arrays that several loops use, so that a loop takes a few meaningful arguments.

Numba compiles a loop once for every combination of types, and a read-only or strided array is another type. So rows are always
read-only, the other arrays of a group are writable, and all are contiguous.

A loop that runs once per episode takes its group as a plain tuple and converts it in its first line: at every call from
Python, Numba reads the field names of a named tuple, which can take longer than the loop itself.
"""

from typing import Any, NamedTuple


class Rows(NamedTuple):
    """Outcomes of the rows (s, a) of one stage: those of row q = s * A + a are start[q] .. start[q + 1]."""

    start: Any  # (S*A + 1,)
    successor: Any  # (n,)
    probability: Any  # (n,)


class Moves(NamedTuple):
    """The moves of columns by outcomes: outcome i moves column c to c + shift[i], clipped, or to jumps[shift[i], c]."""

    shift: Any  # (n,) per outcome
    jumps: Any  # (rewards, columns), or (0, 0) on a uniform grid


class Ball(NamedTuple):
    """l1 balls around the rows of one stage.

    For every column of the next stage, `order` lists the states by increasing value, and `values` holds these values. Both are
    empty unless all rows of the stage share them. If `missing` is positive, the last outcome of the row is not part of the ball
    and takes at most this mass from the others.
    """

    half: Any  # (S*A,) half the radius of every row, or empty
    sense: float  # +1: best case (the smallest expectation); -1: worst case (the largest)
    order: Any  # (columns, S)
    values: Any  # (columns, S)
    missing: Any  # (S*A,), or empty


class Goal(NamedTuple):
    """The objective of a stage: minimise value - weight * mean reward; values within `tie` (relative) go to the larger mean."""

    mean_reward: Any  # (S*A,)
    weight: float
    tie: float
    mean_tie: float


class Pages(NamedTuple):
    """Values of the next stage and of this one, each followed by the means, and the actions; see backward.py."""

    after: Any  # (S, layers * next columns)
    now: Any  # (S, layers * columns)
    action: Any  # (S, columns); if empty, the pages hold values only


class Part(NamedTuple):
    """The states and the columns of a stage that a loop fills."""

    states: Any  # (m,) numbers of states
    first: int
    columns: int  # first .. first + columns - 1


class Stages(NamedTuple):
    """All stages of a problem on a uniform grid, with K = H stored kernels, or K = 1 for all stages."""

    start: Any  # (K*S*A + 1,)
    successor: Any  # (nnz,)
    shift: Any  # (H, widest) shift of the columns by each outcome of a stage in a backward sweep
    gain: Any  # (H, widest) reward of each outcome in steps
    shared: Any  # (H,) whether the rows of the stage share one order of the states (see Ball)
    size: Any  # (H + 1,) points of each stage
    lowest: Any  # (H + 1,) lowest point of each stage in steps
    mu: Any  # (S,)
    met: Any  # (H + 1, S) the states that a sweep visits
    A: int


class Tables(NamedTuple):
    """Action tables of all stages in one buffer: that of stage h is flat[begin[h] : begin[h + 1]] as (S, columns)."""

    flat: Any
    begin: Any  # (H + 1,)


class Dynamics(NamedTuple):
    """The data for playing an episode: the kernel, and its rewards as numbers and in steps. See Stages for the shapes."""

    start: Any
    successor: Any
    probability: Any  # (nnz,)
    reward: Any  # (H or 1, nnz)
    gain: Any
    lowest: Any
    mu: Any
    A: int
