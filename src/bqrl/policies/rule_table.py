"""Tables of rules without memory, for a wall or a spreadsheet: states by stages, with equal stages joined, and sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, choice, nearest
from bqrl.display import frame, plural, sheet_bytes, sheet_cell
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.files.atomic import write_whole
from bqrl.mdp.model import MDP, check_mdp
from bqrl.policies.convert import bind
from bqrl.policies.markov import to_markov

COUNTS = "no one two three four five six seven eight nine ten eleven twelve".split()
SHORT_LIST = 6  # states that a sentence names one by one


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class RuleTable:
    """A rule as a table of states by stages, in which neighbouring stages with equal actions are joined.

    A cell is empty only if no rule at all can meet the state at these stages; states that cannot occur are left out. `print`
    shows the table, `rows()` and `to_frame()` return it, `sentences()` describes it, and `save(path)` writes it.

    Attributes
    ----------
    mdp : MDP
        The problem.
    actions : ndarray of shape (H, S)
        The rule.
    stage : str
        Word for a stage.
    order : ndarray of shape (S,)
        The states from low to high.

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("MachineReplacement")
    >>> table = bqrl.rule_table(mdp, lambda stage, state: 0 if state < 4 or stage > 10 else 2, stage="week")
    >>> table.sentences()
    ['weeks 1-11: Run up to wear 3, Replace from wear 4 on', 'in the last four weeks: always Run, never Replace']
    """

    mdp: MDP
    actions: IntArray
    stage: str
    order: IntArray

    def runs(self) -> list[tuple[int, int, IntArray]]:
        """Return the first and the last stage of every run of equal stages, and its actions by state, -1 where none."""
        found: list[tuple[int, int, IntArray]] = []
        for h in range(self.mdp.H):
            here = np.where(self.mdp.reachable[h], self.actions[h], -1)
            if found:
                first, _, joined = found[-1]
                if np.all((here == joined) | (here < 0) | (joined < 0)):
                    found[-1] = first, h, np.maximum(here, joined)
                    continue
            found.append((h, h, here))
        return found

    def rows(self) -> list[dict[str, str | None]]:
        """Return one dict per state: its name and its action in every run of stages; None where it cannot occur."""
        states = [s for s in self.order.tolist() if self.mdp.reachable[:-1, s].any()]
        table: list[dict[str, str | None]] = [{"state": self.mdp.state_label(s)} for s in states]
        for first, last, actions in self.runs():
            for row, a in zip(table, actions[states].tolist(), strict=True):
                row[self._stages(first, last)] = self.mdp.action_label(a) if a >= 0 else None
        return table

    def to_frame(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return frame(self.rows())

    def sentences(self) -> list[str]:
        """Return one sentence per run of stages: the states in which each action is played."""
        runs = self.runs()
        played = [self._decisions(*run)[1] for run in runs]
        used = set[int]().union(*played)
        found = []
        for run, here in zip(runs, played, strict=True):
            never = used - set(here) if len(used) == 2 and len(set(here)) == 1 else set[int]()
            end = f", never {self.mdp.action_label(never.pop())}" if never else ""
            found.append(f"{self._when(*run[:2])}: {self._sentence(*run)}{end}")
        return found

    def _stages(self, first: int, last: int) -> str:
        """Return the name of a run of stages, counted from 1."""
        several = plural(self.stage) or self.stage
        return f"{self.stage} {first + 1}" if first == last else f"{several} {first + 1}-{last + 1}"

    def _when(self, first: int, last: int) -> str:
        """Return the name of a run of stages in a sentence, such as "in the last four weeks"."""
        several, H = plural(self.stage), self.mdp.H
        if several is None or last < H - 1:
            return self._stages(first, last)
        count = H - first
        if count == H:
            return f"in every {self.stage}"
        if 2 * count > H or count >= len(COUNTS):
            return f"from {self.stage} {first + 1} on"
        return f"in the last {self.stage if count == 1 else f'{COUNTS[count]} {several}'}"

    def _decisions(self, first: int, last: int, actions: IntArray) -> tuple[list[int], list[int]]:
        """Return the states with a choice in a run of stages, from low to high, and their actions."""
        choices = np.max([self.mdp.stage(h).available.sum(axis=1) for h in range(first, last + 1)], axis=0)
        states = [s for s in self.order.tolist() if actions[s] >= 0 and choices[s] > 1]
        return states, [int(actions[s]) for s in states]

    def _sentence(self, first: int, last: int, actions: IntArray) -> str:
        """Return the actions of one run in words; states without a choice are not mentioned."""
        states, played = self._decisions(first, last, actions)
        name, label = self.mdp.action_label, self.mdp.state_label
        if not states:
            return "no decision"
        if len(set(played)) == 1:
            return f"always {name(played[0])}"
        starts = [0, *(i for i in range(1, len(played)) if played[i] != played[i - 1])]
        ends = [*(i - 1 for i in starts[1:]), len(played) - 1]
        if len(starts) > len(set(played)):  # an action is played in several places
            parts = []
            for a in dict.fromkeys(played):
                names = [label(s) for s, b in zip(states, played, strict=True) if b == a]
                listed = ", ".join(names[:SHORT_LIST]) + (", ..." if len(names) > SHORT_LIST else "")
                parts.append(f"{name(a)} in {listed}")
            return "; ".join(parts)
        met = [s for s in self.order.tolist() if actions[s] >= 0]  # including states with a single action
        parts = []
        for i, j in zip(starts, ends, strict=True):
            low, high = label(states[i]), label(states[j])
            where = f"in {low}" if i == j else f"from {low} to {high}"
            if i < j and states[i] == met[0]:
                where = f"up to {high}"
            elif i < j and states[j] == met[-1]:
                where = f"from {low} on"
            parts.append(f"{name(played[i])} {where}")
        return ", ".join(parts)

    def save(self, path: str | Path, *, decimal: str = ".") -> None:
        """Write the table to a .csv or .xlsx file atomically.

        Parameters
        ----------
        path : str or Path
            The file. An .xlsx file requires openpyxl.
        decimal : str
            The decimal sign, "." or ","; with "," the fields of a .csv file are separated by semicolons. Spreadsheets show the
            numbers of an .xlsx file with their own sign.

        Examples
        --------
        >>> import bqrl, tempfile
        >>> path = Path(tempfile.mkdtemp()) / "rule.csv"
        >>> bqrl.rule_table("SafeOrRisky", "always:Safe").save(path)
        >>> path.read_text().splitlines()
        ['state,stages 1-10', 'playing,Safe']
        """
        choice(decimal, "decimal", (".", ","))
        kind = Path(path).suffix.lower()
        if kind not in (".csv", ".xlsx"):
            raise bad_value("path", path, "end in .csv or .xlsx", str(path))
        rows = self.rows()
        sheet: list[list[Any]] = [list(rows[0]), *([sheet_cell(cell) for cell in row.values()] for row in rows)]
        write_whole(path, sheet_bytes(sheet, kind, decimal))

    def __str__(self) -> str:
        rows = self.rows()
        lines = [list(rows[0]), *([cell or "" for cell in row.values()] for row in rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def rule_table(mdp: MDP | str, policy: Any, *, stage: str | None = None, order: Any = None) -> RuleTable:
    """Return a rule without memory as a table that people can follow.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or its name as for `solve`.
    policy : Policy, Plan, callable, object with `predict`, array_like or str
        A rule in any form that `evaluate` accepts, or a plan. PolicyError if it depends on more than stage and state.
    stage : str, optional
        Word for a stage, such as "week"; by default that of the model.
    order : list of str or dict, optional
        The states from low to high, as for `solve(..., rule="threshold")`. By default those of a threshold plan, else by
        number, else as in the model.

    Returns
    -------
    RuleTable

    Examples
    --------
    >>> print(rule_table("SafeOrRisky", lambda stage, state: int(stage < 4), stage="day"))
    state    days 1-4  days 5-10
    playing  Risky     Safe
    """
    problem = check_mdp(mdp)
    details = getattr(policy, "details", {})
    model, played = bind(problem, policy)
    if model is not problem:
        raise bad_value("policy", policy, "play one action per stage and state", "action probabilities")
    stage = (problem.words or {}).get("stage", "stage") if stage is None else stage
    if not isinstance(stage, str) or not stage.strip():
        raise bad_type("stage", stage, "be a word, such as 'week'")
    states = details["states"] if order is None and "states" in details else read_order(problem, order)[0]
    actions = to_markov(played, problem).actions
    return RuleTable(mdp=problem, actions=actions.astype(np.int64), stage=stage.strip(), order=states)


def read_order(mdp: MDP, order: Any) -> tuple[IntArray, IntArray, dict[str, str]]:
    """Return the states and the actions in the order of a threshold rule, from low to high, and how each is ordered."""
    given = order if isinstance(order, Mapping) else {"states": order}
    unknown = sorted(set(given) - {"states", "actions"}, key=str)
    if unknown:
        raise bad_value("order", order, "have the keys 'states' and 'actions' only", repr(unknown[0]))
    found, ways = [], {}
    for kind, size, label, values in (
        ("states", mdp.S, mdp.state_label, mdp.state_values), ("actions", mdp.A, mdp.action_label, None),
    ):  # fmt: skip
        names, listed = [label(i) for i in range(size)], given.get(kind)
        if listed is None:
            amounts = _numbers_of(names if values is None else values)
            found.append(np.arange(size) if amounts is None else np.argsort(amounts, kind="stable"))
            ways[kind] = "in the order of the model" if amounts is None else "by number"
        else:
            found.append(_listed_order(kind, listed, names, values))
            ways[kind] = "as given"
    return found[0], found[1], ways


def _numbers_of(values: Sequence[Any]) -> FloatArray | None:
    """Return the values as numbers; None if one of them is not a number."""
    try:
        amounts = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return None
    return amounts if np.isfinite(amounts).all() else None


def _listed_order(kind: str, listed: Any, names: Sequence[str], values: Sequence[Any] | None) -> IntArray:
    """Return indices in the order of a list of names; those that are not listed come last, in their own order."""
    if isinstance(listed, str) or not isinstance(listed, Sequence | np.ndarray):
        raise bad_type("order", listed, f"be a list of the names of {kind}")
    place: dict[Any, int] = {name: i for i, name in enumerate(names)}
    if values is not None:
        place |= {value: i for i, value in enumerate(values)}
    found = []
    for name in listed:
        i = place.get(name, place.get(str(name)))
        if i is None:
            raise bad_value("order", listed, f"list the names of {kind}", f"{name!r}{nearest(name, names)}")
        found.append(i)
    if len(set(found)) < len(found):
        raise bad_value("order", listed, "list every name once", remedy="drop the repeated one")
    return np.array(found + [i for i in range(len(names)) if i not in set(found)], np.int64)
