"""`bqrl outlook`: what to do now, the chance of the target, and what can still be guaranteed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from typer import Option

import bqrl
from bqrl.cli.output import warn
from bqrl.cli.problem import ProblemOptions
from bqrl.errors import ArgumentError
from bqrl.planners.plan import Plan
from bqrl.results.problem import read_problem
from bqrl.results.result import Result, ResultTable, Shown, check_folder
from bqrl.results.words import outlook_sentence

STAGE = "The stage, counted from 1 as in the tables of decisions."
EARNED = "The rewards so far, discounted to the first stage."
POLICY = "A saved plan (.npz) in place of --tau; or with --tau a table (.csv), a saved policy (.npz), always:ACTION or random."
DRAWN = "Which policy of a mixture was drawn at the start, counted from 1."


@dataclass(frozen=True, kw_only=True)
class Outlook(ProblemOptions):
    """Say what to do in one situation: the action, the chance of the target, and what can still be guaranteed."""

    policy: Annotated[str | None, Option(metavar="POLICY", help=POLICY)] = None
    stage: Annotated[int | None, Option(help=STAGE)] = None
    state: Annotated[str | None, Option(help="Name or id of the state.")] = None
    earned: Annotated[float, Option(help=EARNED)] = 0.0
    drawn: Annotated[int | None, Option(help=DRAWN)] = None

    def run(self) -> None:
        """Plan, or read the policy, and look ahead from the situation."""
        if self.stage is None or self.state is None:
            raise ArgumentError("Missing option '--stage' or '--state', e.g. --stage 12 --state Poor")
        chosen: Any = self.policy
        if chosen is not None and chosen.lower().endswith(".npz"):
            chosen = bqrl.load(chosen)
        if self.objective and not isinstance(chosen, Plan):
            rule = "--objective requires a saved plan for it, because a plan is made for --tau here"
            raise ArgumentError(f"{rule}; save one with bqrl.save", name="objective")
        if isinstance(chosen, Plan) and (self.tau or self.certainty or self.objective):
            raise ArgumentError("a saved plan has its own level; leave out --tau", name="tau")
        tau = None if isinstance(chosen, Plan) else self.level()
        check_folder(self.out, "outlook", ["outlook.csv"])
        problem = read_problem(**self.asked)
        mdp = problem.model("an outlook requires them")
        warn(*problem.notices)
        if chosen is None:
            chosen, tau = bqrl.solve(mdp, tau=tau), None
        here: dict[str, Any] = {"stage": self.stage, "state": self.state, "earned": self.earned, "drawn": self.drawn}
        now = bqrl.outlook(mdp, chosen, tau, **here)
        words, row = problem.words, now.rows()[0]
        titles = {name: words.titled(name) for name in ("earned", "target", "guarantee")}
        titles |= {"stage": words.stage, "state": words.state, "action": words.action, "best_chance": "best chance"}
        table = ResultTable([row], titles=titles)
        settings = self.problem_settings() | here | {"policy": self.policy}
        said = outlook_sentence(now, words)
        result = Result(
            kind="outlook", title=words.title, settings=settings, tables={"outlook": table}, details=row, sentences=[said]
        )  # fmt: skip
        self.conclude(Shown(row, result, header=words.title, tables=[table], lines=[said]))
