"""Observations of an environment as numbered states with names.

An observation of Discrete, MultiDiscrete and MultiBinary spaces, and of Tuple and Dict spaces of these, consists of digits: one
per coordinate, each from 0 to its size - 1. A Box has digits if `bins` divides its coordinates into cells. The digits determine
the state: `index` numbers all possible ones, and callers that number states as they are met use the digits as keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from bqrl.checks import bad_type, bad_value, numbers, one_line, whole
from bqrl.mdp.arrays import FloatArray

SPACES = "Discrete, MultiDiscrete, MultiBinary, Tuple or Dict"
Digits = tuple[int, ...]


class Observations:
    """The observations of one space as digits, numbers and names.

    Parameters
    ----------
    space
        The observation space.
    bins
        Cells of the coordinates of a Box: their number, for bounded coordinates, or a list with one entry per coordinate, each
        a number of cells or increasing cut points. Values outside of the cut points belong to the outer cells.
    owner
        Name of the environment, for messages.

    Examples
    --------
    >>> found = Observations(Tuple([Discrete(3), MultiBinary(2)]))
    >>> found.digits((2, np.array([0, 1]))), found.name((2, 0, 1)), found.index((2, 0, 1)), found.size
    ((2, 0, 1), '(2, (0, 1))', 9, 12)
    """

    def __init__(self, space: Any, bins: Any = None, owner: str = "the environment") -> None:
        self.space, self.owner = space, owner
        boxed = [low for box in _boxes(space) for low in box.low.ravel().tolist()]
        top = [high for box in _boxes(space) for high in box.high.ravel().tolist()]
        if bins is not None and not boxed:
            raise bad_value("bins", bins, f"be None for {owner}, whose observations have no Box", one_line(bins))
        self._cuts = _cuts(bins, boxed, top) if bins is not None else []
        self._divided = bins is not None
        self.sizes = tuple(self._sizes(space, iter(self._cuts)))
        self.size = math.prod(self.sizes)

    def digits(self, observation: Any) -> Digits | None:
        """Return the digits of an observation; None if it is not in the space."""
        try:
            found = tuple(self._digits(self.space, observation, iter(self._cuts)))
        except (TypeError, ValueError, KeyError, IndexError):
            return None
        inside = len(found) == len(self.sizes) and all(0 <= d < n for d, n in zip(found, self.sizes, strict=True))
        return found if inside else None

    def index(self, digits: Digits) -> int:
        """Return the number of the digits among all possible ones, from 0 to `size` - 1."""
        number = 0
        for digit, size in zip(digits, self.sizes, strict=True):
            number = number * size + digit
        return number

    def name(self, digits: Digits) -> str:
        """Return the name of a state: the observation itself, with the numbers of cells in place of a Box."""
        return _label(self.space, iter(digits))

    def names(self) -> tuple[str, ...]:
        """Return the names of all possible states, in the order of `index`."""
        return tuple(self.name(digits) for digits in np.ndindex(self.sizes))

    @property
    def rule(self) -> str:
        """What an observation must be, for messages."""
        if isinstance(self.space, Discrete):
            first = int(self.space.start)
            return f"an observation from {first} to {first + int(self.space.n) - 1}"
        return f"an observation in {one_line(self.space)}"

    def _sizes(self, space: Any, cuts: Iterator[FloatArray]) -> Iterator[int]:
        if isinstance(space, Discrete):
            yield int(space.n)
        elif isinstance(space, MultiDiscrete):
            yield from map(int, space.nvec.ravel())
        elif isinstance(space, MultiBinary):
            yield from [2] * int(np.prod(space.shape))
        elif isinstance(space, (Tuple, Dict)):
            for part in _parts(space):
                yield from self._sizes(part, cuts)
        elif isinstance(space, Box) and self._divided:
            yield from (next(cuts).size + 1 for _ in range(space.low.size))
        else:
            box = isinstance(space, Box)
            remedy = "pass bins= or wrap it in DiscretizeObservation" if box else "use a wrapper that numbers them"
            got = f"{type(space).__name__} in {self.owner}"
            raise bad_value("problem", space, f"have {SPACES} observations", got, remedy=remedy)

    def _digits(self, space: Any, observation: Any, cuts: Iterator[FloatArray]) -> Iterator[int]:
        if isinstance(space, Discrete):
            yield _whole(observation) - int(space.start)
        elif isinstance(space, (MultiDiscrete, MultiBinary)):
            first = space.start.ravel().tolist() if isinstance(space, MultiDiscrete) else [0] * len(self.sizes)
            flat = np.asarray(observation)
            if flat.shape != space.shape:
                raise ValueError
            yield from (_whole(x, "iub") - low for x, low in zip(flat.ravel(), first, strict=False))
        elif isinstance(space, Tuple):
            for part, each in zip(space.spaces, observation, strict=True):
                yield from self._digits(part, each, cuts)
        elif isinstance(space, Dict):
            for key, part in space.spaces.items():
                yield from self._digits(part, observation[key], cuts)
        else:
            flat = np.asarray(observation, np.float64)
            if flat.shape != space.shape or np.isnan(flat).any():
                raise ValueError
            yield from (int(np.searchsorted(next(cuts), x, side="right")) for x in flat.ravel())


def _whole(value: Any, kinds: str = "iu") -> int:
    """Return an observation as an int; TypeError unless it is a whole number."""
    array = np.asarray(value)
    if array.shape != () or array.dtype.kind not in kinds:
        raise TypeError
    return int(array)


def _parts(space: Any) -> list[Any]:
    return list(space.spaces.values() if isinstance(space, Dict) else space.spaces)


def _boxes(space: Any) -> Iterator[Any]:
    """Yield the Box spaces of a space, in the order of their digits."""
    if isinstance(space, Box):
        yield space
    elif isinstance(space, (Tuple, Dict)):
        for part in _parts(space):
            yield from _boxes(part)


def _cuts(bins: Any, low: list[float], high: list[float]) -> list[FloatArray]:
    """Return the cut points of every coordinate of the Boxes."""
    if not isinstance(bins, (int, np.integer, list, tuple, np.ndarray)):
        raise bad_type("bins", bins, "be a number of cells or a list with one entry per coordinate")
    each = [bins] * len(low) if isinstance(bins, (int, np.integer)) else list(bins)
    if len(each) != len(low):
        raise bad_value("bins", bins, f"have one entry per coordinate ({len(low)})", len(each))
    found = []
    for i, entry in enumerate(each):
        if isinstance(entry, (int, np.integer)):
            if not math.isfinite(high[i] - low[i]) or abs(low[i]) > 1e30:
                remedy = f"give cut points, e.g. bins[{i}] = [-1, 0, 1]"
                raise bad_value(
                    f"bins[{i}]", entry, "be cut points, because the coordinate is unbounded", remedy=remedy
                )
            found.append(np.linspace(low[i], high[i], whole(entry, f"bins[{i}]", 1) + 1)[1:-1])
            continue
        points = numbers(entry, f"bins[{i}]")
        if points.ndim != 1 or np.any(np.diff(points) <= 0.0):
            raise bad_value(f"bins[{i}]", entry, "be increasing cut points")
        found.append(points)
    return found


def _label(space: Any, digits: Iterator[int]) -> str:
    """Return the name of the next digits, which belong to `space`."""
    if isinstance(space, Discrete):
        return str(next(digits) + int(space.start))
    if isinstance(space, Tuple):
        return f"({', '.join(_label(part, digits) for part in space.spaces)})"
    if isinstance(space, Dict):
        return ", ".join(f"{key}={_label(part, digits)}" for key, part in space.spaces.items())
    first = space.start.ravel().tolist() if isinstance(space, MultiDiscrete) else [0] * int(np.prod(space.shape))
    values = [str(next(digits) + int(low)) for low in first]
    return values[0] if len(values) == 1 else f"({', '.join(values)})"
