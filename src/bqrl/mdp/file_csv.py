"""Models as CSV, one possible transition a line: the form that other tools for tabular problems read and write.

    idstatefrom,idaction,idstateto,probability,reward

Ids count from 0 or from 1, states and actions each for themselves; ids from 1 become the names of the states, so that
tables show what the file shows. Lines with the same (s, a, s') merge: equal rewards add up, different ones are random
rewards. A (s, a) without a line is an action that does not exist. A sixth column `stage` makes the kernel stage-dependent.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.mdp.forms import FloatArray, IntArray, are_ids, check_gaps, from_columns
from bqrl.mdp.model import MDP, ROW_TOL

IDS = ("idstatefrom", "idaction", "idstateto")
COLUMNS = (*IDS, "probability", "reward")
STAGE = "stage"
EMPTY = f"the file is empty; expected the header {','.join(COLUMNS)}"
USUAL_HORIZON = 100  # the setting in which these files are usually studied; a file names no horizon


def read_csv(content: bytes, horizon: int | None, start: Any, discount: float | None) -> MDP:
    """Model of a CSV file's bytes; errors name the line."""
    numbers, lines = _parse(content)  # lines[i] is the line number of transition i
    staged = STAGE in numbers
    if not staged and horizon is None:
        horizon = USUAL_HORIZON
    p, reward = numbers["probability"], numbers["reward"]
    _refuse(~((p >= 0) & (p <= 1 + ROW_TOL)), p, lines, "probability must be a number in [0, 1]")
    _refuse(~np.isfinite(reward), reward, lines, "reward must be a finite number")
    for name in (*IDS, STAGE)[: 3 + staged]:
        _refuse(~are_ids(numbers[name]), numbers[name], lines, f"{name} must be a whole number from 0 or 1")

    s, a, s_next = (numbers[name].astype(np.int64) for name in IDS)
    stage = numbers[STAGE].astype(np.int64) if staged else np.zeros(s.size, np.int64)
    first_state = _first_id(np.minimum(s, s_next), lines, "state")
    first_action = _first_id(a, lines, "action")
    first_stage = _first_id(stage, lines, STAGE)
    s, a, s_next, stage = s - first_state, a - first_action, s_next - first_state, stage - first_stage
    widest = np.maximum(np.maximum(s, s_next), np.maximum(a, stage))
    K, S, A = int(stage.max()) + 1, int(max(s.max(), s_next.max())) + 1, int(a.max()) + 1
    try:
        check_gaps(K, S, A, s.size)
    except ValueError as error:
        raise ValueError(f"line {lines[int(widest.argmax())]}: {error}") from None
    offsets = (first_stage, first_state, first_action)
    _check_rows((stage * S + s) * A + a, s_next, p, reward, lines, (K, S, A), offsets, staged)

    table, H = from_columns(stage, s, a, s_next, p, reward, horizon, staged=staged, S=S, A=A)
    return MDP.from_table(
        table,
        H,
        0 if start is None else start,
        1.0 if discount is None else discount,
        state_names=_numbered(S) if first_state else None,
        action_names=_numbered(A) if first_action else None,
    )


def write_csv(mdp: MDP) -> bytes:
    """CSV of a model; refuses what the columns cannot say."""
    K, S, A = mdp.available.shape
    sizes = np.diff(mdp.row_start)
    row = np.repeat(np.arange(K * S * A), sizes)
    s, a, s_next = row // A % S, row % A, mdp.successor
    for refused, what in (
        (len(mdp.reward) > 1, "rewards that differ by stage on a stationary kernel"),
        (np.any(mdp.probability == 0), "possible successors of probability zero"),
        (not np.array_equal(mdp.known.reshape(-1), sizes == 1), "rows known to learners"),
        (
            min(s.min(), s_next.min()) > 0 or max(s.max(), s_next.max()) < S - 1,
            "a first or last state without transitions",
        ),
        (a.min() > 0 or a.max() < A - 1, "a first or last action that is never available"),
    ):
        if refused:
            raise ValueError(f"a .csv file cannot hold {what}; save to .npz instead")
    check_gaps(K, S, A, row.size)
    ids = [s + _first(mdp.state_names), a + _first(mdp.action_names), s_next + _first(mdp.state_names)]
    header = list(COLUMNS)
    if not mdp.stationary:
        ids.insert(0, row // (S * A))
        header.insert(0, STAGE)
    numbers = [*ids, mdp.probability, mdp.reward[0]]
    body = (",".join(map(repr, line)) for line in zip(*(column.tolist() for column in numbers), strict=True))
    return "\n".join([",".join(header), *body, ""]).encode()


def _numbered(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(1, count + 1))


def _first(names: tuple[str, ...] | None) -> int:
    return int(names is not None and names == _numbered(len(names)))


def _parse(content: bytes) -> tuple[dict[str, FloatArray], list[int]]:
    """Columns by name, and the line number of every transition."""
    if not content.strip():
        raise ValueError(EMPTY)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line}: this is not text in UTF-8; expected the header {','.join(COLUMNS)}") from None
    every = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    filled = [n for n, line in enumerate(every, 1) if line and not line.isspace()]
    if not filled:
        raise ValueError(EMPTY)
    header = _header(every[filled[0] - 1], filled[0])
    lines = filled[1:]
    if not lines:
        raise ValueError(f"line {filled[0]}: a header and no transitions after it; is the file truncated?")
    body = [every[n - 1] for n in lines]
    try:
        values = np.loadtxt(body, delimiter=",", comments=None, ndmin=2)
    except ValueError as error:
        raise _fault(body, lines, header, str(error)) from None
    if values.shape != (len(body), len(header)):
        raise _fault(body, lines, header, f"found {values.shape[1]} columns, the header has {len(header)}")
    return {name: values[:, j] for j, name in enumerate(header)}, lines


def _header(line: str, number: int) -> list[str]:
    header = [name.strip().lower() for name in line.split(",")]
    expected = f"expected the header {','.join(COLUMNS)}"
    if not line.replace("\t", " ").isprintable():
        raise ValueError(f"line {number}: this is not text; {expected}")
    missing = [name for name in COLUMNS if name not in header]
    for sign, name in ((";", "semicolons"), ("\t", "tabs")):
        if missing and len(line.split(sign)) >= len(COLUMNS):
            raise ValueError(f"line {number}: the columns are separated by {name}, not by commas; {expected}")
    if missing:
        near = get_close_matches(missing[0], header, 1)
        hint = f" (is it {near[0]!r}?)" if near else ""
        raise ValueError(f"line {number}: there is no column {missing[0]}{hint}; {expected}")
    extra = [name for name in header if name not in (*COLUMNS, STAGE) or header.count(name) > 1]
    if extra:
        what = "given twice" if header.count(extra[0]) > 1 else "unknown"
        raise ValueError(
            f"line {number}: the column {extra[0][:40]!r} is {what}; {expected}, with {STAGE} where stages differ"
        )
    return header


def _fault(body: list[str], lines: list[int], header: list[str], reason: str) -> ValueError:
    """The first line that cannot be read, found by a slow second pass."""
    width = len(header)
    for n, line in zip(lines, body, strict=True):
        cells = line.split(",")
        if len(cells) != width:
            cut = "; is the file truncated?" if n == lines[-1] and len(cells) < width else ""
            return ValueError(f"line {n}: {len(cells)} columns where the header has {width}{cut}")
        for name, cell in zip(header, cells, strict=True):
            if not _is_number(cell):
                hint = "; is the file truncated?" if n == lines[-1] and not cell.strip() else ""
                if name in IDS and cell.strip():
                    hint = "; ids are numbers in a .csv file, a .json file takes names"
                return ValueError(f"line {n}: {cell.strip()[:40]!r} is not a number (column {name}){hint}")
    return ValueError(f"the numbers cannot be read: {' '.join(reason.split())}")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _refuse(bad: NDArray[np.bool_], column: FloatArray, lines: list[int], rule: str) -> None:
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(f"line {lines[i]}: {rule}, got {column[i]:.15g}")


def _first_id(ids: IntArray, lines: list[int], what: str) -> int:
    i = int(ids.argmin())
    if ids[i] > 1:
        raise ValueError(f"line {lines[i]}: the smallest {what} id is {ids[i]}; ids must start at 0 or 1")
    return int(ids[i])


def _check_rows(
    row: IntArray, s_next: IntArray, p: FloatArray, reward: FloatArray, lines: list[int],
    shape: tuple[int, int, int], first: tuple[int, int, int], staged: bool,
) -> None:  # fmt: skip
    """Refuse the first row whose lines do not sum to 1, in the file's own ids."""
    _, S, A = shape
    sums = np.bincount(row, weights=p)
    off = np.abs(sums[row] - 1.0) > ROW_TOL
    if not off.any():
        return
    q = int(row[np.flatnonzero(off)[0]])
    place = f"s={q // A % S + first[1]}, a={q % A + first[2]}"
    place = f"h={q // (S * A) + first[0]}, {place}" if staged else place
    members = np.flatnonzero(row == q)
    seen: dict[tuple[int, float], int] = {}
    for i in members:
        outcome = int(s_next[i]), float(reward[i])
        if outcome in seen and sums[q] > 1:
            raise ValueError(
                f"lines {lines[seen[outcome]]} and {lines[i]} both give ({place}, s'={outcome[0] + first[1]}) with reward"
                f" {outcome[1]:.15g}; the row sums to {sums[q]:.12g}"
            )
        seen.setdefault(outcome, int(i))
    cut = "; is the file truncated?" if sums[q] < 1 and members[-1] == len(lines) - 1 else ""
    raise ValueError(f"line {lines[members[0]]}: row ({place}) sums to {sums[q]:.12g}, not to 1{cut}")
