"""Argument checks of the whole library; each check returns the valid value as a plain type.

Every message has the form "NAME must be X, got Y; do Z".
"""

from __future__ import annotations

import difflib
import math
import sys
import unicodedata
import warnings
from collections.abc import Iterable
from numbers import Real
from reprlib import repr as short_repr
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.errors import ArgumentError, ArgumentTypeError, ModelWarning

MAX_LISTED = 24  # options in one message
LARGEST = 10**300  # whole numbers up to this one can be converted to float
JOINERS = "\u00ad\u200c\u200d"  # soft hyphen, and the joiners of Persian, Hindi and emoji


def one_line(value: Any) -> str:
    """`value` on one short line, for a message."""
    try:
        return " ".join(short_repr(value).split())
    except ValueError:  # Python does not print integers of more than 4,300 digits
        return f"{type(value).__name__} too long to show"


def is_one_line(text: str) -> bool:
    """Whether a text holds only printable characters, spaces of any width and joiners."""
    return all(sign.isprintable() or sign in JOINERS or unicodedata.category(sign) == "Zs" for sign in text)


def nearest(given: Any, options: Iterable[str], *, listed: bool = True) -> str:
    """Hint for the end of a message: "; did you mean 'target'?", else the options, or "" unless `listed`."""
    valid = {option.lower(): option for option in options}
    near = difflib.get_close_matches(str(given).lower(), valid, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {valid[near[0]][:80]!r}?"
    names = [option[:40] for option in valid.values()]
    return (
        f"; choose from {', '.join(names[:MAX_LISTED])}{', ...' if len(names) > MAX_LISTED else ''}" if listed else ""
    )


def bad_value(name: str, value: Any, rule: str, got: Any = None, *, remedy: str = "") -> ArgumentError:
    """ArgumentError "NAME must RULE, got GOT; REMEDY"; GOT is the value unless `got` is given."""
    return ArgumentError(_message(name, value, rule, got, remedy), name=name, value=value)


def bad_type(name: str, value: Any, rule: str, got: Any = None, *, remedy: str = "") -> ArgumentTypeError:
    """The same as an ArgumentTypeError, for a value of the wrong type."""
    return ArgumentTypeError(_message(name, value, rule, got, remedy), name=name, value=value)


def unknown_argument(
    owner: str, name: str, value: Any, valid: Iterable[str], near: Iterable[str] = ()
) -> ArgumentTypeError:
    """ArgumentTypeError for an argument that `owner` does not have; `near` are further names to suggest."""
    hint = nearest(name, near, listed=False) or (nearest(name, valid) if valid else "; it takes none")
    return ArgumentTypeError(f"expected a parameter of {owner}, got {name!r}{hint}", name=name, value=value)


def _message(name: str, value: Any, rule: str, got: Any, remedy: str) -> str:
    return f"{name} must {rule}, got {one_line(value) if got is None else got}{remedy and f'; {remedy}'}"


def number(value: Any, name: str, low: float = -math.inf, high: float = math.inf, ends: str = "[]") -> float:
    """`value` as a finite float between `low` and `high`; `ends` says which ends are included: "(]" for (0, 1]."""
    try:
        if isinstance(value, (bool, np.bool_, str, bytes)) or (not isinstance(value, float) and np.ndim(value)):
            raise TypeError
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise bad_type(name, value, f"be a number{_interval(low, high, ends)}") from None
    above = found >= low if ends[0] == "[" else found > low
    below = found <= high if ends[1] == "]" else found < high
    if not (math.isfinite(found) and above and below):
        percent = f"write {found / 100.0:g} for {found:g} %" if high == 1.0 and 2.0 <= found < 100.0 else ""
        raise bad_value(name, value, f"be a number{_interval(low, high, ends)}", exact_text(found), remedy=percent)
    return found


def exact_text(found: float) -> str:
    """A number with six digits if these are exact, else with all digits: 1.0000001 is not shown as 1."""
    return f"{found:g}" if float(f"{found:g}") == found or math.isnan(found) else repr(float(found))


def numbers(value: Any, name: str, low: float = -math.inf) -> NDArray[np.float64]:
    """`value` as a new array of finite floats of at least `low`."""
    try:
        raw = np.asarray(value)
        if raw.dtype.kind not in "fiu" and not all(isinstance(x, Real) and not isinstance(x, bool) for x in raw.flat):
            raise TypeError
        found = np.array(raw, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise bad_type(name, value, "be a number or an array of numbers") from None
    if not np.all(np.isfinite(found)):
        worst = found[~np.isfinite(found)].flat[0]
        raise bad_value(name, value, "be finite", f"{worst:g}")
    if np.any(found < low):
        raise bad_value(name, value, f"be at least {low:g}", f"{found.min():g}")
    return found


def whole(value: Any, name: str, low: int = 0, high: int | None = None, *, most: float = LARGEST) -> int:
    """`value` as an int from `low` to `high`; without `high`, `most` is a limit of the implementation."""
    rule = f"be a whole number {f'of at least {low}' if high is None else f'from {low} to {high}'}"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise bad_type(name, value, rule)
    if value < low or (high is not None and value > high):
        raise bad_value(name, value, rule)
    if value > most:
        raise bad_value(name, value, f"be at most {most if most < LARGEST else f'{LARGEST:.0e}'}")
    return int(value)


def choice(value: Any, name: str, options: Iterable[str]) -> str:
    """`value` if it is one of the options."""
    valid = tuple(options)
    rule = f"be one of {', '.join(map(repr, valid))}"
    if not isinstance(value, str):
        raise bad_type(name, value, rule)
    if value not in valid:
        raise bad_value(name, value, rule, f"{one_line(value)}{nearest(value, valid, listed=False)}")
    return value


def flag(value: Any, name: str, *, optional: bool = False) -> Any:
    """`value` as True or False, or None if it is `optional`."""
    if isinstance(value, (bool, np.bool_)) or (optional and value is None):
        return None if value is None else bool(value)
    raise bad_type(name, value, f"be {'True, False or None' if optional else 'True or False'}")


def random_seed(value: Any, name: str = "seed") -> int:
    """A seed as an int; None draws fresh entropy, which the caller records."""
    if value is None:
        return int(np.random.SeedSequence().entropy % 2**63)  # type: ignore[operator]
    return whole(value, name, 0, most=math.inf)


def warn_caller(message: str) -> None:
    """Issue a ModelWarning that points at the line outside bqrl that made the call."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "bqrl":
        frame, level = frame.f_back, level + 1
    warnings.warn(message, ModelWarning, stacklevel=level + 1)


def _interval(low: float, high: float, ends: str) -> str:
    if low == -math.inf and high == math.inf:
        return ""
    if high == math.inf:
        return f" {'of at least' if ends[0] == '[' else 'above'} {low:g}"
    return f" in {ends[0]}{low:g}, {high:g}{ends[1]}"
