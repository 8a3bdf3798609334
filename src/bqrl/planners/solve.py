"""The function `solve`, the table of planners from which its arguments select one, and objectives by name.

A planner is a function of the problem that returns a Plan. Its signature declares everything else: it receives `objective`, or
`tau` and `beta`, and those arguments of `solve` that it names. The types of its arguments carry their checks (see options.py).
An entry of the table with a `selector` is a variant of its planner, which is used if that argument of `solve` is given.

The form "cvar:0.1" of the command line and of files serves every class in the table that has a `name`.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_type_hints

from bqrl.checks import bad_type, bad_value, choice, flag, nearest, unknown_argument
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Buffered, CVaR, Mean, Objective, Quantile, check_objective
from bqrl.mdp.find_grid import cut_to_possible
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.unstored import StepModel
from bqrl.planners.at_least import plan_at_least
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.chance import Chance, plan_chance
from bqrl.planners.entropic import Entropic, plan_entropic
from bqrl.planners.expected import low_tail, plan_expected, plan_mean
from bqrl.planners.frontier import plan_capped, plan_frontier
from bqrl.planners.greedy import plan_greedy
from bqrl.planners.on_grid import plan_on_grid
from bqrl.planners.options import Check
from bqrl.planners.plan import Plan
from bqrl.planners.rational import plan_rational
from bqrl.planners.robust import plan_robust
from bqrl.planners.rules import plan_rule
from bqrl.planners.target import plan_target
from bqrl.planners.terminal import MeanCVaR, Utility, plan_mean_cvar, plan_utility
from bqrl.planners.uncertain import plan_uncertain

COMMON = ("mdp", "objective", "tau", "beta")  # arguments that every planner may have


@cache
def _parameters(plan: Callable[..., Plan]) -> dict[str, inspect.Parameter]:
    return {name: one for name, one in inspect.signature(plan).parameters.items() if name not in COMMON}


@cache
def _checks(plan: Callable[..., Plan]) -> dict[str, tuple[Check, ...]]:
    """Return the checks that the types of the arguments carry, by argument."""
    hints = get_type_hints(plan, include_extras=True)
    return {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}


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


# The table of planners, one entry per function. The first planner that solves an objective is its default.
SOLVERS = (
    Solver(planner="target", plan=plan_target, objectives=(Quantile,)),
    Solver(planner="target", plan=plan_buffered, objectives=(Buffered,)),
    Solver(planner="target", plan=plan_chance, objectives=(Chance,)),
    Solver(planner="target", plan=plan_mean_cvar, objectives=(MeanCVaR,)),
    Solver(planner="target", plan=plan_utility, objectives=(Utility,)),
    Solver(planner="target", plan=plan_uncertain, objectives=(Quantile, Buffered), selector="radius"),
    Solver(planner="target", plan=plan_robust, objectives=(Chance, MeanCVaR, Utility), selector="radius"),
    Solver(planner="expected", plan=plan_robust, objectives=(Mean,), selector="radius"),
    Solver(planner="backward", plan=plan_robust, objectives=(Entropic,), selector="radius"),
    Solver(planner="target", plan=plan_rule, objectives=(Quantile, Buffered), selector="rule"),
    Solver(planner="target", plan=plan_at_least, objectives=(Quantile,), selector="at_least"),
    Solver(planner="target", plan=plan_at_least, objectives=(Quantile,), selector="margin"),
    Solver(planner="target", plan=plan_at_least, objectives=(Quantile,), selector="secondary"),
    Solver(planner="target", plan=plan_rational, objectives=(Quantile,), selector="arithmetic"),
    Solver(planner="greedy", plan=plan_greedy, objectives=(Quantile, Buffered)),
    Solver(planner="frontier", plan=plan_frontier, objectives=(Quantile, Buffered)),
    Solver(planner="capped-frontier", plan=plan_capped, objectives=(Quantile, Buffered)),
    Solver(planner="expected", plan=plan_expected, objectives=(Quantile, Buffered)),
    Solver(planner="expected", plan=plan_mean, objectives=(Mean,)),
    Solver(planner="backward", plan=plan_entropic, objectives=(Entropic,)),
)
PLANNERS = tuple(dict.fromkeys(one.planner for one in SOLVERS))


def solve(
    mdp: MDP | GridModel | StepModel | str,
    objective: Objective | float | None = None,
    beta: float = 0.0,
    planner: str | None = None,
    *,
    tau: float | None = None,
    radius: Any = None,
    attitude: str | None = None,
    randomized: bool | None = None,
    at_least: float | str | None = None,
    margin: float | None = None,
    secondary: str | None = None,
    arithmetic: str = "float",
    rule: str | None = None,
    **options: Any,
) -> Plan:
    """Return the best policy for an objective, such as a quantile of the return, and what is proven about it.

    Parameters
    ----------
    mdp : MDP, GridModel, StepModel or str
        The problem, or the name of one of `bqrl.envs.names()`; `bqrl.load` reads a file.
    objective : Objective or float
        `Quantile(0.1)`, `CVaR(0.1)`, `Buffered(0.1, 0.03)`, `Mean()`, `Chance(100)`, `MeanCVaR(0.1, 0.5)`, `Entropic(0.5)` or
        `Utility(f)`; a number is the level of a quantile, as is `tau`.
    beta : float
        Width of the buffer of a level, 0 or in [1e-9, tau]: 0 is the quantile, tau is CVaR.
    planner : str, optional
        One of `planners.solve.PLANNERS`, such as "target", "greedy" or "frontier"; by default the first that solves the
        objective.
    tau : float
        Quantile level in (0, 1); 1 is allowed with a positive buffer.
    radius : float or array_like of shape (S, A) or (H, S, A), optional
        l1 radius of the ball around every row of the kernel; known rows always have radius 0.
    attitude : str, optional
        "robust" or "optimistic"; required with `radius`.
    randomized : bool, optional
        For buffered quantiles. True: one random draw before the first stage may choose between two policies, which
        attains the upper bound. False: find the best deterministic policy and prove that it is the best. None: return
        the best deterministic policy found. At beta = 0 a deterministic policy is optimal; then False has no effect, and
        True has none with the planner "target".
    at_least : float or str, optional
        The best mean among the policies that guarantee this return at level tau (beta = 0); text such as "98%" is a share of
        the best guarantee. `plan.mean_upper` is a proven bound on that mean; with `randomized=True` one random draw before
        the first stage between two policies comes as close to it as wanted.
    margin : float, optional
        Share of the largest possible margin P(G < x) may leave below tau, in [0, 1]: the best mean among the policies with the
        best guarantee (or `at_least`) x that keep at least this share of it. 1 is the plan without this argument; 0 is the
        best mean of all policies with the guarantee, and the most fragile.
    secondary : str, optional
        "mean" is the same as `margin=0`.
    arithmetic : str
        "float", or "rational" to decide ties in exact fractions on small problems (beta = 0).
    rule : str, optional
        The best rule without memory that a local search finds: "stage-state" (an action per stage and state), "state" (the same
        at all stages) or "threshold" (per stage, actions that rise or fall along the states). `plan.upper` is the optimum of all
        policies. Options: `starts`, a list of further rules to begin with, and for thresholds `order`, the names of the states
        from low to high, or a dict with "states" and "actions".
    **options
        Options of the planner, such as `max_bytes` and `max_nodes`, or `points` and `gap` if no exact grid of returns fits.
        `cluster` (the address of a Dask scheduler, or a `distributed.Client`) shares the sweep among its workers, for quantiles,
        buffered quantiles, CVaR and `Chance`; the plan is the same, and `max_bytes` limits each worker. For
        continuous states (a GridModel): `refine=True` halves the grid until the bracket is at most `gap` wide or the models
        would have more than `max_transitions` outcomes.

    Returns
    -------
    Plan
        The policy, its return law, its value and, where the planner proves one, an upper bound on the optimum.

    Examples
    --------
    >>> import bqrl
    >>> plan = solve(bqrl.envs.make("AssetSelling"), tau=0.1)
    >>> round(plan.value * 24), plan.certain
    (19, True)
    >>> solve("AssetSelling", tau=0.1).value == plan.value
    True
    """
    goal = check_objective(objective, tau, beta)
    choices = {
        "radius": radius, "attitude": attitude, "rule": rule, "at_least": at_least, "margin": margin, "secondary": secondary,
        "arithmetic": None if arithmetic == "float" else arithmetic, "randomized": randomized,
    }  # fmt: skip
    choices = {name: value for name, value in choices.items() if value is not None}
    if isinstance(mdp, GridModel):
        return plan_on_grid(mdp, goal, options | choices | ({} if planner is None else {"planner": planner}))
    problem = mdp if isinstance(mdp, StepModel) else check_mdp(mdp)
    planner = find_planner(SOLVERS, goal, planner)
    if not choices.keys() & {"at_least", "margin", "secondary"} and _settled_without_draw(goal, planner, randomized):
        choices.pop("randomized", None)
    solver = find_solver(SOLVERS, goal, planner, choices, options, near=NAMED)
    if isinstance(problem, StepModel) and solver.plan not in (plan_target, plan_chance):
        remedy = "plan for Quantile or Chance without them, or build the model with stored=True"
        raise bad_type("mdp", mdp, f"be an MDP for {goal.label} with these arguments", "a StepModel", remedy=remedy)
    given = options | choices
    solver.check(problem, given)
    begun = time.perf_counter()
    plan = solver.call(problem, goal, given)
    stored = problem if isinstance(problem, MDP) else None
    value, nominal, upper = plan.value, plan.nominal, plan.upper
    settled = plan.law_upper is None and value == nominal == upper  # then they lie within the returns of the policy
    if isinstance(goal, Quantile | Buffered) and stored is not None and not settled:  # other objectives are not returns
        value, nominal = cut_to_possible(stored, [value, nominal]).tolist()
        upper = None if upper is None else max(value, float(cut_to_possible(stored, upper)))
    noted = isinstance(goal, Quantile) and attitude is None and stored is not None
    plan = replace(
        plan, value=value, nominal=nominal, upper=upper, mdp=stored, units=None if goal.probability else problem.units,
        later=low_tail if noted else None, seconds=time.perf_counter() - begun,
    )  # fmt: skip
    if "cluster" in given:  # its workers may be gone when the notes are read
        plan = replace(plan, facts=plan.notes, later=None)
    return plan


NAMED = tuple(name for name in inspect.signature(solve).parameters if name != "options")


def _settled_without_draw(goal: Objective, planner: str, randomized: Any) -> bool:
    """Return whether `randomized` has no effect: a deterministic policy is optimal for a quantile."""
    drawn = flag(randomized, "randomized", optional=True)
    return isinstance(goal, Quantile) and (not drawn or planner == "target")


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


# -- objectives by name --------------------------------------------------------------------------------------------------------

KINDS = dict.fromkeys(kind for one in SOLVERS for kind in one.objectives)
OBJECTIVES: dict[str, Callable[..., Objective]] = {kind.name: kind for kind in KINDS if kind.name} | {"cvar": CVaR}


def _form(name: str) -> str:
    """The form of an objective, such as "buffered:TAU,BETA"."""
    numbers = ",".join(each.upper() for each in inspect.signature(OBJECTIVES[name]).parameters)
    return f"{name}:{numbers}" if numbers else name


FORMS = tuple(map(_form, OBJECTIVES))


def read_objective(text: str) -> Objective:
    """Return the objective that a text such as "cvar:0.1" describes.

    >>> read_objective("cvar:0.1"), read_objective("mean"), read_objective(" Mean-CVaR: 0.1, 0.5")
    (CVaR(0.1), Mean(), MeanCVaR(tau=0.1, weight=0.5))
    """
    if not isinstance(text, str):
        raise bad_type("objective", text, "be a text such as 'cvar:0.1'")
    name, _, rest = (part.strip() for part in text.lower().partition(":"))
    if name not in OBJECTIVES:
        rule = f"be one of {', '.join(FORMS)}"
        raise bad_value("objective", text, rule, f"{text[:40]!r}{nearest(name, OBJECTIVES, listed=False)}")
    try:
        numbers = [float(part) for part in rest.split(",")] if rest else []
        inspect.signature(OBJECTIVES[name]).bind(*numbers)
    except (ValueError, TypeError):
        raise bad_value("objective", text, f"be written as {_form(name)}", repr(text[:40])) from None
    try:
        return OBJECTIVES[name](*numbers)
    except ArgumentError as fault:
        raise ArgumentError(f"objective {text[:40]!r}: {fault}", name="objective", value=text) from None
