"""`bqrl outlook`: what to do now, the chance of the target, and what can still be guaranteed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

import bqrl
from bqrl.cli.output import warn
from bqrl.cli.problem import ProblemOptions, read_problem
from bqrl.errors import ArgumentError
from bqrl.planners.plan import Plan
from bqrl.results.result import Result, ResultTable, check_folder

STAGE = "The stage, counted from 1 as in the tables of decisions."
EARNED = "The rewards so far, discounted to the first stage."
PLAN = "A saved plan (.npz) in place of --tau."


@dataclass(frozen=True, kw_only=True)
class Outlook(ProblemOptions):
    """What a plan says in one situation: the action, the chance of the target, and what can still be guaranteed."""

    plan: Annotated[Path | None, Option(metavar="FILE", help=PLAN)] = None
    stage: Annotated[int | None, Option(help=STAGE)] = None
    state: Annotated[str | None, Option(help="Name or id of the state.")] = None
    earned: Annotated[float, Option(help=EARNED)] = 0.0

    def run(self) -> None:
        """Plan, or read the plan, and look ahead from the situation."""
        if self.stage is None or self.state is None:
            raise ArgumentError("Missing option '--stage' or '--state', e.g. --stage 12 --state Poor")
        if self.plan is not None and (self.tau or self.certainty):
            raise ArgumentError("--plan and --tau exclude each other; give one of them", name="plan")
        taus = [] if self.plan is not None else self.levels()
        if len(taus) > 1:
            raise ArgumentError("expected one --tau, got several; look at them one by one", name="tau")
        check_folder(self.out, "outlook", ["outlook.csv"])
        problem = read_problem(self)
        if problem.mdp is None:
            raise ArgumentError(
                f"{self.problem} does not expose its transition probabilities; an outlook requires them"
            )
        warn(*problem.notices)
        made = bqrl.solve(problem.mdp, tau=taus[0]) if self.plan is None else bqrl.load(self.plan)
        if not isinstance(made, Plan):
            raise ArgumentError(
                f"--plan must be a saved plan, got a {type(made).__name__}; save one with bqrl.save", name="plan"
            )
        now = made.outlook(problem.mdp, stage=self.stage, state=self.state, earned=self.earned)
        table = ResultTable(now.rows(), titles={"best_chance": "best chance", "exact": "exact"})
        settings = self.problem_settings() | {"stage": self.stage, "state": self.state, "earned": self.earned}
        title, row = problem.words.title, now.rows()[0]
        result = Result(kind="outlook", title=title, settings=settings, tables={"outlook": table}, details=row)
        self.conclude(row, result, header=title, tables=[table], lines=[str(now)])
