"""`bqrl solve`: plans for one or several levels."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from bqrl.checks import number, one_line
from bqrl.cli.params import read_policies
from bqrl.cli.problem import BELOW, CERTAINTY, DECIMAL, POLICY, Objectives, ProblemOptions
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Objective
from bqrl.planners.solve import PLANNERS
from bqrl.results.plans import show_plans
from bqrl.results.problem import read_problem
from bqrl.results.solved import CHOICES, distinct_goals

LEVELS = "Share of runs that may fall short, in (0, 1], below 1 without --beta; may be given several times."
COMPARE = "Show the plan beside the risk-neutral and the three best constant policies."
MAX_MEMORY = 1e9  # GiB
RANDOMIZED = "With a buffer: allow one random draw at the start, or prove the best deterministic policy."
PLANNER = f"{', '.join(PLANNERS)}; by default the first that solves the objective."
RADIUS = "How far the probabilities of each uncertain row may be off, in l1 distance."
AT_LEAST = "The best mean among policies that guarantee this return, or a share of the best guarantee such as 98%."
MARGIN = "Share of the largest margin to keep, in [0, 1]: the best mean among policies that keep it."
OFF = "Plan for probabilities that are off by up to this share, such as 5%: --radius 0.1 --attitude robust."
RULE = "The best rule without memory that a search finds: stage-state, state or threshold."
ORDER = "With --rule threshold: the states from low to high, separated by commas."
TABLE = "The decisions as a spreadsheet (.xlsx or .csv): a rule by states and stages, else one row per situation."
FOLDER = "Folder for checkpoints of plans that do not fit into memory; nothing is left there."
CLUSTER = "Share the sweep among the workers of the Dask scheduler at ADDRESS (trusted networks only)."
PRECISION = "float32 stores probabilities in half the memory, with a stated error."
GAP = "Refine the grid of returns until the bounds are this close; with --no-randomized: the gap to prove."


@dataclass(frozen=True, kw_only=True)
class Solve(ProblemOptions):
    """Find the policy with the best result in, say, 9 of 10 runs (a quantile of the return), or for another objective."""

    tau: Annotated[list[float] | None, Option(metavar="<float>", help=LEVELS)] = None
    certainty: Annotated[list[str] | None, Option(metavar="PERCENT", help=CERTAINTY)] = None
    objective: Objectives = None
    beta: Annotated[float, Option(help="Buffer in [0, tau]: 0 is the quantile, tau is CVaR.")] = 0.0
    planner: Annotated[str | None, Option(help=PLANNER)] = None
    radius: Annotated[float | None, Option(help=RADIUS)] = None
    attitude: Annotated[str | None, Option(help="With --radius: robust or optimistic.")] = None
    randomized: Annotated[bool | None, Option("--randomized/--no-randomized", help=RANDOMIZED)] = None
    at_least: Annotated[str | None, Option(metavar="AMOUNT", help=AT_LEAST)] = None
    margin: Annotated[float | None, Option(help=MARGIN)] = None
    off: Annotated[str | None, Option(metavar="PERCENT", help=OFF)] = None
    secondary: Annotated[str | None, Option(help="mean: the best mean among policies with the best guarantee.")] = None
    arithmetic: Annotated[str, Option(help="float, or rational to settle ties on small problems.")] = "float"
    points: Annotated[int | None, Option(help="Number of grid points if returns have no exact grid.")] = None
    gap: Annotated[float | None, Option(help=GAP)] = None
    max_nodes: Annotated[int | None, Option(help="Limit on the number of nodes that --no-randomized searches.")] = None
    rule: Annotated[str | None, Option(metavar="SHAPE", help=RULE)] = None
    order: Annotated[str | None, Option(metavar="STATES", help=ORDER)] = None
    policy: Annotated[list[str] | None, Option(metavar="[NAME=]POLICY", help=POLICY)] = None
    below: Annotated[float | None, Option(help=BELOW)] = None
    compare: Annotated[bool, Option("--compare/--no-compare", help=COMPARE)] = True
    max_memory: Annotated[float | None, Option(help="Limit on the memory of a sweep, in GiB.")] = None
    folder: Annotated[str | None, Option(metavar="DIR", help=FOLDER)] = None
    precision: Annotated[str | None, Option(help=PRECISION)] = None
    table: Annotated[Path | None, Option(metavar="FILE", help=TABLE)] = None
    cluster: Annotated[str | None, Option(metavar="ADDRESS", help=CLUSTER)] = None
    decimal: Annotated[str, Option(help=DECIMAL)] = "."

    def run(self) -> None:
        """Plan every level, and compare with the risk-neutral policy."""
        policies, share = read_policies(self.policy or ()), None if self.off is None else share_of(self.off)
        goals = distinct_goals(self.goals())
        asked, settings = self.asked, self._settings(goals, share)
        if self.table is not None and len(goals) > 1:
            raise ArgumentError(f"--table requires one level or objective, got {len(goals)}; give one", name="table")
        memory, below = self.max_memory, None if self.below is None else number(self.below, "below")
        settings["max_bytes"] = None if memory is None else number(memory, "max_memory", 0.0, MAX_MEMORY, "(]") * 2**30
        problem = read_problem(**asked)
        mdp = problem.model("try bqrl learn, which plays it")
        shown = show_plans(
            mdp, problem.words, goals, settings, off=share, policies=policies, below=below, usual=self.compare,
            folder=self.out, sheet=self.table, decimal=self.decimal, notices=problem.notices, progress=True,
        )  # fmt: skip
        self.conclude(shown)

    def _settings(self, goals: Sequence[Objective], share: float | None) -> dict[str, Any]:
        """The options, by the library's names of the arguments."""
        if self.max_nodes is not None and self.randomized is not False:
            raise ArgumentError("--max-nodes requires --no-randomized; give both or neither")
        chosen: dict[str, Any] = {"planner": self.planner}
        named = {"objective": [goal.text for goal in goals]}
        chosen |= named if self.objective else {"tau": self.levels(), "beta": self.beta}
        chosen |= {"below": self.below, "policy": self.policy or [], "no_compare": not self.compare}
        chosen |= {name: getattr(self, name) for name in CHOICES}
        if self.order is not None:
            if self.rule is None:
                raise ArgumentError("--order requires --rule threshold; give both or neither", name="order")
            chosen["order"] = [name.strip() for name in self.order.split(",")]
        if share is not None:
            if self.radius is not None or self.attitude is not None:
                raise ArgumentError("--off replaces --radius and --attitude; drop them", name="off")
            if self.rule is not None:
                remedy = (
                    "drop --off: the output already says what the plan of a rule guarantees if probabilities are off"
                )
                raise ArgumentError(f"expected one of --off and --rule, got both; {remedy}", name="off")
            chosen |= {"radius": 2.0 * share, "attitude": "robust"}
        return self.problem_settings() | chosen


def share_of(text: str) -> float:
    """A share of probability, which is written as a percentage or a number.

    >>> share_of("5%"), share_of("0.02")
    (0.05, 0.02)
    """
    with suppress(ArithmeticError):  # in decimals: 5 % is 0.05
        share = Decimal(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)
        if 0 <= share <= 1:
            return float(share)
    raise ArgumentError(f"--off must lie between 0% and 100%, such as 5% or 0.05, got {one_line(text)}", name="off")
