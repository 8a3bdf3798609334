"""Proof of the best deterministic policy for a buffered quantile, if the policy found is below the bound."""

from __future__ import annotations

import numpy as np

from bqrl.errors import SizeError
from bqrl.laws.law import size_of
from bqrl.mdp.policy import Policy
from bqrl.planners.branch import begin
from bqrl.planners.derandomize import without_coin
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import GAP_TOL
from bqrl.planners.widths import WidthSearch


def prove_deterministic(
    search: WidthSearch,
    column: int,
    width: float,
    policy: Policy,
    value: float,
    upper: float,
    gap: float,
    max_nodes: int,
) -> tuple[Policy, float, tuple[str, ...]]:
    """The best deterministic policy, its value, and a note on what is proven.

    `policy` is the best one so far and `value` its value; `upper` is the value of the best randomized policy, and a
    distance of `gap` is accepted. SizeError if `max_nodes` nodes do not prove it.
    """
    mdp, tau, beta = search.mdp, search.tau, search.beta
    for candidate in without_coin(mdp, search.grid, float(search.targets[column]), width, tau - beta):
        reached = evaluate(mdp, candidate).buffered_quantile(tau, beta)
        if reached > value:
            policy, value = candidate, reached
    if value >= upper - gap:
        tight = upper - value <= GAP_TOL * size_of(search.targets)
        verb = "attains" if tight else f"comes within {upper - value:.1g} of"
        return policy, value, (f"a deterministic policy {verb} the randomized bound",)
    ceiling = np.min([search.bound(d) for d in (0.0, *search.sweeps)], axis=0)
    targets = search.targets[ceiling > value + gap]
    branches = begin(mdp, search.grid, tau, beta, targets, list(search.sweeps), width, value)
    if branches is None:
        raise _unproven(value, upper, "the problem has too many histories for a search", "allow")
    left = branches.run(gap, max_nodes)
    if branches.best is not None:
        policy, value = branches.policy(), branches.value
    if left > value + gap:
        raise _unproven(value, left, f"{max_nodes} nodes of the search prove no more", "raise max_nodes, allow")
    if gap > GAP_TOL * size_of(search.targets):
        note = f"no deterministic policy exceeds this value by more than {_rounded_up(max(left - value, gap))}"
        return policy, value, (note,)
    return policy, value, (f"proven best deterministic policy; the best randomized policy has {upper:.6g}",)


def _unproven(value: float, upper: float, reason: str, remedy: str) -> SizeError:
    """The error of a search without result; its fields are the value of the best policy found and the open bound."""
    return SizeError(
        f"the best deterministic policy has a value between {value:.10g} and {upper:.10g}, and {reason}; {remedy} "
        f"gap={_rounded_up(upper - value)} or use randomized=True", needed=upper, limit=value,
    )  # fmt: skip


def _rounded_up(x: float) -> str:
    """`x` rounded up to two digits.

    >>> _rounded_up(1.3333), _rounded_up(0.0301)
    ('1.4', '0.031')
    """
    unit = 10.0 ** (np.floor(np.log10(x)) - 1.0)
    return f"{np.ceil(x * (1.0 + 1e-9) / unit) * unit:.2g}"
