"""The folder of a result: the document, every policy, the numbers behind the figures, the figures.

    plan.json               what was asked, what was found, one entry a level
    policy_tau0p1.csv       the policy in the problem's own names, one row a decision
    policy_tau0p1.npz       the same for `bqrl.load_policy`
    return_laws.csv         probability of every return, one block a policy
    guarantee_curve.csv     the best promise at every level
    *.png, *.pdf            figures of these

Every file is written whole or not at all.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bqrl.laws.bracket import LawBracket
from bqrl.laws.law import Law
from bqrl.mdp.atomic import write_whole
from bqrl.mdp.tables import policy_rows
from bqrl.reports.document import Solved, document, to_json
from bqrl.reports.plan_figures import plan_figures
from bqrl.reports.style import MissingPlots, encode

PLAN = "plan.json"
MAX_ROWS = 1_000_000  # decisions of a policy above which only its .npz is written


def make_folder(path: Path) -> Path:
    """The folder, made where it is missing and tried out: a long job should not end in a refused write."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        trial = path / ".bqrl_trial"
        trial.touch()
        trial.unlink()
    except OSError as fault:
        raise OSError(f"cannot write to the folder {path}: {fault.strerror or fault}") from None
    return path


def write_folder(solved: Solved, folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Write everything; returns the document as written and a line for each thing that had to be left out."""
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
    laws: list[tuple[str, Law | LawBracket]] = [(f"tau={plan.tau!r}", plan.law) for plan in solved.plans]
    if solved.neutral is not None:
        laws.append(("risk-neutral", solved.neutral))
    for name, law in laws:
        ends: Sequence[tuple[str, Law]] = (
            [("", law)] if isinstance(law, Law) else [(" lower", law.lower), (" upper", law.upper)]
        )
        for end, part in ends:
            for x, p in zip(part.values.tolist(), part.probabilities.tolist(), strict=True):
                yield {"policy": f"{name}{end}", "return": x, "probability": p}
