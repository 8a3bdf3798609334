"""The folder of a result: the document, every policy, the numbers behind the figures, the figures.

    plan.json               what was asked, what was found, one entry a level
    policy_tau0p1.csv       the policy in the problem's own names, one row a decision
    policy_tau0p1.npz       the same for `bqrl.load_policy`
    return_laws.csv         probability of every return, one block a policy
    guarantee_curve.csv     the best promise at every level
    *.png, *.pdf            figures of these

A run takes the place of the one before it as a whole: its files are drafted in a folder of their own and moved at the end.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from bqrl.laws.law import Law
from bqrl.mdp.atomic import write_whole
from bqrl.mdp.tables import policy_rows
from bqrl.reports.document import Solved, document, to_json
from bqrl.reports.plan_figures import plan_figures
from bqrl.reports.style import MissingPlots, encode

PLAN = "plan.json"
DRAFT, ATTIC, MOVING = (
    ".bqrl_draft_",
    "before",
    "moving.json",
)  # of a run: its folder, what it replaces, what it moves in
STALE_SECONDS = 3600.0  # no run takes so long to write
OURS = re.compile(
    r"plan\.json|(return_laws|guarantee_curve)\.csv|(guarantee_curve|return_cdf|policy_map)\.(png|pdf)"
    r"|policy_tau\d[\dpem]*\.(csv|npz)"
)
MAX_ROWS = 1_000_000  # decisions of a policy above which only its .npz is written


def make_folder(path: Path) -> Path:
    """The folder, made where it is missing and tried out: a long job should not end in a refused write."""
    try:
        if path.exists() and not path.is_dir():
            raise NotADirectoryError("it is a file; name a folder")
        path.mkdir(parents=True, exist_ok=True)
        trial = path / ".bqrl_trial"
        trial.touch()
        trial.unlink()
    except (OSError, ValueError) as fault:  # a name with a zero byte is a ValueError
        raise OSError(f"cannot write to the folder {path}: {getattr(fault, 'strerror', None) or fault}") from None
    return path


def try_folder(path: Path) -> None:
    """OSError where `make_folder` would fail; leaves nothing behind."""
    missing = _missing(path)
    try:
        make_folder(path)
    finally:
        _unmake(missing)


def write_folder(solved: Solved, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Put the result in the place of the one before; returns the document and a line for each thing left out.

    Whatever stops it, the folder is as it was; after a kill the next run makes it so.
    """
    missing = _missing(folder)
    try:
        _recover(make_folder(folder))
        draft = Path(tempfile.mkdtemp(prefix=DRAFT, dir=folder))
        try:
            written = _write(solved, draft)
            _move_in(draft, folder)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    except BaseException as fault:
        _unmake(missing)
        if not isinstance(fault, OSError):
            raise
        told = fault.strerror or str(fault)
        raise OSError(f"cannot write the result to {folder}: {told}; make room there or name another folder") from None
    return written


def _missing(path: Path) -> list[Path]:
    """Folders that would have to be made for `path`, the innermost first."""
    try:
        return [place for place in (path, *path.parents) if not place.exists()]
    except (OSError, ValueError):  # a name that no file can have
        return []


def _unmake(folders: list[Path]) -> None:
    for place in folders:
        with suppress(OSError):  # never made, or no longer empty
            place.rmdir()


def _move_in(draft: Path, folder: Path) -> None:
    """Move the draft's files into the folder in place of those of the run before; undone where it cannot be finished.

    The document leaves first and arrives last: even a killed process leaves no document beside files of another run.
    """
    old, new = _held(folder), sorted(os.listdir(draft), key=lambda name: name == PLAN)
    attic = draft / ATTIC
    attic.mkdir()
    write_whole(draft / MOVING, json.dumps(new).encode())
    moves = [(folder / name, attic / name) for name in dict.fromkeys([*old, *new]) if (folder / name).is_file()]
    moves += [(draft / name, folder / name) for name in new]
    try:
        for here, there in moves:
            os.replace(here, there)
    except BaseException:
        for here, there in reversed(moves):
            if there.is_file() and not here.exists():
                os.replace(there, here)
        raise


def _recover(folder: Path) -> None:
    """Undo what a killed run left: files moved out return, those moved in leave; drafts of long ago are dropped."""
    for draft in folder.glob(f"{DRAFT}*"):
        moving = (draft / MOVING).is_file()
        if moving and (draft / PLAN).is_file():  # else the document has arrived: only the cleaning was missed
            attic = draft / ATTIC
            for name in json.loads((draft / MOVING).read_text()):
                if OURS.fullmatch(name) and not (draft / name).exists():
                    (folder / name).unlink(missing_ok=True)
            for name in os.listdir(attic):
                os.replace(attic / name, folder / name)
        if moving or time.time() - draft.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(draft, ignore_errors=True)


def _held(folder: Path) -> list[str]:
    """Files of the run before, by its own account, the document first; what it did not write is somebody else's."""
    try:
        content = json.loads((folder / PLAN).read_text(encoding="utf-8"))
        named = [*content["files"], *(name for level in content["levels"] for name in level["files"])]
    except (OSError, ValueError, KeyError, TypeError):
        named = []
    return [PLAN, *(name for name in named if isinstance(name, str) and OURS.fullmatch(name))]


def _write(solved: Solved, folder: Path) -> tuple[dict[str, Any], list[str]]:
    left_out: list[str] = []
    content = document(solved)
    for plan, level in zip(solved.plans, content["levels"], strict=True):
        stem = f"policy_tau{file_number(plan.tau)}"
        plan.policy.save(folder / f"{stem}.npz")
        level["files"] = [f"{stem}.npz"]
        if int(solved.mdp.reachable[:-1].sum()) > MAX_ROWS:
            left_out.append(f"{stem}.csv: the table would have more than {MAX_ROWS} rows; {stem}.npz holds the policy")
            continue
        write_whole(folder / f"{stem}.csv", table(policy_rows(plan.policy, solved.mdp)))
        level["files"].insert(0, f"{stem}.csv")
    files = ["return_laws.csv"]
    write_whole(folder / files[0], table(_law_rows(solved)))
    if solved.curve is not None:
        files.append("guarantee_curve.csv")
        levels, values = solved.curve.steps
        rows = zip(levels.tolist(), values.tolist(), strict=True)
        write_whole(folder / files[-1], table({"level_above": tau, "value": x} for tau, x in rows))
    try:
        for name, figure in plan_figures(solved).items():
            for kind in ("png", "pdf"):
                write_whole(folder / f"{name}.{kind}", encode(figure, kind))
                files.append(f"{name}.{kind}")
    except MissingPlots as fault:
        left_out.append(str(fault))
    content["files"] = sorted(files)
    write_whole(folder / PLAN, (to_json(content) + "\n").encode())  # last: where it stands, the rest does, too
    return content, left_out


def file_number(x: float) -> str:
    """A number for a file's name.

    >>> file_number(0.1), file_number(1e-05)
    ('0p1', '1em05')
    """
    return repr(float(x)).replace(".", "p").replace("-", "m")


def table(rows: Iterable[dict[str, Any]]) -> bytes:
    """CSV of rows that share their keys."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, list(row), lineterminator="\n")
            writer.writeheader()
        writer.writerow(row)
    return text.getvalue().encode()


def _law_rows(solved: Solved) -> Iterable[dict[str, Any]]:
    laws: list[tuple[str, Law, Law | None]] = [(f"tau={p.tau!r}", p.law, p.law_upper) for p in solved.plans]
    if solved.neutral is not None:
        laws.append(("risk-neutral", solved.neutral, solved.neutral_upper))
    for name, law, upper in laws:
        ends: Sequence[tuple[str, Law]] = [("", law)] if upper is None else [(" lower", law), (" upper", upper)]
        for end, part in ends:
            for x, p in zip(part.values.tolist(), part.probabilities.tolist(), strict=True):
                yield {"policy": f"{name}{end}", "return": x, "probability": p}
