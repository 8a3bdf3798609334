"""Planning over achievable return laws: EVI-BQ (Algorithm 2), and the paper's capped reference.

`frontier` computes every law that a deterministic history-dependent policy attains (see achievable.py), so the best root law
is the exact optimum over these policies, for any objective. The number of laws grows exponentially, so this planner serves as
the reference on small problems. A budget on laws and bytes is checked before a product is formed; a larger product is
refused, never truncated. Duplicates (all masses within MASS_TOL) are removed, also among the partial sums within a row. With
`dominance`, laws dominated in first order are removed too, which preserves the maximum of every monotone objective. Outcomes
of probability zero do not affect the law; if one occurs, the policy continues with the law of the largest mean.

`plan_capped` is the paper's numerical reference: the same recursion with four pruning rules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from bqrl.checks import bad_value, numbers, whole
from bqrl.errors import SizeError
from bqrl.laws.law import MASS_TOL, size_of
from bqrl.laws.objectives import check_levels, quantile_objective
from bqrl.laws.rows import cdf_rows, mean_rows, quantile_rows
from bqrl.loops.frontier import mark_distinct, mark_undominated
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import returns_grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.achievable import Frontier, Part, ReturnColumns, all_laws
from bqrl.planners.evaluate import evaluate
from bqrl.planners.expected import is_settled, plan_of
from bqrl.planners.facts import RoundedLaw
from bqrl.planners.greedy import MEAN_TIE, TIE, exact_columns
from bqrl.planners.options import count, positive, switch
from bqrl.planners.plan import Plan, is_steady, level_error
from bqrl.planners.sweep import rounding_error

MAX_LAWS = 100_000
MAX_BYTES = 2**30
MAX_DECIMALS = 100
MAX_SUMS = 4_000_000  # rewards times returns of a stage in the capped recursion


def frontier(
    mdp: MDP, *, dominance: bool = False, max_laws: int = MAX_LAWS, max_bytes: int = MAX_BYTES, columns: Grid | None = None,
) -> Frontier:  # fmt: skip
    """Return all return laws that deterministic history-dependent policies of `mdp` attain, with their labels."""
    on = ReturnColumns.of_grid(mdp, exact_columns(mdp) if columns is None else columns)
    return all_laws(mdp, on, EveryLaw(dominance=dominance, max_laws=max_laws, max_bytes=max_bytes))


def per_outcome(value: Any, name: str, mdp: MDP) -> None:
    """Check kernels: probabilities of at least 0, one row per kernel with one entry per outcome of the problem."""
    given = np.atleast_2d(numbers(value, name, 0.0)).shape
    wanted = (max(given[0], 1), mdp.probability.size)
    if given != wanted:
        raise bad_value(name, value, f"have shape {wanted}", given)


def plan_frontier(
    mdp: MDP, tau: float, beta: float = 0.0, *, kernels: Annotated[Any, per_outcome] = None,
    dominance: Annotated[bool, switch] = False, max_laws: Annotated[int, count(1)] = MAX_LAWS,
    max_bytes: Annotated[int, positive] = MAX_BYTES,
) -> Plan:  # fmt: skip
    """Return the best law of the whole frontier and its label policy (EVI-BQ); with `kernels` (n, nnz), optimistically.

    `upper` is the value itself if the plan is `certain`, and otherwise the highest return that remains possible. Two errors
    matter: rounding (a relative error gamma of every mass) and the merging of equal laws (`Frontier.slack`). Let x be the
    value and x' the next higher return. The plan is certain if these errors neither raise P(G < x) of the best law to tau nor
    lower the smallest P(G < x') below tau. A buffered value is smooth in the masses: it is certain if the errors change it by
    at most GAP_TOL times its size.
    With `kernels` the plan is optimistic. `upper` is then the value under the chosen kernel, whose index is
    `details["kernel"]` (the first one in case of ties), and `value` is the value of its policy in `mdp` itself.
    """
    tau, beta = check_levels(tau, beta)
    columns = exact_columns(mdp)
    models = [mdp] if kernels is None else [mdp.with_probability(p) for p in np.atleast_2d(kernels)]
    found = [frontier(m, dominance=dominance, max_laws=max_laws, max_bytes=max_bytes, columns=columns) for m in models]
    picks = [one.best(tau, beta) for one in found]
    values = [quantile_objective(tau, beta)(one.law(i)) for one, i in zip(found, picks, strict=True)]
    tie = TIE * size_of(found[0].points)
    k = next(k for k, value in enumerate(values) if value >= max(values) - tie)
    checked = [_certainty(*one, tau, beta) for one in zip(found, picks, values, strict=True)]
    upper = max(upper for _, upper in checked)  # a tie under another kernel may allow a higher value
    certain = checked[k][0] and upper <= values[k] + tie
    policy, details = found[k].policy(picks[k]), {"frontier": found[k], "laws": len(found[k])}
    if kernels is None:
        law, value, attitude = found[k].law(picks[k]), values[k], "nominal"
    else:
        law = evaluate(mdp, policy)
        value, attitude = quantile_objective(tau, beta)(law), "optimistic"
        details |= {"kernel": k, "values": values}
    return Plan(
        objective=quantile_objective(tau, beta),
        planner="frontier", policy=policy, law=law, value=value, upper=upper, nominal=value,
        certain=certain, exact=True, attitude=attitude, details=details,
    )  # fmt: skip


def _certainty(found: Frontier, i: int, value: float, tau: float, beta: float) -> tuple[bool, float]:
    """Return True if errors cannot change the optimum, and the highest value that remains possible."""
    gamma, slack = rounding_error(found.mdp), found.slack
    if beta > 0.0:
        law, gamma = found.law(i), gamma + slack
        certain = is_steady(law, tau, beta, gamma)
        return certain, value if certain else value + level_error(law, tau, beta, gamma)
    reached = found.law(i).shortfall(value) * (1.0 + gamma) + slack < tau
    # the smallest P(G < x) for every return x but the lowest
    short = cdf_rows(found.points, found.pmf)[:, :-1].min(axis=0)
    open_still = found.points[1:][short * (1.0 - gamma) - slack < tau]
    upper = max(value, float(open_still.max(initial=value)))
    return bool(reached) and upper == value, upper


@dataclass(slots=True, kw_only=True)
class EveryLaw:
    """Rules of the exact frontier: form all combinations, within a budget."""

    dominance: bool
    max_laws: int  # of one product
    max_bytes: int  # of one product and all laws retained before it
    held: int = 0  # bytes of the laws retained so far

    def combine(self, parts: Sequence[Part], width: int, where: str) -> tuple[FloatArray, IntArray, float]:
        """Form all combinations, one outcome after the other; duplicate (or dominated) partial sums are removed immediately."""
        pmf, picks, slack = np.zeros((1, width)), np.zeros((1, 0), np.int64), 0.0
        for part in parts:
            n, k = len(pmf), len(part.pmf)
            self.check(n * k, width, len(parts), where)
            pmf = (pmf[:, None, :] + part.place(width)[None]).reshape(n * k, width)
            picks = np.column_stack([np.repeat(picks, k, axis=0), np.tile(np.arange(k), n)])
            retained, moved = keep_laws(pmf, self.dominance)
            pmf, picks, slack = pmf[retained], picks[retained], slack + moved
        return pmf, picks, slack

    def check(self, laws: int, width: int, outcomes: int, where: str) -> None:
        """Raise SizeError if the next product exceeds the budget."""
        needed = self.held + laws * (3 * width + 2 * outcomes) * 8
        if laws <= self.max_laws and needed <= self.max_bytes:
            return
        many = laws > self.max_laws
        name, limit, size = ("max_laws", self.max_laws, laws) if many else ("max_bytes", self.max_bytes, needed)
        raise SizeError(
            f"the frontier must stay within {name}={limit}, got {size} at {where}; raise {name}"
            f"{'' if self.dominance else ', set dominance=True'} or use planner='target', which needs no frontier",
            needed=size, limit=limit, name="planner",
        )  # fmt: skip

    def keep(self, points: FloatArray, pmf: FloatArray) -> tuple[IntArray, float]:
        """Retain all laws except duplicates (and dominated laws)."""
        retained, moved = keep_laws(pmf, self.dominance)
        self.held += retained.size * pmf.shape[1] * 8
        return retained, moved

    def usual(self, points: FloatArray, pmf: FloatArray) -> int:
        """Return the law of the largest mean."""
        return int(mean_rows(points, pmf).argmax())


def keep_laws(pmf: FloatArray, dominance: bool) -> tuple[IntArray, float]:
    """Return the indices of the distinct (or undominated) laws, and a bound on the change of a distribution function."""
    keep = np.empty(len(pmf), np.bool_)
    if dominance:
        cdf = np.cumsum(pmf, axis=1)
        moved = mark_undominated(cdf, np.argsort(cdf.sum(axis=1), kind="stable"), MASS_TOL, keep)
    else:
        keys = pmf @ np.random.default_rng(0).random(pmf.shape[1])
        window = 2.0 * MASS_TOL * pmf.shape[1]
        moved = mark_distinct(pmf, np.argsort(keys, kind="stable"), keys, window, MASS_TOL, keep)
    return np.flatnonzero(keep), float(moved)


# -- the capped reference -------------------------------------------------------------------------------------------


def plan_capped(
    mdp: MDP, tau: float, beta: float = 0.0, *, decimals: Annotated[int, count(0, MAX_DECIMALS)] = 6,
    max_laws: Annotated[int, count(1)] = 16, max_combinations: Annotated[int, count(1)] = 4000,
    dominance: Annotated[bool, switch] = True,
) -> Plan:  # fmt: skip
    """Return the plan of the paper's numerical reference, the frontier recursion with four pruning rules.

    Returns are rounded to `decimals`. Laws dominated in first order are removed. At most `max_laws` laws are retained for
    every (stage, state). If an action has more than `max_combinations` combinations of the laws of its outcomes, only the
    best retained law of each outcome is used. `value` is the true value of the policy found, and `details["reference"]` the
    value of its rounded law. No upper bound is proven.
    Deviation: the paper defines neither "best" nor which 16 laws are retained: here those with the largest plain
    tau-quantile, then the largest mean, then the first found. The order of the rules is merge, round, drop duplicates, drop
    dominated laws, retain 16.
    """
    tau, beta = check_levels(tau, beta)
    whole(max_laws, "max_laws", 1)
    whole(max_combinations, "max_combinations", 1)
    found = all_laws(
        mdp,
        rounded_columns(mdp, decimals),
        CappedLaws(tau=tau, max_laws=max_laws, max_combinations=max_combinations, dominance=dominance),
    )
    i = found.best(tau, beta)
    policy, law = found.policy(i), found.law(i)
    details = {"reference": quantile_objective(tau, beta)(law), "frontier": found, "laws": len(found)}
    if returns_grid(mdp) is not None:
        return plan_of(mdp, policy, tau, beta, "capped-frontier", details=details)
    error = 0.5 * mdp.H * 10.0**-decimals
    lower, value = law.shift(-error), quantile_objective(tau, beta)(law.shift(-error))
    return Plan(
        objective=quantile_objective(tau, beta),
        planner="capped-frontier", policy=policy, law=lower, law_upper=law.shift(error), value=value,
        upper=None, nominal=value, certain=is_settled(lower, tau, beta, rounding_error(mdp)), exact=False,
        facts=(RoundedLaw(error=error),), details=details,
    )  # fmt: skip


def rounded_columns(mdp: MDP, decimals: int) -> ReturnColumns:
    """Return the possible returns if every sum is rounded to `decimals`, built backwards from the last stage."""
    found = ReturnColumns(points=[np.zeros(1)], units=[], landings=[])
    for h in range(mdp.H - 1, -1, -1):
        worth, unit = np.unique(mdp.discount**h * mdp.stage(h).reward, return_inverse=True)
        needed = worth.size * found.points[0].size
        if needed > MAX_SUMS:
            raise SizeError(
                f"stage {h + 1} must have at most {MAX_SUMS} sums of rewards with {decimals} decimals, got {needed}; use fewer "
                "decimals or planner='target'", needed=needed, limit=MAX_SUMS, name="planner",
            )  # fmt: skip
        sums = np.round(worth[:, None] + found.points[0], decimals) + 0.0
        found.points.insert(0, np.unique(sums))
        found.landings.insert(0, dict(enumerate(np.searchsorted(found.points[0], sums))))
        found.units.insert(0, unit)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class CappedLaws:
    """Rules of the capped reference; retained laws are sorted, the best one first."""

    tau: float
    max_laws: int
    max_combinations: int
    dominance: bool

    def combine(self, parts: Sequence[Part], width: int, where: str) -> tuple[FloatArray, IntArray, float]:
        """Form every combination; if there are too many, only the combination of the best laws."""
        sizes = [len(part.pmf) for part in parts]
        if math.prod(sizes) > self.max_combinations:
            best = sum((part.place(width, slice(1)) for part in parts), np.zeros((1, width)))
            return best, np.zeros((1, len(parts)), np.int64), 0.0
        picks = np.indices(sizes).reshape(len(sizes), -1).T
        pmf = np.zeros((len(picks), width))
        for j, part in enumerate(parts):
            pmf += part.place(width)[picks[:, j]]
        return pmf, picks, 0.0

    def keep(self, points: FloatArray, pmf: FloatArray) -> tuple[IntArray, float]:
        """Retain the best laws that are neither duplicates nor dominated."""
        retained, _ = keep_laws(pmf, False)
        if self.dominance:
            retained = retained[keep_laws(pmf[retained], True)[0]]
        values, means = quantile_rows(points, pmf[retained], self.tau), mean_rows(points, pmf[retained])
        digits = -math.floor(math.log10(MEAN_TIE * size_of(points)))
        order = np.lexsort((-np.round(means, digits), -values))  # stable: among equal laws the first found comes first
        return retained[order[: self.max_laws]], 0.0

    def usual(self, points: FloatArray, pmf: FloatArray) -> int:
        """Return the best law."""
        return 0
