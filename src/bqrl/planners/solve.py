"""One door to every planner."""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable
from typing import Any

from bqrl.laws.functionals import as_number
from bqrl.mdp.model import MDP
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.expected import plan_expected
from bqrl.planners.frontier import plan_capped, plan_frontier
from bqrl.planners.greedy import plan_greedy
from bqrl.planners.plan import Plan, check_levels
from bqrl.planners.rational import plan_rational
from bqrl.planners.secondary import plan_best_mean
from bqrl.planners.target import guarantee_curve as guarantee_curve
from bqrl.planners.target import plan_target
from bqrl.planners.uncertain import plan_uncertain


def _target(mdp: MDP, tau: float, beta: float, **options: Any) -> Plan:
    return plan_target(mdp, tau, **options) if beta == 0.0 else plan_buffered(mdp, tau, beta, **options)


LEAST = {"points": 2, "max_nodes": 1, "max_laws": 1, "gap": 0, "max_bytes": 0}  # options that every planner reads alike

PLANNERS: dict[str, Callable[..., Plan]] = {
    "target": _target,
    "greedy": plan_greedy,
    "frontier": plan_frontier,
    "capped-frontier": plan_capped,
    "expected": plan_expected,
}


def solve(
    mdp: MDP,
    tau: float,
    beta: float = 0.0,
    planner: str = "target",
    *,
    radius: Any = None,
    attitude: str | None = None,
    randomized: bool = False,
    exact: bool = False,
    secondary: str | None = None,
    arithmetic: str = "float",
    **options: Any,
) -> Plan:
    """The plan for the tau-quantile of the return, buffered by `beta` (beta = tau is CVaR), by the named planner.

    `radius` (a number, or (H,S,A)) and `attitude` "robust" or "optimistic" plan over the l1 ball around every row.
    `randomized` allows one coin at the start, `exact` proves the best deterministic policy for a buffered quantile,
    `secondary="mean"` asks for the best mean among the optimal policies, `arithmetic="rational"` settles ties.
    `options` go to the planner: `points` or `gap` where no exact grid fits, budgets of the frontier, `max_bytes`.

    >>> import bqrl
    >>> plan = solve(bqrl.envs.make("AssetSelling"), tau=0.1)
    >>> round(plan.value * 24), plan.certain
    (19, True)
    """
    if not isinstance(mdp, MDP):
        raise TypeError(
            f"solve needs an MDP, got {type(mdp).__name__}; build one with bqrl.MDP, load or from_gymnasium"
        )
    tau, beta = check_levels(tau, beta)
    if planner not in PLANNERS:
        near = difflib.get_close_matches(str(planner), PLANNERS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"planner must be one of {', '.join(PLANNERS)}, got {planner!r}{hint}")
    if attitude not in (None, "robust", "optimistic"):
        raise ValueError(f"attitude must be 'robust' or 'optimistic', got {attitude!r}")
    if (radius is None) != (attitude is None):
        raise ValueError("radius and attitude go together: give both, e.g. radius=0.1, attitude='robust'")
    if arithmetic not in ("float", "rational"):
        raise ValueError(f"arithmetic must be 'float' or 'rational', got {arithmetic!r}")
    if secondary not in (None, "mean"):
        raise ValueError(f"secondary must be 'mean', got {secondary!r}")
    special = {
        "radius": radius is not None,
        "randomized": randomized,
        "exact": exact,
        "secondary": secondary is not None,
        "arithmetic='rational'": arithmetic == "rational",
    }
    asked = [name for name, wanted in special.items() if wanted]
    if asked and planner != "target":
        raise ValueError(f"{asked[0]} needs planner='target', got planner={planner!r}")
    if len(asked) > 1 and set(asked) != {"randomized", "exact"}:
        raise ValueError(f"{asked[0]} and {asked[1]} cannot be combined; drop one of them")
    if randomized and exact:
        raise ValueError("randomized and exact exclude each other: a coin, or the best policy without one")
    if beta == 0.0 and (randomized or exact):
        name = "randomized" if randomized else "exact"
        raise ValueError(
            f"{name} is for buffered quantiles (beta > 0): at beta = 0 the plan is already exact and needs no coin"
        )
    if beta > 0.0 and (secondary is not None or arithmetic == "rational"):
        name = "secondary='mean'" if secondary is not None else "arithmetic='rational'"
        raise ValueError(f"{name} is for the plain quantile (beta = 0), got beta={beta:g}")
    for name, least in LEAST.items():
        if options.get(name) is not None:
            _check_option(name, options[name], least)
    try:
        if radius is not None:
            return plan_uncertain(mdp, tau, beta, radius, str(attitude), **options)
        if arithmetic == "rational":
            return plan_rational(mdp, tau, **options)
        if secondary == "mean":
            return plan_best_mean(mdp, tau, **options)
        if randomized or exact:
            return plan_buffered(mdp, tau, beta, randomized=randomized, exact=exact, **options)
        return PLANNERS[planner](mdp, tau, beta, **options)
    except TypeError as fault:
        if "unexpected keyword argument" in str(fault):
            name = str(fault).rsplit("'", 2)[-2]
            asked_for = f" with {asked[0]}" if asked else (" and beta > 0" if beta > 0.0 else "")
            near = difflib.get_close_matches(name, {*inspect.signature(solve).parameters, *LEAST} - {name}, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "leave it out"
            raise TypeError(f"planner {planner!r}{asked_for} takes no option {name!r}; {remedy}") from None
        raise


def _check_option(name: str, given: Any, least: int) -> None:
    """One line for a size that is none; `least` 0 means any positive number."""
    number = as_number(given, name, "a number")
    if least == 0 and not 0.0 < number < float("inf"):
        raise ValueError(f"{name} must be positive and finite, got {given}")
    if least > 0 and not (math.isfinite(number) and number == int(number) and number >= least):
        raise ValueError(f"{name} must be a whole number of at least {least}, got {given}")
