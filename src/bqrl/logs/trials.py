"""Steps that may raise a promise: declarations that the caller has not made, and events that could be recorded.

Each trial is a further fit, whose promise is a projection. The log can contradict a declaration, then no promise is projected;
it can never prove one.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bqrl.display import format_number
from bqrl.logs.empirical import END, Declared, Empirical
from bqrl.logs.episodes import UNKNOWN, Episodes
from bqrl.logs.read import rounded_down
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray
from bqrl.mdp.model import MDP

LEVELS, OFTEN = 20, 20  # rewards are rounded to about LEVELS values if they repeat less than OFTEN times on average


class Step(NamedTuple):
    """What the caller can do to raise a promise."""

    words: str
    assumes: bool = True  # whether it is a declaration, which must be true


EVENTS = Step("record the event of every step", assumes=False)


def declarations(log: Episodes, declared: Declared, found: Empirical) -> dict[Step, dict[str, Any]]:
    """Return the declarations that could be added, by what the caller has to do."""
    if declared.model is not None:
        return {}
    steps: dict[Step, dict[str, Any]] = {}
    unit = None if declared.round_rewards is not None else rounding_unit(log.reward)
    if unit is not None:
        low, high = declared.reward_range or (0.0, 0.0)
        ends = (float(rounded_down(np.array([low]), unit)[0]), high) if declared.reward_range else None
        words = f"round rewards down to multiples of {format_number(unit)} (round_rewards)"
        steps[Step(words, assumes=False)] = {"round_rewards": unit, "reward_range": ends}
    listed = list(declared.known or ())
    for s in _never_left(log):
        label, acts = log.states[s], np.unique(log.action[log.state == s]).tolist()
        rows = [(label, log.actions[a], label, 1.0, 0.0) for a in acts]
        steps[Step(f"declare absorbing {label!r}, which no step of the log leaves")] = {"known": [*listed, *rows]}
    if not declared.stationary and log.H > 1:
        steps[Step("declare stationary")] = {"stationary": True}
    if declared.support is None:
        steps[Step("declare support states, that the log shows every state that can occur")] = {"support": "states"}
    if declared.reward_by is None:
        steps[Step("declare reward_by state-action")] = {"reward_by": "state-action"}
    first = np.bincount(log.first_states, minlength=len(log.states)) / log.first_states.size
    if declared.start is None and np.count_nonzero(first) > 1:
        law = {log.states[s]: float(first[s]) for s in np.flatnonzero(first).tolist()}
        steps[Step("declare start, the law of the first state")] = {"start": law}
    for s in _left_open(log, found):
        label = log.states[s]
        paid = {int(a): float(r) for a, r in zip(log.action[log.state == s], log.reward[log.state == s], strict=True)}
        rows = [(label, log.actions[a], END, 1.0, r) for a, r in paid.items()]
        steps[Step(f"declare that state {label!r} ends an episode, if it is never left")] = {"known": [*listed, *rows]}
    return steps


def rounding_unit(rewards: FloatArray) -> float | None:
    """Return a unit with about 20 multiples in the range of rewards that hardly repeat; None if they do repeat.

    >>> rounding_unit(np.linspace(0.0, 1000.0, 400)), rounding_unit(np.arange(400) % 7.0)
    (50.0, None)
    """
    distinct = np.unique(rewards)
    if distinct.size <= LEVELS or rewards.size > OFTEN * distinct.size:
        return None
    size = float(distinct[-1] - distinct[0]) / LEVELS
    power = 10.0 ** math.floor(math.log10(size))
    return float(max(power * digit for digit in (1.0, 2.0, 5.0) if power * digit <= size * (1.0 + 1e-9)))


def _left_open(log: Episodes, found: Empirical) -> list[int]:
    """Return the states in which the log records no successor at all."""
    counted, uncounted = found.tries.sum(axis=(0, 2)), found.uncounted.sum(axis=0)
    return [s for s in range(len(log.states)) if uncounted[s] and not counted[s]]


def _never_left(log: Episodes) -> list[int]:
    """Return the states in which the log records further steps that all stay and pay nothing; no episode begins there."""
    stays, pays = (log.next_state == log.state) | (log.next_state == UNKNOWN), log.reward != 0.0
    left = np.bincount(log.state[~stays | pays], minlength=len(log.states)) > 0
    left[log.first_states] = True
    return [s for s in np.unique(log.state[log.next_state == log.state]).tolist() if not left[s]]


def contradicted(staged: MDP, pooled: MDP, radii: tuple[FloatArray, FloatArray], seen: BoolArray) -> bool:
    """Return whether the frequencies of a stage are farther from the pooled ones than both radii allow.

    With the confidence of the radii, the kernel then changes with the stage. Only rows that the log shows in a stage can tell,
    and not those of the last stage, which records no successors of its own.
    """
    if staged.stationary or not pooled.stationary or staged.S != pooled.S:
        return False
    own, shared = radii
    for h, s, a in np.argwhere(seen[:-1]).tolist():
        here, there = (
            {(int(t), float(r)): float(p) for t, p, r in zip(*mdp.outcomes(h, s, a), strict=True)}
            for mdp in (staged, pooled)
        )
        distance = sum(abs(here.get(key, 0.0) - there.get(key, 0.0)) for key in here.keys() | there.keys())
        if distance > own[h, s, a] + shared[0, s, a] + SUM_TOL:
            return True
    return False
