"""`bqrl fit`: from logged episodes to a policy whose promise holds with a stated confidence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from bqrl.cli.params import column_names, read_value
from bqrl.cli.problem import CERTAINTY, COLUMN_NAMES, LEVEL, Objectives, SharedOptions
from bqrl.logs.estimate import promised_levels
from bqrl.logs.fit import CONFIDENCE, fit
from bqrl.mdp.files.facts import parse_start
from bqrl.results.estimates import FILES, fit_result
from bqrl.results.result import check_folder

ARGUMENTS = (
    "columns",
    "horizon",
    "discount",
    "start",
    "stationary",
    "support",
    "reward_range",
    "ends",
    "reward_by",
    "adaptive",
)
ENDS = "Episodes with fewer steps than the horizon: terminal (complete, the default) or truncated (cut off)."
SHOWN = ("policies", "limits", "projection")  # tables printed


@dataclass(frozen=True, kw_only=True)
class Fit(SharedOptions):
    """Find a policy from logged episodes, and what it guarantees with a stated confidence."""

    log: Annotated[Path, Argument(metavar="LOG", help="A .csv, .csv.gz, .xlsx or .parquet file, one row per step.")]
    tau: Annotated[list[float] | None, Option(metavar="<float>", help=LEVEL)] = None
    certainty: Annotated[list[str] | None, Option(metavar="PERCENT", help=CERTAINTY)] = None
    objective: Objectives = None
    beta: Annotated[float, Option(help="Buffer in [0, tau]: 0 is the quantile, tau is CVaR.")] = 0.0
    confidence: Annotated[float, Option(help="Probability with which the promise holds.")] = CONFIDENCE
    columns: Annotated[str | None, Option(help=COLUMN_NAMES)] = None
    stationary: Annotated[
        bool, Option("--stationary", help="Probabilities and rewards are the same at every stage.")
    ] = False
    horizon: Annotated[int | None, Option(help="Number of stages; by default that of the longest episode.")] = None
    start: Annotated[str | None, Option(help="First state by its id or name, or its law: Well=0.8,Sick=0.2.")] = None
    reward_range: Annotated[str | None, Option(help="Lowest and highest possible reward of one step: LO,HI.")] = None
    reward_by: Annotated[str | None, Option(help="state-action: only state and action determine the reward.")] = None
    support: Annotated[str | None, Option(help="states: the log shows every state that can occur.")] = None
    ends: Annotated[str | None, Option(help=ENDS)] = None
    adaptive: Annotated[bool, Option("--adaptive", help="The policy that wrote the log changed with the data.")] = False

    def run(self) -> None:
        """Fit the log, plan, and show three policies, the promise and what limits it."""
        words = self.words(self.log.name)
        goal = self.goal()  # before the log is read
        promised_levels(goal)
        check_folder(self.out, "fit", FILES)
        asked = {name: getattr(self, name) for name in ARGUMENTS}
        asked |= {"columns": column_names(self.columns), "reward_range": read_value(self.reward_range or "none")}
        asked["discount"] = 1.0 if self.factor is None else self.factor
        start = None if self.start is None else parse_start(self.start)
        estimate = fit(self.log, self.confidence, **asked | {"start": start})
        promise = estimate.solve(goal)
        goals = {"objective": goal.text} if self.objective else {"tau": self.level(), "beta": self.beta}
        settings = {"log": str(self.log), **goals, "confidence": self.confidence, **asked}
        result = fit_result(estimate, promise, words, settings, draw=self.out is not None)
        shown, lines = [result.tables[name] for name in SHOWN], [line.text for line in result.lines]
        self.conclude(result.details, result, tables=shown, lines=lines)
