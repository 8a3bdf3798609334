"""Numbers as people write them, and what a plan means in one sentence.

A quantile x at level tau promises P(G >= x) > 1 - tau, hence "in 9 of 10 runs you get at least x" at tau = 0.1. A CVaR is
a mean over the worst runs, a buffered quantile one over the runs just below the level: each gets the sentence that is true
of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from bqrl.planners.plan import GAP_TOL

SENTENCE_DIGITS, TABLE_DIGITS, RARE_DIGITS = 4, 6, 2
SPOKEN = (3, 4, 5, 10, 20, 100)  # denominators that are easier to imagine than a percentage


def number(x: float | None, digits: int = TABLE_DIGITS) -> str:
    """`x` with about `digits` significant digits, without an exponent where it can be read without.

    >>> number(19 / 24), number(1234567.0), number(-0.0), number(2e-7)
    ('0.791667', '1234567', '0', '2e-07')
    """
    if x is None or math.isnan(x):
        return "\N{EN DASH}"
    if x == 0.0 or math.isinf(x) or not 1e-4 <= abs(x) < 1e15:
        return f"{x + 0.0:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(x))))
    text = f"{x:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def apart(*values: float, digits: int = SENTENCE_DIGITS) -> list[str]:
    """The values with the fewest digits, from `digits` up, that keep different ones different.

    >>> apart(12.345, 12.40), apart(12.34561, 12.34589)
    (['12.35', '12.4'], ['12.3456', '12.3459'])
    """
    texts: list[str] = []
    for shown in range(digits, 10):
        texts = [number(x, shown) for x in values]
        pairs = list(zip(texts, values, strict=True))
        if all(a != b or abs(x - y) <= GAP_TOL * max(1.0, abs(x)) for a, x in pairs for b, y in pairs):
            break
    return texts


def percent(share: float) -> str:
    """A share as a percentage; only what is whole is called 100 %.

    >>> percent(0.1), percent(0.123), percent(1 - 1e-12), percent(1.0)
    ('10 %', '12.3 %', '99.9999999999 %', '100 %')
    """
    digits = TABLE_DIGITS
    while share < 1.0 and digits < 15 and number(100.0 * share, digits) == "100":
        digits += 1
    return f"{number(100.0 * share, digits)} %"


def runs(tau: float) -> str:
    """The share 1 - tau of runs in words.

    >>> runs(0.1), runs(0.05), runs(0.5), runs(0.35), runs(1e-12)
    ('9 of 10 runs', '19 of 20 runs', 'half of all runs', '65 % of runs', 'all but 1e-10 % of runs')
    """
    share = 1.0 - tau
    exact = Fraction(share).limit_denominator(100)
    if abs(float(exact) - share) < 1e-12:
        if exact == Fraction(1, 2):
            return "half of all runs"
        lone = min(exact.numerator, exact.denominator - exact.numerator) == 1
        if exact.denominator in SPOKEN and (lone or exact.denominator <= 10):
            return f"{exact.numerator} of {exact.denominator} runs"
    if number(100.0 * share) == "100":
        return f"all but {number(100.0 * tau, RARE_DIGITS)} % of runs"
    return f"{number(100.0 * share, TABLE_DIGITS if share >= 1e-4 else RARE_DIGITS)} % of runs"


def meaning(level: Mapping[str, Any]) -> str:
    """One or two sentences on one level of a document (see `document`): what the policy gives, and what it could give."""
    tau, beta, attitude = level["tau"], level["beta"], level["attitude"]
    value, upper, neutral = level["value"], level["upper"], level["risk_neutral"]
    tight = upper is not None and upper - value <= GAP_TOL * max(1.0, abs(value))
    named = {"value": value, "nominal": level["nominal"]}
    if upper is not None and not tight:
        named["upper"] = upper
    if neutral is not None:
        named |= {"neutral": neutral["value"], "neutral_upper": neutral["upper"]}
    texts = dict(zip(named, apart(*named.values()), strict=True))

    at_least = "" if level["exact"] and attitude != "robust" else "at least "
    parts = [_head(tau, beta, texts["value"], at_least)]
    if level.get("policy") == "mixture":
        parts[0] = f"with one coin at the start, {parts[0]}"
    if attitude == "robust":
        parts[0] = f"under every kernel in the ball, {parts[0]}"
    if attitude == "optimistic":
        parts[0] = f"in the model as given, {parts[0]}"
    verb = "promise" if beta == 0.0 else "reach"
    if attitude == "nominal" and tight:
        parts[0] += f", the best that any policy can {verb}"
    elif attitude == "nominal" and level.get("randomized_upper"):
        parts[0] += f", the best that any policy without a coin can {verb}"
        parts.append(f"one coin at the start brings {texts['upper']}")
    elif attitude == "optimistic" and upper is not None:
        top = texts.get("upper", texts["value"])
        parts.append(f"with the most favourable kernel in the ball no policy could {verb} more than {top}")
    elif attitude == "nominal" and "upper" in texts:
        parts.append(f"no policy can {verb} more than {texts['upper']}")

    if attitude == "robust":
        same = abs(level["nominal"] - value) <= GAP_TOL * max(1.0, abs(value))
        own = f"In the model as given it gives {'the same' if same else texts['nominal']}"
        told = "" if neutral is None else f"; the risk-neutral policy {_neutral(neutral, texts, None)} there"
        return f"{_sentence(parts)} {own}{told}."
    if neutral is not None:
        alone = value if len(parts) == 1 else None  # after a second number "the same" could be either
        parts.append(f"the risk-neutral policy {_neutral(neutral, texts, alone)}")
    return _sentence(parts)


def _head(tau: float, beta: float, value: str, at_least: str) -> str:
    if beta == 0.0:
        return f"in {runs(tau)} you get at least {value}"
    if beta == tau:
        return f"over the worst {percent(tau)} of runs you get {at_least}{value} on average"
    marks = f"the {percent(tau - beta)} and the {percent(tau)} mark"
    return f"counted from the worst run up, the runs between {marks} bring {at_least}{value} on average"


def _neutral(neutral: Mapping[str, Any], texts: Mapping[str, str], same_as: float | None) -> str:
    low, high = neutral["value"], neutral["upper"]
    if high - low > GAP_TOL * max(1.0, abs(low)):
        if texts["neutral"] == texts["neutral_upper"]:
            return f"gives about {texts['neutral']}"
        return f"gives between {texts['neutral']} and {texts['neutral_upper']}"
    if same_as is not None and abs(low - same_as) <= GAP_TOL * max(1.0, abs(low)):
        return "gives the same"
    return f"gives {texts['neutral']}"


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
