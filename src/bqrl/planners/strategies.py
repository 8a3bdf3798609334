"""Strategies side by side: mean, quantiles, CVaR and distance to the certified optimum, in one model or in several.

A strategy is a policy in any form that `evaluate` accepts. Its numbers come from its exact law or, where no exact grid of
returns fits, from its proven lower law: then quantiles and CVaRs are lower bounds, the chance of a low return is an upper
bound, and the mean is still exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, exact_text, number
from bqrl.display import Charted, format_cells
from bqrl.errors import ArgumentError, ArgumentTypeError, PolicyError
from bqrl.laws.law import Law
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.evaluate import Limits, law_bracket
from bqrl.planners.expected import best_mean
from bqrl.planners.outcomes import expected_outcomes
from bqrl.planners.plan import Plan
from bqrl.planners.target import GuaranteeCurve
from bqrl.policies.convert import ALWAYS, bind, planned_policy
from bqrl.policies.protocol import PLANNED, THIS_MODEL, Policy, check_rewards

MAX_MODELS = 10_000
CONSTANTS = 3  # constant policies beside a plan
CONSTANT_WORK = 3.0 / 1.5e-9  # outcomes times columns to find them: three seconds on two cores of 2024


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scenario:
    """One model with the laws of all strategies in it."""

    name: str  # of the model; empty if there is only one
    mdp: MDP
    laws: Mapping[str, tuple[Law, Law | None]]  # by strategy: the exact law and None, or a proven lower and upper law
    # by level: a proven upper bound on the best quantile of all policies; None if unknown
    optimum: Sequence[float | None]
    best_mean: float
    outcomes: Mapping[str, Mapping[str, float]]  # by strategy: the exact mean of every further outcome of the model
    parameters: Mapping[str, Any]  # the values of the parameters of `sensitivity`


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Strategies(Charted):
    """Strategies side by side; made by `strategies`, `sensitivity` and `Plan.compare`.

    It prints as a table; `rows()` and `to_frame()` return the numbers, `chart()` draws the laws over one another or, for
    `sensitivity`, the quantile against a parameter, and `bqrl.report(table, path)` writes a page.

    Attributes
    ----------
    names : tuple of str
        The strategies.
    taus : tuple of float
        The levels.
    below : float or None
        The limit of the column `chance_below`.
    scenarios : tuple of Scenario
        One per model: the laws of all strategies, the best mean and the certified optimum of each level.
    units : str or None
        Unit of the returns, if the model has one.

    Examples
    --------
    >>> import bqrl
    >>> table = bqrl.strategies("SafeOrRisky", {"safe": "always:Safe", "random": "random"}, tau=0.1)
    >>> [(row["strategy"], row["quantile_0.1"], row["behind_0.1"]) for row in table.rows()]
    [('safe', 10.0, 2.0), ('random', 9.0, 3.0)]
    """

    names: tuple[str, ...]
    taus: tuple[float, ...]
    below: float | None
    scenarios: tuple[Scenario, ...]
    units: str | None = None

    @property
    def exact(self) -> bool:
        """Whether all laws are exact."""
        return all(upper is None for one in self.scenarios for _, upper in one.laws.values())

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per model and strategy.

        The keys are `model` if there are several, the parameters of `sensitivity` (`parameter_mean` for one called mean),
        `strategy`, `mean`, `behind_mean`, for each level `quantile_0.1`, `cvar_0.1` and `behind_0.1`, `chance_below` if `below`
        is given, `mean_cost` for an outcome of the model called cost, and `exact`. `behind` is the distance to the best value of
        any policy, at most this much if the optimum or the law is bracketed; None if the optimum is not known. `exact` is False
        if quantiles and CVaRs are proven lower bounds and `chance_below` is a proven upper bound; means are always exact.
        """
        found = []
        for one, name in product(self.scenarios, self.names):
            numbers = self._numbers(one, name)
            row: dict[str, Any] = {"model": one.name} if one.name else {}
            for key, value in one.parameters.items():
                row[f"parameter_{key}" if key in ("model", "strategy", *numbers) else key] = value
            found.append(row | {"strategy": name} | numbers)
        return found

    def _numbers(self, scenario: Scenario, name: str) -> dict[str, Any]:
        law, upper = scenario.laws[name]
        row: dict[str, Any] = {
            "mean": law.exact_mean,
            "behind_mean": _distance(scenario.best_mean, law.exact_mean, law),
        }
        for tau, best in zip(self.taus, scenario.optimum, strict=True):
            level, value = exact_text(tau), law.quantile(tau)
            row |= {f"quantile_{level}": value, f"cvar_{level}": law.cvar(tau)}
            row[f"behind_{level}"] = None if best is None else _distance(best, value, law)
        if self.below is not None:
            row["chance_below"] = law.shortfall(self.below)
        row |= {f"mean_{outcome}": mean for outcome, mean in scenario.outcomes[name].items()}
        return row | {"exact": upper is None}

    @property
    def bounds(self) -> dict[str, int]:
        """The columns of promises, which are rounded down for people, as in sentences."""
        return {f"{kind}_{exact_text(tau)}": -1 for kind in ("quantile", "cvar") for tau in self.taus}

    def __str__(self) -> str:
        rows = [
            {key: x for key, x in row.items() if key != "model" or not self.scenarios[0].parameters}
            for row in self.rows()
        ]
        bounds = self.bounds
        columns = [[key, *format_cells([row[key] for row in rows], direction=bounds.get(key, 0))] for key in rows[0]]
        widths = [max(map(len, column)) for column in columns]
        left = list(rows[0]).index("strategy")
        return "\n".join(
            "  ".join(
                cell.ljust(width) if j <= left else cell.rjust(width)
                for j, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in zip(*columns, strict=True)
        )

    def __repr__(self) -> str:
        models = "" if len(self.scenarios) == 1 else f" in {len(self.scenarios)} models"
        return f"Strategies({', '.join(self.names)}{models})"


def strategies(
    mdp: MDP | str | Mapping[str, MDP], policies: Mapping[str, Any], tau: float | Sequence[float] = 0.1, *,
    below: float | None = None, rewards: str | None = None, labels: bool = False,
) -> Strategies:  # fmt: skip
    """Return strategies side by side: what each guarantees, its mean, its worst runs and its distance to the optimum.

    Parameters
    ----------
    mdp : MDP, str or dict
        The problem, its name as for `solve`, or several models by name.
    policies : dict
        Strategies by name, each in a form that `evaluate` accepts: a Policy or a Plan, a function, a dict from states to
        actions, a table or a .csv file with the columns state, action and optionally stage, a saved policy (.npz),
        "always:NAME", "random" or an array.
    tau : float or list of float
        Levels in (0, 1): the shares of runs that may fall short.
    below : float, optional
        Adds the chance of a return below this limit.
    rewards : {"planned", "this model"}, optional
        Whether a policy that tracks rewards must meet those that it was planned for; see `evaluate`. The default is
        "planned" in one model and "this model" in several.
    labels : bool
        Pass states to functions as values, such as those of the step function, instead of indices; see `evaluate`.

    Returns
    -------
    Strategies
        One row per model and strategy.

    Examples
    --------
    >>> print(strategies("SafeOrRisky", {"safe": "always:Safe", "risky": "always:Risky"}, tau=0.1, below=10))
    strategy  mean  behind_mean  quantile_0.1  cvar_0.1  behind_0.1  chance_below  exact
    safe        10          6.5            10        10           2             0    yes
    risky     16.5            0             9    8.0329           3      0.101995    yes
    """
    if isinstance(mdp, list | tuple):
        remedy = 'write {"base": m0, "low demand": m1}'
        raise bad_type("mdp", mdp, "be an MDP, or a dict of models by name", type(mdp).__name__, remedy=remedy)
    if not isinstance(mdp, Mapping):
        return compare_in({"": check_mdp(mdp)}, policies, tau, below=below, rewards=rewards or PLANNED, labels=labels)
    if not mdp:
        raise bad_value("mdp", mdp, "hold at least one model", "none")
    models = {str(name): check_mdp(model) for name, model in mdp.items()}
    return compare_in(models, policies, tau, below=below, rewards=rewards or THIS_MODEL, labels=labels)


def sensitivity(
    build: Callable[..., MDP], parameters: Mapping[str, Sequence[Any]], policies: Mapping[str, Any],
    tau: float | Sequence[float] = 0.1, *, below: float | None = None, labels: bool = False,
) -> Strategies:  # fmt: skip
    """Return strategies side by side in the models of all combinations of the given parameter values.

    Policies that track rewards follow those of each model. The column `behind` compares with the optimum of the same model.

    Parameters
    ----------
    build : callable
        Returns the model for keyword arguments: build(mean=3.8).
    parameters : dict
        The values of each parameter; with several parameters, every combination is one model.
    policies, tau, below, labels
        As for `strategies`.

    Returns
    -------
    Strategies
        One row per combination and strategy, with one column per parameter; `chart()` draws the quantile against a parameter.

    Examples
    --------
    >>> import bqrl
    >>> def build(p):
    ...     return bqrl.MDP([[[1.0 - p, p]], [[0.0, 1.0]]], [[1.0], [0.0]], horizon=3)
    >>> table = bqrl.sensitivity(build, {"p": [0.0, 0.5]}, {"only": [0, 0]}, tau=0.4)
    >>> [(row["p"], row["mean"], row["quantile_0.4"]) for row in table.rows()]
    [(0.0, 3.0, 3.0), (0.5, 1.75, 1.0)]
    """
    if not callable(build):
        raise bad_type(
            "build", build, "be a function that returns a model, such as build(mean=3.8)", type(build).__name__
        )
    if not isinstance(parameters, Mapping) or not parameters:
        raise bad_type("parameters", parameters, "be a dict of values, such as {'mean': [3.8, 4.0, 4.2]}")
    values = {}
    for name, given in parameters.items():
        if isinstance(given, str) or not isinstance(given, Sequence | np.ndarray) or not len(given):
            raise bad_type(
                "parameters", given, f"hold a list of values for {name}", remedy=f"write {{{name!r}: [...]}}"
            )
        values[str(name)] = given.tolist() if isinstance(given, np.ndarray) else list(given)
    count = int(np.prod([len(given) for given in values.values()]))
    if count > MAX_MODELS:
        raise bad_value("parameters", parameters, f"have at most {MAX_MODELS} combinations", count)
    models, settings = dict[str, MDP](), list[Mapping[str, Any]]()
    for combination in product(*values.values()):
        setting = dict(zip(values, combination, strict=True))
        name, model = ", ".join(f"{key}={value}" for key, value in setting.items()), build(**setting)
        if not isinstance(model, MDP):
            raise bad_type("build", model, "return an MDP", f"{type(model).__name__} for {name[:80]}")
        if name in models:
            raise bad_value("parameters", parameters, "hold different values", f"{name[:80]} twice")
        models[name] = model
        settings.append(setting)
    return compare_in(models, policies, tau, below=below, rewards=THIS_MODEL, settings=settings, labels=labels)


def compare_in(
    models: Mapping[str, MDP], policies: Mapping[str, Any], tau: Any, *, below: Any = None, rewards: str = PLANNED,
    labels: bool = False, settings: Sequence[Mapping[str, Any]] = (), curve: GuaranteeCurve | None = None,
    known: Mapping[str, tuple[Law, Law | None]] | None = None,
) -> Strategies:  # fmt: skip
    """Return strategies in models by name; `curve` and `known` laws of some strategies are those of the first model.

    `settings` are the values of the parameters of each model.
    """
    if not isinstance(policies, Mapping) or not policies:
        raise bad_type(
            "policies", policies, "be a dict of strategies, such as {'today': rule}", type(policies).__name__
        )
    taus = tuple(number(level, "tau", 0.0, 1.0, "(]") for level in (tau if np.ndim(tau) else [tau]))
    if not taus or len(set(taus)) < len(taus):
        raise bad_value("tau", tau, "hold different levels", remedy="write e.g. [0.1, 0.2]")
    below = None if below is None else number(below, "below")
    named, first = {str(name): given for name, given in policies.items()}, next(iter(models.values()))
    scenarios = list[Scenario]()
    for i, (title, model) in enumerate(models.items()):
        laws, outcomes = {}, dict[str, dict[str, float]]()
        for name, given in named.items():
            if known is not None and name in known and model is first:
                laws[name] = known[name]
                continue
            try:
                laws[name] = _law(model, given, rewards, first, labels)
            except (PolicyError, ArgumentError, ArgumentTypeError) as fault:
                where = f"strategy {name!r}" + (f" in model {title!r}" if title else "")
                raise type(fault)(f"{where}: {fault}", **vars(fault)) from None
        for name, given in named.items():
            means = expected_outcomes(model, given, labels=labels, rewards=rewards) if model.outcome_names else {}
            outcomes[name] = {outcome: means[outcome] for outcome in model.outcome_names}
        optimum: list[float | None] = [None] * len(taus)
        with suppress(ValueError):  # the sweep does not fit into memory
            plans = (given for given in named.values() if isinstance(given, Plan) and given.mdp is model)
            curves = (plan.details.get("curve") for plan in plans)
            made = next((one for one in curves if isinstance(one, GuaranteeCurve)), None)
            best = made or (curve if curve is not None and model is first else guarantee_curve(model))
            optimum = [best.ceiling(level) for level in taus]  # ties are decided as for the quantiles of laws
        scenarios.append(Scenario(
            name=title, mdp=model, laws=laws, optimum=optimum, best_mean=best_mean(model)[0], outcomes=outcomes,
            parameters=settings[i] if settings else {},
        ))  # fmt: skip
    return Strategies(names=tuple(named), taus=taus, below=below, scenarios=tuple(scenarios), units=first.units)


def beside_plans(
    plans: Sequence[Plan], neutral: tuple[Policy, Law, Law | None] | None, policies: Mapping[str, Any], *,
    curve: GuaranteeCurve | None = None, below: float | None = None, usual: bool = True,
) -> Strategies:  # fmt: skip
    """Return plans of one problem beside further policies and, if `usual`, the risk-neutral and the best constant policies.

    `neutral` is the risk-neutral policy with its law. Constant policies are left out if the plans are for a problem so large
    that evaluating all of them would take more than a few seconds.
    """
    mdp = plans[0].mdp
    assert mdp is not None
    levels = [plan.tau for plan in plans if plan.by_level] or [0.1]
    named: dict[str, Any] = {"plan" if len(plans) == 1 else f"plan {plan.tau:g}": plan for plan in plans}
    known = dict[str, tuple[Law, Law | None]]()
    if curve is None:
        with suppress(ValueError):  # the sweep does not fit into memory
            curve = guarantee_curve(mdp)
    if usual and neutral is not None:
        named["risk-neutral"], known["risk-neutral"] = neutral[0], neutral[1:]
    if usual and curve is not None and curve.work * mdp.A <= CONSTANT_WORK:
        constants = _constant_policies(mdp, Limits(points=max(2, curve.points.size)))
        constants.sort(key=lambda one: (one[1][0].quantile(levels[0]), one[1][0].exact_mean), reverse=True)
        for name, laws in constants[:CONSTANTS]:
            named[name], known[name] = name, laws
    for name, given in policies.items():
        if name in named and name not in known:
            raise bad_value("policies", name, "have names that are not in the table yet", remedy="choose another name")
        named[name] = given
        known.pop(name, None)
    return compare_in({"": mdp}, named, levels, below=below, curve=curve, known=known)


def _constant_policies(mdp: MDP, limits: Limits) -> list[tuple[str, tuple[Law, Law | None]]]:
    """Return the laws of all policies "always:X" that are possible."""
    found = []
    for name in map(mdp.action_label, range(mdp.A)):
        with suppress(PolicyError):  # another state has several actions and not this one
            found.append((f"{ALWAYS}{name}", law_bracket(*bind(mdp, f"{ALWAYS}{name}"), limits)))
    return found


def _law(mdp: MDP, given: Any, rewards: str, first: MDP, labels: bool) -> tuple[Law, Law | None]:
    """Return the law of a strategy in a model, or a bracket; a plan for this model has its law already."""
    if isinstance(given, Plan) and given.mdp is mdp:
        return given.law, given.law_upper
    policy, home = planned_policy(given), given.mdp if isinstance(given, Plan) and given.mdp is not None else first
    if isinstance(policy, Policy):  # it plays indices, which must mean the same in both models
        for kind, one, other in (
            ("states", home.state_names, mdp.state_names), ("actions", home.action_names, mdp.action_names),
        ):  # fmt: skip
            if one is not None and other is not None and one != other:
                raise PolicyError(
                    f"the {kind} of the model must be those that the policy was made for, in the same order; "
                    "plan in this model, or give a rule by names"
                )
    problem, played = bind(mdp, policy, labels=labels)
    check_rewards(played, problem, rewards)
    return law_bracket(problem, played)


def _distance(best: float, value: float, law: Law) -> float:
    """Return how far a value lies below the best one; rounding errors count as 0."""
    gap, size = best - value, max(float(np.abs(law.values).max()), abs(best))
    return gap if gap > 1e-12 * size else 0.0
