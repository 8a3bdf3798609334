"""Data frames, charts and notebook HTML of the library's objects, and numbers and counts as text.

`bqrl.results.views` draws the objects, with one function per class. It is imported only when a chart or HTML is requested, so
that models and plans do not depend on it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context
from fractions import Fraction
from importlib import import_module
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

ENGLISH = frozenset(  # nouns that messages count, and common names of a stage, a run, a state or an action
    "action batch bet campaign car card case century choice client condition contract customer cycle day decade decision delivery"
    " dose drug episode epoch flight fortnight fund game generation grade household hour inspection item job level machine match"
    " minute month move night option order participant patient period person plant player point policyholder portfolio product"
    " project pull pump quarter round route row run scenario season second seed session shift site state stage step stroke"
    " therapy transition treatment trial trip turn unit vehicle visit week worker year".split()
)

# The beginning of a text that a spreadsheet would run as a formula, after any number of apostrophes.
FORMULA = re.compile(r"'*[=+@\t\r-]")
PROVEN = "proven lower value of the optimum"  # gaps refer to it if the optimum is bracketed
TINY = 1e-4  # smaller shares are called less than 0.01 %
T = TypeVar("T")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


def views() -> ModuleType:
    """The module `bqrl.results.views`, imported on first use."""
    from bqrl.results import views

    return views


def plural(noun: str) -> str | None:
    """Plural of a noun; None if the noun is not in ENGLISH, because users may write in any language."""
    if re.split("[ -]", noun)[-1] not in ENGLISH:
        return None
    if noun.endswith("person"):
        return noun.removesuffix("person") + "people"
    if re.search("(x|z|ch|sh)$", noun):
        return f"{noun}es"
    return re.sub("(?<=[^aeiou])y$", "ie", noun) + "s"


def count_of(noun: str, number: int | None) -> str:
    """A number with its noun: "1 state", "3 states", or "26 x Woche" if the plural is not known."""
    several = plural(noun)
    if several is None:
        return f"{number} \N{MULTIPLICATION SIGN} {noun}"
    return f"{number} {noun if number == 1 else several}"


def format_number(x: float | None, digits: int = 6, direction: int = 0) -> str:
    """`x` with about `digits` significant digits, commas between thousands, and an exponent only if needed.

    With `direction` -1 it is rounded down and with 1 up, so that a rounded bound is still a bound. Floating-point errors are
    removed first, so that equal numbers are shown alike.

    >>> format_number(15_000_000.0), format_number(2 / 3, 3), format_number(2 / 3, 3, -1)
    ('15,000,000', '0.667', '0.666')
    >>> format_number(3.0 - 4e-16, 3, -1), format_number(37.275 - 1e-14, 4)
    ('3', '37.28')
    """
    if x is None or math.isnan(x):
        return "\N{EN DASH}"
    plain = 1e-4 <= abs(x) < 1e15
    if 0.0 < abs(x) < math.inf:
        kept = max(digits, math.floor(math.log10(abs(x))) + 1 if plain else 0)
        context = Context(prec=kept, rounding=(ROUND_HALF_UP, ROUND_CEILING, ROUND_FLOOR)[direction])
        x = float(context.create_decimal(f"{x:.12g}")) if kept < 12 else x
    if not plain:
        return f"{x + 0.0:.{digits}g}".replace("inf", "∞")
    text = f"{x:,.{max(0, digits - 1 - math.floor(math.log10(abs(x))))}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def format_cells(
    values: Sequence[Any], text: Callable[[Any], str] = str, direction: int = 0, digits: int = 6
) -> list[str]:
    """The cells of a column: the largest float with about `digits` digits, smaller ones with its decimals or two digits.

    `direction` is that of `format_number`.

    >>> format_cells([31221.3, 152.088, 6.20074, 0.0, 7, True]), format_cells([99.2, 0.000412345])
    (['31,221.3', '152.1', '6.2', '0', '7', 'yes'], ['99.2', '0.00041'])
    """
    sizes = [abs(x) for x in values if isinstance(x, float) and 0.0 < abs(x) < math.inf]
    top = max((math.floor(math.log10(x)) for x in sizes), default=0)

    def shown(x: Any) -> str:
        if isinstance(x, bool):
            return "yes" if x else "no"
        if x is None or not isinstance(x, float):
            return format_number(x) if x is None else text(x)
        place = math.floor(math.log10(abs(x))) if 0.0 < abs(x) < math.inf else top
        return format_number(x, max(2, digits - top + place), direction)

    return [shown(x) for x in values]


def percent(share: float) -> str:
    """A share as a percentage, such as "12.3 %"; only 1 is shown as 100 %.

    >>> percent(0.123), percent(0.9999999), percent(1.0 - 1e-16), percent(1.0)
    ('12.3 %', '99.99999 %', 'more than 99.9999 %', '100 %')
    """
    texts = (format_number(100.0 * share), format_number(100.0 * share, 15), "more than 99.9999")
    return f"{next(text for text in texts if text != '100' or share >= 1.0)} %"


def short_percent(share: float) -> str:
    """A share as a percentage with two digits, or with as many as it takes not to round it to 100 %.

    >>> short_percent(0.956667), short_percent(0.99996), short_percent(1e-6)
    ('96 %', '99.996 %', 'less than 0.01 %')
    """
    if 0.0 < share < TINY:
        return f"less than {percent(TINY)}"
    rounded = float(f"{share:.2g}") if share < 0.99 else float(f"{share:.4g}")
    return percent(rounded if rounded < 1.0 else share)


def runs(tau: float, noun: str = "runs") -> str:
    """The share 1 - tau of runs in words, such as "9 of 10 runs" or "all but 1e-10 % of runs"; `noun` may be "episodes"."""
    ratio = Fraction(1.0 - tau).limit_denominator(100)
    if 0 < ratio < 1 and abs(ratio - (1.0 - tau)) < 1e-12:  # easier to imagine than a percentage
        return f"half of all {noun}" if ratio == 0.5 else f"{ratio.numerator} of {ratio.denominator} {noun}"
    share = format_number(100.0 * (1.0 - tau))
    return f"all but {format_number(100.0 * tau)} % of {noun}" if share == "100" else f"{share} % of {noun}"


def in_words(seconds: float) -> str:
    """A duration for people.

    >>> in_words(3.2), in_words(75), in_words(4000)
    ('3 s', '1 min 15 s', '1 h 7 min')
    """
    if seconds < 59.5:
        return f"{max(1.0, seconds):.0f} s"
    if seconds < 3599.5:
        return "{} min {} s".format(*divmod(round(seconds), 60))
    return "{} h {} min".format(*divmod(round(seconds / 60), 60))


def clock(elapsed: float, left: float | None) -> str:
    """The time elapsed and, if known, the time left.

    >>> clock(75, None), clock(3, 60)
    ('1 min 15 s elapsed', '3 s elapsed, about 1 min 0 s left')
    """
    return f"{in_words(elapsed)} elapsed" + ("" if left is None else f", about {in_words(left)} left")


def level_name(tau: float) -> str:
    """A level for a file name.

    >>> level_name(0.1)
    '0p1'
    """
    return repr(float(tau)).replace(".", "p").replace("-", "m")


def spread_indices(size: int, points: int, *, log: bool = False) -> NDArray[np.int64]:
    """At most `points` indices below `size`, evenly spread (for `log`, on a logarithmic axis), the first and last included.

    >>> spread_indices(10, 4).tolist(), spread_indices(1000, 4, log=True).tolist()
    ([0, 3, 6, 9], [0, 9, 99, 999])
    """
    count = min(size, points)
    spread = np.geomspace(1.0, size, count) - 1.0 if log else np.linspace(0, size - 1, count)
    return np.unique(spread.round().astype(np.int64))


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; ImportError with the remedy if pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas; install it with: pip install pandas, or use rows()") from None
    return pandas.DataFrame(list(rows))


def sheet_csv(sheet: Iterable[Sequence[Any]], decimal: str = ".") -> bytes:
    r"""A table for people as CSV in UTF-8. A text that a spreadsheet would run as a formula gets an apostrophe.

    With a decimal comma, fields are separated by semicolons, as spreadsheets in such countries expect.

    >>> sheet_csv([["state", "value"], ["=1+1", -2.5], ["-3", None]])
    b"state,value\n'=1+1,-2.5\n-3,\n"
    >>> sheet_csv([["a, b", 2.5]], decimal=",")
    b'a, b;2,5\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n", delimiter=";" if decimal == "," else ",")
    writer.writerows([_in_decimals(guard(cell), decimal) for cell in row] for row in sheet)
    return text.getvalue().encode()


def sheet_bytes(sheet: Sequence[Sequence[Any]], kind: str, decimal: str = ".") -> bytes:
    """A table for people as the bytes of a .csv or an .xlsx file; ImportError with the remedy if openpyxl is not installed."""
    if kind == ".csv":
        return sheet_csv(sheet, decimal)
    try:
        book = import_module("openpyxl").Workbook()
    except ImportError:
        raise ImportError(
            "an .xlsx file needs openpyxl; install it with: pip install openpyxl, or save as .csv"
        ) from None
    file = io.BytesIO()
    for row in sheet:
        book.active.append([guard(cell) for cell in row])
    book.save(file)
    return file.getvalue()


def sheet_cell(cell: Any) -> Any:
    """A number, or a text that is one, with at most six digits; anything else as it is.

    >>> sheet_cell("0.5"), sheet_cell(2 / 3), sheet_cell(700.0), sheet_cell("007"), sheet_cell(None)
    (0.5, 0.666667, 700, '007', None)
    """
    text = cell if isinstance(cell, str) else repr(cell) if isinstance(cell, float) else ""
    if not NUMBER.fullmatch(text) or (text.lstrip("+-").startswith("0") and text.strip("+-0").isdigit()):
        return cell  # ids with leading zeros are names
    found = float(f"{float(text):.6g}")
    return int(found) if found.is_integer() else found


def guard(cell: Any) -> Any:
    """The cell, with an apostrophe before it if it is a formula; numbers are not formulas."""
    formula = isinstance(cell, str) and FORMULA.match(cell) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if formula else cell


def unguard(cell: str) -> str:
    """The text of a cell that `sheet_csv` wrote, without the apostrophe that it added."""
    return cell[1:] if cell[:1] == "'" and FORMULA.match(cell) else cell


def _in_decimals(cell: Any, decimal: str) -> Any:
    """A number that is not whole as text with this decimal sign; other cells unchanged."""
    return repr(cell).replace(".", decimal) if isinstance(cell, float) and decimal != "." else cell


class Watch:
    """Receives progress reports; this class ignores them."""

    def say(self, text: str, detail: int = 0) -> None:
        """Report a line; `detail` -1: a warning, 0: progress, 1: progress if there is no live display, 2: for the log."""

    def phase(self, text: str, total: int | None = None) -> None:
        """Begin a phase of `total` steps."""

    def tick(self) -> None:
        """Count one more step."""

    def track(self, items: Sequence[T], text: str) -> Iterator[T]:
        """The items, counted as steps of a phase; for a single item the phase has no steps."""
        self.phase(text, len(items) if len(items) > 1 else None)
        for item in items:
            yield item
            self.tick()

    def show(self, engine: Any) -> None:
        """Called a few times per second with the `bqrl.study.runner.Engine` of a study."""


class Displayed:
    """An object that a notebook shows as a small table with a small chart."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return views().html(self)


class Tabular(Displayed):
    """An object whose rows also make a data frame."""

    __slots__ = ()

    def rows(self) -> Sequence[Mapping[str, Any]]:
        """The numbers of the object, one dict per row."""
        raise NotImplementedError

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame; requires pandas."""
        return frame(self.rows())


class Charted(Tabular):
    """An object that also has a chart."""

    __slots__ = ()

    def chart(self, *, title: bool | str = True) -> Any:
        """The object as an Altair chart, which can be combined with others; requires the extra "plots".

        Parameters
        ----------
        title
            Whether the chart has its title and subtitle; a text replaces them.

        Returns
        -------
        altair.Chart
            Of a law: the probabilities of the returns. Of a guarantee curve: the best quantile at every level. Of a plan:
            the law of its return, beside the guarantee curve if the planner made one. Of a record: what the policy of each
            episode promises, or the realised returns where the kernel is unknown. Of posterior draws: how often each value of
            the quantile occurs; of acceptability: its curves.

        Examples
        --------
        >>> from bqrl import Law
        >>> bqrl.save(Law([0.0, 1.0], [0.5, 0.5]).chart(), "law.pdf")  # doctest: +SKIP
        """
        return views().draw_chart(self, title=title)
