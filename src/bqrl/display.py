"""How objects of the library show themselves: data frames, charts, and HTML in notebooks.

What draws them is `bqrl.results.views`, which has one function per class. It is imported here, and only when a chart or HTML
is asked for, so that models and plans do not depend on the code that shows them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any


def views() -> ModuleType:
    """The module `bqrl.results.views`, imported when it is first needed."""
    from bqrl.results import views

    return views


def plural(noun: str) -> str:
    """Several of what a noun names; a noun that ends in s is taken as it is."""
    if noun.endswith("s"):
        return noun
    if re.search("(x|z|ch|sh)$", noun):
        return f"{noun}es"
    return re.sub("(?<=[^aeiou])y$", "ie", noun) + "s"


def counted(noun: str, number: int | None) -> str:
    """A number of things, such as "1 state" or "3 states"."""
    if noun.endswith("s"):
        return f"{number} \N{MULTIPLICATION SIGN} {noun}"
    return f"{number} {noun if number == 1 else plural(noun)}"


def frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Rows as a pandas DataFrame; ImportError with the remedy if pandas is not installed."""
    try:
        import pandas
    except ImportError:
        raise ImportError("to_frame needs pandas; install it with: pip install pandas, or use rows()") from None
    return pandas.DataFrame(list(rows))


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

    def chart(self) -> Any:
        """The object as an Altair chart; requires the extra "plots".

        Returns
        -------
        altair.Chart
            Of a law: the probabilities of the returns. Of a guarantee curve: the best quantile at every level. Of a plan:
            the law of its return, beside the guarantee curve if the planner made one. Of a record: what the policy of each
            episode promises, or the realised returns where the kernel is unknown.

        Examples
        --------
        >>> from bqrl import Law
        >>> Law([0.0, 1.0], [0.5, 0.5]).chart().save("law.html")  # doctest: +SKIP
        """
        return views().draw(self)
