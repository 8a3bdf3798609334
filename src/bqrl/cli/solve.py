"""`bqrl solve`: plans for one or several levels."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any

from typer import Option

import bqrl
from bqrl.cli.output import Note, warn
from bqrl.cli.problem import ProblemOptions, read_problem
from bqrl.cli.progress import QUIET_SECONDS, ProgressBar
from bqrl.errors import ArgumentError
from bqrl.mdp.find_grid import rounded
from bqrl.mdp.grid import Grid
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.follow import play_shares
from bqrl.planners.plan import GAP_TOL, Plan, check_levels
from bqrl.planners.target import MAX_BYTES, exact_grid, plan_from_curve, risk_neutral
from bqrl.results.plans import MAX_SHARES, Solved, in_one_line, level_table, plan_document, plan_files, plan_result
from bqrl.results.result import check_folder
from bqrl.study.watch import in_words

CHOICES = ("radius", "attitude", "randomized", "secondary", "arithmetic", "points", "gap", "max_nodes")
LIMITS = ("points", "max_bytes")  # on a sweep
DIAMETER = 2.0  # the largest l1 distance of two rows
SLIDER = (0.1, 0.25, 0.5, 0.75, 0.9, *(k / 20 for k in range(1, 20)))  # levels of the page, the important ones first
SLIDER_SECONDS = 5.0  # what the further levels may cost
# Measured on two cores of 2024, in seconds for one outcome in one column of a sweep; good to a factor of three.
SWEEP, PUSH = 1e-9, 1.5e-9
SWEEPS = {"beta": 30, "radius": 5, "secondary": 12, "rational": 2000}  # per level; one plain sweep serves all levels
RANDOMIZED = "With a buffer: allow one random draw at the start, or prove the best deterministic policy."
GAP = "Refine such a grid until the gap is this small; with --no-randomized: the gap to prove."


@dataclass(frozen=True, kw_only=True)
class Solve(ProblemOptions):
    """Plan for the tau-quantile of the total return: the best result that is reached with certainty 1 - tau."""

    tau: Annotated[list[float], Option(help="Quantile level in (0, 1); may be given several times.")]
    beta: Annotated[float, Option(help="Buffer in [0, tau]: 0 is the quantile, tau is CVaR.")] = 0.0
    planner: Annotated[str, Option(help="target, greedy, frontier, capped-frontier or expected.")] = "target"
    radius: Annotated[float | None, Option(help="l1 radius of the ball around every uncertain row.")] = None
    attitude: Annotated[str | None, Option(help="robust or optimistic, with --radius.")] = None
    randomized: Annotated[bool | None, Option("--randomized/--no-randomized", help=RANDOMIZED)] = None
    exact: Annotated[bool, Option("--exact", hidden=True)] = False
    secondary: Annotated[str | None, Option(help="mean: the best mean among the optimal policies.")] = None
    arithmetic: Annotated[str, Option(help="float, or rational to settle ties on small problems.")] = "float"
    points: Annotated[int | None, Option(help="Grid size where no exact grid of returns fits.")] = None
    gap: Annotated[float | None, Option(help=GAP)] = None
    max_nodes: Annotated[int | None, Option(help="Limit on the search of --no-randomized.")] = None
    max_memory: Annotated[float | None, Option(help="Limit on the memory of a sweep, in GiB.")] = None
    memory: Annotated[float | None, Option(hidden=True)] = None

    def run(self) -> None:
        """Plan every level, and compare with the risk-neutral policy."""
        settings = self.settings()
        for level in self.tau:
            check_levels(level, self.beta)
        taus = sorted(set(self.tau))
        check_folder(self.out, "plan", plan_files(taus))
        problem = read_problem(self)
        words, mdp = problem.words, problem.mdp
        if mdp is None:
            hint = "bqrl learn plays it if its spaces are discrete"
            raise ArgumentError(f"{self.problem} does not expose its kernel; {hint}")
        warn(*problem.notices)
        if self.radius is not None and self.radius > DIAMETER:
            warn(f"--radius {self.radius:g} has the effect of {DIAMETER:g}, the largest distance of rows")
        with ProgressBar() as watch:
            begun, seconds, neutral, result = time.perf_counter(), forecast(mdp, settings), None, None
            if seconds > QUIET_SECONDS:
                watch.say(f"planning takes about {in_words(float(f'{seconds:.1g}'))}")
            plans = plan_levels(mdp, taus, settings, watch)
            watch.phase("comparing with the risk-neutral policy")
            if self.planner != "expected":  # on a grid as fine as that of the plans
                grids = (getattr(plan.policy, "grid", None) for plan in plans)
                finest = max((int(grid.size[0]) for grid in grids if grid is not None), default=0)
                policy, law, upper = risk_neutral(mdp, finest)
                neutral = (policy, law, upper or law)
            solved = Solved(
                words=words, mdp=mdp, plans=tuple(plans), neutral=neutral, settings=settings,
                curve=plans[-1].details.get("curve"), seconds=time.perf_counter() - begun,
            )  # fmt: skip
            if self.out is not None:
                result = plan_result(with_chart_data(solved, watch))
        document = plan_document(solved)
        header = f"{words.title}: {in_one_line(document['model'], words)}"
        self.conclude(document, result, header=header, table=level_table(document, words), lines=sentences(document))

    def settings(self) -> dict[str, Any]:
        """What was asked for, in the arguments of the library; options under their old names are taken with a warning."""
        for old, new, used, clash in (
            ("--exact", "--no-randomized", self.exact, "--randomized" if self.randomized else ""),
            ("--memory", "--max-memory", self.memory is not None, "" if self.max_memory is None else "--max-memory"),
        ):
            if used and clash:
                raise ArgumentError(
                    f"{old} is the old name of {new} and must stand alone, got {clash}, too; drop {old}"
                )
            if used:
                warn(f"{old} is deprecated; use {new}")
        limit = self.max_memory if self.memory is None else self.memory
        if limit is not None and not 0.0 < limit * 2**30 < math.inf:
            raise ArgumentError(f"--max-memory must be a number of GiB above 0, got {limit:g}")
        found = self.problem_settings() | {name: getattr(self, name) for name in ("tau", "beta", "planner", *CHOICES)}
        found |= {"max_bytes": None if limit is None else limit * 2**30}
        return found | ({"randomized": False} if self.exact else {})


def plan_levels(mdp: bqrl.MDP, taus: list[float], settings: dict[str, Any], watch: ProgressBar) -> list[Plan]:
    """Plans by level; for the plain quantile one sweep serves them all."""
    planner, beta, options = settings["planner"], settings["beta"], _given(settings, *CHOICES, "max_bytes")
    curve_alone = options.keys() <= {*LIMITS, "randomized", "arithmetic"} and options["arithmetic"] == "float"
    if planner == "target" and beta == 0.0 and curve_alone:
        begun = time.perf_counter()
        watch.phase("planning", mdp.H)
        curve = bqrl.guarantee_curve(mdp, tick=watch.tick, **_given(settings, *LIMITS))
        levels = watch.track(taus, "evaluating the policies")
        return [plan_from_curve(curve, tau).with_time(time.perf_counter() - begun) for tau in levels]
    return [bqrl.solve(mdp, tau, beta, planner, **options) for tau in watch.track(taus, "planning")]


def _given(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: settings[name] for name in names if settings[name] is not None}


def forecast(mdp: bqrl.MDP, settings: Mapping[str, Any]) -> float:
    """About how many seconds the target planner will need; 0 for other planners, which have no such rule."""
    if settings["planner"] != "target":
        return 0.0
    points, levels = settings["points"], len(settings["tau"])
    exact = exact_grid(mdp, settings["max_bytes"] or MAX_BYTES) if points is None else None
    columns = exact or rounded(mdp, max(2, points or BRACKET_POINTS))
    asked = [count for name, count in SWEEPS.items() if settings.get(name) or settings["arithmetic"] == name]
    sweeps = (levels * sum(asked) or 1) * (1 if exact else 2)
    return evaluation_seconds(mdp, columns) * (levels + 1 + sweeps * mdp.A * SWEEP / PUSH)


def evaluation_seconds(mdp: bqrl.MDP, columns: Grid) -> float:
    """About how many seconds the evaluation of one policy takes."""
    return PUSH / mdp.A * sum(mdp.stage(h).successor.size * int(columns.size[h]) for h in range(mdp.H))


def with_chart_data(solved: Solved, watch: ProgressBar) -> Solved:
    """Add what only charts need: the guarantee curve, plans at further levels, and how often actions are played."""
    mdp, curve, first, others = solved.mdp, solved.curve, solved.plans[0], list[Plan]()
    if curve is None:
        watch.phase("guarantee curve", mdp.H)
        with suppress(ValueError):  # a sweep does not fit
            curve = bqrl.guarantee_curve(mdp, tick=watch.tick, **_given(solved.settings, *LIMITS))
    if curve is not None and "curve" in first.details and first.beta == 0.0 and first.attitude == "nominal":
        seconds_each = max(evaluation_seconds(mdp, curve.sweep.grid), 1e-3)
        further = list(dict.fromkeys(SLIDER))[: int(SLIDER_SECONDS / seconds_each)]
        others = [plan_from_curve(curve, level) for level in watch.track(further, "further levels")]
    found = replace(solved, curve=curve, others=tuple(others))
    if mdp.H * mdp.S * mdp.A <= MAX_SHARES:
        every = watch.track([*solved.plans, *others], "policy map")
        neutral = None if solved.neutral is None else play_shares(mdp, solved.neutral[0])
        found = replace(
            found, shares={plan.tau: play_shares(mdp, plan.policy) for plan in every}, neutral_shares=neutral
        )
    watch.phase("drawing")
    return found


def sentences(document: dict[str, Any]) -> list[str]:
    """What each level means, with its notes, and what narrows a bracket."""
    levels, found, wide = document["levels"], list[str](), False
    for level in levels:
        found.append(f"{level['objective']}: {level['meaning']}" if len(levels) > 1 else level["meaning"])
        if level["attitude"] == "nominal":  # over a ball the sentence has said it
            found += map(Note, level["notes"])
        wide |= not level["exact"] and (level["gap"] or 0.0) > GAP_TOL * max(1.0, abs(level["value"]))
    if wide:
        finer = "--points or --gap" if document["settings"].get("radius") is None else "--points"
        found.append(Note(f"A finer grid narrows the bracket: {finer}."))
    return found
