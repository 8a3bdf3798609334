"""Episodes of reinforcement-learning tools as the columns of a log: Minari datasets and lists of Gymnasium trajectories.

An episode is an object or a dict with `observations` (one more than steps), `actions`, `rewards`, `terminations` and
`truncations`, as Minari's EpisodeData, or a list of steps (observation, action, reward, next_observation, terminated,
truncated). Observations and actions must be discrete: whole numbers, texts, or arrays of whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.mdp.model import MDP

FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")
STEP = "(observation, action, reward, next_observation, terminated, truncated)"


def is_trajectories(log: Any) -> bool:
    """Return whether a log is a Minari dataset or a list of episodes, rather than a table."""
    if callable(getattr(log, "iterate_episodes", None)):
        return True
    if not isinstance(log, (list, tuple)) or not log:
        return False
    first = log[0]
    return _has_fields(first) or (
        isinstance(first, (list, tuple)) and bool(first) and isinstance(first[0], (list, tuple))
    )


def trajectory_columns(log: Any) -> dict[str, list[Any]]:
    """Return the columns of a log, one row per step, from a Minari dataset or a list of episodes.

    >>> steps = [(0, "go", 1.0, 1, False, False), (1, "go", 0.0, 2, True, False)]
    >>> trajectory_columns([steps])["end"]
    ['', 'terminal']
    """
    episodes: Iterable[Any] = log.iterate_episodes() if hasattr(log, "iterate_episodes") else log
    found: dict[str, list[Any]] = {
        name: [] for name in ("episode", "stage", "state", "action", "reward", "next_state", "end")
    }
    for number, episode in enumerate(episodes):
        name = f"log[{number}]"
        steps = _steps_of_fields(episode, name) if _has_fields(episode) else _listed_steps(episode, name)
        for stage, (state, action, reward, after, terminated, truncated) in enumerate(steps):
            end = "terminal" if terminated else "truncated" if truncated else ""
            cells = number, stage, _label(state, name), _label(action, name), float(reward), _label(after, name), end
            for column, cell in zip(found.values(), cells, strict=True):
                column.append(cell)
    return found


def named(columns: dict[str, list[Any]], model: MDP) -> dict[str, list[Any]]:
    """Return the columns with the names that the model gives to its states and actions; environments show their indices."""

    def names(cells: list[Any], size: int, label: Callable[[int], str]) -> list[Any]:
        return [label(int(cell)) if cell.isdecimal() and int(cell) < size else cell for cell in cells]

    found = {role: names(columns[role], model.S, model.state_label) for role in ("state", "next_state")}
    return columns | found | {"action": names(columns["action"], model.A, model.action_label)}


def _has_fields(episode: Any) -> bool:
    """Return whether an episode holds its observations, actions and rewards as fields or keys."""
    names = FIELDS[:3]
    if isinstance(episode, Mapping):
        return all(name in episode and np.ndim(episode[name]) > 0 for name in names)
    return all(hasattr(episode, name) for name in names)


def _steps_of_fields(episode: Any, name: str) -> Iterable[tuple[Any, ...]]:
    """Yield the steps of an episode with fields; without ends, it is taken as cut off."""
    fields: list[Any] = [
        episode.get(key) if isinstance(episode, Mapping) else getattr(episode, key, None) for key in FIELDS
    ]
    seen, actions, rewards, *ends = fields
    for key, column in zip(FIELDS[:3], fields, strict=False):
        if isinstance(column, Mapping) or not hasattr(column, "__len__"):
            raise bad_type(
                f"{name}.{key}", column, "be a list of numbers or texts", type(column).__name__, remedy="discretise them"
            )  # fmt: skip
    length = len(rewards)
    ends = [[False] * length if end is None else end for end in ends]
    sizes = {"observations": (len(seen), length + 1), "actions": (len(actions), length)}
    sizes |= {key: (len(end), length) for key, end in zip(FIELDS[3:], ends, strict=True)}
    for key, (got, wanted) in sizes.items():
        if got != wanted:
            raise bad_value(f"{name}.{key}", got, f"have {wanted} entries for {length} rewards")
    for h in range(length):
        yield seen[h], actions[h], rewards[h], seen[h + 1], bool(ends[0][h]), bool(ends[1][h])


def _listed_steps(episode: Any, name: str) -> Sequence[Any]:
    """Return the steps of an episode that is a list of tuples."""
    if not isinstance(episode, (list, tuple)):
        raise bad_type(name, episode, f"be an episode with {', '.join(FIELDS)}, or a list of steps {STEP}")
    for h, step in enumerate(episode):
        if not isinstance(step, (list, tuple)) or len(step) != 6:
            raise bad_type(f"{name}[{h}]", step, f"be a step {STEP}")
    return episode


def _label(value: Any, name: str) -> str:
    """Return a discrete observation or action as text; raise an error for a continuous one."""
    array = np.asarray(value)
    if array.dtype.kind == "f" and not np.all(array == np.floor(array)):
        raise bad_value(
            name, value, "hold discrete observations and actions", one_line(value), remedy="discretise them"
        )
    if array.ndim == 0 or array.size == 1:
        item = array.reshape(-1)[0] if array.dtype.kind != "O" else value
        return str(int(item)) if array.dtype.kind in "biuf" else str(item)
    if array.dtype.kind in "biuf":
        return ",".join(str(int(x)) for x in array.reshape(-1))
    return str(value)
