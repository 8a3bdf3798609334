"""The function `solve`, which calls the planner that its arguments select."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.checks import LARGEST, bad_type, bad_value, choice, flag, number, numbers, unknown_argument, whole
from bqrl.errors import ArgumentError
from bqrl.laws.objectives import Buffered, Mean, Objective, Quantile, check_objective
from bqrl.mdp.find_grid import cut_to_possible
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.chance import Chance, plan_chance
from bqrl.planners.entropic import Entropic, plan_entropic
from bqrl.planners.expected import plan_expected, plan_mean
from bqrl.planners.frontier import plan_capped, plan_frontier
from bqrl.planners.greedy import plan_greedy
from bqrl.planners.mean_cvar import MeanCVaR, plan_mean_cvar
from bqrl.planners.plan import Plan
from bqrl.planners.rational import plan_rational
from bqrl.planners.rules import plan_rule
from bqrl.planners.secondary import plan_best_mean
from bqrl.planners.tail import with_tail
from bqrl.planners.target import guarantee_curve as guarantee_curve
from bqrl.planners.target import plan_target, risk_neutral
from bqrl.planners.uncertain import plan_uncertain
from bqrl.planners.utility import Utility, plan_utility

# The registry of planners: by name, the function for each objective that the planner solves. A function receives the problem
# and the arguments of `solve` that its signature names (`objective`, or `tau` and `beta`); keyword-only arguments are options.
PLANNERS: dict[str, dict[type[Objective], Callable[..., Plan]]] = {
    "target": {
        Quantile: plan_target,
        Buffered: plan_buffered,
        Chance: plan_chance,
        MeanCVaR: plan_mean_cvar,
        Utility: plan_utility,
    },
    "greedy": {Quantile: plan_greedy, Buffered: plan_greedy},
    "frontier": {Quantile: plan_frontier, Buffered: plan_frontier},
    "capped-frontier": {Quantile: plan_capped, Buffered: plan_capped},
    "expected": {Quantile: plan_expected, Buffered: plan_expected, Mean: plan_mean},
    "backward": {Entropic: plan_entropic},
}
VARIANTS: dict[str, Callable[..., Plan]] = {  # variants of the planner "target", by the argument that selects them
    "radius": plan_uncertain,
    "rule": plan_rule,
    "secondary='mean'": plan_best_mean,
    "arithmetic='rational'": plan_rational,
}
WHOLE_OPTIONS = {
    "points": 2,
    "max_nodes": 1,
    "max_laws": 1,
    "max_combinations": 1,
    "decimals": 0,
}  # with smallest values
MAX_DECIMALS = 100
POSITIVE_OPTIONS = ("gap", "max_bytes")


def solve(
    mdp: MDP | str,
    objective: Objective | float | None = None,
    beta: float = 0.0,
    planner: str | None = None,
    *,
    tau: float | None = None,
    radius: Any = None,
    attitude: str | None = None,
    randomized: bool | None = None,
    secondary: str | None = None,
    arithmetic: str = "float",
    rule: str | None = None,
    **options: Any,
) -> Plan:
    """Return the best policy for an objective, such as a quantile of the return, and what is proven about it.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or the name of one of `bqrl.envs.names()`; `bqrl.load` reads a file.
    objective : Objective or float
        `Quantile(0.1)`, `CVaR(0.1)`, `Buffered(0.1, 0.03)`, `Mean()`, `Chance(100)`, `MeanCVaR(0.1, 0.5)`, `Entropic(0.5)` or
        `Utility(f)`; a number is the level of a quantile, as is `tau`.
    beta : float
        Width of the buffer of a level, 0 or in [1e-9, tau]: 0 is the quantile, tau is CVaR.
    planner : str, optional
        "target", "greedy", "frontier", "capped-frontier", "expected" or "backward"; by default the first that solves the
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
    secondary : str, optional
        "mean": among all optimal policies, the one with the best mean (beta = 0).
    arithmetic : str
        "float", or "rational" to decide ties in exact fractions on small problems (beta = 0).
    rule : str, optional
        The best rule without memory that a local search finds: "stage-state" (an action per stage and state), "state" (the same
        at all stages) or "threshold" (per stage, actions that rise or fall along the states). `plan.upper` is the optimum of all
        policies. Options: `starts`, a list of further rules to begin with, and for thresholds `order`, the names of the states
        from low to high, or a dict with "states" and "actions".
    **options
        Options of the planner, such as `max_bytes` and `max_nodes`, or `points` and `gap` if no exact grid of returns fits.

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
    problem, goal = check_mdp(mdp), check_objective(objective, tau, beta)
    planner, function = find_planner(goal, planner)
    choice(arithmetic, "arithmetic", ("float", "rational"))
    if attitude is not None:
        choice(attitude, "attitude", ("robust", "optimistic"))
    if secondary is not None:
        choice(secondary, "secondary", ("mean",))
    if (radius is None) != (attitude is None):
        missing, present = ("attitude", "radius") if attitude is None else ("radius", "attitude")
        raise bad_value(
            missing, None, f"be given with {present}", remedy="pass both, e.g. a radius of 0.1 and 'robust'"
        )
    randomized = flag(randomized, "randomized", optional=True)
    variant = _variant(planner, goal, radius is not None, rule, randomized, secondary, arithmetic)
    function = function if variant is None else VARIANTS[variant]
    _check_options(problem, function, planner if variant is None else f"{planner} with {variant}", options)
    given = {
        "objective": goal, "tau": getattr(goal, "tau", None), "beta": getattr(goal, "beta", None), "radius": radius,
        "attitude": attitude, "randomized": randomized, "rule": rule,
    }  # fmt: skip
    taken = {name: given[name] for name in inspect.signature(function).parameters if name in given}
    begun = time.perf_counter()
    plan = replace(
        function(problem, **taken, **options), mdp=problem, units=None if goal.probability else problem.units
    )
    if isinstance(goal, Quantile | Buffered):  # other objectives are not returns
        value, nominal = cut_to_possible(problem, [plan.value, plan.nominal]).tolist()
        upper = None if plan.upper is None else max(value, float(cut_to_possible(problem, plan.upper)))
        plan = replace(plan, value=value, nominal=nominal, upper=upper)
    if isinstance(goal, Quantile) and attitude is None:
        plan = with_tail(plan, risk_neutral(problem, 0)[1])
    return plan.with_time(time.perf_counter() - begun)


def find_planner(objective: Objective, name: str | None = None) -> tuple[str, Callable[..., Plan]]:
    """Return the named planner, or the first that solves the objective, with its function for that objective."""
    able = [each for each, solved in PLANNERS.items() if type(objective) in solved]
    if name is None:
        if not able:
            kinds = sorted({kind.__name__ for solved in PLANNERS.values() for kind in solved})
            raise bad_value("objective", objective, f"be one of {', '.join(kinds)}", type(objective).__name__)
        name = able[0]
    if choice(name, "planner", PLANNERS) not in able:
        raise bad_value("planner", name, f"solve {objective.label}", remedy=f"omit it or choose {' or '.join(able)}")
    return name, PLANNERS[name][type(objective)]


def _variant(
    planner: str,
    goal: Objective,
    ball: bool,
    rule: str | None,
    randomized: bool | None,
    secondary: str | None,
    arithmetic: str,
) -> str | None:
    """Return the variant of the planner "target" that the arguments select; None for other planners or no variant."""
    plain = {"secondary='mean'": secondary is not None, "arithmetic='rational'": arithmetic == "rational"}
    selected = [name for name, given in {"radius": ball, "rule": rule is not None, **plain}.items() if given]
    beta = getattr(goal, "beta", None)
    if randomized is not None and (beta is None or beta > 0.0 or (randomized and planner != "target")):
        selected.append(f"randomized={randomized}")
    if selected and planner != "target":
        raise bad_value("planner", planner, f"be 'target' with {selected[0]}")
    if len(selected) > 1:
        raise ArgumentError(
            f"expected one of {selected[0]} and {selected[1]}, got both; drop one of them", name=selected[0]
        )
    if selected and beta is None:
        raise bad_value("objective", goal, f"be a quantile, buffered or not, with {selected[0]}", goal.label)
    if selected and beta and plain.get(selected[0]):
        raise bad_value("beta", beta, f"be 0, the plain quantile, with {selected[0]}", f"{beta:g}")
    return selected[0] if selected and selected[0] in VARIANTS else None


def _check_options(mdp: MDP, function: Callable[..., Plan], planner: str, options: dict[str, Any]) -> None:
    """Raise an error if the planner does not have an option, or if the value of an option is invalid."""
    parameters = inspect.signature(function).parameters.values()
    defaults = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name != "randomized"}
    for name, value in options.items():
        if name not in defaults:
            others = [p for p in inspect.signature(solve).parameters if p != "options"]
            raise unknown_argument(f"planner {planner}", name, value, defaults, near=others)
        if value is None and defaults[name] is None:
            continue
        if name in WHOLE_OPTIONS:
            whole(value, name, WHOLE_OPTIONS[name], most=MAX_DECIMALS if name == "decimals" else LARGEST)
        elif name in POSITIVE_OPTIONS:
            number(value, name, 0.0, ends="(]")
        elif name in ("kernels", "missing"):
            given = np.atleast_2d(numbers(value, name, 0.0)).shape
            wanted = (mdp.H, mdp.S, mdp.A) if name == "missing" else (max(given[0], 1), mdp.probability.size)
            if given != wanted:
                raise bad_value(name, value, f"have shape {wanted}", given)
        elif name in ("dominance", "pairs"):
            flag(value, name)
        elif name == "tick" and not callable(value):
            raise bad_type(name, value, "be a function of the stage")
