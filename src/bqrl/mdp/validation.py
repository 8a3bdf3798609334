"""Checks of the horizon, discount, start, masks, names and actions of a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, exact_text, is_one_line, nearest, number, one_line, whole
from bqrl.errors import ArgumentError, ModelError, SizeError
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray
from bqrl.mdp.columns import label_text

MAX_STAGES = 1_000_000  # a longer horizon means minutes of planning for the smallest problem
MAX_PLACES = 100_000_000  # (stage, state) pairs: a table of reachable states must fit
MAX_RETURN = 1e300  # sums and differences of returns stay finite
DIGITS = re.compile(r"\d+")
MAX_SHARE = 1e6  # larger numbers are not even percentages; the limit keeps sums finite


def check_horizon(horizon: Any, S: int | None = None) -> int:
    """Return the horizon as an int from 1 to MAX_STAGES; the limit is lower for many states."""
    stages = whole(horizon, "horizon", 1, most=math.inf)
    longest = MAX_STAGES if S is None else min(MAX_STAGES, max(1, MAX_PLACES // S))
    if stages > longest:
        states = "" if longest == MAX_STAGES else f" with {S} states"
        message = f"horizon must be at most {longest}{states}, got {one_line(stages)}"
        raise SizeError(message, needed=stages, limit=longest, name="horizon")
    return stages


def resolve_horizon(stages: int | None, horizon: Any) -> int:
    """Return the number of stages of the transitions if they have stages, else the given horizon."""
    given = None if horizon is None else check_horizon(horizon)
    if given is None and stages is None:
        raise bad_value("horizon", None, "be given for transitions without stages", remedy="pass e.g. horizon=10")
    if given is not None and stages not in (None, given):
        remedy = "omit it or give one stage"
        raise bad_value("horizon", given, f"be {stages}, the number of stages of transitions", remedy=remedy)
    return given or check_horizon(stages)


def check_discount(given: Any) -> float:
    """Return a discount as a float in (0, 1]; the error about an interest rate suggests the equivalent factor."""
    try:
        return number(given, "discount", 0.0, 1.0, "(]")
    except ArgumentError:
        growth = float(given) if given < 2.0 else 1.0 + float(given) / 100.0  # 1.03, or 3 for 3 %
        if not 1.0 < growth < 1.5:
            raise
        remedy = f"for interest of {100.0 * (growth - 1.0):.6g} % per stage give 1 / {growth:.9g}"
        raise bad_value("discount", given, "be a number in (0, 1]", exact_text(float(given)), remedy=remedy) from None


def check_mask(given: Any, shape: tuple[int, int, int], what: str) -> BoolArray:
    """Return a new mask of shape (K, S, A), made from a mask of that shape or of shape (S, A)."""
    mask = np.asarray(given)
    if mask.dtype != np.bool_ or mask.shape not in (shape, shape[1:]):
        remedy = "give the transitions per stage, too" if mask.ndim == 3 and mask.shape[1:] == shape[1:] else ""
        rule = f"be a boolean array of shape {shape[1:]}, or one per stage of the transitions"
        raise bad_value(what, given, rule, f"{mask.shape} of {mask.dtype}", remedy=remedy)
    return np.array(np.broadcast_to(mask, shape), order="C")


def sum_hint(total: float, parts: Any = ()) -> str:
    """Return a hint for the message if probabilities sum to 100 or nearly to 1, or if the `parts` are counts; else empty."""
    if abs(total - 100.0) <= 0.1:
        return ": percentages? divide them by 100"
    if total > 1.5 and np.size(parts) and np.max(parts) > 1 and np.array_equal(parts, np.rint(parts)):
        return ": counts? divide them by their sum"
    return "; if they are rounded, divide them by their sum" if 0.0 < abs(total - 1.0) <= 0.01 else ""


def sum_remedy(total: float, parts: Any = ()) -> str:
    """Return the hint of `sum_hint`, or what to do with a row that sums to something else than 1."""
    less = "add the outcomes that are missing" if total < 1.0 else "drop what is counted twice"
    return sum_hint(total, parts) or f"; {less}, or divide the row by its sum"


# -- the start ---------------------------------------------------------------------------------------------------------


def start_law(start: Any, S: int, labels: tuple[str, ...] | None) -> FloatArray:
    """Return the law of the first state, shape (S,), from a state, its name, a law {state: probability} or S probabilities."""
    mu = np.zeros(S)
    if isinstance(start, Mapping):
        for state, share in start.items():
            mu[_index(_name(state, labels), S, labels, "start")] += number(share, f"start[{one_line(state)}]", 0.0)
    elif isinstance(_name(start, labels), (str, int, np.integer)) and not isinstance(start, bool):
        mu[_index(_name(start, labels), S, labels, "start")] = 1.0
    else:
        try:
            mu = np.array(start, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise bad_type("start", start, f"be a state, its name or {S} probabilities") from None
    proper = mu.shape == (S,) and bool(np.all((mu >= 0) & (mu <= MAX_SHARE)))
    total = float(mu.sum()) if proper else math.nan
    if not abs(total - 1.0) <= SUM_TOL:
        found = one_line(start)
        if proper:
            found = f"the sum {total:.12g}{sum_hint(total)}"
        elif mu.ndim and mu.size:
            found = f"shape {mu.shape}, values from {mu.min():.3g} to {mu.max():.3g}"
        raise bad_value("start", start, f"be a state, its name, or {S} probabilities that sum to 1", found)
    return mu if abs(total - 1.0) <= S * 2.0**-52 else mu / total


def _name(given: Any, labels: tuple[str, ...] | None) -> Any:
    """Return the name of a state given as an object such as a tuple or a date; return anything else unchanged."""
    text = "" if isinstance(given, (str, Real, list, np.ndarray, Mapping)) else label_text(given)
    return text if text and text in (labels or ()) else given


def _index(given: Any, S: int, labels: tuple[str, ...] | None, what: str) -> int:
    """Return the index of a state given by its index or its name; `what` names the argument in messages."""
    if not isinstance(given, str):
        return whole(given, what, 0, S - 1)
    labels = labels or tuple(map(str, range(S)))
    if given not in labels:
        is_number = given.lstrip("-").isdigit()  # numbers are not misspelt
        near = "" if is_number else nearest(given, labels, listed=False)
        near = near or f"; states run from {one_line(labels[0])} to {one_line(labels[-1])}"
        raise bad_value(what, given, "name a state", f"{one_line(given)}{near}")
    return labels.index(given)


# -- terminal values -----------------------------------------------------------------------------------------------------


def terminal_values(given: Any, S: int, labels: tuple[str, ...] | None) -> FloatArray | None:
    """Return the terminal value of every state, (S,), from S numbers or {state: value}, where states left out have 0.

    Return None if all are 0.
    """
    if given is None:
        return None
    rule = f"be {S} numbers or {{state: value}}"
    if isinstance(given, Mapping):
        found = np.zeros(S)
        for state, value in given.items():
            found[_index(_name(state, labels), S, labels, "terminal")] = number(value, f"terminal[{one_line(state)}]")
    else:
        try:
            found = np.array(given, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise bad_type("terminal", given, rule) from None
        if found.shape != (S,):
            raise bad_value("terminal", given, rule, f"shape {found.shape}")
    outside = ~(np.abs(found) <= MAX_RETURN / 2.0)
    if outside.any():
        raise bad_value("terminal", given, "be finite numbers", found[outside][0])
    return found + 0.0 if found.any() else None


# -- names and words -----------------------------------------------------------------------------------------------------

WORDS = ("title", "run", "return", "state", "action", "stage")  # what a model may call by names of its own


def check_words(given: Any) -> dict[str, str]:
    """Return the words of a model, such as {"run": "patient", "return": "net benefit"}, in the order of WORDS."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise bad_type("words", given, "be a dict such as {'run': 'patient'}")
    for key, text in given.items():
        if key not in WORDS:
            near = nearest(key, WORDS)
            raise bad_value("words", key, f"have keys among {', '.join(WORDS)}", f"{one_line(key)}{near}")
        if not isinstance(text, str):
            raise bad_type(f"words[{key!r}]", text, "be one line of text")
        if not is_one_line(text) or not text or text != text.strip():
            raise bad_value(f"words[{key!r}]", text, "be one line of text", remedy="remove blanks and line breaks")
    return {key: given[key] for key in WORDS if key in given}


def check_names(given: Iterable[Any] | None, count: int, what: str) -> tuple[str, ...] | None:
    """Return names as distinct printable strings, one per item."""
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise bad_type(what, given, f"be a list of {count} names")
    strings = tuple(str(name) for name in given)
    if len(strings) != count:
        raise bad_value(what, given, f"hold {count} names", len(strings))
    unprintable = next((name for name in strings if not is_one_line(name)), None)
    if unprintable is not None:
        raise bad_value(
            what, unprintable, "be printable on one line", remedy="remove line breaks and control characters"
        )
    twice = next((name for name, times in Counter(strings).items() if times > 1), None)
    if twice is not None:
        raise bad_value(what, twice, "be distinct", f"{one_line(twice)} twice")
    return strings


def distinct_names(values: Sequence[Any], name: Callable[[Any], str]) -> list[str]:
    """Return the names by `name` if they are distinct and printable on one line, else by `repr`, else numbered names."""
    plain = [value.tolist() if isinstance(value, np.generic) else value for value in values]
    for text in (name, repr):
        names = [" ".join(str(text(value)).split()) for value in plain]
        if len(set(names)) == len(names) and all(found.isprintable() and found for found in names):
            return names
    return [f"{i}: {type(value).__name__}" for i, value in enumerate(plain)]


def check_actions(mdp: Any, mentioned: Mapping[int, tuple[str, int | None]] | None = None) -> None:
    """Raise ModelError if a reachable state of a model has no action; its name may be a misspelt state."""
    stuck = mdp.reachable[:-1] & ~mdp.available.any(axis=2)
    if stuck.any():
        h, s = (int(i) for i in np.argwhere(stuck)[0])
        name, acting = mdp.state_label(s), np.atleast_1d(mdp.available.any(axis=(0, 2)))
        others = [] if acting[s] else [x for x, acts in zip(mdp.state_names or (), acting, strict=False) if acts]
        stem = DIGITS.sub("", name)  # names that differ only in digits are not misspelt: s12 is not s11
        near = nearest(name, (other for other in others if DIGITS.sub("", other) != stem), listed=False)
        remedy = f"{near} if not, give it an action" if near else "; give it one (a loop will do)"
        where, line = (mentioned or {}).get(s, ("", None))
        message = f"{where}state {name}, reachable at stage {h + 1}, must have an action, got none{remedy}"
        raise ModelError(message, line=line, name="available")
