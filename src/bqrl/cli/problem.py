"""The argument PROBLEM (a model file, a named problem or a Gymnasium id) and its options."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from typer import Argument, Option

from bqrl.checks import number, one_line
from bqrl.cli.output import Command
from bqrl.cli.params import column_names
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Objective, check_levels, quantile_objective
from bqrl.mdp.files.facts import USUAL_HORIZON, parse_start
from bqrl.planners.solve import FORMS, read_objective
from bqrl.results.words import NAMES

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

    @property
    def wording(self) -> dict[str, str | None]:
        """The words given as options, by option."""
        return {option: getattr(self, option) for option in NAMES} | {"title": self.title or None}

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

    @property
    def asked(self) -> dict[str, Any]:
        """The arguments of `read_problem`."""
        given = {"text": self.problem, "wording": self.wording, "columns": column_names(self.columns)}
        return given | {"rewards": self.rewards, "horizon": self.horizon, **self.changes}
