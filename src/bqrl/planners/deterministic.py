"""The best policy without a coin for a buffered quantile, proven: what to try where the one found falls short of the bound."""

from __future__ import annotations

import numpy as np

from bqrl.mdp.policy import Policy
from bqrl.planners.branch import begin
from bqrl.planners.derandomize import without_coin
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import GAP_TOL
from bqrl.planners.target import as_law
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
    """The best policy without a coin, its value and what is proven of it.

    `policy` is the one found so far, worth `value`; `upper` is what a coin reaches, and a distance of `gap` is accepted.
    ValueError where `max_nodes` prove less.
    """
    mdp, tau, beta = search.mdp, search.tau, search.beta
    how = "the policy found"
    for alone in without_coin(mdp, search.grid, float(search.targets[column]), width, tau - beta):
        reached = as_law(evaluate(mdp, alone)).buffered_quantile(tau, beta)
        if reached > value:
            policy, value, how = alone, reached, "chance within the problem plays the coin: without one this policy"
    if value >= upper - gap:
        tight = upper - value <= GAP_TOL * max(1.0, abs(upper))
        close = "reaches the bound" if tight else f"comes within {upper - value:.1g} of the bound"
        return policy, value, (f"{how} {close}",)
    ceiling = np.min([search.bound(d) for d in (0.0, *search.sweeps)], axis=0)
    targets = search.targets[ceiling > value + gap]
    branches = begin(mdp, search.grid, tau, beta, targets, list(search.sweeps), width, value)
    if branches is None:
        raise ValueError(
            f"the best policy without a coin is worth between {value:.10g} and {upper:.10g}, and this problem has too many "
            f"histories to search for more; allow gap={_rounded_up(upper - value)} or use randomized=True"
        )
    left = branches.run(gap, max_nodes)
    if branches.best is not None:
        policy, value = branches.policy(), branches.value
    if left > value + gap:
        raise ValueError(
            f"the best policy without a coin is worth between {value:.10g} and {left:.10g}, and {max_nodes} nodes of the "
            f"search prove no more; allow gap={_rounded_up(left - value)}, raise max_nodes or use randomized=True"
        )
    if gap > GAP_TOL * max(1.0, abs(upper)):
        note = f"no policy without a coin exceeds this by more than {_rounded_up(max(left - value, gap))}"
        return policy, value, (note,)
    return policy, value, (f"proven best deterministic policy; one coin at the start reaches {upper:.6g}",)


def _rounded_up(x: float) -> str:
    """Two digits that are not less.

    >>> _rounded_up(1.3333), _rounded_up(0.0301)
    ('1.4', '0.031')
    """
    unit = 10.0 ** (np.floor(np.log10(x)) - 1.0)
    return f"{np.ceil(x * (1.0 + 1e-9) / unit) * unit:.2g}"
