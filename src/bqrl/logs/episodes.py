"""Episodes in order: the steps of a log sorted by episode and stage, with successors, ends and checks.

The successor of a step is its next_state or, where that is missing, the state of the following step. After its last step an
episode is either complete ("terminal": it moves to an absorbing state that pays nothing) or cut off ("truncated").
A step whose successor is not known has next_state -1. Steps in a state that is declared absorbing are left out: the episode
is complete when it enters the state, whatever else the log says about its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, choice, exact_text, nearest, one_line
from bqrl.errors import ModelError
from bqrl.logs.read import near_labels, speller
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.columns import Codes, label_text
from bqrl.mdp.files.tables import Columns
from bqrl.mdp.validation import check_horizon

UNKNOWN, ENDED = -1, -2  # successors: not known, and the end of a complete episode without a named last state
TERMINAL_WORDS = {"terminal", "terminated", "done", "true", "1", "yes", "end"}
TRUNCATED_WORDS = {"truncated", "cut", "censored"}
NO_END_WORDS = {"", "0", "false", "no", "none"}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Episodes:
    """The steps of a log in order, one entry per step."""

    columns: Columns
    H: int
    T: int
    row: IntArray  # row of the log, for messages
    episode: IntArray  # 0 .. T - 1
    stage: IntArray  # 0 .. H - 1
    state: IntArray
    action: IntArray
    reward: FloatArray
    next_state: IntArray  # UNKNOWN, ENDED or a state
    last: BoolArray  # the last step of its episode
    truncated: BoolArray  # by episode
    event: Codes | None
    states: tuple[str, ...]
    actions: tuple[str, ...]
    absorbing: BoolArray  # by state: complete episodes end there

    def error(self, i: int, message: str, role: str | None = None, name: str | None = None) -> ModelError:
        """Return a FileFormatError about step `i`; `name` is the argument that would correct it."""
        return self.columns.error(int(self.row[i]), message, role, name=name)

    @property
    def short(self) -> bool:
        """Whether an episode has fewer steps than the horizon and is complete."""
        lengths = np.bincount(self.episode, minlength=self.T)
        return bool(np.any((lengths < self.H) & ~self.truncated))

    @property
    def partly_recorded(self) -> bool:
        """Whether, without a column of ends, next_state shows the successors of some but not all steps of the last stage."""
        codes = self.columns.codes
        if "next_state" not in codes or "end" in codes:
            return False
        recorded = codes["next_state"].code[self.row[self.stage == self.H - 1]] >= 0
        return bool(recorded.any() and not recorded.all())

    @property
    def first_states(self) -> IntArray:
        """First state of every episode."""
        return self.state[np.r_[0, np.flatnonzero(self.last)[:-1] + 1]]

    def returns(self, discount: float) -> FloatArray:
        """Compute the return of every episode that was not cut off."""
        totals = np.bincount(self.episode, self.reward * discount**self.stage, minlength=self.T)
        return np.asarray(totals[~self.truncated], np.float64)

    def cut_returns(self, discount: float, least: FloatArray, most: FloatArray) -> FloatArray:
        """Compute bounds on the return of every episode that was cut off, shape (m, 2).

        They are what it earned plus the least and the most that can still come, given by stage, shape (H,).
        """
        worth = discount ** np.arange(self.H)
        rest = np.array([np.cumsum((worth * end)[::-1])[::-1] for end in (least, most)])  # from each stage on
        earned = np.bincount(self.episode, self.reward * discount**self.stage, minlength=self.T)
        steps = np.bincount(self.episode, minlength=self.T)  # fewer than H, or the episode is complete
        return np.asarray(earned[self.truncated, None] + rest[:, steps[self.truncated]].T, np.float64)


def order_episodes(columns: Columns, horizon: int | None, ends: str | None, absorbing: Any = None) -> Episodes:
    """Check the steps of a log and put them in order; `absorbing` lists states that are never left and pay nothing."""
    if ends is not None:
        choice(ends, "ends", ("terminal", "truncated"))
    codes, declared = columns.codes, _declared_absorbing(columns, absorbing)
    for role in ("episode", "state", "action"):
        missing = np.flatnonzero((codes[role].code < 0) & ~((role == "action") & declared[codes["state"].code]))
        if missing.size:
            remedy = "fill it in or drop the row"
            s = codes["state"].code[missing[0]]
            if role == "action" and np.all(codes["action"].code[codes["state"].code == s] < 0):
                remedy = f"if the state {codes['state'].labels[s]!r} is never left, declare it absorbing"
            raise columns.error(missing[0], f"expected the {role}, got an empty cell; {remedy}", role)
    order = np.argsort(codes["episode"].code, kind="stable")
    if "stage" in codes:
        stages = _stage_numbers(columns)
        order = np.lexsort((stages, codes["episode"].code))
    else:
        _check_together(columns)
    episode = codes["episode"].code[order]
    first = np.r_[True, episode[1:] != episode[:-1]]
    last = np.r_[first[1:], True]
    T = int(first.sum())
    if T < 2:
        raise columns.error(0, "expected many episodes, got one; check the column of episodes", "episode")
    begins = np.flatnonzero(first)
    lengths = np.diff(np.r_[begins, episode.size])
    stage = np.arange(episode.size) - np.repeat(begins, lengths)
    if "stage" in codes:
        _check_stages(columns, stages[order], stage, first, order)
    state = codes["state"].code[order]
    next_state = _successors(columns, order, state, last)
    if declared.any():
        left = _left_out(columns, order, declared[state], first)
        order, episode, state, next_state = order[~left], episode[~left], state[~left], next_state[~left]
        first = np.r_[True, episode[1:] != episode[:-1]]
        last, begins = np.r_[first[1:], True], np.flatnonzero(first)
        lengths = np.diff(np.r_[begins, episode.size])
        stage = np.arange(episode.size) - np.repeat(begins, lengths)
    H = int(lengths.max()) if horizon is None else check_horizon(horizon)
    if lengths.max() > H:
        i = int(np.flatnonzero(stage == H)[0])
        problem = f"expected at most {H} steps per episode, got {lengths.max()}"
        raise columns.error(order[i], f"{problem}; raise horizon or cut every episode", "stage", name="horizon")
    truncated, ended = _ends(columns, ends, order, last, lengths, H)
    absorbed = np.append(declared, False)[next_state[last]]
    truncated, ended = truncated & ~absorbed, ended & ~absorbed
    final_states = declared | _absorbing_states(columns, order, state, next_state, last, ended, "end" in codes)
    over = last & np.repeat(ended, lengths)
    next_state[over & (("end" in codes) | (next_state == UNKNOWN)) & ((stage < H - 1) | (next_state >= 0))] = ENDED
    final = stage == H - 1
    if np.any(next_state[final] == UNKNOWN):
        next_state[final] = UNKNOWN  # counting only the successors that happen to be recorded would be biased
    event = codes.get("event")
    return Episodes(
        columns=columns, H=H, T=T, row=order, episode=np.repeat(np.arange(T), lengths), stage=stage, state=state,
        action=codes["action"].code[order], reward=columns.numbers["reward"][order], next_state=next_state, last=last,
        truncated=truncated, event=None if event is None else Codes(code=event.code[order], labels=event.labels),
        states=tuple(codes["state"].labels), actions=tuple(codes["action"].labels), absorbing=final_states,
    )  # fmt: skip


def _declared_absorbing(columns: Columns, given: Any) -> BoolArray:
    """Return which states are declared absorbing; raise ArgumentError for a name that the log does not show."""
    labels = columns.codes["state"].labels
    found = np.zeros(len(labels), bool)
    if given is None:
        return found
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise bad_type("absorbing", given, "be a list of states")
    spell = speller(labels)
    for label in given:
        text = spell(label_text(label))
        if text not in labels:
            raise bad_value("absorbing", label, "name states of the log", f"{text!r}{near_labels(text, labels)}")
        found[labels.index(text)] = True
    return found


def _left_out(columns: Columns, order: IntArray, absorbed: BoolArray, first: BoolArray) -> BoolArray:
    """Return the steps in absorbing states; raise an error if one of them pays, begins an episode or is left."""
    labels, code = columns.codes["state"].labels, columns.codes["state"].code
    reward = columns.numbers["reward"][order]

    def error(i: int, problem: str, role: str) -> ModelError:
        said = f"{problem} {labels[code[order[i]]]!r}, which is declared absorbing"
        return columns.error(order[i], said, role, name="absorbing")

    begins = np.flatnonzero(absorbed & first)
    if begins.size:
        raise error(begins[0], "expected an episode that begins in another state, got", "state")
    pays = np.flatnonzero(absorbed & (reward != 0.0))
    if pays.size:
        got = f"expected the reward 0, got {exact_text(reward[pays[0]])} in state"
        raise error(pays[0], got, "reward")
    leaves = np.flatnonzero(np.r_[absorbed[:-1] & ~absorbed[1:] & ~first[1:], False])
    if leaves.size:
        raise error(leaves[0], "expected no other state to follow, got one after", "state")
    return absorbed


def _check_together(columns: Columns) -> None:
    """Raise FileFormatError if the rows of an episode are not adjacent; without stages they may be two episodes."""
    codes = columns.codes["episode"]
    begins = np.flatnonzero(np.r_[True, np.diff(codes.code) != 0])
    again = np.setdiff1d(np.arange(begins.size), np.unique(codes.code[begins], return_index=True)[1])
    if again.size:
        row = begins[again[0]]
        got = f"episode {one_line(codes.labels[codes.code[row]])} again after another one"
        remedy = "give each episode an id of its own, or add a column stage"
        raise columns.error(row, f"expected the rows of an episode together, got {got}; {remedy}", "episode")


def _stage_numbers(columns: Columns) -> IntArray:
    """Return the column of stages as whole numbers."""
    codes = columns.codes["stage"]
    numbers = np.array([_whole_number(text) for text in codes.labels] or [-1])
    found = np.where(codes.code < 0, -1, numbers[codes.code])
    bad = np.flatnonzero(found < 0)
    if bad.size:
        text = codes.labels[codes.code[bad[0]]] if codes.code[bad[0]] >= 0 else ""
        remedy = "number the steps of each episode, or rename the column"
        raise columns.error(bad[0], f"expected a whole number, counted from 0 or 1, got {text!r}; {remedy}", "stage")
    return found


def _whole_number(text: str) -> int:
    """Return a text as a whole number; -1 if it is not one, or is larger than any stage."""
    return int(text) if text.isdecimal() and len(text) <= 18 else -1


def _check_stages(columns: Columns, given: IntArray, stage: IntArray, first: BoolArray, order: IntArray) -> None:
    """Raise FileFormatError for gaps and repeats; stages begin at 0 or at 1 in all episodes."""
    base = int(given.min())
    differs = np.flatnonzero(given != stage + base)
    if base > 1:
        raise columns.error(order[0], f"expected stages that begin at 0 or 1, got {base}; renumber them", "stage")
    if differs.size:
        i = int(differs[0])
        problem = f"expected stage {base if first[i] else given[i - 1] + 1}, got {given[i]}"
        repeated = not first[i] and given[i] == given[i - 1]
        remedy = (
            "drop one of the rows, or give each episode an id of its own"
            if repeated
            else "add the missing steps or drop the episode"
        )
        raise columns.error(order[i], f"{problem}; {remedy}", "stage")


def _ends(
    columns: Columns, ends: str | None, order: IntArray, last: BoolArray, lengths: IntArray, H: int
) -> tuple[BoolArray, BoolArray]:
    """Return which episodes were cut off before the horizon, and which ended before it (or at it, if a column says so)."""
    short = lengths < H
    if "end" not in columns.codes:
        cut = short & (ends == "truncated")
        return cut, short & ~cut
    if ends is not None:
        raise bad_value("ends", ends, "not be given if the log has a column for it", remedy="drop one of them")
    codes = columns.codes["end"]
    kind = np.array([*(_end_kind(text) for text in codes.labels), 0])
    found = kind[codes.code][order]
    unknown = np.flatnonzero(found < 0)
    if unknown.size:
        text = codes.labels[codes.code[order[unknown[0]]]]
        hint = nearest(text, ("terminal", "truncated"))
        raise columns.error(order[unknown[0]], f"expected terminal, truncated or empty, got {text!r}{hint}", "end")
    early = np.flatnonzero((found > 0) & ~last)
    if early.size:
        problem = "expected the last step of the episode, got a step that others follow; split it or correct the column"
        raise columns.error(order[early[0]], problem, "end")
    ended = found[last] == 1
    return short & ~ended, ended  # as in Gymnasium, an episode without a terminal end was cut off


def _end_kind(text: str) -> int:
    """Return 0 for no end, 1 for terminal, 2 for truncated, -1 for any other word."""
    word = text.lower()
    return 1 if word in TERMINAL_WORDS else 2 if word in TRUNCATED_WORDS else 0 if word in NO_END_WORDS else -1


def _successors(columns: Columns, order: IntArray, state: IntArray, last: BoolArray) -> IntArray:
    """Return the next state of every step, UNKNOWN if neither its column nor the following step shows it."""
    following = np.where(last, UNKNOWN, np.r_[state[1:], UNKNOWN])
    if "next_state" not in columns.codes:
        return following
    given = columns.codes["next_state"].code[order]
    differs = np.flatnonzero(~last & (given >= 0) & (given != following))
    if differs.size:
        i, labels = int(differs[0]), columns.codes["state"].labels
        problem = (
            f"expected {one_line(labels[following[i]])}, the state of the next step, got {one_line(labels[given[i]])}"
        )
        raise columns.error(order[i], f"{problem}; correct one of them", "next_state")
    return np.where(last, given, following)


def _absorbing_states(
    columns: Columns, order: IntArray, state: IntArray, next_state: IntArray, last: BoolArray, ended: BoolArray,
    by_column: bool,
) -> BoolArray:  # fmt: skip
    """Return the states in which complete episodes end; raise FileFormatError if an episode continues from one of them."""
    S = len(columns.codes["state"].labels)
    found = np.zeros(S, bool)
    if by_column:
        return found
    final = np.flatnonzero(last)[ended]
    named = final[next_state[final] >= 0]
    found[next_state[named]] = True
    acts = np.zeros(S, bool)
    acts[state] = True
    both = found & acts
    if both.any():
        s = int(both.argmax())
        i = int(named[next_state[named] == s][0])
        place = columns.where(int(order[state == s][0]))
        label = repr(columns.codes["state"].labels[s])
        problem = f"expected a state without further steps at the end of an episode, got {label}, from which {place} continues"
        remedy = "declare ends as truncated or add a column end"
        if np.all((next_state[state == s] == s) | (next_state[state == s] == UNKNOWN)):
            remedy = f"if {label} is never left, declare it absorbing, else {remedy}"
        raise columns.error(order[i], f"{problem}; {remedy}", "next_state", name="ends")
    return found
