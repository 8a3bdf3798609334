"""How a planner is declared: the objectives that it solves, and its arguments with their checks.

A planner is a function of the problem that returns a Plan. Its signature declares everything else: it receives `objective`, or
`tau` and `beta`, and those arguments of `solve` that it names. The type of an argument carries its check:

    def plan_x(mdp: MDP, objective: X, *, points: Points = None, laws: Annotated[int, count(1)] = 16) -> Plan

`solve` finds the function in its table of `Solver` entries. An entry with a `selector` is a variant of its planner, which is used
if that argument of `solve` is given.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from bqrl.checks import LARGEST, bad_type, bad_value, choice, flag, number, unknown_argument, whole
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Buffered, Objective
from bqrl.mdp.model import MDP
from bqrl.mdp.unstored import StepModel
from bqrl.planners.on_demand import PRECISIONS
from bqrl.planners.plan import Plan
from bqrl.planners.room import existing_folder

Check = Callable[[Any, str, Any], Any]  # value and name of an argument; raises an error if the value is invalid
COMMON = ("mdp", "objective", "tau", "beta")  # arguments that every planner may have


def count(low: int, most: float = LARGEST) -> Check:
    """Return the check of a whole number of at least `low`."""
    return lambda value, name, mdp: whole(value, name, low, most=most)


def one_of(*valid: str) -> Check:
    """Return the check of a choice."""
    return lambda value, name, mdp: choice(value, name, valid)


def positive(value: Any, name: str, mdp: MDP) -> float:
    """Check a number above 0."""
    return number(value, name, 0.0, ends="(]")


def switch(value: Any, name: str, mdp: MDP) -> Any:
    """Check True or False."""
    return flag(value, name)


def function(value: Any, name: str, mdp: MDP) -> None:
    """Check a function of the stage."""
    if not callable(value):
        raise bad_type(name, value, "be a function of the stage")


def folder(value: Any, name: str, mdp: MDP) -> Path:
    """Check a folder that exists."""
    return existing_folder(value, name)


Points = Annotated[int | None, count(2)]
Gap = Annotated[float | None, positive]
MaxBytes = Annotated[float, positive]
Pairs = Annotated[bool | None, switch]
Folder = Annotated[str | Path | None, folder]
Precision = Annotated[str, one_of(*PRECISIONS)]
Tick = Annotated[Callable[[int], None] | None, function]


@dataclass(frozen=True, slots=True, kw_only=True)
class Solver:
    """An entry of the table of planners: a function and the objectives that it solves.

    `selector` names the argument of `solve` that selects this variant of the planner; "" is the planner itself.
    """

    planner: str
    plan: Callable[..., Plan]
    objectives: tuple[type[Objective], ...]
    selector: str = ""

    def solves(self, objective: Objective) -> bool:
        """Return whether the function plans for this kind of objective."""
        return type(objective) in self.objectives

    @property
    def parameters(self) -> Mapping[str, inspect.Parameter]:
        """The arguments of the function without those that every planner may have."""
        return _parameters(self.plan)

    def check(self, mdp: MDP | StepModel, given: Mapping[str, Any]) -> None:
        """Raise an error if the value of an argument is invalid; None is valid where it is the default."""
        for name, value in given.items():
            if value is None and self.parameters[name].default is None:
                continue
            for rule in _checks(self.plan).get(name, ()):
                rule(value, name, mdp)

    def call(self, mdp: MDP | StepModel, objective: Objective, given: Mapping[str, Any]) -> Plan:
        """Return the plan for an objective with these arguments."""
        common = {
            "objective": objective,
            "tau": getattr(objective, "tau", None),
            "beta": getattr(objective, "beta", None),
        }
        named = inspect.signature(self.plan).parameters
        return self.plan(mdp, **{name: value for name, value in common.items() if name in named}, **given)


@cache
def _parameters(plan: Callable[..., Plan]) -> dict[str, inspect.Parameter]:
    return {name: one for name, one in inspect.signature(plan).parameters.items() if name not in COMMON}


@cache
def _checks(plan: Callable[..., Plan]) -> dict[str, tuple[Check, ...]]:
    """Return the checks that the types of the arguments carry, by argument."""
    hints = get_type_hints(plan, include_extras=True)
    return {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}


def find_planner(solvers: Iterable[Solver], objective: Objective, name: str | None = None) -> str:
    """Return the named planner, or the first that solves the objective."""
    plain = [one for one in solvers if not one.selector]
    able = list(dict.fromkeys(one.planner for one in plain if one.solves(objective)))
    if name is None:
        if not able:
            kinds = sorted({kind.__name__ for one in plain for kind in one.objectives})
            raise bad_value("objective", objective, f"be one of {', '.join(kinds)}", type(objective).__name__)
        return able[0]
    if choice(name, "planner", dict.fromkeys(one.planner for one in plain)) not in able:
        raise bad_value("planner", name, f"solve {objective.label}", remedy=f"omit it or choose {' or '.join(able)}")
    return name


def find_solver(
    solvers: Sequence[Solver], objective: Objective, planner: str, choices: Mapping[str, Any],
    options: Mapping[str, Any], near: Iterable[str] = (),
) -> Solver:  # fmt: skip
    """Return the entry that the given arguments select; an error if they do not fit together.

    `choices` are the arguments that `solve` names, and `options` the others; `near` are further names to suggest.
    """
    able = [one for one in solvers if one.planner == planner and one.solves(objective)]
    found = next((one for one in able if one.selector and one.selector in choices), None)
    found = found or next(one for one in able if not one.selector)
    for name, value in choices.items():
        if name not in found.parameters:
            raise _misfit(solvers, objective, found, name, value, choices)
    for name, one in found.parameters.items():
        if one.default is one.empty and name not in choices:
            raise bad_value(name, None, f"be given with {found.selector}", remedy="pass both")
    for name, value in options.items():
        if name not in found.parameters:
            variant = f" with {_text(found.selector, choices[found.selector])}" if found.selector else ""
            valid = [each for each, one in found.parameters.items() if one.kind is one.KEYWORD_ONLY]
            raise unknown_argument(f"planner {planner}{variant}", name, value, valid, near=near)
    return found


def _misfit(
    solvers: Sequence[Solver], objective: Objective, found: Solver, name: str, value: Any, choices: Mapping[str, Any]
) -> ArgumentError:
    """Return the error for an argument of `solve` that the selected function does not take."""
    text, takers = _text(name, value), [one for one in solvers if name in one.parameters]
    same = [one for one in takers if one.planner == found.planner]
    fitting = [one for one in same if one.solves(objective)]
    if not same:
        able = [one for one in takers if one.solves(objective)] or takers
        names = " or ".join(dict.fromkeys(repr(one.planner) for one in able))
        return bad_value("planner", found.planner, f"be {names} with {text}")
    selectors = [one.selector for one in fitting if one.selector and one.selector not in choices]
    if found.selector and (name != found.selector):
        first = _text(found.selector, choices[found.selector])
        return ArgumentError(f"expected one of {first} and {text}, got both; drop one of them", name=found.selector)
    if fitting:
        return bad_value(selectors[0], None, f"be given with {name}", remedy="pass both")
    kinds = dict.fromkeys(kind.__name__ for one in same for kind in one.objectives)
    if isinstance(objective, Buffered) and "Quantile" in kinds:
        return bad_value("beta", objective.beta, f"be 0, the plain quantile, with {text}", f"{objective.beta:g}")
    return bad_value("objective", objective, f"be a {' or '.join(kinds)} with {text}", objective.label)


def _text(name: str, value: Any) -> str:
    """An argument in a message, with its value if that is short."""
    return f"{name}={value!r}" if isinstance(value, str | bool) else name
