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
from bqrl.mdp.find_grid import cut_to_possible
from bqrl.mdp.model import MDP, check_mdp
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

# A planner receives the problem and the arguments of `solve` that its signature names; its keyword-only arguments are
# options.
PLANNERS: dict[str, Callable[..., Plan]] = {
    "target": plan_target,
    "greedy": plan_greedy,
    "frontier": plan_frontier,
    "capped-frontier": plan_capped,
    "expected": plan_expected,
}
VARIANTS: dict[str, Callable[..., Plan]] = {  # variants of the planner "target", by the argument that selects them
    "radius": plan_uncertain,
    "beta > 0": plan_buffered,
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
    tau: float,
    beta: float = 0.0,
    planner: str = "target",
    *,
    radius: Any = None,
    attitude: str | None = None,
    randomized: bool | None = None,
    secondary: str | None = None,
    arithmetic: str = "float",
    **options: Any,
) -> Plan:
    """Return the best policy for the (buffered) tau-quantile of the return, and what is proven about it.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or the name of one of `bqrl.envs.names()`; `bqrl.load` reads a file.
    tau : float
        Quantile level in (0, 1); 1 is allowed with a positive buffer.
    beta : float
        Width of the buffer, 0 or in [1e-9, tau]: 0 is the quantile, tau is CVaR, and tau = beta = 1 is the mean.
    planner : str
        "target", "greedy", "frontier", "capped-frontier" or "expected".
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
    mdp = check_mdp(mdp)
    tau, beta = check_levels(tau, beta)
    choice(planner, "planner", PLANNERS)
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
    variant = _variant(planner, beta, radius is not None, randomized, secondary, arithmetic)
    function = PLANNERS[planner] if variant is None else VARIANTS[variant]
    _check_options(mdp, function, planner if variant is None else f"{planner} with {variant}", options)
    given = {"tau": tau, "beta": beta, "radius": radius, "attitude": attitude, "randomized": randomized}
    taken = {name: given[name] for name in inspect.signature(function).parameters if name in given}
    begun = time.perf_counter()
    plan = function(mdp, **taken, **options)
    value, nominal = cut_to_possible(mdp, [plan.value, plan.nominal]).tolist()
    upper = None if plan.upper is None else max(value, float(cut_to_possible(mdp, plan.upper)))
    seconds = time.perf_counter() - begun
    return replace(plan, value=value, nominal=nominal, upper=upper, seconds=seconds, units=mdp.units)


def _variant(
    planner: str, beta: float, ball: bool, randomized: bool | None, secondary: str | None, arithmetic: str
) -> str | None:
    """Return the variant of the planner "target" that the arguments select; None for other planners or no variant."""
    plain = {"secondary='mean'": secondary is not None, "arithmetic='rational'": arithmetic == "rational"}
    selected = [name for name, given in {"radius": ball, **plain}.items() if given]
    if randomized is not None and (beta > 0.0 or (randomized and planner != "target")):
        selected.append(f"randomized={randomized}")
    if selected and planner != "target":
        raise bad_value("planner", planner, f"be 'target' with {selected[0]}")
    if len(selected) > 1:
        raise ArgumentError(
            f"expected one of {selected[0]} and {selected[1]}, got both; drop one of them", name=selected[0]
        )
    if beta > 0.0 and selected and plain.get(selected[0]):
        raise bad_value("beta", beta, f"be 0, the plain quantile, with {selected[0]}", f"{beta:g}")
    if planner != "target":
        return None
    return selected[0] if selected and selected[0] in VARIANTS else "beta > 0" if beta > 0.0 else None


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
        elif name == "dominance":
            flag(value, name)
        elif name == "tick" and not callable(value):
            raise bad_type(name, value, "be a function of the stage")
