"""PROBLEM on the command line: a model file, a named problem or the id of a Gymnasium environment, and its options."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from bqrl.checks import nearest, number
from bqrl.cli.output import StageName, Title, Unit
from bqrl.cli.params import column_names
from bqrl.envs import about, make, names
from bqrl.errors import ArgumentError, ModelWarning
from bqrl.learners.task import HARMLESS, wrappers
from bqrl.mdp.build import check_horizon
from bqrl.mdp.files import ending
from bqrl.mdp.files.csv import parse_start
from bqrl.mdp.gymnasium import MDPEnv
from bqrl.mdp.load import load, states_horizon
from bqrl.mdp.model import MDP
from bqrl.mdp.toy_text import from_gymnasium
from bqrl.planners.decisions import COLUMNS
from bqrl.results.plans import sizes
from bqrl.results.words import Words

HORIZON = 100  # stages where neither the problem nor the command line says how many


@dataclass(frozen=True, slots=True)
class ProblemOptions:
    """The argument PROBLEM and the options that describe it: the same for every command that takes a problem."""

    problem: Annotated[
        str,
        typer.Argument(
            metavar="PROBLEM", help="A .csv, .npz or .json file, a named problem or a Gymnasium id (FrozenLake-v1)."
        ),
    ]
    horizon: Annotated[int | None, Option(help="Number of stages; a .csv file need not say it: then 100.")] = None
    start: Annotated[str | None, Option(help="First state by its id or name, or a law: Well=0.8,Sick=0.2.")] = None
    discount: Annotated[float | None, Option(help="Factor per stage in (0, 1].")] = None
    discount_rate: Annotated[str | None, Option(help="Rate per stage, e.g. 3%: the factor is 1 / 1.03.")] = None
    columns: Annotated[str | None, Option(help="Columns of a .csv file, e.g. state=from,next_state=to.")] = None
    title: Title = None
    unit: Unit = None
    stage_name: StageName = None

    @property
    def factor(self) -> float | None:
        """The discount factor per stage of --discount or of --discount-rate, which is written 3% or 0.03."""
        if self.discount_rate is None:
            return self.discount
        if self.discount is not None:
            raise ArgumentError("--discount and --discount-rate exclude each other; give one of them", name="discount")
        text = self.discount_rate.strip()
        try:
            rate = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
            return 1.0 / (1.0 + number(rate, "rate", 0.0, 1.0, "[)"))
        except ValueError:
            raise ArgumentError(
                f"--discount-rate must be a rate per stage such as 3% or 0.03, got {text[:40]!r}", name="discount"
            ) from None

    @property
    def changes(self) -> dict[str, Any]:
        """The arguments `start` and `discount` of the library; a start is a state, or a law such as Well=0.8,Sick=0.2."""
        return {"start": None if self.start is None else parse_start(self.start), "discount": self.factor}

    def settings(self) -> dict[str, Any]:
        """What fixes the problem."""
        return {
            "problem": self.problem, "horizon": self.horizon, "start": self.start, "discount": self.factor,
            "columns": self.columns,
        }  # fmt: skip

    def words(self, name: str, unit: str = "", stage: str = "stage") -> Words:
        """The words of the problem: those that were given, else its own."""
        return given_words(self.title or name, self.unit, self.stage_name, Words("", unit, stage))


def given_words(title: str, unit: str | None, stage_name: str | None, own: Words) -> Words:
    """The words that were given on the command line, else the problem's own."""
    if stage_name in COLUMNS:
        raise ArgumentError(
            f"stage_name must not be a column of the policy's table, got {stage_name!r}; choose another word",
            name="stage_name",
            value=stage_name,
        )
    return Words(title, own.unit if unit is None else unit, stage_name or own.stage)


@dataclass(frozen=True, slots=True, eq=False)
class NamedProblem:
    """What to learn on or to plan for, what to call it, and what was assumed about it."""

    source: Any  # an MDP, or an environment whose kernel is not known
    words: Words
    horizon: int | None = None  # of an environment
    assumed: str | None = None

    @property
    def mdp(self) -> MDP | None:
        """The model, if the kernel is known."""
        return self.source if isinstance(self.source, MDP) else None

    @property
    def notices(self) -> list[str]:
        """What the user should know about the problem before the work begins."""
        question = None if self.mdp is None else discount_question(self.mdp.discount)
        return [*filter(None, (self.assumed, question))]

    def sizes(self) -> dict[str, Any]:
        """Title and sizes."""
        if self.mdp is not None:
            return sizes(self.words.title, self.mdp)
        spaces = {"states": self.source.observation_space, "actions": self.source.action_space}
        found = {"name": self.words.title} | {key: getattr(space, "n", None) for key, space in spaces.items()}
        return found | {"horizon": self.horizon, "discount": 1.0, "start": "as the environment does"}


def read_problem(asked: ProblemOptions) -> NamedProblem:
    """The problem: environments with a toy-text table become models, others with discrete spaces are played as they are."""
    given, path = asked.problem, Path(asked.problem)
    short = given.removeprefix("bqrl/").removesuffix("-v0")
    if asked.horizon is not None:
        check_horizon(asked.horizon)
    is_file = ending(path) is not None or path.is_file()
    if asked.columns is not None and not is_file:
        raise ArgumentError("columns must be omitted; only .csv files have columns", name="columns")
    if is_file:
        mdp = _from_file(path, asked)
        name = path.name.removesuffix(".gz").rpartition(".")[0] or path.stem
        stated = asked.horizon is not None or not mdp.stationary or states_horizon(path)
        return NamedProblem(mdp, asked.words(name, mdp.units or ""), assumed=None if stated else _assumed(given, mdp.H))
    if short in names():
        known, mdp = about(short), make(short).replace(horizon=asked.horizon, **asked.changes)
        return NamedProblem(mdp, asked.words(short, known.unit, known.stage))
    return _from_gymnasium(asked)


def discount_question(discount: float) -> str | None:
    """A question about a discount that looks like a rate, or None.

    >>> discount_question(0.03)
    '0.03 per stage keeps 3 % of the next stage; a rate of 3 % is 0.970874: is that what you mean?'
    """
    if discount >= 0.5:
        return None
    share = f"{100 * discount:.6g} %"
    return (
        f"{discount:g} per stage keeps {share} of the next stage; a rate of {share} is {1 / (1 + discount):.6g}:"
        " is that what you mean?"
    )


def _assumed(given: str, stages: int) -> str:
    return f"{given} does not say the horizon: {stages} stages assumed; --horizon sets it"


def _from_file(path: Path, asked: ProblemOptions) -> MDP:
    """The model in a file; parts of it that were ignored are named on standard error."""
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ModelWarning)
            mdp: MDP = load(path, columns=column_names(asked.columns), horizon=asked.horizon, **asked.changes)
    except FileNotFoundError as error:
        beside = [other.name for other in path.parent.glob("*")] if not path.is_symlink() else []
        raise FileNotFoundError(f"{error}{nearest(path.name, beside, listed=False)}") from None
    for notice in caught:
        typer.echo(f"bqrl: {path.name}: {notice.message}", err=True)
    return mdp


def _from_gymnasium(asked: ProblemOptions) -> NamedProblem:
    import gymnasium

    given, words = asked.problem, asked.words(asked.problem)
    if given not in gymnasium.registry and ":" not in given:
        known = [*names(), *(name for name in gymnasium.registry if not name.startswith("bqrl/"))]
        hint = nearest(given, known, listed=False) or f"; problems: {', '.join(names())}"
        raise ArgumentError(
            f"{given[:80]!r} is neither a model file (.csv, .npz, .json) nor a named problem nor a Gymnasium id{hint}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about versions and the like; what matters is an error
            env: Any = gymnasium.make(given)
    except gymnasium.error.Error as fault:
        raise ValueError(str(fault)) from None
    core, plain = env.unwrapped, all(isinstance(layer, HARMLESS) for layer in wrappers(env))
    if plain and isinstance(core, MDPEnv):
        mdp = core.mdp.replace(horizon=asked.horizon, **asked.changes)
        return NamedProblem(mdp, asked.words(given, mdp.units or ""))
    limit = None if env.spec is None else env.spec.max_episode_steps
    stages = check_horizon(asked.horizon if asked.horizon is not None else limit or HORIZON)
    assumed = _assumed(given, stages) if asked.horizon is None and limit is None else None
    if plain and getattr(core, "P", None) is not None:
        return NamedProblem(from_gymnasium(env, horizon=stages).replace(**asked.changes), words, assumed=assumed)
    for name, value in asked.changes.items():
        if value is not None:
            raise ValueError(f"--{name} needs a model, and {given} does not expose its kernel; leave it out")
    return NamedProblem(env, words, stages, assumed)
