"""Rules as people write them: a dict by state, names in a list, a table or a CSV file with stages as ranges.

A table has the columns `state`, `action` and, where the rule changes over time, `stage`: a number or a range such as "1-8",
"9-" or "from week 9 on", counted from 1. The model's own words are accepted as headers, too. A column with another header is
recognised if it holds names of states or actions. A wide table has one column per range of stages instead, as
`rule_table(...).save` writes it. A state with a single action may be left out, and so may a state that the rule itself never
meets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import nearest, one_line, warn_caller
from bqrl.display import ENGLISH, NUMBER, unguard
from bqrl.errors import PolicyError
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.columns import Kind, label_text, plain_header
from bqrl.mdp.files.regular import MAX_TEXT, check_unpacked, size_limit
from bqrl.mdp.files.sources import open_source
from bqrl.mdp.model import MDP
from bqrl.policies.tables import COLUMNS

ABSENT = -1  # no action is given
RULE = Kind(name="rule", required=("state", "action"), optional=("stage",), dialect=1)
# columns of policies that depend on more than stage and state
MEMORY = "need_from", "earned_from", "label", "part", "share"
SHOWN = 4  # states that a message names
# headers of a column of stages
NOUNS = ENGLISH - {"state", "action", "episode", "patient", "row", "run", "seed", "worker"}
RANGES = {  # forms of a range of stages, with # for a number: whether it has a first and a last stage
    "": (False, False), "all": (False, False), "always": (False, False),
    "# - #": (True, True), "# to #": (True, True), "from # to #": (True, True),
    "# -": (True, False), "# +": (True, False), "# on": (True, False), "# onwards": (True, False),
    "from #": (True, False), "from # on": (True, False), "from # onwards": (True, False),
    "- #": (False, True), "to #": (False, True), "up to #": (False, True), "until #": (False, True),
}  # fmt: skip
KEYWORDS = {word for form in RANGES for word in form.split() if word.isalpha()}
WRITE = "write a number or a range such as 1-8, 9- or 'from 9 on'"
MISSING = "the rule must give an action for every state with several actions that it meets"
EXPECTED = "expected the columns state, action and optionally stage"


def rule_of_dict(mdp: MDP, rule: Mapping[Any, Any]) -> IntArray:
    """Return the actions (H, S) of a dict from states to actions, the same at all stages.

    States are values or names of the model, else indices; actions are names, else indices.
    """
    names = _labels(mdp)
    states = _places("state", list(rule), names[0], mdp.state_values)
    actions = _places("action", list(rule.values()), names[1])
    table = np.full((mdp.H, mdp.S), ABSENT)
    for key, s, a in zip(rule, states, actions, strict=True):
        if table[0, s] not in (ABSENT, a):
            raise PolicyError(f"the rule must give one action per state, got two for {one_line(key)}", state=s)
        table[:, s] = a
    return complete(mdp, table)


def rule_of_names(mdp: MDP, given: Any) -> IntArray:
    """Return the actions (H, S) of a list of names, one per state, or of one such list per stage."""
    names = np.asarray(given)
    if names.shape not in ((mdp.S,), (mdp.H, mdp.S)):
        raise PolicyError(
            f"a list of names must have one action per state ({mdp.S}), or one such list per stage ({mdp.H}), "
            f"got shape {names.shape}"
        )
    actions = _places("action", names.ravel().tolist(), _labels(mdp)[1])
    return np.array(np.broadcast_to(np.reshape(actions, names.shape), (mdp.H, mdp.S)))


def rule_of_table(mdp: MDP, given: Any) -> IntArray:
    """Return the actions (H, S) of a .csv, .csv.gz or .xlsx file, a frame, a dict of columns or a list of dicts."""
    if isinstance(given, (str, Path)):
        check_unpacked(Path(given), size_limit(None, MAX_TEXT))
    source = open_source(given, RULE)

    def fault(message: str, i: int | None = None, column: int | None = None, **facts: Any) -> ValueError:
        """Return the error with the file, the line and the column."""
        at = None if i is None or not lines else lines[i]
        found = source.error(message, at, i, None if column is None else source.header[column])
        return found if source.path else PolicyError(str(found), **facts)

    columns, lines = [list[str]() for _ in source.header], list[int]()
    for block, begins in source.blocks:
        for column, cells in zip(columns, block, strict=True):
            column += [unguard(label_text(cell)) for cell in cells]
        lines += [] if begins is None else begins.tolist()
    table, states, actions = np.full((mdp.H, mdp.S), ABSENT), *_labels(mdp)
    try:
        place = _roles(source.header, columns, {"state": set(states), "action": set(actions)}, mdp.words or {})
    except PolicyError as error:
        raise fault(str(error)) from None
    if "action" in place:  # one row per decision
        cells = [
            ("" if "stage" not in place else columns[place["stage"]][i], place["action"], i)
            for i in range(len(columns[0]))
        ]
    else:  # one column per range of stages
        wide = [j for j, name in enumerate(source.header) if j != place["state"] and _is_range(name)]
        cells = [(source.header[j], j, i) for i in range(len(columns[0])) for j in wide if columns[j][i]]
    for stage, j, i in cells:
        at = place["state"]
        try:
            s = _places("state", [columns[at][i]], states)[0]
            at = place.get("stage", j)
            first, last = _stages(stage, mdp.H)
            at = j
            a = _places("action", [columns[j][i]], actions)[0]
        except PolicyError as error:
            raise fault(str(error), i, at) from None
        here = table[first : last + 1, s]
        other = (here != ABSENT) & (here != a)
        if other.any():
            h = first + int(np.argmax(other))
            both = f"{actions[table[h, s]]!r} and {actions[a]!r}; drop one of them"
            message = f"expected one action for state {states[s]} at stage {h + 1}, got {both}"
            raise fault(message, i, j, stage=h, state=s, action=a)
        here[:] = a
    try:
        return complete(mdp, table)
    except PolicyError as error:
        raise fault(str(error), stage=error.stage, state=error.state) from None


def _labels(mdp: MDP) -> tuple[list[str], list[str]]:
    """Return the names of all states and of all actions."""
    return [mdp.state_label(s) for s in range(mdp.S)], [mdp.action_label(a) for a in range(mdp.A)]


def _roles(
    header: Sequence[str], columns: Sequence[Sequence[str]], names: Mapping[str, Collection[str]], words: Mapping[str, str]
) -> dict[str, int]:  # fmt: skip
    """Return the position of the columns state, action and stage; without an action, other headers are ranges of stages.

    A header may be one of the model's `words`; under others, a role is recognised by its `names`:
    the only column with some of them in its cells, or the only one with them in most.
    """
    plain, place = [plain_header(name) for name in header], dict[str, int]()
    for role in RULE.roles:
        known = [*RULE.names(role), *([plain_header(words[role])] if role in words else ())]
        known += sorted(NOUNS) if role == "stage" else ()
        found = [j for name in known for j, text in enumerate(plain) if text == name and j not in place.values()]
        if len(found) > 1 and plain[found[0]] != role:
            both = " and ".join(one_line(header[j]) for j in found[:2])
            raise PolicyError(f"expected one column for the {role}, got {both}; rename one of them")
        if not found and role in names and not (role == "action" and any(map(_is_range, header))):
            hits = {j: n for j, cells in enumerate(columns) if (n := sum(cell in names[role] for cell in cells))}
            found = list(hits) if len(hits) == 1 else [j for j, n in hits.items() if 2 * n > len(columns[j])]
            found = found if len(found) == 1 and found[0] not in place.values() else []
        if found:
            place[role] = found[0]
    wide = "action" not in place and any(map(_is_range, header))
    if "state" not in place or not ("action" in place or wide):
        raise PolicyError(f"{EXPECTED}, got {', '.join(map(one_line, header[:8]))}")
    memory = next((name for name in header if name in MEMORY), None)
    if memory is not None:
        raise PolicyError(
            f"expected a rule by state and stage, got a table with the column {memory!r}, whose actions depend on more; "
            "save the policy as .npz"
        )
    ignored = [name for j, name in enumerate(header) if name and j not in place.values() and name not in COLUMNS]
    if ignored and not wide:
        warn_caller(f"columns ignored: {', '.join(map(one_line, ignored[:5]))}")
    return place


def _is_range(header: str) -> bool:
    """Return whether a header names stages."""
    return _range_of(header) not in (None, (None, None))


def _stages(text: str, H: int) -> tuple[int, int]:
    """Return the first and the last stage of a range, counted from 0."""
    found = _range_of(text)
    if found is None:
        raise PolicyError(f"the stage must be a number or a range, got {text[:40]!r}; {WRITE}")
    first, last = 1 if found[0] is None else found[0], H if found[1] is None else found[1]
    if not 1 <= first <= last <= H:
        raise PolicyError(f"stages must rise from 1 to at most {H}, got {text[:40]!r}; {WRITE}")
    return first - 1, last - 1


def _range_of(text: str) -> tuple[int | None, int | None] | None:
    """Return the ends of a range of stages, None for an open end; None if the text is not a range.

    A word for a stage may stand before a number. "8-Jan", which spreadsheets make of 1-8, is not a range.

    >>> [_range_of(text) for text in ("3", "weeks 1-8", "from week 9 on", "up to 8", "8-Jan", "")]
    [(3, 3), (1, 8), (9, None), (None, 8), None, (None, None)]
    """
    plain = re.sub("[\N{EN DASH}\N{MINUS SIGN}]", "-", text.strip().lower())
    tokens = re.findall(r"\d+|[^\W\d_]+|[^\s]", plain)
    kept = []
    for token, after in zip(tokens, [*tokens[1:], ""], strict=False):
        if not token.isalpha() or token in KEYWORDS:
            kept.append(token)
        elif not after.isdecimal():
            return None
    ends = [int(token) for token in kept if token.isdecimal() and not token.startswith("0")]
    form = " ".join("#" if token.isdecimal() else token for token in kept)
    if form == "#" and ends:
        return ends[0], ends[0]
    if form not in RANGES or len(ends) != sum(RANGES[form]):
        return None
    has_first, has_last = RANGES[form]
    return ends[0] if has_first else None, ends[-1] if has_last else None


def _places(kind: str, given: Sequence[Any], labels: Sequence[str], values: Sequence[Any] | None = None) -> list[int]:
    """Return the indices of states or actions, all given in the same way: as values, as names, or as indices."""
    if values is not None:
        by_value = {value: i for i, value in enumerate(values)}
        if all(one in by_value for one in given):
            return [by_value[one] for one in given]
    by_name = {label: i for i, label in enumerate(labels)}
    texts = [label_text(one) for one in given]
    if not all(text in by_name for text in texts):  # 0.50 and 0.5 are one number; spreadsheets drop zeros
        numbers = [float(label) if NUMBER.fullmatch(label) else None for label in labels]
        if None not in numbers and len(set(numbers)) == len(numbers):
            by_number = {number: label for number, label in zip(numbers, labels, strict=True)}
            texts = [by_number.get(float(text), text) if NUMBER.fullmatch(text) else text for text in texts]
    if all(text in by_name for text in texts):
        return [by_name[text] for text in texts]
    if all(
        isinstance(one, (int, np.integer)) and not isinstance(one, bool) and 0 <= one < len(labels) for one in given
    ):
        return [int(one) for one in given]
    wrong = next(text for text in texts if text not in by_name)
    hint = nearest(wrong, labels)
    raise PolicyError(
        f"the rule must name {'an' if kind == 'action' else 'a'} {kind} of the model, got {wrong[:40]!r}{hint}"
    )


def complete(mdp: MDP, table: IntArray, missing: str = MISSING) -> IntArray:
    """Return the table with the only action of states that have one; PolicyError if the rule meets another state without action.

    `missing` begins the message. States that the rule never meets get any available action.
    """
    met, open_states, partly = mdp.mu > 0.0, dict[int, int](), (table != ABSENT).any(axis=0)
    for h in range(mdp.H):
        stage = mdp.stage(h)
        given, available = table[h] != ABSENT, stage.available
        table[h, ~given] = available.argmax(axis=1)[~given]
        choice = met & ~given & (available.sum(axis=1) > 1)
        for s in np.flatnonzero(choice).tolist():
            open_states.setdefault(s, h)
        played = np.zeros((mdp.S, mdp.A), bool)
        played[np.arange(mdp.S), table[h]] = True
        played = np.where(choice[:, None], available, played & available) & met[:, None]
        met = np.zeros(mdp.S, bool)
        met[stage.successor[stage.outcomes_of(np.flatnonzero(played))[1]]] = True
    if open_states:
        names = [mdp.state_label(s) + (f" at stage {h + 1}" if partly[s] else "") for s, h in open_states.items()]
        listed = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        s, h = next(iter(open_states.items()))
        raise PolicyError(f"{missing}, got none for {listed}", stage=h, state=s)
    return table
