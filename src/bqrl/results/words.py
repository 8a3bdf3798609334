"""Numbers as people write them, and sentences on plans and learning runs, made from their numbers.

A quantile x at level tau promises P(G >= x) > 1 - tau, hence "in 9 of 10 runs you get at least x" at tau = 0.1. A CVaR is
a mean over the worst runs, a buffered quantile a mean between two levels: each gets the sentence that is true of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from bqrl.checks import is_one_line, shown
from bqrl.display import counted, plural
from bqrl.errors import ArgumentError
from bqrl.planners.plan import GAP_TOL
from bqrl.results.result import Table
from bqrl.study.scores import PROVEN, Experiment

SENTENCE_DIGITS, TABLE_DIGITS, RARE_DIGITS = 4, 6, 2
SPOKEN = (3, 4, 5, 10, 20, 100)  # denominators that are easier to imagine than a percentage
DASH = "\N{EN DASH}"
UNKNOWN = "The environment does not expose its kernel, so no exact promises and no gaps are known."
CLEAR = {True: " (more than two standard errors away)", False: " (within two standard errors)", None: ""}
MAX_NAMES = 4  # of equal learners in a sentence
LATE = 0.9  # share of the run after which a policy that has become optimal has only just done so


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a problem: its title, the unit of its returns, and what one stage is called.

    >>> words = Words("Treatment", unit="QALY", stage="year")
    >>> words.amount("12.5"), words.returns, words.count("year", 2), words.plural("year")
    ('12.5 QALY', 'return (QALY)', '2 years', 'years')
    >>> sale = Words("Sale", unit="share of the best offer")
    >>> sale.amount("0.5"), sale.titled("mean"), sale.axis("mean")
    ('0.5', 'mean', 'mean (share of the best offer)')
    """

    title: str
    unit: str = ""
    stage: str = "stage"

    def __post_init__(self) -> None:
        for option, text in (("title", self.title), ("unit", self.unit), ("stage_name", self.stage)):
            if not is_one_line(text):
                rule = "must be one line of text without control characters"
                raise ArgumentError(f"{option} {rule}, got {shown(text)}; remove them", name=option, value=text)

    count = staticmethod(counted)  # "1 state", "3 states"
    plural = staticmethod(plural)

    @classmethod
    def of(cls, model: Any) -> Words:
        """The words of a model or of a plan: its unit, if it has one."""
        unit = getattr(model, "units", None)
        return cls("", unit if isinstance(unit, str) else "")

    def amount(self, text: str) -> str:
        """A number with its unit, unless that is a description of several words, which axes alone carry."""
        return f"{text} {self.unit}" if self._short else text

    @property
    def _short(self) -> bool:
        return 0 < len(self.unit.split()) <= 2

    @property
    def returns(self) -> str:
        """Title of an axis of returns."""
        return self.axis("return")

    def axis(self, title: str) -> str:
        """Title of an axis of amounts."""
        return f"{title} ({self.unit})" if self.unit else title

    def titled(self, title: str) -> str:
        """Title of a column of amounts."""
        return f"{title} ({self.unit})" if self._short else title

    def bracket(self, error: float, score_error: float = 0.0) -> str:
        """How far the optimum, and the quantiles of policies if that is more, may lie above what is stated; "" if exact."""
        most, more = (self.amount(number(1.005 * x, 3)) for x in (error, score_error))
        said = f"The {PROVEN} is at most {most} below it." if error else ""
        if score_error == math.inf:
            said += " Quantiles of some policies are estimated from simulated episodes."
        elif score_error > error:
            said += f" Quantiles of policies are at most {more} below the true ones."
        return said.strip()


PLAIN = Words("")  # of a problem without a title


def number(x: float | None, digits: int = TABLE_DIGITS) -> str:
    """`x` with about `digits` significant digits, without an exponent where it can be read without.

    >>> number(19 / 24), number(1234567.0), number(-0.0), number(2e-7)
    ('0.791667', '1234567', '0', '2e-07')
    """
    if x is None or math.isnan(x):
        return DASH
    if x == 0.0 or math.isinf(x) or not 1e-4 <= abs(x) < 1e15:
        return f"{x + 0.0:.{digits}g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(x))))
    text = f"{x:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def apart(*values: float, digits: int = SENTENCE_DIGITS) -> list[str]:
    """The values with the fewest digits, from `digits` up, that keep different values different.

    >>> apart(12.345, 12.40), apart(12.34561, 12.34589)
    (['12.35', '12.4'], ['12.3456', '12.3459'])
    """
    texts: list[str] = []
    for places in range(digits, 10):
        texts = [number(x, places) for x in values]
        pairs = list(zip(texts, values, strict=True))
        if all(a != b or _equal(x, y) for a, x in pairs for b, y in pairs):
            break
    return texts


def percent(share: float) -> str:
    """A share as a percentage; only 1 is shown as 100 %.

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


def fixed(x: float) -> str:
    """A number with two decimals.

    >>> fixed(1.149), fixed(-0.0001)
    ('1.15', '0.00')
    """
    text = f"{x:.2f}"
    return text.lstrip("-") if float(text) == 0.0 else text.replace("-", "\N{MINUS SIGN}")


def brief(x: float) -> str:
    """A number with three digits; rounding errors are zero.

    >>> brief(12.345), brief(1e-13)
    ('12.3', '0')
    """
    return number(round(x, 9), 3)


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def cell(value: Any) -> str:
    """A cell of a table as people read it.

    >>> cell(True), cell(0.7916666), cell(float("-inf"))
    ('yes', '0.791667', '-∞')
    """
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None:
        return DASH
    if isinstance(value, float):
        return number(value).replace("inf", "∞")
    return str(value)


def displayed(table: Table) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of a table as people read it; a column `x_std` is shown within x, as "mean ± deviation".

    >>> displayed(Table([{"gap": 12.3456, "gap_std": 0.5}], {"gap": "cumulative gap"}))
    (['cumulative gap'], [['12.35 ± 0.5']])
    """
    keys = [key for key in table.columns if not (key.endswith("_std") and key[:-4] in table.columns)]
    rows = []
    for row in table.rows:
        cells = []
        for key in keys:
            spread = row.get(f"{key}_std")
            text = cell(row[key]) if f"{key}_std" not in row else number(row[key], SENTENCE_DIGITS)
            cells.append(f"{text} ± {number(spread, 2)}" if spread else text)
        rows.append(cells)
    return [table.titles.get(key, key) for key in keys], rows


WHERE = {"nominal": "", "optimistic": "in the model as given, ", "robust": "under every kernel in the ball, "}


def meaning(level: Mapping[str, Any], words: Words = PLAIN) -> str:
    """One or two sentences on one level of a plan: what the policy gives, and what any policy could give.

    `level` is the plan's `summary()` with `risk_neutral` (value and upper, or None) and `randomized_upper`.
    """
    tau, beta, attitude, value = (level[key] for key in ("tau", "beta", "attitude", "value"))
    upper, neutral = level["upper"], level["risk_neutral"] or {"value": value, "upper": value}
    tight = upper is not None and _equal(upper, value)
    bound = value if upper is None or tight else upper
    texts = apart(value, bound, level["nominal"], neutral["value"], neutral["upper"])
    own, most, nominal, low, high = map(words.amount, texts)

    lead = WHERE[attitude] + ("with one random draw at the start, " if level.get("policy") == "mixture" else "")
    mean = f"{own} on average" if level["exact"] and attitude != "robust" else f"at least {own} on average"
    if value == -math.inf:
        parts = [f"{lead}no return is guaranteed in {runs(tau)}"]
    elif beta == 0.0:
        parts = [f"{lead}in {runs(tau)} you get at least {own}"]
    elif beta == tau:
        parts = [f"{lead}over the worst {percent(tau)} of runs you get {mean}"]
    else:
        parts = [f"{lead}between the {percent(tau - beta)} and the {percent(tau)} quantile you get {mean}"]
    verb = "promise" if beta == 0.0 else "reach"
    if attitude == "optimistic" and upper is not None:
        parts.append(f"with the most favourable kernel in the ball no policy can {verb} more than {most}")
    elif attitude == "nominal" and tight:
        parts[0] += f", the best that any policy can {verb}"
    elif attitude == "nominal" and level["randomized_upper"]:
        parts[0] += f", the best that any deterministic policy can {verb}"
        parts.append(f"one random draw at the start gives {most}")
    elif attitude == "nominal" and upper is not None:
        parts.append(f"no policy can {verb} more than {most}")

    sentences, there = [parts], ""
    if attitude == "robust":
        same, there = _equal(level["nominal"], value), " there"
        sentences.append([f"in the model as given it gives {'the same' if same else nominal}"])
    if level["risk_neutral"] is not None:
        other = low
        if not _equal(neutral["upper"], neutral["value"]):
            other = f"about {low}" if low == high else f"between {low} and {high}"
        elif len(parts) == 1 and not there and _equal(neutral["value"], value):
            other = "the same"  # after a second number this could be either
        sentences[-1].append(f"the risk-neutral policy gives {other}{there}")
    return " ".join(sentence("; ".join(parts)) for parts in sentences)


def order_of(
    experiment: Experiment, measure: str | None = None, show: Callable[[float], str] = brief, *, title: bool = False,
    words: Words = PLAIN,
) -> str:  # fmt: skip
    """Which learners have the best mean after the last episode, which follow, and whether the distance is clear.

    Learners whose means print alike are called equal. The `title` of a chart leaves out what its axis and its note say.
    """
    rows, T, n = experiment.order(measure), Words.count("episode", experiment.episodes), len(experiment.seeds)
    best, what, when = "largest", "mean return", f"over the last tenth of {T}"
    if measure or experiment.known:
        best = "largest" if measure == "return" else "smallest"
        what, when = f"{'' if title else 'cumulative '}{experiment.measure_name(measure or 'gap')}", f"after {T}"
    labels, means = [row["learner"] for row in rows], [words.amount(show(row["mean"])) for row in rows]
    first = means.count(means[0])
    who = listed(labels[:first]) if first <= MAX_NAMES else f"{first} of {len(rows)} learners"
    mean = means[0] + (f" on average over {n} seeds" if n > 1 and not title else "")
    if len(rows) == 1:
        return f"{who} has a {what} of {mean} {when}"
    text = f"{who} {'has' if first == 1 else 'have'} the {best} {what} {when}, {mean}"
    rest = [f"{label} {mean}" for label, mean in zip(labels[first:], means[first:], strict=True)]
    if rest and not title:
        rest[0] += CLEAR[rows[first - 1]["clear"]]
    return f"{text}; then {', '.join(rest[:2])}" if rest else text


def _bracket(document: Mapping[str, Any], words: Words) -> str:
    return words.bracket(document["best"]["error"], document["best"]["score_error"])


def attained(document: Mapping[str, Any], words: Words) -> str:
    """What the final policies of one learner promise, without a full stop; `document` is that of a learning run."""
    (learner,) = document["learners"]
    T, tau, n = document["episodes"], document["tau"], len(learner["runs"])
    best, final = document["best"]["quantile"], learner["mean"]["quantile"]
    settled = [run["settled"] for run in learner["runs"] if run["settled"] is not None]
    top, value, short = map(words.amount, apart(best, final, best - final))
    proven = f"the {PROVEN}" if document["best"]["error"] else ""
    after = f"After {words.count('episode', T)}"
    if len(settled) == n:
        if max(settled) <= LATE * T:
            after = f"From {'the first episode' if max(settled) == 0 else f'episode {max(settled) + 1}'} on"
        seeds = "" if n == 1 else f", with each of the {n} seeds"
        return (
            f"{after}, in {runs(tau)} you get at least {top}, {proven or 'the best that any policy can promise'}{seeds}"
        )
    if settled:
        return (
            f"{after}, {len(settled)} of {n} seeds end{'s' * (len(settled) == 1)} with"
            f" {proven or 'the best promise of any policy'}, at least {top} in {runs(tau)}; the mean over seeds is {value}"
        )
    mean = "" if n == 1 else " (mean over seeds)"
    return f"{after}, in {runs(tau)} you get at least {value}{mean}, {short} less than {proven or 'the best promise'}, {top}"


def learned(document: Mapping[str, Any], words: Words) -> str:
    """What one learner has reached and what learning has cost."""
    (learner,) = document["learners"]
    T, gap = document["episodes"], learner["mean"].get("gap")
    if document["best"] is None:
        last, whole = map(words.amount, apart(learner["mean"]["last_return"], learner["mean"]["return"]))
        return (
            f"After {words.count('episode', T)} the mean return is {last} over the last tenth of the episodes and {whole}"
            f" over all of them. {UNKNOWN}"
        )
    cost = "No policy during learning fell short of it"
    if gap > GAP_TOL * T * max(1.0, abs(document["best"]["quantile"])):
        each, total = words.amount(number(gap / T, 3)), words.amount(number(gap, 4))
        cost = f"During learning the policies fell short of it by {each} per episode on average, {total} in total"
    return f"{attained(document, words)}. {cost}.{_easy(document)} {_bracket(document, words)}".rstrip()


def compared(document: Mapping[str, Any], order: str, words: Words) -> str:
    """Which learner fell short least, and what random play gives; `order` says the first."""
    if document["best"] is None:
        return f"{order}. {UNKNOWN}"
    best, random = document["best"]["quantile"], document["random"]["quantile"]
    top, chance = map(words.amount, apart(best, random))
    promises = f"In {runs(document['tau'])} the best policy gives at least {top}, random play {chance}."
    return f"{order}. {promises}{_easy(document)} {_bracket(document, words)}".rstrip()


def _easy(document: Mapping[str, Any]) -> str:
    """What it means if random play makes the best promise; else nothing."""
    if not _equal(document["random"]["quantile"], document["best"]["quantile"]):
        return ""
    final = [run["settled"] for one in document["learners"] for run in one["runs"]]
    if None not in final:
        return " Random play promises as much: at this level there is nothing to learn."
    worse = "the learned policy is" if len(final) == 1 else f"{final.count(None)} of {len(final)} learned policies are"
    return f" Random play makes the best promise, so {worse} worse than random play."


def _equal(x: float, y: float) -> bool:
    return x == y or abs(x - y) <= GAP_TOL * max(1.0, abs(y)) < math.inf


def sentence(text: str) -> str:
    """A text as a sentence: with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."
