"""One line on stderr for work of more than two seconds, shown only on a terminal."""

from __future__ import annotations

import sys
import time
from typing import Any

PATIENCE, EVERY = 2.0, 0.5  # seconds before the first line, and between lines


class Progress:
    """Context of a long computation; `say` may be called as often as convenient."""

    def __init__(self, what: str) -> None:
        self.what, self.shown = what, False
        self.watched = sys.stderr is not None and sys.stderr.isatty()
        self.next = time.monotonic() + PATIENCE

    def say(self, text: str) -> None:
        """Show the line if it is time for one."""
        if self.watched and time.monotonic() >= self.next:
            sys.stderr.write(f"\r\x1b[K{self.what}: {text}")
            sys.stderr.flush()
            self.shown, self.next = True, time.monotonic() + EVERY

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *fault: Any) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
