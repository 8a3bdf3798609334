"""Callbacks for `learn`: one JSON object per episode in a file, or scalars for TensorBoard.

    with JsonLines("episodes.jsonl") as log:
        bqrl.learn(mdp, callback=log)

A callback is any function of the episode and a dict of numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from bqrl.learners.record import Record
from bqrl.mdp.files.atomic import check_place

Callback = Callable[[int, dict[str, Any]], None]  # called with the episode, counted from 0, and its numbers
FLUSH_EVERY = 100  # episodes between two writes for TensorBoard, which reads its files every few seconds


class _Log:
    """A callback that writes to files; leaving a `with` block or calling `close()` closes them."""

    def __call__(self, episode: int, numbers: Mapping[str, Any]) -> None:
        """Write the numbers of one episode."""

    def replay(self, record: Record) -> None:
        """Write every episode of a finished record, as if the run had called this callback."""
        for t, row in enumerate(record.rows()):
            del row["episode"]  # records count episodes from 1, callbacks from 0
            self(t, row | {name: values[t].item() for name, values in record.notes.items()})

    def close(self) -> None:
        """Write what is left and close the files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class JsonLines(_Log):
    """A log with one line {"episode": 0, "return": 1.5, ...} per episode, flushed immediately; NaN becomes null.

    A run that starts at episode 0 overwrites the file. A run that continues from a checkpoint keeps the lines before its
    first episode and removes later ones, so the file is the same as for an uninterrupted run.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_place(self.path)
        self._file = self.path.open("a+b")  # opened now, so that an error is raised before the run
        self._begun = False

    def __call__(self, episode: int, numbers: Mapping[str, Any]) -> None:
        """Write the line of one episode."""
        if not self._begun:
            self._file.truncate(self._end_before(episode))
            self._begun = True
        line = {"episode": int(episode)} | {str(name): _to_plain(value) for name, value in numbers.items()}
        self._file.write(json.dumps(line, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def _end_before(self, episode: int) -> int:
        """Return the position at which the lines of earlier episodes end in the file."""
        self._file.seek(0)
        end = 0
        for line in self._file if episode > 0 else ():
            try:
                if json.loads(line)["episode"] >= episode or not line.endswith(b"\n"):
                    break
            except (ValueError, KeyError, TypeError):
                break
            end += len(line)
        return end

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class TensorBoard(_Log):
    """A log of all numbers of every episode as scalars, in a folder that `tensorboard --logdir` reads.

    It requires the extra "tensorboard", but neither TensorFlow nor PyTorch.
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            from tensorboard.summary import Writer
        except ImportError:
            raise ImportError('this log needs TensorBoard; install it with: pip install "bqrl[tensorboard]"') from None
        self._writer = Writer(str(folder))

    def __call__(self, episode: int, numbers: Mapping[str, Any]) -> None:
        """Write the numbers of one episode that are finite."""
        for name, value in numbers.items():
            if _to_plain(value) is not None:
                self._writer.add_scalar(name, value, episode)
        if (episode + 1) % FLUSH_EVERY == 0:
            self._writer.flush()

    def close(self) -> None:
        """Write what is left and close the files."""
        self._writer.close()


def _to_plain(value: Any) -> Any:
    """Return the value for JSON: a float, or None if it is not finite; other plain values are unchanged."""
    if isinstance(value, (bool, int, str)) or value is None:
        return value
    number = float(value)
    return number if math.isfinite(number) else None
