"""`bqrl.load` and `bqrl.save`; the ending of a file and, for .npz, a marker in it tell what the file holds.

Charts are written in the style of the library, as .pdf, .svg, .png, .html or .json.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from bqrl.checks import bad_type, one_line
from bqrl.errors import FileFormatError
from bqrl.learners.record import Record
from bqrl.logs.estimate import Estimate
from bqrl.mdp import files
from bqrl.mdp.files.atomic import write_whole
from bqrl.mdp.files.sources import is_frame
from bqrl.mdp.load import Kinds, load_model
from bqrl.mdp.model import MDP
from bqrl.planners.plan import Plan
from bqrl.planners.plan_file import plan_arrays, plan_from_arrays
from bqrl.policies.files import PLAN, policy_from_arrays
from bqrl.policies.protocol import Policy
from bqrl.results.charts import is_chart, save_chart
from bqrl.study.scores import Experiment
from bqrl.study.suite import MARKER as EXPERIMENT
from bqrl.study.suite import Suite, curves_csv, experiment_arrays, experiment_from_arrays


def _refuse_checkpoint(arrays: dict[str, Any]) -> NoReturn:
    raise FileFormatError(
        "expected a model, policy, plan, record, experiment or estimate, got a checkpoint; continue it with "
        "learn(..., checkpoint=path)"
    )


KINDS: Kinds = {  # by the marker in an .npz file; files without a marker hold models
    PLAN: ("plan", plan_from_arrays),
    "bqrl_policy": ("policy", policy_from_arrays),
    "bqrl_record": ("record", Record.from_arrays),
    "bqrl_estimate": ("estimate", Estimate.from_arrays),
    EXPERIMENT: ("experiment", experiment_from_arrays),
    "bqrl_run": ("checkpoint", _refuse_checkpoint),
}


def load(
    path: str | Path, horizon: int | None = None, start: Any = None, discount: float | None = None, *,
    columns: Mapping[str, str] | None = None, rewards: str | None = None, max_bytes: int | None = None,
) -> Any:  # fmt: skip
    """Load a model, policy, plan, record, experiment, suite or estimate from a file.

    Parameters
    ----------
    path
        A model in .csv, .csv.gz, .xlsx, .parquet, .npz, .json, .umb (Unified Markov Binary, written by PRISM, Storm and Modest)
        or .drn (Storm; needs stormpy), or a policy, plan, record, experiment, suite or estimate in .npz.
    horizon, start, discount
        Override what a model file states. A table that states nothing has horizon 100, start 0 and discount 1.
        `start` is a state (counted from 0), a name (for a .csv file the id as the file writes it: "9"), a law
        {name: probability}, or a list of probabilities.
    columns
        Headers of a table by role, e.g. {"state": "from", "next_state": "to"}; usual names are recognised.
    rewards
        Name of the reward structure of a .umb or .drn file, required if it has several. These files also need `horizon`.
    max_bytes
        Largest size in bytes, after unpacking. The default is the environment variable BQRL_MAX_FILE_BYTES, else 4 GiB
        for .npz, 1 GiB for tables and 256 MiB for .json.

    Returns
    -------
    MDP, Policy, Plan, Record, Experiment, Suite or Estimate

    Examples
    --------
    >>> mdp = load("model.csv", horizon=20, start="Well")  # doctest: +SKIP
    >>> policy = load("policy.npz")  # doctest: +SKIP
    """
    if not isinstance(path, (str, os.PathLike)):
        remedy = "pass a table to bqrl.MDP" if is_frame(path) else ""
        raise bad_type("path", path, "be a file name", type(path).__name__, remedy=remedy)
    return load_model(
        path, max_bytes=max_bytes, kinds=KINDS, horizon=horizon, start=start, discount=discount, columns=columns, rewards=rewards
    )  # fmt: skip


def save(thing: Any, path: str | Path, *, plain: bool = False) -> None:
    """Write a model, policy, plan, record, experiment, suite, estimate or chart to a file atomically.

    Parameters
    ----------
    thing
        A model (.csv, .csv.gz, .npz or .json), a policy, a plan, a record, an experiment, a suite or an estimate (.npz).
        Numbers come back bit for bit. A plan is stored with its policy, objective, law, numbers and notes, without its
        problem; an experiment with all records and its problem. An experiment or a suite as .csv is the table of its learning
        curves: mean, band, seeds and versions. An Altair chart is written as .pdf, .svg, .png, .html or .json.
    path
        The file; its ending chooses the format.
    plain
        Write a .csv file without `#` lines and with ids as numbers, for tools that read only the columns.

    Examples
    --------
    >>> save(mdp, "model.json")  # doctest: +SKIP
    >>> save(plan.policy, "policy.npz")  # doctest: +SKIP
    >>> save(experiment.chart(), "curves.pdf")  # doctest: +SKIP
    """
    if isinstance(thing, MDP):
        files.save_model(thing, path, plain=plain)
    elif isinstance(thing, Plan):
        files.write_arrays(path, plan_arrays(thing))
    elif isinstance(thing, (Policy, Record, Estimate)):
        thing.save(path)
    elif isinstance(thing, (Experiment, Suite)):
        if files.checked_ending(Path(path), (".npz", ".csv")) == ".csv":
            write_whole(path, curves_csv(thing))
        else:
            files.write_arrays(path, experiment_arrays(thing))
    elif is_chart(thing):
        save_chart(thing, path)
    else:
        raise bad_type(
            "thing",
            thing,
            "be a model, policy, plan, record, experiment, suite, estimate or chart",
            one_line(type(thing).__name__),
        )
