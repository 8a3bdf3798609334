"""Who is informed of the progress of long work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Watch:
    """Listens to studies, comparisons and theory experiments."""

    def say(self, text: str, detail: int = 0) -> None:
        """Report a line: a warning (-1), progress (0), progress where there is no live display (1), or for the log (2)."""

    def phase(self, text: str, total: int | None = None) -> None:
        """What is being done now, and in how many steps."""

    def tick(self) -> None:
        """One more step is done."""

    def track(self, items: Sequence[T], text: str) -> Iterator[T]:
        """The items, one step each; a single one is a phase without steps."""
        self.phase(text, len(items) if len(items) > 1 else None)
        for item in items:
            yield item
            self.tick()

    def show(self, engine: Any) -> None:
        """Called a few times per second with the `bqrl.study.runner.Engine` of a study."""


def in_words(seconds: float) -> str:
    """A duration for people.

    >>> in_words(3.2), in_words(75), in_words(4000)
    ('3 s', '1 min 15 s', '1 h 7 min')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 3599.5:
        return "{} min {} s".format(*divmod(round(seconds), 60))
    return "{} h {} min".format(*divmod(round(seconds / 60), 60))


def clock(elapsed: float, left: float | None) -> str:
    """The time elapsed and, if it is known, the time left.

    >>> clock(75, None), clock(3, 60)
    ('1 min 15 s elapsed', '3 s elapsed, about 1 min 0 s left')
    """
    return f"{in_words(elapsed)} elapsed" + ("" if left is None else f", about {in_words(left)} left")
