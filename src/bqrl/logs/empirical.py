"""The empirical model of a log whose kernel is not known: its outcomes, their frequencies, and unseen outcomes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, exact_text, number, whole
from bqrl.errors import SizeError
from bqrl.logs.balls import Balls
from bqrl.logs.episodes import ENDED, UNKNOWN, Episodes
from bqrl.logs.read import near_labels, rounded_down, speller
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.columns import label_text
from bqrl.mdp.model import MDP
from bqrl.mdp.table import from_columns

END, UNSEEN = "(end)", "(unseen)"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Empirical:
    """An empirical model with its balls, and the range of its returns."""

    mdp: MDP
    balls: Balls
    tries: IntArray  # (K, S, A)  steps of the log that count towards each row
    uncounted: IntArray  # (K, S)  steps of the log that count towards no row
    floor: float  # the lowest possible return; -inf if unseen outcomes are modelled by a return below all others
    lowest: float  # the lowest of the other returns
    events: tuple[IntArray, ...] = ()  # counts of the events of each shared law


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Declared:
    """What the caller of `fit` declares about the problem."""

    start: Any
    stationary: bool
    model: MDP | None
    known: Any
    support: Any
    reward_range: tuple[float, float] | None
    reward_by: str | None
    absorbing: Any = None
    round_rewards: float | None = None


def empirical(log: Episodes, declared: Declared, *, delta: float, discount: float) -> Empirical:
    """Return the empirical model of a log whose kernel is not known beforehand."""
    listed = _OutcomeList(log, declared)
    listed.add_known()
    if declared.support is None:
        listed.add_seen()
    else:
        listed.add_supported()
    return listed.finish(declared.start, discount, delta, free=declared.support is None)


class _OutcomeList:
    """The outcomes of an empirical model, collected row by row."""

    def __init__(self, log: Episodes, declared: Declared) -> None:
        self.log, self.range, self.by_row = log, declared.reward_range, declared.reward_by == "state-action"
        self.unit = declared.round_rewards
        self.pooled = declared.stationary and log.H > 1
        self.H, self.K = log.H, 1 if self.pooled else log.H
        self.known_rows = list(_tuples(declared.known, "known", (5, 6)))
        every = isinstance(declared.support, str)  # all states of the log
        self.possible_rows = None if every else list(_tuples(declared.support, "support", (3, 4)))
        self._spell = speller(log.states), speller(log.actions)
        self.states, self.actions = self._labels(declared.start)
        self.S, self.A = len(self.states) + 2, len(self.actions)
        self.end, self.unseen = self.S - 2, self.S - 1
        self._check_size()
        self.parts: list[tuple[Any, ...]] = []  # (k, s, a, s', p, r) arrays
        final = log.stage == self.H - 1
        successor = self._successors(final, declared.support)
        self.counts = successor != UNKNOWN
        if not self.counts.any():
            raise log.error(0, "expected the successor of a step, got none; add the column next_state", "next_state")
        k = 0 if self.pooled else log.stage
        self.row_of_step = row = (k * self.S + log.state) * self.A + log.action
        self.uncounted = np.bincount(row[~self.counts] // self.A, minlength=self.K * self.S)
        self.after = np.where(final & (not self.pooled), UNKNOWN, successor)  # the successor that a step shows
        self._check_range()
        if self.by_row:
            self._check_row_rewards(row)
        row, reward, successor = row[self.counts], log.reward[self.counts], successor[self.counts]
        self.step = np.flatnonzero(self.counts)
        order = np.lexsort((reward, successor, row))
        row, successor, reward = row[order], successor[order], reward[order]
        new = np.r_[True, (np.diff(row) != 0) | (np.diff(successor) != 0) | (np.diff(reward) != 0)]
        at = np.flatnonzero(new)
        self.row, self.successor, self.reward = row[at], successor[at], reward[at]
        self.n = np.diff(np.r_[at, row.size])
        self.first = self.step[order[at]]  # a step that shows the outcome
        self.visits = np.bincount(row, minlength=self.K * self.S * self.A)
        self.outcomes = np.zeros_like(self.visits)
        self.known = np.zeros(self.visits.size, bool)

    def _labels(self, start: Any) -> tuple[list[str], list[str]]:
        """Return the states and actions of the log, followed by those that only the declarations name."""
        listed = [item[-5:-2] for _, item in self.known_rows] + [item[:3] for _, item in self.possible_rows or ()]
        states = [self._spell[0](label_text(label)) for s, _, s_next in listed for label in (s, s_next)]
        states += [self._spell[0](label_text(label)) for label in (start if isinstance(start, dict) else ())]
        actions = [self._spell[1](label_text(a)) for _, a, _ in listed]
        added = [text for text in states if text not in ("", END)], [text for text in actions if text]
        return list(dict.fromkeys((*self.log.states, *added[0]))), list(dict.fromkeys((*self.log.actions, *added[1])))

    def _successors(self, final: BoolArray, support: Any) -> IntArray:
        """Return the successor of every step, UNKNOWN if the step does not count.

        An end mark at the last stage may only mean that the horizon was reached, which is not an outcome. If stages are
        pooled and the log has end marks, no step of the last stage counts, marked or not: a choice that depends on outcomes
        would be biased. If the listed transitions of a row do not include an end, the mark means the horizon, and the next
        state counts.
        """
        log, successor = self.log, self.log.next_state.copy()
        successor[successor == ENDED] = self.end
        marked = np.flatnonzero(final & (successor == self.end))
        if self.pooled:
            successor[final & ("end" in log.columns.codes)] = UNKNOWN
        elif support is None or self.by_row:
            successor[final] = self.end  # what follows the last stage does not matter
        elif np.any(successor[final] == UNKNOWN):
            rule = "be given with next_state at the last stage or with reward_by"
            raise bad_value("support", support, rule, "a log without them", remedy="add the column")
        elif self.possible_rows and marked.size:  # which have a next_state
            ends = {row for row, outcomes in self._possible().items() if any(s == self.end for s, _ in outcomes)}
            named = log.columns.codes["next_state"].code[log.row]
            at = [i for i in marked.tolist() if (log.state[i], log.action[i]) not in ends]
            successor[at] = named[at]
        return successor

    def _check_size(self) -> None:
        """Raise SizeError if rows that the log does not show would fill the memory."""
        rows, limit = self.K * self.S * self.A, max(2**24, 100 * self.log.state.size)
        if rows > limit:
            rule = f"horizon must allow at most {limit} rows (stage, state, action)"
            remedy = "lower it or declare stationary=True"
            raise SizeError(f"{rule}, got {rows}; {remedy}", needed=rows, limit=limit, name="horizon")

    def _check_row_rewards(self, row: IntArray) -> None:
        """Raise FileFormatError if two steps of one row have different rewards, whether they count or not."""
        reward = self.log.reward
        order = np.lexsort((reward, row))
        differ = np.flatnonzero((np.diff(row[order]) == 0) & (np.diff(reward[order]) != 0))
        if differ.size:
            i, other = order[differ[0] + 1], reward[order[differ[0]]]
            rule = f"expected the reward {exact_text(other)} as elsewhere for this state and action"
            raise self.log.error(i, f"{rule}, got {exact_text(reward[i])}; drop reward_by", "reward", "reward_by")

    def _check_range(self) -> None:
        """Raise FileFormatError if a reward lies outside the stated range, whether its step counts or not."""
        if self.range is not None:
            low, high = self.range
            outside = np.flatnonzero((self.log.reward < low) | (self.log.reward > high))
            if outside.size:
                i = outside[0]
                rule = f"expected a reward from {exact_text(low)} to {exact_text(high)}, as reward_range says"
                raise self.log.error(
                    i, f"{rule}, got {exact_text(self.log.reward[i])}; widen it", "reward", "reward_range"
                )

    @property
    def floor(self) -> float:
        """The lowest reward per stage after an unseen outcome: the lower end of the range, or 0 if lower, as episodes may end."""
        if self.range is None:
            largest = max(float(np.abs(r).max(initial=0.0)) for r in (self.reward, *(part[5] for part in self.parts)))
            return -(2.0 * self.H + 1.0) * (largest or 1.0)  # makes the return lower than every other
        return min(self.range[0], 0.0)

    def _row(self, k: int, s: int, a: int) -> int:
        return (k * self.S + s) * self.A + a

    def add_known(self) -> None:
        """Add the rows that the caller knows exactly: ([stage,] state, action, next_state, probability, reward)."""
        parts: dict[int, list[tuple[int, float, float]]] = {}
        for name, item in self.known_rows:
            *stage, s, a, s_next, p, r = item
            ks = range(self.K) if not stage else [self._stage(stage[0], name)]
            paid = number(p, f"{name}[{len(item) - 2}]", 0.0), self._paid(r, f"{name}[{len(item) - 1}]")
            for k in ks:
                row = self._row(k, self._state(s, "known"), self._action(a, "known"))
                parts.setdefault(row, []).append((self._state(s_next, "known"), *paid))
        for row, outcomes in parts.items():
            total = sum(p for _, p, _ in outcomes)
            if abs(total - 1.0) > SUM_TOL:
                s, a = self.states[row // self.A % self.S], self.actions[row % self.A]
                got = f"{total:.12g} in state {s!r}, action {a!r}"
                raise bad_value("known", total, "list probabilities that sum to 1", got)
            for s_next, p, r in outcomes:
                self._add(row, s_next, p, r)
            self.known[row], self.outcomes[row] = True, len(outcomes)
        possible = {
            (row, after, r)
            for row, outcomes in parts.items()
            for s_next, p, r in outcomes
            for after in (s_next, UNKNOWN)
            if p > 0
        }
        for i in np.flatnonzero(self.known[self.row_of_step]).tolist():  # including steps that do not count
            if (self.row_of_step[i], self.after[i], self.log.reward[i]) not in possible:
                after, got = self.after[i], f"the reward {exact_text(self.log.reward[i])}"
                got += "" if after == UNKNOWN else f" and {[*self.states, END][after]!r}"
                fault = f"expected an outcome that known lists, got {got}; correct known or the log"
                raise self.log.error(i, fault, "reward" if after == UNKNOWN else "next_state")

    def add_seen(self) -> None:
        """Add the outcomes that the log shows, and one unseen outcome per row."""
        if self.range is None and not self.by_row:
            rule = "be given, because unseen outcomes are assumed to pay its lower end"
            remedy = "give it, or declare support or reward_by"
            raise bad_value("reward_range", None, rule, remedy=remedy)
        use = ~self.known[self.row]
        row, successor, reward, n = self.row[use], self.successor[use], self.reward[use], self.n[use]
        self._append(row, successor, n / self.visits[row], reward)
        self.outcomes += np.bincount(row, minlength=self.visits.size)
        seen, first = np.unique(row, return_index=True)
        entry = reward[first] if self.by_row or self.range is None else np.full(seen.size, self.range[0])
        if self.by_row and not self.pooled:  # at the last stage the reward is all that matters, and it is known
            final = seen // (self.S * self.A) == self.H - 1
            self.known[seen[final]] = True
            seen, entry = seen[~final], entry[~final]
        self._append(seen, np.full(seen.size, self.unseen), np.zeros(seen.size), entry)

    def add_supported(self) -> None:
        """Add the possible outcomes of the rows that the log shows."""
        possible = self._possible()
        shown_of: dict[int, dict[tuple[int, float], int]] = {}  # by row: the place of each outcome
        for i, (row, s_next, r) in enumerate(
            zip(self.row.tolist(), self.successor.tolist(), self.reward.tolist(), strict=True)
        ):
            if not self.known[row]:
                shown_of.setdefault(row, {})[s_next, r] = i
        for row, shown_here in shown_of.items():
            k, s, a = row // (self.S * self.A), row // self.A % self.S, row % self.A
            final = not self.pooled and k == self.H - 1 and self.by_row
            outcomes = ((self.end, None),) if final else possible.get((s, a), ())
            for (s_next, r), i in shown_here.items():
                fits = [one for one in outcomes if one[0] == s_next and one[1] in (None, r)]
                same = [paid for other, paid in shown_here if other == s_next]
                if not fits:
                    got: tuple[Any, ...] = self.states[s], self.actions[a], [*self.states, END][s_next]
                    role = "reward" if any(one[0] == s_next for one in outcomes) else "next_state"
                    got += (r,) if role == "reward" else ()
                    problem = f"expected an outcome that support lists, got {got}; add it to support or correct the log"
                    raise self.log.error(self.first[i], problem, role)
                if fits[0][1] is None and len(same) > 1:
                    problem = (
                        f"expected one reward per transition, got {exact_text(same[0])} and {exact_text(same[1])}; "
                        "list them in support as (state, action, next_state, reward)"
                    )
                    raise self.log.error(self.first[i], problem, "reward")
            by_state = {s_next: r for s_next, r in shown_here}
            listed = []
            for s_next, r in outcomes:
                paid = by_state.get(s_next) if r is None else r
                if paid is None:
                    paid = next(iter(by_state.values())) if self.by_row else self._lowest(row)
                i = shown_here.get((s_next, paid), -1)
                listed.append((s_next, self.n[i] / self.visits[row] if i >= 0 else 0.0, paid))
            s_next, p, r = (np.array(column) for column in zip(*listed, strict=True))
            self._append(np.full(len(listed), row), s_next, p, r)
            self.outcomes[row] = len(outcomes)
            self.known[row] = len(outcomes) == 1

    def _possible(self) -> dict[tuple[int, int], Any]:
        """Return the possible outcomes (next state, reward or None) of every (state, action)."""
        if self.possible_rows is None:
            ends = bool(np.any(self.log.next_state == ENDED))
            every = tuple((s, None) for s in range(len(self.states) + ends))  # "(end)" follows the states
            return {(s, a): every for s in range(self.S) for a in range(self.A)}
        found: dict[tuple[int, int], dict[Any, None]] = {}
        for name, item in self.possible_rows:
            s, a, s_next, *r = item
            row, after = (self._state(s, "support"), self._action(a, "support")), self._state(s_next, "support")
            paid = self._paid(r[0], f"{name}[3]") if r else None
            here = found.setdefault(row, {})
            if any(other == after and (pay is None) != (paid is None) for other, pay in here):
                remedy = f"give {name} in the form of the others"
                raise bad_value("support", item, "list a transition with rewards or without", "both", remedy=remedy)
            here[after, paid] = None
        return {row: tuple(outcomes) for row, outcomes in found.items()}

    def _lowest(self, row: int) -> float:
        if self.range is None:
            s, a = self.states[row // self.A % self.S], self.actions[row % self.A]
            rule = f"be given, because a supported transition of state {s!r}, action {a!r} was never seen"
            remedy = "give it, list rewards in support, or declare reward_by"
            raise bad_value("reward_range", None, rule, remedy=remedy)
        return self.range[0]

    def _add(self, row: int, s_next: int, p: float, r: float) -> None:
        self._append(np.array([row]), np.array([s_next]), np.array([p]), np.array([r]))

    def _append(self, row: IntArray, s_next: IntArray, p: FloatArray, r: FloatArray) -> None:
        k, s, a = row // (self.S * self.A), row // self.A % self.S, row % self.A
        self.parts.append((k, s, a, s_next, p, r))

    def finish(self, start: Any, discount: float, delta: float, *, free: bool) -> Empirical:
        """Return the model, with absorbing states, and with the worst outcome where nothing is known."""
        miss = self.floor / discount ** (self.H - 1) if self.range is None else self.floor
        listed = np.zeros((self.K, self.S), bool)
        for k, s, *_ in self.parts:
            listed[k, s] = True
        absorbing = np.flatnonzero(np.r_[self.log.absorbing, np.zeros(self.S - self.log.absorbing.size, bool)])
        for s in (*absorbing.tolist(), self.end):
            self._fill(np.flatnonzero(~listed[:, s]), s, s, 0.0)
            listed[:, s] = True
        lost = self.end if self.range is None else self.unseen  # without a range, one lowest reward suffices
        for s in np.flatnonzero(~listed.all(axis=0)).tolist():
            self._fill(np.flatnonzero(~listed[:, s]), s, lost, miss)
        k, s, a, s_next, p, r = (np.concatenate([np.asarray(part[i]) for part in self.parts]) for i in range(6))
        table, H = from_columns(
            k, s, a, s_next, p, r, self.H, staged=not self.pooled, S=self.S, A=self.A, keep_zeros=True
        )  # fmt: skip
        shape = (self.K, self.S, self.A)
        mdp = MDP.from_table(
            table, H, _first_law(self, start), discount, known=self.known.reshape(shape),
            state_names=[*self.states, *_free_names(self.states)], action_names=self.actions,
        )  # fmt: skip
        visits = self.visits.reshape(shape)
        known = self.known.reshape(shape) | (mdp.known & mdp.available)
        open_rows = int(np.count_nonzero((visits > 0) & ~known))
        most = np.zeros(self.visits.size)
        np.maximum.at(most, self.row, self.n)
        rows = self.K * len(self.states) * self.A * (self.A + 1 if self.possible_rows is None else 1)
        balls = Balls(
            visits=visits, outcomes=self.outcomes.reshape(shape), most=most.reshape(shape), known=known, free=free,
            seen=np.bincount(self.row, minlength=self.visits.size).reshape(shape), delta=delta,
            rows=max(1, open_rows) if free else rows,
        )  # fmt: skip
        worth = float(np.sum(discount ** np.arange(self.H)))
        size = float(np.abs(r[r > miss]).max()) if np.any(r > miss) else 0.0
        return Empirical(
            mdp=mdp, balls=balls, tries=visits, uncounted=self.uncounted.reshape(self.K, self.S), lowest=-worth * size,
            floor=-math.inf if self.range is None else self.range[0] + (worth - 1.0) * self.floor,
        )  # fmt: skip

    def _fill(self, ks: IntArray, s: int, s_next: int, r: float) -> None:
        """Give action 0 of state `s` a single outcome at the stored stages `ks`."""
        row = (ks * self.S + s) * self.A
        self._append(row, np.full(ks.size, s_next), np.ones(ks.size), np.full(ks.size, r))

    def _paid(self, given: Any, name: str) -> float:
        """Return a declared reward, rounded as those of the log are; like those it must lie in the stated range."""
        paid = number(given, name)
        paid = paid if self.unit is None else float(rounded_down(np.array([paid]), self.unit)[0])
        if self.range is not None and not self.range[0] <= paid <= self.range[1]:
            low, high = map(exact_text, self.range)
            raise bad_value(
                name, given, f"be from {low} to {high}, the range of the rewards", remedy="widen reward_range"
            )
        return paid

    def _state(self, label: Any, name: str) -> int:
        text = self._spell[0](label_text(label))
        return self.end if text == END and END not in self.states else _place(text, self.states, name, "states")

    def _action(self, label: Any, name: str) -> int:
        return _place(self._spell[1](label_text(label)), self.actions, name, "actions")

    def _stage(self, given: Any, name: str) -> int:
        if self.pooled:
            raise bad_value(
                "known", given, "not name stages if stationary=True", f"stage {given!r}", remedy="drop them"
            )
        return whole(given, f"{name}[0]", 0, self.H - 1)


def _place(text: str, labels: list[str], name: str, what: str) -> int:
    """Return the index of a label of the log; raise ArgumentError if it is not there."""
    if text not in labels:
        raise bad_value(name, text, f"name {what} of the log", f"{text!r}{near_labels(text, labels)}")
    return labels.index(text)


def _free_names(taken: list[str]) -> list[str]:
    """Return names for the two added states that no state of the log has."""
    names = []
    for name in (END, UNSEEN):
        while name in taken:
            name = f"({name})"
        names.append(name)
    return names


def _tuples(given: Any, name: str, sizes: tuple[int, ...]) -> Iterable[tuple[str, tuple[Any, ...]]]:
    """Yield the items of a list of tuples, each with its name for messages; nothing for None."""
    if given is None:
        return
    if isinstance(given, (str, dict)) or not isinstance(given, Iterable):
        raise bad_type(name, given, "be a list of tuples")
    for i, item in enumerate(given):
        if not isinstance(item, (tuple, list)) or len(item) not in sizes:
            raise bad_type(name, item, f"hold tuples of {sizes[0]} or {sizes[1]} entries")
        yield f"{name}[{i}]", tuple(item)


def _first_law(listed: _OutcomeList, start: Any) -> FloatArray:
    """Return the law of the first state, as given or as observed."""
    mu = np.zeros(listed.S)
    if start is None:
        first = listed.log.first_states
        return np.asarray(np.bincount(first, minlength=listed.S) / first.size)
    for label, p in start.items() if isinstance(start, dict) else [(start, 1.0)]:
        mu[listed._state(label, "start")] = number(p, f"start[{label!r}]", 0.0)
    if abs(mu.sum() - 1.0) > SUM_TOL:
        raise bad_value("start", start, "be a state or {state: probability} that sums to 1")
    return mu
