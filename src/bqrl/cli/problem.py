"""The argument PROBLEM (a model file, a named problem or a Gymnasium id) and its options."""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import gymnasium
from typer import Argument, Option

from bqrl.checks import nearest, number, one_line
from bqrl.cli.output import Command
from bqrl.cli.params import column_names
from bqrl.envs import about, make, names
from bqrl.errors import ArgumentError, ModelWarning
from bqrl.laws.objectives import Objective, check_levels, quantile_objective
from bqrl.mdp.as_env import MDPEnv
from bqrl.mdp.files import ending
from bqrl.mdp.files.facts import USUAL_HORIZON, parse_start
from bqrl.mdp.from_gymnasium import changing_wrapper, from_gymnasium, time_limit
from bqrl.mdp.load import load_model, states_horizon
from bqrl.mdp.model import MDP
from bqrl.mdp.validation import check_horizon
from bqrl.planners.solve import FORMS, read_objective
from bqrl.results.words import NAMES, Words

ASSUMED = "{} states no horizon; assuming {} stages (set --horizon)"
COLUMN_NAMES = "Headers of columns with other names: ROLE=HEADER pairs separated by commas, e.g. state=from."
LEVEL = "Quantile level in (0, 1): the share of runs that may fall short."
CERTAINTY = "Share of runs that reach the result, in place of --tau: 90% is --tau 0.1."
BELOW = "Also show the share of runs that end below this return."
POLICY = (
    "A strategy: a table (.csv) or saved policy (.npz), always:ACTION or random; NAME= gives it a name; repeatable."
)
DECIMAL = "Decimal sign of the CSV files, '.' or ','; with ',' semicolons separate their fields."
OBJECTIVE = f"What to maximise, in place of --tau: {', '.join(FORMS)}."
Objectives = Annotated[list[str] | None, Option(metavar="NAME:NUMBERS", help=OBJECTIVE)]
SOURCES = "A .csv, .xlsx, .parquet, .npz, .json, .umb or .drn file, a named problem or a Gymnasium id (FrozenLake-v1)."
STRUCTURE = "Reward structure of a .umb or .drn file, which may have several."
BINS = 'Cells of Box observations: a number per coordinate, or cut points, e.g. "[[0], [-1, 0, 1]]".'


def level_of(certainty: str) -> float:
    """Quantile level of a certainty, which is written as a percentage or a share.

    >>> level_of("90%"), level_of("0.995")
    (0.1, 0.005)
    """
    text = certainty.strip()
    with suppress(ArithmeticError):  # in decimals: 1 - 0.9 is 0.1
        share = Decimal(text.removesuffix("%").strip()) / (100 if text.endswith("%") else 1)
        if 0 < share < 1:
            return float(1 - share)
    raise ArgumentError(f"--certainty must lie between 0% and 100%, such as 90% or 0.9, got {one_line(certainty)}")


@dataclass(frozen=True, kw_only=True)
class SharedOptions(Command):
    """Options for both problems and logs: level, title, units and discount."""

    tau: Annotated[list[float] | None, Option(metavar="<float>", help=LEVEL)] = None
    certainty: Annotated[list[str] | None, Option(metavar="PERCENT", help=CERTAINTY)] = None
    objective: Objectives = None
    title: Annotated[str | None, Option(help="Title of tables, charts and the page.")] = None
    unit: Annotated[str | None, Option(help="Unit of the returns, such as EUR or QALY.")] = None
    stage_name: Annotated[str | None, Option(help="What one stage is called, such as year.")] = None
    run_name: Annotated[str | None, Option(help="What one run is called, such as patient.")] = None
    return_name: Annotated[str | None, Option(help="What a run brings, such as net benefit.")] = None
    state_name: Annotated[str | None, Option(help="What a state is called, such as condition.")] = None
    action_name: Annotated[str | None, Option(help="What an action is called, such as order.")] = None
    discount: Annotated[float | None, Option(help="Discount factor per stage, in (0, 1].")] = None
    discount_rate: Annotated[str | None, Option(help="Discount rate per stage: 3% is the factor 1 / 1.03.")] = None

    def words(self, name: str, model: Any = None, **default: str) -> Words:
        """The words given as options, else those of the model, else the `default`."""
        chosen = {option: getattr(self, option) for option in NAMES} | {"title": self.title or None}
        return Words.of(model, chosen, title=name, command=True, **default)

    def levels(self, *default: float) -> list[float]:
        """The levels of --tau or of --certainty, in the order given, else the `default`."""
        if self.tau and self.certainty:
            raise ArgumentError("--tau and --certainty exclude each other; give one of them")
        found = list(self.tau or map(level_of, self.certainty or ())) or list(default)
        if not found:
            raise ArgumentError("Missing option '--tau', e.g. --tau 0.1, or --certainty 90%")
        return found

    def level(self, *default: float) -> float:
        """The level, in (0, 1), of a command that takes only one."""
        found = self.levels(*default)
        if len(found) > 1:
            option = "--tau" if self.tau else "--certainty"
            raise ArgumentError(f"{option} must be given once, got {len(found)} values; run the command once per level")
        return number(found[0], "tau", 0.0, 1.0, "()")

    def goals(self, *default: float) -> list[Objective]:
        """The objectives of --objective, else the quantiles at the levels, buffered by --beta if the command has it."""
        beta = getattr(self, "beta", 0.0)
        if not self.objective:
            return [quantile_objective(*check_levels(level, beta)) for level in self.levels(*default)]
        if self.tau or self.certainty or beta:
            raise ArgumentError("--objective stands in place of --tau, --certainty and --beta; give one or the other")
        return [read_objective(text) for text in self.objective]

    def goal(self, *default: float) -> Objective:
        """The objective of a command that takes only one."""
        if self.objective and len(self.objective) > 1:
            raise ArgumentError(
                f"--objective must be given once, got {len(self.objective)} values; run the command once per objective"
            )
        if not self.objective:
            self.level(*default)
        return self.goals(*default)[0]

    @property
    def factor(self) -> float | None:
        """The discount factor per stage of --discount or of --discount-rate, which is written 3% or 0.03."""
        if self.discount_rate is None:
            return self.discount
        if self.discount is not None:
            raise ArgumentError("--discount and --discount-rate exclude each other; give one of them")
        text = self.discount_rate.strip()
        with suppress(ValueError):
            rate = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
            if 0.0 <= rate < 1.0:
                return 1.0 / (1.0 + rate)
        raise ArgumentError(f"--discount-rate must be a rate per stage such as 3% or 0.03, got {text[:40]!r}")


@dataclass(frozen=True, kw_only=True)
class ProblemOptions(SharedOptions):
    """The argument PROBLEM and the options that describe it, for every command that takes a problem."""

    problem: Annotated[str, Argument(metavar="PROBLEM", help=SOURCES)]
    horizon: Annotated[
        int | None, Option(help=f"Number of stages; by default as the problem states, else {USUAL_HORIZON}.")
    ] = None
    start: Annotated[str | None, Option(help="First state by its id or name, or its law: Well=0.8,Sick=0.2.")] = None
    columns: Annotated[str | None, Option(help=COLUMN_NAMES)] = None
    rewards: Annotated[str | None, Option(metavar="NAME", help=STRUCTURE)] = None

    @property
    def changes(self) -> dict[str, Any]:
        """The arguments `start` and `discount` of the library; a start is a state, or a law such as Well=0.8,Sick=0.2."""
        return {"start": None if self.start is None else parse_start(self.start), "discount": self.factor}

    def problem_settings(self) -> dict[str, Any]:
        """The settings that define the problem."""
        given = {"problem": self.problem, "horizon": self.horizon, "start": self.start}
        return given | {"discount": self.factor, "columns": self.columns, "rewards": self.rewards}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LoadedProblem:
    """A problem with its words and with notices for the user."""

    source: Any  # an MDP, or an environment with unknown kernel
    words: Words
    horizon: int | None = None  # of an environment
    notices: tuple[str, ...] = ()

    @property
    def mdp(self) -> MDP | None:
        """The model, if the kernel is known."""
        return self.source if isinstance(self.source, MDP) else None


def read_problem(asked: ProblemOptions) -> LoadedProblem:
    """The problem of the command line; an environment with a transition table becomes a model, others are only played."""
    path, short = Path(asked.problem), asked.problem.removeprefix("bqrl/").removesuffix("-v0")
    if ending(path) is not None or path.is_file():
        return _from_file(path, asked)
    for name, kinds in (("columns", ".csv, .xlsx and .parquet"), ("rewards", ".umb and .drn")):
        if getattr(asked, name) is not None:
            raise ArgumentError(
                f"{name} must be given for {kinds} files only, got {asked.problem[:80]!r}; omit it", name=name
            )
    if short in names():
        known, mdp = about(short), make(short).replace(horizon=asked.horizon, **asked.changes)
        return _model(mdp, asked.words(short, mdp, unit=known.unit, stage=known.stage))
    return _from_gymnasium(asked)


def _model(mdp: MDP, words: Words, *notices: str) -> LoadedProblem:
    """The problem of a model, with a notice if its discount factor looks like a rate."""
    if mdp.discount < 0.5:
        rate, factor = f"{100 * mdp.discount:.6g} %", 1 / (1 + mdp.discount)
        notices += (f"the discount factor {mdp.discount:g} is small; for a discount rate of {rate} use {factor:.6g}",)
    return LoadedProblem(source=mdp, words=words, notices=notices)


def _from_file(path: Path, asked: ProblemOptions) -> LoadedProblem:
    """The model in a file, with notices about ignored parts."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            mdp: MDP = load_model(
                path, columns=column_names(asked.columns), rewards=asked.rewards, horizon=asked.horizon, **asked.changes
            )
    except FileNotFoundError as error:
        beside = [other.name for other in path.parent.glob("*")] if not path.is_symlink() else []
        raise FileNotFoundError(f"{error}{nearest(path.name, beside, listed=False)}") from None
    notices = [f"{path.name}: {notice.message}" for notice in caught]
    if asked.horizon is None and mdp.stationary and not states_horizon(path):
        notices.append(ASSUMED.format(asked.problem, mdp.H))
    name = path.name.removesuffix(".gz").rpartition(".")[0] or path.stem
    return _model(mdp, asked.words(name, mdp), *notices)


def _from_gymnasium(asked: ProblemOptions) -> LoadedProblem:
    """The environment of that id, or its model if it exposes one."""
    given = asked.problem
    if given not in gymnasium.registry and ":" not in given:
        known = [*names(), *(name for name in gymnasium.registry if not name.startswith("bqrl/"))]
        kinds = "a model file (.csv, .xlsx, .parquet, .npz, .json, .umb, .drn) nor a named problem nor a Gymnasium id"
        near = nearest(given, known, listed=False) or nearest(given, names())
        raise ArgumentError(f"{given[:80]!r} is neither {kinds}{near}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about versions; real problems raise errors
            env: Any = gymnasium.make(given)
    except gymnasium.error.Error as fault:
        raise ArgumentError(str(fault)) from None
    core, plain = env.unwrapped, changing_wrapper(env) is None
    if plain and isinstance(core, MDPEnv):
        mdp = core.mdp.replace(horizon=asked.horizon, **asked.changes)
        return _model(mdp, asked.words(given, mdp))
    stages = time_limit(env) if asked.horizon is None else asked.horizon
    notices = () if stages is not None else (ASSUMED.format(given, USUAL_HORIZON),)
    stages, words = check_horizon(USUAL_HORIZON if stages is None else stages), asked.words(given)
    if plain and getattr(core, "P", None) is not None:
        return _model(from_gymnasium(env, horizon=stages).replace(**asked.changes), words, *notices)
    for name, value in asked.changes.items():
        if value is not None:
            raise ArgumentError(
                f"--{name} needs a model, and {given} does not expose its transition probabilities; leave it out"
            )
    return LoadedProblem(source=env, words=words, horizon=stages, notices=notices)
