"""`bqrl solve`: the best policy for a quantile of the return, and a proof of how good it is."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bqrl.cli.model import discount_of, discount_question
from bqrl.cli.output import Json, Out, paper, say
from bqrl.cli.watch import QUIET_SECONDS, Watch, forecast, in_words

if TYPE_CHECKING:
    from bqrl.mdp.model import MDP
    from bqrl.planners.plan import Plan
    from bqrl.planners.target import GuaranteeCurve
    from bqrl.reports.document import Solved

DIAMETER = 2  # l1 distance of two laws that have nothing in common
MAX_SHARES = 20_000_000  # entries (H, S, A) of a policy map


def solve(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A .csv, .npz or .json file, a named problem, a Gymnasium id.")
    ],
    tau: Annotated[list[float], typer.Option("--tau", help="Quantile level in (0, 1); may be given several times.")],
    beta: Annotated[float, typer.Option(help="Buffer in [0, tau]: 0 is the quantile, tau is CVaR.")] = 0.0,
    horizon: Annotated[
        int | None, typer.Option(help="Number of stages; a .csv file does not say it: then 100.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="First state by its id or name, or a law: Well=0.8,Sick=0.2.")
    ] = None,
    discount: Annotated[float | None, typer.Option(help="Factor per stage in (0, 1].")] = None,
    discount_rate: Annotated[str | None, typer.Option(help="Rate per stage, e.g. 3%: the factor is 1 / 1.03.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of a .csv file, e.g. state=from,next_state=to.")] = None,
    planner: Annotated[str, typer.Option(help="target, greedy, frontier, capped-frontier or expected.")] = "target",
    radius: Annotated[float | None, typer.Option(help="l1 radius of the ball around every uncertain row.")] = None,
    attitude: Annotated[str | None, typer.Option(help="robust or optimistic, with --radius.")] = None,
    randomized: Annotated[
        bool | None,
        typer.Option(
            "--randomized/--no-randomized",
            help="With a buffer: allow one coin at the start, or prove the best deterministic policy.",
        ),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", hidden=True)] = False,
    secondary: Annotated[str | None, typer.Option(help="mean: the best mean among the optimal policies.")] = None,
    arithmetic: Annotated[str, typer.Option(help="float, or rational to settle ties on small problems.")] = "float",
    points: Annotated[int | None, typer.Option(help="Grid size where no exact grid of returns fits.")] = None,
    gap: Annotated[
        float | None,
        typer.Option(help="Refine such a grid until the gap is this small; with --no-randomized: the gap to prove."),
    ] = None,
    max_nodes: Annotated[int | None, typer.Option(help="Limit on the search of --no-randomized.")] = None,
    max_memory: Annotated[float | None, typer.Option(help="Limit on the memory of a sweep, in GiB.")] = None,
    memory: Annotated[float | None, typer.Option("--memory", hidden=True)] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Plan for the tau-quantile of the total return: the best result that is reached with certainty 1 - tau."""
    if exact:
        typer.echo("bqrl: --exact is deprecated; use --no-randomized", err=True)
        randomized = False
    if memory is not None:
        typer.echo("bqrl: --memory is deprecated; use --max-memory", err=True)
        max_memory = memory
    _check_limits(points, gap, max_memory)
    discount = discount_of(discount, discount_rate)
    settings = {
        "model": model, "tau": tau, "beta": beta, "horizon": horizon, "start": start, "discount": discount,
        "planner": planner, "radius": radius, "attitude": attitude, "randomized": randomized,
        "secondary": secondary, "arithmetic": arithmetic, "points": points, "gap": gap,
        "max_nodes": max_nodes,
        "max_bytes": None if max_memory is None else max_memory * 2**30,
    }  # fmt: skip
    from bqrl.cli.problem import read_problem
    from bqrl.planners.plan import check_levels
    from bqrl.reports.document import document, to_json

    for level in tau:
        check_levels(level, beta)
    if out is not None:
        from bqrl.reports.folder import try_folder

        try_folder(out)
    problem = read_problem(model, horizon, start, discount, columns)
    name, mdp = problem.name, problem.mdp
    if mdp is None:
        raise ValueError(
            f"{model} does not tell its kernel, so there is nothing to plan on; learn it: bqrl learn {model}"
        )
    if problem.assumed is not None:
        typer.echo(f"bqrl: {problem.assumed}", err=True)
    if radius is not None and radius > DIAMETER:
        typer.echo(
            f"bqrl: --radius {radius:g}: above {DIAMETER} it changes nothing, no two rows are further apart", err=True
        )
    with Watch() as watch:
        solved = solve_levels(name, mdp, sorted(set(tau)), settings, watch, full=out is not None)
        left_out: list[str] = []
        if out is None:
            content = document(solved)
        else:
            from bqrl.reports.folder import write_folder

            watch.phase("writing")
            content, left_out = write_folder(solved, out)
    if as_json:
        typer.echo(to_json(content, ascii_only=True))
    else:
        tell(content, out)
    question = discount_question(mdp.discount)
    if question is not None:
        typer.echo(question, err=as_json)
    for line in left_out:
        typer.echo(f"bqrl: {line}", err=True)


def _check_limits(points: int | None, gap: float | None, max_memory: float | None) -> None:
    """ValueError for numbers that mean nothing, also where the problem would not use them."""
    if points is not None and points < 2:
        raise ValueError(f"--points must be at least 2 points, got {points}")
    if gap is not None and not gap > 0.0:
        raise ValueError(f"--gap must be a number above 0, got {gap:g}")
    if max_memory is not None and not 0.0 < max_memory * 2**30 < math.inf:
        raise ValueError(f"--max-memory must be a number of GiB above 0, got {max_memory:g}")


def solve_levels(
    name: str, mdp: MDP, taus: list[float], settings: dict[str, Any], watch: Watch, *, full: bool
) -> Solved:
    """The plans of all levels with what they are compared with; `full` adds what only figures need."""
    from bqrl.mdp.policy import TargetPolicy
    from bqrl.planners.occupancy import play_shares
    from bqrl.planners.target import risk_neutral
    from bqrl.reports.document import Solved

    begun = time.perf_counter()
    expected = forecast(mdp, len(taus), settings["beta"], settings)
    if expected is not None and expected[0] > QUIET_SECONDS:
        watch.say(in_words(*expected))
    plans, curve = _plans(mdp, taus, settings, watch)
    watch.phase("comparing with the risk-neutral policy")
    neutral = neutral_upper = None
    if settings["planner"] != "expected":  # on a grid as fine as the plans'
        finest = max(
            (int(plan.policy.grid.size[0]) for plan in plans if isinstance(plan.policy, TargetPolicy)), default=0
        )
        _, neutral, neutral_upper = risk_neutral(mdp, finest)
    shares = []
    if full:
        watch.phase("guarantee curve", mdp.H)
        curve = curve or _curve_beside(mdp, settings, watch)
        if mdp.H * mdp.S * mdp.A <= MAX_SHARES:
            watch.phase("policy map", len(plans))
            for plan in plans:
                shares.append(play_shares(mdp, plan.policy))
                watch.tick()
    seconds = time.perf_counter() - begun
    return Solved(name, mdp, tuple(plans), neutral, settings, curve, tuple(shares), seconds, neutral_upper)


def _plans(
    mdp: MDP, taus: list[float], settings: dict[str, Any], watch: Watch
) -> tuple[list[Plan], GuaranteeCurve | None]:
    """Plans by level; for the plain quantile one sweep serves them all."""
    from bqrl.planners.solve import guarantee_curve
    from bqrl.planners.solve import solve as solve_one
    from bqrl.planners.target import plan_from_curve

    special = {key: settings[key] for key in ("radius", "attitude", "randomized", "secondary", "arithmetic")}
    asked = any(special[key] not in (None, "float") for key in ("radius", "secondary", "arithmetic"))
    options = {key: settings[key] for key in ("points", "gap", "max_nodes", "max_bytes") if settings[key] is not None}
    if (
        settings["planner"] == "target"
        and settings["beta"] == 0.0
        and not asked
        and not options.keys() & {"gap", "max_nodes"}
    ):
        begun = time.perf_counter()
        watch.phase("planning", mdp.H)
        curve = guarantee_curve(mdp, tick=watch.tick, **options)
        watch.phase("evaluating the policies", len(taus))
        plans = []
        for tau in taus:
            plans.append(plan_from_curve(curve, tau).with_time(time.perf_counter() - begun))
            watch.tick()
        return plans, curve
    watch.phase("planning", len(taus) if len(taus) > 1 else None)
    plans = []
    for tau in taus:
        plans.append(solve_one(mdp, tau, settings["beta"], settings["planner"], **special, **options))
        watch.tick()
    return plans, plans[-1].details.get("curve")


def _curve_beside(mdp: MDP, settings: dict[str, Any], watch: Watch) -> GuaranteeCurve | None:
    """The guarantee curve where the plan needed none; None where a sweep would not fit."""
    from bqrl.planners.solve import guarantee_curve

    limits = {key: settings[key] for key in ("points", "max_bytes") if settings[key] is not None}
    try:
        return guarantee_curve(mdp, tick=watch.tick, **limits)
    except ValueError:
        return None


def tell(content: dict[str, Any], out: Path | None) -> None:
    """Print the table, what each level means, and where the files are."""
    from bqrl.cli.commands import spoken
    from bqrl.reports.tables import level_lines, level_table, title

    console = paper()
    console.print(title(content), style="italic", soft_wrap=True)
    table = level_table(content, console.width)
    if table is not None:
        console.print(table)
    else:
        for lines in level_lines(content):
            console.print("", *lines, sep="\n")
    console.print()
    for level in content["levels"]:
        lead = f"{level['objective']}: " if len(content["levels"]) > 1 else ""
        say(console, f"{lead}{level['meaning']}")
        for note in level["notes"]:
            if level["attitude"] == "nominal":  # over a ball the sentence has said it
                say(console, spoken(note), indent="  ", style="dim")
    if any(_open(level) for level in content["levels"]):
        finer = "--points or --gap" if content["settings"].get("radius") is None else "--points"
        say(console, f"A finer grid narrows what is left open: {finer}.", style="dim")
    if out is not None:
        console.print(f"Wrote {out}; `bqrl report {out}` makes a page of it.", soft_wrap=True)


def _open(level: dict[str, Any]) -> bool:
    """Whether rounding the returns leaves something open."""
    from bqrl.planners.plan import GAP_TOL

    gap = level["gap"]
    return not level["exact"] and gap is not None and gap > GAP_TOL * max(1.0, abs(level["value"]))
