"""Further outcomes of a policy, such as costs beside the reward: exact means, and the law of one outcome.

Means are linear in the occupancy d_h(s, a), the probability that the policy plays a in s at stage h:

    E[sum of c] = sum over h, s, a of discount^h d_h(s, a) c_h(s, a),

so they need no grid and are exact for every policy. The law of an outcome c is computed forward over triples (state, memory of
the policy, sum of c so far), and is exact while these are few.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, whole
from bqrl.errors import SizeError
from bqrl.laws.law import Law, size_of
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import ROUNDING
from bqrl.mdp.model import MDP
from bqrl.mdp.outcomes import REWARD, check_known
from bqrl.mdp.validation import check_discount
from bqrl.policies.convert import bind
from bqrl.policies.forward import expected_rewards, pairs_of, play_shares
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import PLANNED, Policy, check_rewards

MAX_SUMS = 2_000_000  # triples (state, memory, sum) of one stage


def expected_outcomes(
    mdp: MDP | str, policy: Any, discounts: Mapping[str, float] | None = None, *, labels: bool = False,
    rewards: str = PLANNED,
) -> dict[str, float]:  # fmt: skip
    """Return the exact mean of the return and of every further outcome of a policy.

    Parameters
    ----------
    mdp : MDP or str
        The problem; `MDP(..., outcomes=...)` gives it further outcomes.
    policy : Policy, Plan, callable, object with `predict`, array_like or str
        A plan, or a policy in any form that `evaluate` accepts. A policy that tracks rewards keeps tracking those of the
        model.
    discounts : dict, optional
        Discounts of further outcomes by name, e.g. {"qaly": 0.965}; otherwise the discount of the model.
    labels : bool
        Pass states to a function as their own values, not as indices; see `evaluate`.
    rewards : {"planned", "this model"}
        Whether a policy that tracks rewards must be played with the rewards for which it was planned; see `evaluate`.

    Returns
    -------
    dict
        {"reward": mean return, name: mean of that outcome, ...}.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3, outcomes={"cost": [[10.0], [2.0]]})
    >>> expected_outcomes(mdp, [0, 0])
    {'reward': 1.25, 'cost': 20.0}
    >>> expected_outcomes(mdp, [0, 0], discounts={"cost": 0.5})
    {'reward': 1.25, 'cost': 14.0}
    """
    problem, played = _bound(mdp, policy, labels, rewards)
    names = (REWARD, *problem.outcome_names)
    gammas = dict.fromkeys(names, problem.discount) | _check_discounts(discounts, problem)
    shares = play_shares(problem, played)
    found = {}
    for name in names:
        terms = [
            gammas[name] ** h * float((shares[h] * expected_rewards(problem, h, name)).sum()) for h in range(problem.H)
        ]
        found[name] = float(np.sum(terms))
    return found


def outcome_law(
    mdp: MDP | str, policy: Any, outcome: str, discount: float | None = None, *, labels: bool = False,
    rewards: str = PLANNED, max_sums: int = MAX_SUMS,
) -> Law:  # fmt: skip
    """Return the exact law of the sum of a further outcome, e.g. for the chance that costs exceed a limit.

    Parameters
    ----------
    mdp, policy, labels, rewards
        As for `expected_outcomes`.
    outcome : str
        The name of the outcome.
    discount : float, optional
        Its discount per stage; otherwise that of the model.
    max_sums : int
        Limit on the number of (state, memory, sum) triples of one stage; SizeError beyond it.

    Returns
    -------
    Law
        The chance of a sum above a limit is `1 - law.cdf(limit)`.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3, outcomes={"cost": [[10.0], [2.0]]})
    >>> law = outcome_law(mdp, [0, 0], "cost")
    >>> law
    Law(14: 0.5, 22: 0.25, 30: 0.25; 3 atoms, mean 20)
    >>> 1 - law.cdf(20.0)
    0.5
    """
    problem, played = _bound(mdp, policy, labels, rewards)
    check_known(problem.outcome_names, outcome)
    gamma = problem.discount if discount is None else check_discount(discount)
    return _law(problem, played, outcome, gamma, whole(max_sums, "max_sums", 1))


def _bound(mdp: MDP | str, policy: Any, labels: bool, rewards: str) -> tuple[MDP, Policy]:
    """Return the problem and the policy in it, checked; a plan stands for its policy."""
    own = getattr(policy, "policy", None)
    problem, played = bind(mdp, own if isinstance(own, Policy) else policy, labels=labels)
    check_rewards(played, problem, rewards)
    return problem, played


def _check_discounts(given: Any, mdp: MDP) -> dict[str, float]:
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise bad_type("discounts", given, "be a dict such as {'cost': 0.97}")
    if REWARD in given:
        remedy = "set it with mdp.replace(discount=...)"
        raise bad_value(
            "discounts", REWARD, "name further outcomes; the reward has the discount of the model", remedy=remedy
        )
    return {check_known(mdp.outcome_names, name, "discounts"): check_discount(gamma) for name, gamma in given.items()}


def _law(mdp: MDP, policy: Policy, name: str, discount: float, limit: int) -> Law:
    if isinstance(policy, MixturePolicy):
        parts = [_law(*bind(mdp, part), name, discount, limit) for part in policy.policies]
        return Law.mixture(parts, policy.weights)
    assert mdp.further is not None
    further, share = mdp.further, mdp.further.share()
    values = further.values[name]
    unit = _unit(values, mdp.H)
    pair, total, mass = np.arange(np.count_nonzero(mdp.mu)), np.zeros(np.count_nonzero(mdp.mu)), mdp.mu[mdp.mu > 0.0]
    for h, pairs in zip(range(mdp.H), pairs_of(mdp, policy), strict=False):
        origin = 0 if mdp.stationary else int(mdp.row_start[h * mdp.S * mdp.A])  # outcomes are counted per stage
        move, case = further.cases_of(pairs.outcome + origin)  # pairs -> moves -> cases
        weight = mdp.stage(h).probability[pairs.outcome][move] * share[case]
        gain, child = discount**h * values[h if len(values) > 1 else 0, case], pairs.child[move]
        starts = np.searchsorted(pairs.source[move], np.arange(pairs.state.size + 1))
        counts = starts[pair + 1] - starts[pair]
        if counts.sum() > 16 * limit:
            raise _size_error(int(counts.sum()), 16 * limit, h)
        triple = np.repeat(np.arange(pair.size), counts)
        i = np.repeat(starts[pair] - np.cumsum(counts) + counts, counts) + np.arange(triple.size)
        pair, total, mass = _merge(child[i], total[triple] + gain[i], mass[triple] * weight[i], unit)
        if pair.size > limit:
            raise _size_error(pair.size, limit, h)
    return Law(*_merge(np.zeros_like(pair), total, mass, unit)[1:])


def _unit(values: FloatArray, H: int) -> float:
    """Return the difference up to which sums are equal; 0 if rounding errors could merge different sums."""
    distinct = np.unique(values)
    size = size_of(distinct) * H
    closest = float(np.diff(np.union1d(distinct, 0.0)).min(initial=size))
    return min(1e-11 * size, closest / 4.0) if closest >= 4.0 * ROUNDING * size else 0.0


def _merge(pair: IntArray, total: FloatArray, mass: FloatArray, unit: float) -> tuple[IntArray, FloatArray, FloatArray]:
    """Return triples in which those of one pair and equal sums are one."""
    order = np.lexsort((total, pair))
    pair, total, mass = pair[order], total[order], mass[order]
    first = np.flatnonzero(np.r_[True, (np.diff(pair) != 0) | (np.diff(total) > unit)])
    return pair[first], total[first], np.add.reduceat(mass, first)


def _size_error(got: int, limit: int, h: int) -> SizeError:
    rule = f"the law of an outcome must have at most {limit} sums per stage, got {got} at stage {h + 1}"
    return SizeError(
        f"{rule}; raise max_sums or use simulate(..., outcome=...)", needed=got, limit=limit, name="max_sums"
    )
