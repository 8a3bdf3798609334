"""Which columns a table has: kinds of tables, the names by which a column is recognised, and labels as codes.

A kind lists the roles of its columns. The reader (`bqrl.mdp.files.tables`) finds the column of each role by the role's own name,
by a synonym or by the caller's choice.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, nearest, one_line, warn_caller
from bqrl.errors import FileFormatError, ModelError
from bqrl.mdp.arrays import FloatArray, IntArray

STAGE, EVENT, LAW = "stage", "event", "law"
SYNONYMS = {  # role -> names in all tables, further names in models, further names in logs
    "state": (
        "s from currentstate", "idstatefrom statefrom fromstate startstate source stateid idstate",
        "obs observation states observations",
    ),
    "action": ("a decision choice", "idaction actionid", "actions"),
    "next_state": (
        "s' snext next to newstate", "idstateto stateto tostate endstate target sp sprime successor",
        "nextobs nextobservation nextstates nextobservations",
    ),
    "probability": ("p prob proba pr chance transitionprobability", "", ""),
    "reward": ("r payoff rewards", "", ""),
    "count": ("n counts number frequency freq", "", ""),
    "stage": ("h stageid", "idstage", "t step time timestep stepid episodestep"),  # in models, time is often a duration
    "event": ("", "idevent eventid", "e noise"),
    "law": ("idlaw lawid", "", ""),
    "episode": ("ep episodeid trajectory trial run episodeids", "", ""),
    "end": ("terminated terminal isterminal ended terminations terminals done dones", "", ""),
}  # fmt: skip
ENDS = ("done", "terminal", "isterminal", "terminated", "truncated", "ended")  # headers of columns that end an episode
IDS = {"state": "state", "next_state": "state", "action": "action"}  # which roles share their ids
COSTS = ("cost", "costs", "expense", "expenses", "loss", "losses", "penalty", "penalties")
GAINS = frozenset(  # headers with these words name gains, savings, or amounts from which costs are already subtracted
    "after avoided benefit benefits difference effectiveness gain gains income less margin minus net payoff profit qaly qalys"
    " reduction revenue reward rewards saved saving savings utility value without".split()
)
LARGEST = 2.0**53  # whole numbers up to this size are exact as floats


# -- kinds and roles ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of table: the roles that it must and may have, and how strictly its columns are read."""

    name: str
    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()  # roles of numbers; the other columns hold labels
    dialect: int | None = None  # which further names of SYNONYMS are recognised: 1 those of models, 2 those of logs
    extra: str = ""  # columns whose header begins so hold numbers, too, and are returned under their header
    strict: bool = True  # refuse two synonyms of one role, and tell which columns are ignored
    nested: bool = False  # whether a label may be a list
    shared: Mapping[str, str] = field(default_factory=dict)  # roles whose labels are numbered together
    error: type[ModelError] = ModelError  # the error about a table in memory; about a file, FileFormatError

    @property
    def roles(self) -> tuple[str, ...]:
        """All roles of the table."""
        return self.required + self.optional

    @property
    def expected(self) -> str:
        """The beginning of a message about the header."""
        return f"expected a header such as {','.join(self.required)}"

    def names(self, role: str) -> list[str]:
        """Return the plain headers that a role is recognised by, its own name first."""
        common, *further = SYNONYMS.get(role, ("", "", ""))
        own = further[self.dialect - 1] if self.dialect else ""
        return [role.replace("_", ""), *common.split(), *own.split()]


MODEL = Kind(
    name="model", required=("state", "action", "next_state", "probability", "reward"), optional=(STAGE, EVENT, LAW),
    numbers=("probability", "reward", STAGE), dialect=1, extra="outcome:",
)  # fmt: skip
LOG = Kind(
    name="log", required=("episode", "state", "action", "reward"), optional=(STAGE, "next_state", EVENT, "end"),
    numbers=("reward",), dialect=2, strict=False, nested=True, shared={"next_state": "state"}, error=FileFormatError,
)  # fmt: skip
COUNTS = Kind(
    name="counts", required=("state", "action", "next_state", "count"), optional=("reward",), numbers=("count", "reward"),
    dialect=1, shared={"next_state": "state"},
)  # fmt: skip
REWARDS = Kind(
    name="rewards", required=("state", "action", "reward"), optional=("next_state",), numbers=("reward",), dialect=1,
    extra="outcome:", shared={"next_state": "state"},
)  # fmt: skip


def match_columns(header: Sequence[str], kind: Kind, columns: Mapping[str, str] | None = None) -> dict[str, int]:
    """Return the position of each role's column, and of each extra column by its header."""
    names = [str(name).strip() for name in header]
    plain = list(map(plain_header, names))
    strange = columns is None and len({name for role in kind.roles for name in kind.names(role)} & set(plain)) < 2
    twice = next((name for name, times in Counter(names).items() if name and times > 1), None)
    if twice is not None and not strange:
        raise ModelError(f"expected distinct headers, got {one_line(twice)} twice; rename one of them", column=twice)
    found = _chosen(names, kind, columns)
    for role in (role for role in kind.roles if role not in found):
        wanted = kind.names(role)
        fits = [i for i, name in enumerate(plain) if name in wanted and i not in found.values()]
        exact = [i for i in fits if plain[i] == wanted[0]]
        several = role == "episode" or (kind.strict and not exact)  # episodes of several runs may share their ids
        if not strange and (len(exact) > 1 or (len(fits) > 1 and several)):
            both = " and ".join(one_line(names[i]) for i in (exact if len(exact) > 1 else fits)[:2])
            message = f"expected one column for the {role}, got {both}; choose one with columns, or combine them in one"
            raise ModelError(message, column=role, name="columns")
        if fits:
            found[role] = min(fits, key=lambda i: wanted.index(plain[i]))
    if EVENT not in found:
        found.pop(LAW, None)  # it only distinguishes laws of events
    unused = [name for i, name in enumerate(names) if name and i not in found.values()]
    missing = [role for role in kind.required if role not in found]
    if missing:
        raise _missing_error(kind, missing, names if strange else unused, strange)
    extra = [name for name in unused if kind.extra and name.lower().startswith(kind.extra)]
    ignored = [name for name in unused if name not in extra]
    if kind.strict and ignored:
        warn_ignored(ignored)
    extra = [name for name in extra if name not in found]  # a column that the caller chose for this name wins
    return found | {name: names.index(name) for name in extra}


def warn_ignored(headers: Sequence[str]) -> None:
    """Issue a ModelWarning about columns that are not used."""
    listed = ", ".join(one_line(name) for name in headers[:5]) + (", ..." if len(headers) > 5 else "")
    if any(plain_header(name) in ENDS for name in headers):
        listed += "; an episode ends in a state that leads back to itself with reward 0"
    warn_caller(f"columns ignored: {listed}")


def plain_header(header: str) -> str:
    """Return a header in lower case without spaces, underscores, hyphens and dots."""
    return "".join(sign for sign in header.lower() if sign not in " _-.")


def _chosen(names: Sequence[str], kind: Kind, columns: Any) -> dict[str, int]:
    """Return the positions of the columns that the caller names by role."""
    if columns is not None and not isinstance(columns, Mapping):
        raise bad_type("columns", columns, "be a dict such as {'state': 'from'}")
    found = {}
    lower = [name.lower() for name in names]
    for role, wanted in (columns or {}).items():
        given = str(wanted).strip()
        further = kind.extra and str(role).startswith(kind.extra)
        if role not in kind.roles and not further:
            got = one_line(role) + nearest(role, kind.roles, listed=False)
            raise bad_value("columns", columns, f"map {', '.join(kind.roles)} to headers", got)
        if given not in names and given.lower() not in lower:
            raise bad_value("columns", columns, "name headers of the table", one_line(given) + nearest(given, names))
        found[str(role)] = names.index(given) if given in names else lower.index(given.lower())
    if len(set(found.values())) < len(found):
        raise bad_value("columns", columns, "give each role a column of its own")
    return found


def _missing_error(kind: Kind, roles: Sequence[str], unused: Sequence[str], strange: bool) -> ModelError:
    """Return the error for all roles without a column, with the nearest header of each; `strange` headers are known by none."""
    for role in roles:  # state_0, state_1, ...
        wide = [name for name in unused if re.fullmatch(rf"{role.replace('_', '')}\d+", plain_header(name))]
        if len(wide) > 1:
            got = f"got {one_line(wide[0])} and {one_line(wide[1])}; reshape the table to one row per step"
            return ModelError(f"expected one column {role}, {got}", column=wide[0])
    got = ", ".join(map(one_line, unused[:8])) or "none"
    if strange:
        remedy = "add this line, or give the headers with columns"
        remedy = "separate the columns by commas, semicolons or tabs" if len(unused) == 1 else remedy
        return ModelError(f"{kind.expected}, got {got}; {remedy}", name="columns")
    words, pairs = {name.lower(): name for name in unused}, []
    for role in roles:
        near = [match for word in kind.names(role) for match in get_close_matches(word, words, 1, cutoff=0.6)]
        pairs.append(f"{role} to {one_line(words.pop(near[0])) if near else 'a header'}")
    remedy = f"map {' and '.join(pairs)} with columns"
    remedy += ", and negate costs" if "reward" in roles and any(map(is_cost, unused)) else ""
    if "probability" in roles and any(plain_header(name).startswith("episode") for name in unused):
        remedy = "read a log of episodes with bqrl.fit"
    noun, pronoun = ("a column", "it") if len(roles) == 1 else ("columns", "them")
    remedy = remedy if unused else f"add {pronoun}"
    message = f"expected {noun} for {' and '.join(f'the {role}' for role in roles)}, got {got}; {remedy}"
    return ModelError(message, column=roles[0], name="columns" if unused else None)


def is_cost(header: str) -> bool:
    """Return whether a header names costs, which are negative rewards, rather than gains, savings or a difference.

    >>> [is_cost(header) for header in ("Total cost", "costEUR", "qaly_minus_cost", "cost savings", "revenue - cost")]
    [True, True, False, False, False]
    """
    words = re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", header).lower())
    words = list(takewhile(lambda word: word not in ("per", "of"), words))  # "cost per QALY" is a cost
    if GAINS & set(words) or re.search(r"\w\s+[-\N{MINUS SIGN}]\s+\w", header):
        return False
    return any(word.startswith(COSTS) or word.endswith(COSTS) for word in words)


def warn_of_costs(header: str, rewards: FloatArray) -> None:
    """Issue a ModelWarning if positive costs are read as rewards."""
    if is_cost(header) and np.any(rewards > 0):
        warn_caller(f"the column {one_line(header)} is read as rewards, which are maximised; negate costs")


# -- labels ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Codes:
    """A column of labels: `code[i]` is the index of row i's label in `labels`, the distinct labels as text."""

    code: IntArray
    labels: list[str]
    values: list[Any] | None = None  # the first cell of each label; None for the columns of files


def numbering() -> defaultdict[Any, int]:
    """Return a dict that numbers its keys in the order of their first use."""
    numbers: defaultdict[Any, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def code_labels(cells: Sequence[Any]) -> Codes:
    """Return the labels of a column in order of appearance; 3, 3.0 and "3" are one label."""
    raw, text = numbering(), numbering()
    try:
        code = np.fromiter(map(raw.__getitem__, cells), np.int64, len(cells))
    except TypeError:  # a cell that is not hashable
        return code_labels([label_text(cell) for cell in cells])
    place = [text[label_text(cell)] for cell in raw]
    first = dict(zip(reversed(place), reversed(raw), strict=True))
    return Codes(code=np.array(place, np.int64)[code], labels=list(text), values=[first[i] for i in range(len(text))])


def label_text(cell: Any) -> str:
    """Return a label as text: 3, 3.0 and "3" agree; None, NaN and other missing values are empty."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, (float, np.floating)):
        if math.isnan(cell):
            return ""
        if float(cell).is_integer() and abs(float(cell)) <= LARGEST:
            return str(int(cell))
    if isinstance(cell, np.ndarray):  # str() of an array leaves out digits and entries
        cell = cell.tolist()
    return str(cell).strip()
