"""The folder of learners' runs: the document, the curves, the figure; the commands put the records beside them.

    learn.json, compare.json    what was asked, what was found, one entry a learner with one a seed
    record_seed42.npz           everything of a run, for `bqrl.Record.load`; of several learners record_ucbvi_seed42.npz
    curves.csv                  promise and cumulative gap and regret by episode: mean, lowest and highest seed
    policy_tau0p1.csv, .npz     of one learner: the policy that its best seed ended with
    learning.png, .pdf          the curves

Every file is written whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.mdp.atomic import write_whole
from bqrl.mdp.policy import Policy
from bqrl.mdp.tables import policy_rows
from bqrl.reports.document import to_json
from bqrl.reports.folder import MAX_ROWS, file_number, table
from bqrl.reports.learning import Learned, best_run, learning_document
from bqrl.reports.learning_figures import block_ends, learning_figures
from bqrl.reports.style import MissingPlots, encode

DOCUMENTS = {"learn": "learn.json", "compare": "compare.json"}
CURVE_ROWS = 2000  # episodes of a learner in curves.csv; of more an even choice


def write_learning(
    found: Learned, folder: Path, policies: Sequence[Policy | None], files: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Write everything beside the records, which `files` name; returns the document and a line for each thing left out.

    `policies` are the final ones of the first learner, one a seed.
    """
    left_out: list[str] = []
    content = learning_document(found)
    written = list(files)
    if found.mdp is not None:
        write_whole(folder / "curves.csv", table(_curve_rows(found)))
        written.append("curves.csv")
    if found.kind == "learn" and found.mdp is not None:
        policy = policies[best_run(content)]
        assert policy is not None
        stem = f"policy_tau{file_number(found.tau)}"
        policy.save(folder / f"{stem}.npz")
        content["policy"] = {
            "seed": found.runs[0].seeds[best_run(content)],
            "kind": policy.kind,
            "files": [f"{stem}.npz"],
        }
        if int(found.mdp.reachable[:-1].sum()) > MAX_ROWS:
            left_out.append(f"{stem}.csv: the table would have more than {MAX_ROWS} rows; {stem}.npz holds the policy")
        else:
            write_whole(folder / f"{stem}.csv", table(policy_rows(policy, found.mdp)))
            content["policy"]["files"].insert(0, f"{stem}.csv")
    try:
        for name, figure in learning_figures(found, content).items():
            for kind in ("png", "pdf"):
                write_whole(folder / f"{name}.{kind}", encode(figure, kind))
                written.append(f"{name}.{kind}")
    except MissingPlots as fault:
        left_out.append(str(fault))
    content["files"] = sorted(written)
    place = folder / DOCUMENTS[found.kind]
    write_whole(place, (to_json(content) + "\n").encode())  # last: where it stands, the rest does, too
    return content, left_out


def _curve_rows(found: Learned) -> Iterable[dict[str, Any]]:
    ends = block_ends(found.T, CURVE_ROWS)
    for runs in found.runs:
        assert runs.quantiles is not None
        assert runs.means is not None
        assert found.best_mean is not None
        measures = {
            "quantile": runs.quantiles,
            "cumulative_gap": np.cumsum(found.gaps(runs), axis=1),
            "cumulative_regret": np.cumsum(found.best_mean - runs.means, axis=1),
        }
        for t in ends.tolist():
            row: dict[str, Any] = {"learner": runs.label, "episode": t}
            for name, values in measures.items():
                here = values[:, t - 1]
                row |= {f"{name}_mean": here.mean(), f"{name}_low": here.min(), f"{name}_high": here.max()}
            yield {key: value.item() if isinstance(value, np.generic) else value for key, value in row.items()}
