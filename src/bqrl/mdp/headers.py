"""Which column of a table plays which role: by its usual names, or as the caller says."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from bqrl.checks import nearest, shown
from bqrl.errors import ArgumentError, ArgumentTypeError, ModelError, ModelWarning

ROLES = ("state", "action", "next_state", "probability", "reward")
STAGE, EVENT, LAW = "stage", "event", "law"
OPTIONAL = (STAGE, EVENT, LAW)
SYNONYMS = {
    "state": ("s", "from", "idstatefrom", "statefrom", "fromstate", "currentstate", "source", "stateid", "idstate"),
    "action": ("a", "idaction", "actionid", "decision", "choice"),
    "next_state": ("s'", "next", "to", "idstateto", "stateto", "tostate", "snext", "sprime", "newstate", "successor"),
    "probability": ("p", "prob", "proba", "pr", "chance", "transitionprobability"),
    "reward": ("r", "rewards", "payoff"),
    "stage": ("h", "idstage", "stageid"),  # not time or step: such columns often mean a duration
    "event": ("idevent", "eventid"),
    "law": ("idlaw", "lawid"),
}
IDS = {"state": "state", "next_state": "state", "action": "action"}  # which roles share their ids
TEXT = (*IDS, EVENT, LAW)  # columns of ids; the others hold numbers


def match_columns(header: Sequence[str], columns: Mapping[str, str] | None) -> dict[str, int]:
    """Position of each role's column; warns about columns that have no role."""
    names = [str(name).strip() for name in header]
    twice = next((name for name in names if name and names.count(name) > 1), None)
    if twice is not None:
        raise ModelError(f"the column {shown(twice)} appears twice; rename one of them", column=twice)
    found = _chosen(names, columns)
    for role in (*ROLES, *OPTIONAL):
        if role in found:
            continue
        plain = role.replace("_", "")
        near = [
            i for i, name in enumerate(names) if i not in found.values() and _plain(name) in (plain, *SYNONYMS[role])
        ]
        exact = [i for i in near if _plain(names[i]) == plain]
        if len(exact or near) > 1:
            both = " and ".join(shown(names[i]) for i in (exact or near)[:2])
            raise ModelError(
                f"the columns {both} could both hold the {role}; choose with columns={{{role!r}: ...}}",
                column=role,
                name="columns",
            )
        if near:
            found[role] = (exact or near)[0]
    if EVENT not in found:
        found.pop(LAW, None)  # it only tells laws of events apart
    extra = [name for i, name in enumerate(names) if name and i not in found.values()]
    for role in ROLES:
        if role not in found:
            raise ModelError(_missing(role, extra), column=role, name="columns")
    if extra:
        listed = ", ".join(shown(name) for name in extra[:5]) + (", ..." if len(extra) > 5 else "")
        warnings.warn(f"columns ignored: {listed}", ModelWarning, stacklevel=2)
    return found


def _chosen(names: list[str], columns: Mapping[str, str] | None) -> dict[str, int]:
    """Positions of the columns that the caller names."""
    if columns is not None and not isinstance(columns, Mapping):
        raise ArgumentTypeError(
            f"columns must be a dict such as {{'state': 'from'}}, got {shown(columns)}", name="columns", value=columns
        )
    found = {}
    lower = [name.lower() for name in names]
    for role, wanted in (columns or {}).items():
        if role not in SYNONYMS:
            raise ArgumentError(
                f"columns must map {', '.join(SYNONYMS)} to headers, got {shown(role)}"
                + nearest(role, SYNONYMS, listed=False),
                name="columns",
                value=columns,
            )
        given = str(wanted).strip()
        if given not in names and given.lower() not in lower:
            raise ArgumentError(
                f"columns: there is no column {shown(given)}{nearest(given, names)}", name="columns", value=columns
            )
        found[str(role)] = names.index(given) if given in names else lower.index(given.lower())
    if len(set(found.values())) < len(found):
        raise ArgumentError("columns must give each role a column of its own", name="columns", value=columns)
    return found


def _missing(role: str, unused: list[str]) -> str:
    """The message for a role without a column, with the header that comes nearest."""
    words = {name.lower(): name for name in unused}
    near = [match for word in (role, *SYNONYMS[role]) for match in get_close_matches(word, words, 1, cutoff=0.6)]
    hint = f"is it {shown(words[near[0]])}? " if near else ""
    listed = "" if near or not unused else f" among {', '.join(map(shown, unused[:8]))}"
    return f"there is no column for the {role}{listed}; {hint}choose with columns={{{role!r}: ...}}"


def _plain(header: str) -> str:
    """A header in lower case without spaces, underscores and hyphens."""
    return "".join(sign for sign in header.lower() if sign not in " _-.")
