"""The errors of the library. Each error has its facts as fields, so that callers never parse a message.

Messages are for people and may change; types and fields are stable. All of them are ValueErrors or TypeErrors, so code that
catches those keeps working.
"""

from __future__ import annotations

from typing import Any


class ArgumentError(ValueError):
    """An argument of the right type has a value that is not allowed."""

    def __init__(self, message: str, *, name: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.name, self.value = name, value


class ArgumentTypeError(TypeError):
    """An argument has the wrong type, or no argument of that name exists."""

    def __init__(self, message: str, *, name: str | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.name, self.value = name, value


class ModelError(ValueError):
    """A model is not valid.

    `row` is (stage, state, action) as indices, with stage None for a stationary kernel; `file`, `line` and `column` locate
    the fault in a file; `name` is the argument that would correct it.
    """

    def __init__(
        self, message: str, *, row: tuple[int | None, int, int] | None = None, file: str | None = None,
        line: int | None = None, column: str | None = None, name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.row, self.file, self.line, self.column, self.name = row, file, line, column, name


class FileFormatError(ModelError):
    """A file is damaged or does not hold the expected model, policy, record, checkpoint or log."""


class PolicyError(ValueError):
    """A policy does not fit its problem; `stage`, `state` and `action` say where."""

    def __init__(
        self, message: str, *, stage: int | None = None, state: int | None = None, action: int | None = None
    ) -> None:
        super().__init__(message)
        self.stage, self.state, self.action = stage, state, action


class SizeError(ValueError):
    """The computation or a file would exceed a limit.

    `needed` and `limit` are in the same unit; `name` is the argument or environment variable that sets the limit.
    """

    def __init__(
        self, message: str, *, needed: float | None = None, limit: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(message)
        self.needed, self.limit, self.name = needed, limit, name


class GridError(ValueError):
    """The method requires returns on an exact grid, and this problem has none; `name` is the argument that chose it."""

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class EpisodeError(ValueError):
    """An environment returned a step that is not valid; `episode`, `step` and `value` say which."""

    def __init__(self, message: str, *, episode: int | None = None, step: int | None = None, value: Any = None) -> None:
        super().__init__(message)
        self.episode, self.step, self.value = episode, step, value


class ModelWarning(UserWarning):
    """A model was read, but a part of the input was ignored."""
