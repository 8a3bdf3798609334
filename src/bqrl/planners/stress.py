"""Does it hold? What one policy is still proven to guarantee if the probabilities of the model are off.

`off` is the share of probability that may move in every row between the outcomes that the model lists: half an l1 distance.
For the quantile, W(x) is the largest probability of a return below x over these kernels (see worst_case.py); the guarantee is
the largest x with W(x) < tau, found by bisection because W grows with x. For CVaR it is max_z { z - M(z) / tau }, M(z) the
largest mean of (z - G)^+ over these kernels, which is concave in z because M is convex. Both are proven lower bounds and not the
exact worst case, because the kernel may depend on the sum collected so far. The law of the first state does not move, and
neither do rows that are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, numbers
from bqrl.display import Charted
from bqrl.errors import ArgumentTypeError
from bqrl.laws.objectives import Buffered, Objective, Quantile, check_objective
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.find_grid import cut_to_possible, lattice, returns_grid, rounded_grid
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.expected import risk_neutral
from bqrl.planners.plan import Plan
from bqrl.planners.sweep import rounding_error
from bqrl.planners.uncertain import half_radius, robust_value
from bqrl.planners.worst_case import FIXED_POINTS, FixedPolicy, few_pairs, fixed_policy
from bqrl.policies.convert import bind, one_policy
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import Policy, check_rewards
from bqrl.policies.target import TargetPolicy

OFF = (0.0, 0.01, 0.02, 0.05)
PASS_SECONDS, STAGE_SECONDS = 3e-8, 3e-5  # per outcome and sum, and per stage of a pass, on one core of 2024
CVAR_PASSES, BUFFERED_PASSES = 2.0, 25.0  # for one share, relative to those of a quantile
BLOCK_CELLS = 2_000  # cells of one pass up to which several targets are tried at once


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Stress(Charted):
    """What a policy is proven to guarantee if the model is off; made by `stress`.

    Attributes
    ----------
    objective : Objective
        What is guaranteed.
    off : ndarray of shape (n,)
        The share of probability that may move in every row.
    value : ndarray of shape (n,)
        The guarantee of the policy; at `off` = 0 its value in the model.
    risk_neutral : ndarray of shape (n,)
        The same for the policy with the best mean in the model.
    mdp : MDP or None
        The problem.
    others : dict of ndarrays of shape (n,)
        By name, the same for policies that are compared with the policy of a plan.

    Examples
    --------
    >>> import bqrl
    >>> held = bqrl.stress("SafeOrRisky", bqrl.solve("SafeOrRisky", tau=0.1), off=[0.0, 0.05])
    >>> held.rows()
    [{'off': 0.0, 'value': 12.0, 'risk_neutral': 9.0}, {'off': 0.05, 'value': 12.0, 'risk_neutral': 9.0}]
    """

    objective: Objective
    off: FloatArray
    value: FloatArray
    risk_neutral: FloatArray
    mdp: MDP | None = None
    others: Mapping[str, FloatArray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("off", "value", "risk_neutral"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    @property
    def columns(self) -> dict[str, FloatArray]:
        """The columns of the rows; those of other policies have their names, or ``policy_`` and the name if that is taken."""
        found = {"off": self.off, "value": self.value, "risk_neutral": self.risk_neutral}
        for name, values in self.others.items():
            column = name
            while column in found:
                column = f"policy_{column}"
            found[column] = values
        return found

    @property
    def overtaken(self) -> float | None:
        """The first listed `off` at which the policy guarantees no more than the risk-neutral one; None if it stays ahead."""
        behind = np.flatnonzero(self.value <= self.risk_neutral)
        return float(self.off[behind[0]]) if behind.size else None

    def rows(self) -> list[dict[str, float]]:
        """Return one row per `off`: the guarantee of the policy, that of the risk-neutral policy and those of others."""
        columns = {name: values.tolist() for name, values in self.columns.items()}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def __repr__(self) -> str:
        parts = ", ".join(f"{100 * off:g} %: {value:.6g}" for off, value in zip(self.off, self.value, strict=True))
        return f"Stress({self.objective.label}; {parts})"


def stress(
    mdp: MDP | str, policy: Any, objective: Objective | float | None = None, *, tau: float | None = None,
    off: Sequence[float] = OFF,
) -> Stress:  # fmt: skip
    """Return what a policy is still proven to guarantee if up to a share of probability moves in every row of the model.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or its name as for `solve`.
    policy : Plan or Policy, or any form that `evaluate` accepts
        The policy; action probabilities must be given as a StochasticPolicy.
    objective : Objective or float
        What is guaranteed: a quantile, buffered or not, or a level; by default that of the plan.
    tau : float
        Quantile level in (0, 1).
    off : sequence of float
        Shares of probability in [0, 1] that may move between the outcomes that the model lists for a row.

    Returns
    -------
    Stress
        One row per share, with the guarantee of the risk-neutral policy beside it.

    Examples
    --------
    >>> import bqrl
    >>> bqrl.stress("SafeOrRisky", "always:Safe", tau=0.1, off=[0.05]).value.tolist()
    [10.0]
    """
    problem = check_mdp(mdp)
    if isinstance(policy, Plan) and objective is None and tau is None:
        objective = policy.objective
    goal = check_objective(objective, tau)
    if not isinstance(goal, Quantile | Buffered):
        raise bad_value("objective", goal, "be a quantile, buffered or not", goal.label, remedy="pass e.g. tau=0.1")
    shares = np.unique(numbers(off, "off", 0.0))
    if shares.size == 0 or shares[-1] > 1.0:
        raise bad_value("off", off, "hold shares in [0, 1]", remedy="write 0.05 for 5 %")
    bound = one_policy(problem, policy)
    check_rewards(bound, problem)
    neutral = risk_neutral(problem, 0)[0]
    values = [held_values(problem, one, goal, shares) for one in (bound, neutral)]
    return Stress(objective=goal, off=shares, value=values[0], risk_neutral=values[1], mdp=problem)


def quick_stress(mdp: MDP, plan: Plan, off: Sequence[float], seconds: float) -> Stress | None:
    """Return the stress of a plan in the model as given if it takes about `seconds` at most; else None."""
    goal = plan.objective
    if plan.attitude != "nominal" or not isinstance(goal, Quantile | Buffered) or not (~mdp.known).any():
        return None
    both = (plan.policy, risk_neutral(mdp, 0)[0])
    return stress(mdp, plan, off=off) if _stress_seconds(mdp, goal, both, off) <= seconds else None


def beside_others(held: Stress, policies: Mapping[str, Any], seconds: float) -> Stress:
    """Return a stress test with those of other policies beside it that take about `seconds` each at most."""
    mdp, goal, found = held.mdp, held.objective, dict[str, FloatArray]()
    assert mdp is not None
    assert isinstance(goal, Quantile | Buffered)
    for name, given in policies.items():
        with suppress(ArgumentTypeError):  # actions are drawn
            policy = one_policy(mdp, given)
            check_rewards(policy, mdp)
            if _stress_seconds(mdp, goal, [policy], held.off) <= seconds:
                found[name] = read_only(held_values(mdp, policy, goal, held.off))
    return replace(held, others=found)


def _stress_seconds(mdp: MDP, goal: Quantile | Buffered, policies: Sequence[Policy], off: Iterable[float]) -> float:
    """Return about how long a stress test takes; inf if there is none for such a policy."""
    averaged = goal.beta not in (0.0, goal.tau)
    if averaged and (lattice(mdp) is None or any(isinstance(policy, MixturePolicy) for policy in policies)):
        return np.inf
    passes = BUFFERED_PASSES if averaged else 1.0 if goal.beta == 0.0 else CVAR_PASSES
    return passes * sum(share > 0.0 for share in off) * sum(_search_seconds(mdp, policy) for policy in policies)


def _search_seconds(mdp: MDP, policy: Policy) -> float:
    """Return about how long it takes to find the guarantee of a policy for one share; inf where counting takes as long."""
    if isinstance(policy, MixturePolicy):
        return sum(_search_seconds(mdp, part) for part in policy.policies)
    sizes = [mdp.stage(h).successor.size / mdp.A for h in range(mdp.H)]  # outcomes of one action per state
    if isinstance(policy, EarnedPolicy):
        cells = [stage.total.size * size / mdp.S for stage, size in zip(policy.stages, sizes, strict=True)]
        returns = cells[-1]
    elif isinstance(policy, MarkovPolicy | TargetPolicy):
        grid = getattr(policy, "grid", None) or returns_grid(mdp) or rounded_grid(mdp, FIXED_POINTS)
        few = few_pairs(mdp, policy) if grid.exact else None
        if few is None:
            sums = grid.size[0] + 1 - grid.size[:-1]  # what may have been earned: all but what may still be needed
            cells, returns = (sums * np.array(sizes)).tolist(), float(grid.size[0])
        else:
            cells, returns = [one.outcome.size for one in few], float(few[-1].state.size)
    else:
        return np.inf
    return float(np.log2(returns + 1.0)) * (PASS_SECONDS * sum(cells) + STAGE_SECONDS * mdp.H)


def held_values(mdp: MDP, policy: Policy, goal: Quantile | Buffered, off: FloatArray) -> FloatArray:
    """Return the guarantees of a policy for increasing shares; the first is the value in the model if the share is 0."""
    nominal = goal(law_bracket(*bind(mdp, policy))[0])
    parts = _parts(mdp, policy)
    found, most = np.empty(off.size), nominal
    for i, share in enumerate(off.tolist()):
        half = half_radius(mdp, 2.0 * share)
        if half.any():
            if goal.beta == 0.0:
                most = _held_quantile(mdp, parts, goal.tau, half, most)
            elif goal.beta == goal.tau:
                most = _held_cvar(parts, goal.tau, half, most)
            else:
                most = _held_buffered(mdp, policy, goal, half, most)
        found[i] = most
    return cut_to_possible(mdp, found)


def _parts(mdp: MDP, policy: Policy) -> list[tuple[float, FixedPolicy]]:
    """Return the policies of a mixture with their weights; any other policy alone."""
    if isinstance(policy, MixturePolicy):
        return [
            (float(w) * v, fixed)
            for w, part in zip(policy.weights, policy.policies, strict=True)
            for v, fixed in _parts(mdp, part)
        ]
    return [(1.0, fixed_policy(mdp, policy))]


def _held_quantile(
    mdp: MDP, parts: Sequence[tuple[float, FixedPolicy]], tau: float, half: FloatArray, most: float
) -> float:
    """Return the largest return, at most `most`, that is missed with probability below tau under every kernel of the ball."""
    error = rounding_error(mdp, ball=True)
    returns = np.unique(np.concatenate([fixed.returns for _, fixed in parts]))
    returns = returns[returns <= most]
    largest = max(played.column.size * len(played.action) for _, fixed in parts for played in fixed.stages)
    block = int(min(8, max(1, BLOCK_CELLS // largest)))

    def reached(targets: FloatArray) -> Any:
        cost: Callable[[FloatArray], FloatArray] = lambda g: (g[..., None] < targets).astype(np.float64)  # noqa: E731
        short = sum(weight * fixed.worst_costs(half, cost) for weight, fixed in parts)
        return np.maximum.accumulate(short) + error < tau

    low, high = 0, returns.size  # the smallest return is never missed
    while high - low > 1:
        asked = np.unique(np.linspace(low, high, block + 2)[1:-1].round().astype(np.int64).clip(low + 1, high - 1))
        n = int(np.count_nonzero(reached(returns[asked])))
        low, high = (int(asked[n - 1]) if n else low), (int(asked[n]) if n < asked.size else high)
    return float(returns[low]) if returns.size else most


def _held_cvar(parts: Sequence[tuple[float, FixedPolicy]], tau: float, half: FloatArray, most: float) -> float:
    """Return the CVaR, at most `most`, that is proven under every kernel of the ball: the best bound of any target."""
    returns = np.unique(np.concatenate([fixed.returns for _, fixed in parts]))
    low, high, best = 0, returns.size - 1, float(returns[0])  # no return is below the smallest one
    while low < high:  # the bound is concave, so two neighbours show on which side the best one lies
        targets = returns[[(low + high) // 2, (low + high) // 2 + 1]]
        cost: Callable[[FloatArray], FloatArray] = lambda g: np.maximum(targets - g[..., None], 0.0)  # noqa: B023, E731
        here, there = targets - sum(weight * fixed.worst_costs(half, cost) for weight, fixed in parts) / tau
        best = max(best, float(here), float(there))
        low, high = ((low + high) // 2 + 1, high) if there > here else (low, (low + high) // 2)
    return min(most, best)


def _held_buffered(mdp: MDP, policy: Policy, goal: Quantile | Buffered, half: FloatArray, most: float) -> float:
    """Return the buffered quantile that is proven for a policy under every kernel of the ball."""
    if isinstance(policy, MixturePolicy):
        raise bad_type("policy", policy, "not be a mixture for a buffered quantile", remedy="stress its parts")
    return min(most, robust_value(mdp, policy, goal.tau, goal.beta, half))
