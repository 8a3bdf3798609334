"""`bqrl.fit_counts`: from a table of transition counts, as in a trial or a paper, to an estimate with promises.

Each row (state, action) was observed n times, independently, and n was fixed beforehand. The number of draws that hit a set of
outcomes is then binomial, and exact limits apply (`bqrl.logs.binomial`). With two successors these are the two-sided limits
of Clopper and Pearson; with more, the limits of all sets of successors share the error probability. A union over the R rows
that are not known gives each row delta / R.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, choice, exact_text, nearest, number
from bqrl.logs.balls import Balls
from bqrl.logs.estimate import POOLED, Estimate
from bqrl.logs.fit import CONFIDENCE
from bqrl.logs.known_rows import known_rows
from bqrl.logs.read import near_labels, speller
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.columns import COUNTS, REWARDS, Codes, label_text
from bqrl.mdp.files.sources import is_frame
from bqrl.mdp.files.tables import Columns, read_table
from bqrl.mdp.model import MDP
from bqrl.mdp.outcomes import check_outcomes
from bqrl.mdp.table import from_columns
from bqrl.mdp.validation import check_discount, check_horizon
from bqrl.planners.robust import lowest_return

Pay = Callable[[str, str, str], float]


def fit_counts(
    table: Any, rewards: Any = None, *, horizon: int, confidence: float = CONFIDENCE,
    columns: Mapping[str, str] | None = None, start: Any = None, discount: float = 1.0, absorbing: Iterable[Any] = (),
    known: Any = None, support: str = "listed", outcomes: Mapping[str, Any] | None = None,
) -> Estimate:  # fmt: skip
    """Estimate a model from transition counts, with exact confidence sets for fixed sample sizes.

    Parameters
    ----------
    table : str, Path, frame or mapping
        A file, frame or dict with the columns state, action, next_state and count, and reward unless `rewards` is given.
        Lines with the same transition add up; a count of 0 declares a transition that is possible.
    rewards : mapping, callable, file or frame, optional
        Known rewards: {(state, action): reward}, {(state, action, next_state): reward} or {state: reward}; a function
        f(state, action, next_state); or a table with the columns state, action, reward and optionally next_state. Further
        columns of this table, named "outcome:cost" for example, are further outcomes.
    horizon : int
        Number of stages.
    confidence : float
        Probability in (0, 1) with which all promises of the estimate hold.
    columns : mapping, optional
        Header of each role whose column has another name.
    start : label or {label: probability}, optional
        The first state or its law; by default the first state of the table that is not absorbing.
    discount : float
        Discount per stage, in (0, 1].
    absorbing : list of labels
        States that are never left and pay nothing; their lines may have an empty action and are left out.
    known : list of tuples, file or frame, optional
        Rows known exactly: (state, action, next_state, probability, reward).
    support : "listed" or "states"
        Which successors a row may have: those that the table lists for it, or every state, which may lower the promise; a note
        of the plan then says so.
    outcomes : mapping, optional
        Further outcomes by name, such as {"cost": {("Well", "treat"): 900.0}}, each a dict or a function as in `rewards`; 0
        in absorbing states. `estimate.acceptability` compares strategies by them.

    Returns
    -------
    Estimate
        The empirical model, its counts and radii; `solve` plans on it, and `psa` draws from the posterior.

    Examples
    --------
    >>> trial = {"state": ["Well"] * 2, "action": ["treat"] * 2, "next_state": ["Well", "Dead"], "count": [980, 20]}
    >>> estimate = fit_counts(trial, {"Well": 1.0}, horizon=5, absorbing=["Dead"])
    >>> estimate.solve(tau=0.2).value
    5.0
    """
    confidence, discount = number(confidence, "confidence", 0.0, 1.0, "()"), check_discount(discount)
    H = check_horizon(horizon)
    choice(support, "support", ("listed", "states"))
    read = read_table(table, COUNTS, columns)
    counted = _Counted(read, absorbing, known_rows(known), support)
    pay, further = _reward_functions(read, rewards)
    counted.pay(pay)
    counted.pay_further(further | {k: _paid_by(v, f"outcomes[{k!r}]") for k, v in check_outcomes(outcomes).items()})
    mdp, balls = counted.finish(H, start, discount, 1.0 - confidence)
    lowest = lowest_return(mdp)
    listed = partial(
        fit_counts, table, rewards, horizon=H, confidence=confidence, columns=columns, start=start, discount=discount,
        absorbing=[counted.states[s] for s in counted.absorbing], known=known, outcomes=outcomes,
    )  # fmt: skip
    return Estimate(
        mdp=mdp, balls=balls, confidence=confidence, returns=np.empty(0), assumptions=counted.assumptions(start, H),
        episodes=0, steps=int(balls.visits.sum()), tries=balls.visits, uncounted=np.zeros((1, mdp.S), np.int64),
        start_atoms=0, floor=lowest, lowest=lowest, added=(), adaptive=True,  # there is no old policy
        refits={"support": listed} if support == "states" else {},
    )  # fmt: skip


class _Counted:
    """The transitions of a table of counts, of the known rows and of absorbing states."""

    def __init__(self, read: Columns, absorbing: Any, known: Any, support: str) -> None:
        self.read, self.support, self.known = read, support, known or []
        self.further: dict[str, FloatArray] = {}  # by line: counted ones, then known ones
        if isinstance(absorbing, (str, bytes)) or not isinstance(absorbing, Iterable):
            raise bad_type("absorbing", absorbing, "be a list of states")
        n = read.numbers["count"]
        bad = np.flatnonzero(~((n >= 0) & (n == np.floor(n)) & (n < 2**53)))
        if bad.size:
            got = exact_text(float(n[bad[0]]))
            raise read.error(bad[0], f"expected a count, a whole number of at least 0, got {got}; correct it", "count")
        self.states, self.actions = ([text for text in read.codes[role].labels if text] for role in ("state", "action"))
        spell = speller(self.states), speller(self.actions)
        for item in self.known:
            if not isinstance(item, tuple) or len(item) != 5:
                raise bad_type("known", item, "hold tuples (state, action, next_state, probability, reward)")
            for label in (item[0], item[2]):
                text = spell[0](label_text(label))
                self.states += [text] if text not in self.states else []
            text = spell[1](label_text(item[1]))
            self.actions += [text] if text not in self.actions else []
        self.S, self.A = len(self.states), len(self.actions)
        self.absorbing = [self._state(label, "absorbing") for label in absorbing]
        paid = read.numbers.get("reward", np.full(n.size, np.nan))
        key = np.stack([_places(read.codes[role]) for role in ("state", "action", "next_state")], axis=1)
        use = np.flatnonzero(~self._stays(key, n, paid))
        for i, role in enumerate(("state", "action", "next_state")):
            empty = use[key[use, i] < 0]
            if empty.size:
                remedy = "fill it in"
                if role == "action":
                    remedy = f"if the state {self.states[key[empty[0], 0]]!r} is never left, declare it absorbing"
                raise read.error(empty[0], f"expected the {role}, got an empty cell; {remedy}", role)
        key, n, paid = key[use], n[use], paid[use]
        if not n.any():
            raise read.error(0, "expected counts, got only zeros; fill them in", "count")
        lines, inverse = np.unique(np.c_[key, paid], axis=0, return_index=True, return_inverse=True)[1:]
        self.line, (self.s, self.a, self.s_next) = use[lines], key[lines].T
        self.n, self.r = np.bincount(inverse.reshape(-1), n).astype(np.int64), paid[lines]
        if support == "states":
            self._add_states()
        self._check_left()

    def _state(self, label: Any, name: str) -> int:
        text = speller(self.states)(label_text(label))
        if text not in self.states:
            raise bad_value(name, label, "name states of the table", f"{text!r}{near_labels(text, self.states)}")
        return self.states.index(text)

    def _start(self, given: Any) -> int:
        """Return the first state, by default the first one of the table that is left."""
        return int(self.s.min()) if given is None else self._state(given, "start")

    def _stays(self, key: IntArray, n: FloatArray, paid: FloatArray) -> BoolArray:
        """Return which lines begin in absorbing states; raise an error if one of them leaves its state or pays."""
        read, s = self.read, key[:, 0]
        inside = np.isin(s, self.absorbing)
        left = np.flatnonzero(inside & (key[:, 2] != s) & (key[:, 2] >= 0) & (n > 0))
        if left.size:
            got = f"counts from {self.states[s[left[0]]]!r}"
            rule = f"expected no counts that leave an absorbing state, got {got}; drop one of them"
            raise read.error(left[0], rule, "state")
        pays = np.flatnonzero(inside & (paid != 0.0) & ~np.isnan(paid))
        if pays.size:
            rule = f"expected the reward 0 in an absorbing state, got {exact_text(paid[pays[0]])}; correct it"
            raise read.error(pays[0], rule, "reward")
        return inside

    def _add_states(self) -> None:
        """Add the transitions to every state that the table does not list, with count 0."""
        listed = {*zip(self.s.tolist(), self.a.tolist(), self.s_next.tolist(), strict=True)}
        rows = {(s, a) for s, a, _ in listed}
        more = sorted((s, a, t) for s, a in rows for t in range(self.S) if (s, a, t) not in listed)
        if more:
            added = np.array(more).T
            self.s, self.a, self.s_next = np.c_[np.array([self.s, self.a, self.s_next]), added]
            self.n, self.r = np.r_[self.n, np.zeros(len(more), np.int64)], np.r_[self.r, np.full(len(more), np.nan)]
            self.line = np.r_[self.line, np.full(len(more), -1)]

    def _check_left(self) -> None:
        """Raise an error about a state that is entered but has no rows, with the declarations that would complete it."""
        known = {self._state(item[0], "known") for item in self.known}
        left = {*self.s.tolist(), *known, *self.absorbing}
        open_ones = [s for s in range(self.S) if s not in left]
        if open_ones:
            label = self.states[open_ones[0]]
            rule = f"name {label!r} if it is never left, because the table has no counts from it"
            given = ", ".join(self.states[s] for s in self.absorbing) or "none"
            others = [self.states[s] for s in sorted(left)]
            remedy = f"or add its counts{nearest(label, others, listed=False)}"
            raise bad_value("absorbing", [], rule, given, remedy=remedy)

    def pay(self, pay: Pay | None) -> None:
        """Set the rewards that the table does not give."""
        for i in np.flatnonzero(np.isnan(self.r)).tolist():
            names = self.states[self.s[i]], self.actions[self.a[i]], self.states[self.s_next[i]]
            if pay is None:
                given = "reward" in self.read.numbers
                problem = f"give the reward of {names}, which {'has no count' if given else 'the table does not hold'}"
                raise bad_value("rewards", None, problem, "none", remedy="pass rewards or add a column reward")
            self.r[i] = number(pay(*names), f"the reward of {names}")

    def pay_further(self, outcomes: Mapping[str, Pay]) -> None:
        """Set the further outcomes of the transitions, the known ones after the counted ones."""
        rows = zip(self.s, self.a, self.s_next, strict=True)
        names = [(self.states[s], self.actions[a], self.states[t]) for s, a, t in rows]
        names += [(label_text(s), label_text(a), label_text(t)) for s, a, t, *_ in self.known]
        for key, pay in outcomes.items():
            self.further[key] = np.array([number(pay(*one), f"the outcome {key!r} of {one}") for one in names])

    def finish(self, H: int, start: Any, discount: float, delta: float) -> tuple[MDP, Balls]:
        """Return the empirical model and its balls."""
        row = self.s * self.A + self.a
        visits = np.bincount(row, self.n, self.S * self.A).astype(np.int64)
        outcomes = np.bincount(row, minlength=visits.size)
        p = np.where(visits[row] > 0, self.n / np.maximum(visits[row], 1), 1.0 / np.maximum(outcomes[row], 1))
        parts: list[tuple[Any, ...]] = [(self.s, self.a, self.s_next, p, self.r)]
        known = np.zeros(visits.size, bool)
        for s, a, s_next, q, r in self.known:
            place = self._state(s, "known"), self.actions.index(speller(self.actions)(label_text(a)))
            known[place[0] * self.A + place[1]] = True
            parts.append(
                (*([x] for x in place), [self._state(s_next, "known")], [number(q, "known", 0.0)], [number(r, "known")])
            )
        both = np.flatnonzero(known[row])
        if both.size:
            names = self.states[self.s[both[0]]], self.actions[self.a[both[0]]]
            raise bad_value(
                "known", names, "list rows without counts", f"{names}, which has counts", remedy="drop one of them"
            )
        for s in self.absorbing:
            parts.append(([s], [0], [s], [1.0], [0.0]))  # nothing is to be decided there
        s, a, s_next, p, r = (np.concatenate([np.asarray(part[i]) for part in parts]) for i in range(5))
        table, H = from_columns(
            np.zeros(s.size, np.int64), s, a, s_next, p, r, H, S=self.S, A=self.A, keep_zeros=True,
            further={key: np.r_[paid, np.zeros(s.size - paid.size)][None] for key, paid in self.further.items()},
        )  # fmt: skip
        shape = (1, self.S, self.A)
        first = {self._state(k, "start"): q for k, q in start.items()} if isinstance(start, Mapping) else None
        mdp = MDP.from_table(
            table, H, self._start(start) if first is None else first, discount,
            known=known.reshape(shape), state_names=self.states, action_names=self.actions,
        )  # fmt: skip
        most, seen = np.zeros(visits.size), np.bincount(row, self.n > 0, visits.size).astype(np.int64)
        np.maximum.at(most, row, self.n)
        exact = mdp.known | ~mdp.available
        balls = Balls(
            visits=visits.reshape(shape), outcomes=outcomes.reshape(shape), seen=seen.reshape(shape), most=most.reshape(shape),
            known=exact, free=False, rows=max(1, int(np.count_nonzero(~exact))), delta=delta, fixed=True,
        )  # fmt: skip
        return mdp, balls

    def assumptions(self, start: Any, H: int) -> tuple[str, ...]:
        """Return the assumptions of the promises, each as the end of a sentence that begins "assuming that"."""
        found = ["the next state depends only on the state and action", *([POOLED.format("stage")] if H > 1 else [])]
        found.append("the observations of each row are independent, and their number did not depend on the results")
        listed = self.support == "listed"
        found.append(
            "only the listed transitions are possible" if listed else "no state is possible that is not listed"
        )
        found.append("the rewards are right")
        law = isinstance(start, Mapping) and len(start) > 1
        first = self.states[self._start(start)] if not isinstance(start, Mapping) else ""
        found.append("the given law of the first state is right" if law else f"every episode starts in state {first!r}")
        if self.absorbing:
            names = " and ".join(repr(self.states[s]) for s in self.absorbing)
            found.append(f"{names} {'is' if len(self.absorbing) == 1 else 'are'} never left and without reward")
        return (*found, *(["the known rows are right"] if self.known else []))


def _places(codes: Codes) -> IntArray:
    """Return the number of every cell's label, counted without the empty one, which has -1."""
    filled = np.array([bool(text) for text in codes.labels])
    return np.asarray(np.where(filled, np.cumsum(filled) - 1, -1)[codes.code])


def _reward_functions(read: Columns, rewards: Any) -> tuple[Pay | None, dict[str, Pay]]:
    """Return the functions from a transition to its reward, None if the table gives all rewards, and to its further outcomes."""
    if rewards is None:
        return None, {}
    if "reward" in read.numbers:
        raise bad_value("rewards", rewards, "not be given for a table with a column reward", remedy="drop one of them")
    if not isinstance(rewards, (str, Path)) and (isinstance(rewards, Mapping) or not is_frame(rewards)):
        return _paid_by(rewards, "rewards"), {}
    listed = read_table(rewards, REWARDS)
    roles = [role for role in ("state", "action", "next_state") if role in listed.codes]
    cells = zip(*([listed.codes[role].labels[i] for i in listed.codes[role].code] for role in roles), strict=True)
    labels = list(cells)
    found = {
        key.removeprefix(REWARDS.extra): _paid_by(dict(zip(labels, column.tolist(), strict=True)), key)
        for key, column in (listed.numbers | listed.extra).items()
    }
    return found.pop("reward"), found


def _paid_by(given: Any, name: str) -> Pay:
    """Return the function from a transition to its reward or outcome, from a dict or a function."""
    if callable(given):
        return lambda s, a, t: given(s, a, t)
    if not isinstance(given, Mapping):
        raise bad_type(name, given, "be a dict, a function or a table", type(given).__name__)
    plain = {
        tuple(map(label_text, key)) if isinstance(key, tuple) else (label_text(key),): value
        for key, value in given.items()
    }

    def pay(s: str, a: str, s_next: str) -> float:
        for key in ((s, a, s_next), (s, a), (s,)):
            if key in plain:
                return plain[key]
        what = "reward" if name == "rewards" else "outcome"
        names = {", ".join(key).lower(): key for key in plain}
        found = [get_close_matches(", ".join(key).lower(), names, n=1, cutoff=0.85) for key in ((s, a), (s, a, s_next))]
        near = next((names[one] for each in found for one in each), None)
        got = "none" if near is None else f"none, but one for {near}"
        if near and " ".join(f"{near}".split()) in (f"{(s, a)}", f"{(s, a, s_next)}"):
            got += " with other spaces"
        raise bad_value(name, given, f"give the {what} of {(s, a, s_next)}", got, remedy=f"add {(s, a)}")

    return pay
