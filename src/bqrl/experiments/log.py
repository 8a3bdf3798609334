"""The log of a study: what was said, with the time, in a file beside the results."""

from __future__ import annotations

import time
from pathlib import Path

from bqrl.experiments.run import Engine, Watch

LOG = "study.log"


class Logged(Watch):
    """Passes everything on to another watch, and keeps it in the folder's log."""

    def __init__(self, folder: Path, inner: Watch) -> None:
        self.inner = inner
        self._file = (folder / LOG).open("a", encoding="utf-8")

    def say(self, text: str) -> None:
        """A line for everyone."""
        self.note(text)
        self.inner.say(text)

    def step(self, text: str) -> None:
        """Passed on, and kept."""
        self.note(text)
        self.inner.step(text)

    def note(self, text: str) -> None:
        """A line for the log alone; a full disk must not end a study here, for its results are kept elsewhere."""
        try:
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self._file.flush()
        except OSError:
            pass

    def show(self, state: Engine) -> None:
        """Passed on."""
        self.inner.show(state)

    def close(self) -> None:
        """No more lines."""
        try:
            self._file.close()
        except OSError:
            pass
