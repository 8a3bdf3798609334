"""Planning for rules that people can follow: an action per stage and state, per state, or by thresholds, without memory.

The best such rule is hard to find in general, so this is a local search (rule_passes.py, rule_shapes.py). For a target x it
lowers the probability of falling short of x until the target is reached at the level; then it aims at a higher possible return.
It begins with the risk-neutral rule, the greedy planner's rule, the most frequent actions of the best policy with memory, the
constant rules, random rules and the rules of the caller, and goes on with random changes of the best rule found. The value is
that of the exact law of the rule, and the optimum of all policies, with memory, bounds it from above.

For CVaR and buffered quantiles the cost is clip(z - G, 0, z - y), where z and y are the quantiles at the levels tau and
tau - beta of the current rule or their neighbours; a new rule is kept if its exact value is higher.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

import numpy as np

from bqrl.checks import bad_type, bad_value
from bqrl.errors import PolicyError
from bqrl.laws.objectives import Buffered, Quantile
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import returns_grid, rounded_grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.expected import best_mean, is_settled
from bqrl.planners.facts import Fact, RoundedLaw, RuleFound, RuleOrder, Tied
from bqrl.planners.greedy import greedy_policies
from bqrl.planners.options import MaxBytes, Points, Tick, one_of
from bqrl.planners.plan import Plan, equal_values
from bqrl.planners.room import MAX_BYTES
from bqrl.planners.rule_passes import RulePasses
from bqrl.planners.rule_search import search_rules
from bqrl.planners.rule_shapes import StageState, State, Threshold
from bqrl.planners.sweep import rounding_error
from bqrl.planners.target import plan_target
from bqrl.policies.convert import bind
from bqrl.policies.forward import play_shares
from bqrl.policies.markov import MarkovPolicy, to_markov
from bqrl.policies.pairs import check_played
from bqrl.policies.rule_table import read_order
from bqrl.policies.target import TargetPolicy

RULES = ("stage-state", "state", "threshold")
RANDOM_STARTS = 4
SEARCH_POINTS = 2_000  # size of the rounded grid of a search, if the exact one is absent or too large
MAX_CELLS = 4e7  # numbers that the masses of all stages may hold


def plan_rule(
    mdp: MDP, objective: Quantile | Buffered, rule: Annotated[str, one_of(*RULES)], *, starts: Any = None, order: Any = None,
    points: Points = None, max_bytes: MaxBytes = MAX_BYTES, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the best rule found, its exact value, and the optimum of all policies as its upper bound.

    `starts` lists further rules to begin with, in any form that `evaluate` accepts. `order` lists the states from low to high for
    thresholds, or is a dict with "states" and "actions".
    """
    given = _read_starts(mdp, starts)
    if order is not None and rule != "threshold":
        raise bad_value("order", order, "be omitted unless rule is 'threshold'")
    states, actions, ways = read_order(mdp, order)
    best = _best_of_all(mdp, objective, points, max_bytes, tick)
    guide = best.policy if isinstance(best.policy, TargetPolicy) else None
    grid = _search_grid(mdp, points)
    passes = RulePasses(mdp, grid, guide, tick)
    shapes: list[StageState] = [State(passes) if rule == "state" else StageState(passes)]
    if rule == "threshold":
        shapes = _thresholds(passes, states, actions)
    first, searches = [*given, *_starts(mdp, objective, best)], []
    assert best.upper is not None
    for i, shape in enumerate(shapes):
        searches.append(search_rules(shape, objective, first, best.upper, share=len(shapes) - i))
    found = max(searches, key=lambda one: one.score)
    policy = MarkovPolicy(found.actions)
    law, law_upper = law_bracket(mdp, policy)
    value, error = objective(law), rounding_error(mdp)
    certain = best.certain and is_settled(law, objective.tau, objective.beta, error)
    notes: list[Fact] = [RuleFound(best=equal_values(value, best.upper, law), value=value, upper=best.upper)]
    if rule == "threshold":
        notes.append(RuleOrder(**ways))
    if law_upper is not None:
        notes.append(RoundedLaw(error=law_upper.mean() - law.mean()))
    if not certain:
        notes.append(Tied())
    return Plan(
        objective=objective, planner=f"{rule} rule", policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(value, best.upper), nominal=value, certain=certain, exact=best.exact and law_upper is None,
        facts=tuple(notes),
        details={"rule": rule, "best": best, "start": found.start}
        | ({"states": states, "actions": actions} if rule == "threshold" else {}),
    )  # fmt: skip


def _best_of_all(
    mdp: MDP, objective: Quantile | Buffered, points: int | None, max_bytes: float, tick: Callable[[int], None] | None
) -> Plan:
    """Return the best plan with memory, whose upper bound holds for rules as well."""
    if isinstance(objective, Quantile):
        return plan_target(mdp, objective.tau, points=points, max_bytes=max_bytes, tick=tick)
    return plan_buffered(mdp, objective.tau, objective.beta, points=points, max_bytes=max_bytes)


def _thresholds(passes: RulePasses, states: IntArray, actions: IntArray) -> list[StageState]:
    """Return the rising and the falling threshold rules, as far as the available actions allow them."""
    both = [Threshold(passes, states, actions), Threshold(passes, states, actions[::-1].copy())]
    stages = [one.blocked for one in both]
    if stages[0] is not None and stages[1] is not None:
        rule = f"be 'stage-state' or 'state', because the actions available at stage {max(stages[0], stages[1]) + 1}"
        raise bad_value("rule", "threshold", f"{rule} allow no threshold", remedy="or give another order")
    return [one for one in both if one.blocked is None]


def _search_grid(mdp: MDP, points: int | None) -> Grid:
    """Return the grid of the search: the exact one if the masses of all stages fit, else a rounded one."""
    exact = returns_grid(mdp)
    if exact is not None and points is None and exact.cells * mdp.S <= MAX_CELLS:
        return exact
    size = min(SEARCH_POINTS, points or SEARCH_POINTS, max(64, int(MAX_CELLS / mdp.S / mdp.H)))
    return rounded_grid(mdp, size)


def _read_starts(mdp: MDP, starts: Any) -> list[tuple[str, IntArray]]:
    """Return the rules of the caller, with names."""
    if starts is None:
        return []
    if not isinstance(starts, Mapping | list | tuple):
        raise bad_type("starts", starts, "be a list or a dict of rules", type(starts).__name__, remedy="pass [rule]")
    named = starts.items() if isinstance(starts, Mapping) else [(f"starts[{i}]", one) for i, one in enumerate(starts)]
    found = []
    for name, one in named:
        problem, policy = bind(mdp, one)
        if problem is not mdp:
            raise PolicyError(
                f"{name} must be a rule without chance, got action probabilities; give one action per state"
            )
        actions = to_markov(policy, mdp).actions.astype(np.int64)
        for h in range(mdp.H):
            met = np.flatnonzero(mdp.reachable[h])
            check_played(mdp, h, met, actions[h][met])
        found.append((str(name), actions))
    return found


def _starts(mdp: MDP, objective: Quantile | Buffered, best: Plan) -> Iterator[tuple[str, IntArray]]:
    """Yield the rules that the search begins with, with names."""
    neutral = best_mean(mdp)[1].actions.astype(np.int64)
    yield "risk-neutral", neutral
    targets = [best.policy]
    if isinstance(best.policy, TargetPolicy) and "curve" in best.details:
        curve = best.details["curve"]
        targets += [curve.policy_for(float(x)) for x in _lower_targets(curve.points, best.policy.target)]
    for i, policy in enumerate(targets):
        shares = play_shares(mdp, policy)
        yield f"projection {i + 1}", np.where(shares.any(axis=2), shares.argmax(axis=2), neutral)
    if returns_grid(mdp) is not None:
        greedy = greedy_policies(mdp, mdp.probability[None], objective.tau, objective.beta)
        yield "greedy", greedy.actions[0].astype(np.int64)
    available = np.stack([mdp.stage(h).available for h in range(mdp.H)])
    for a in range(mdp.A):
        yield f"always {mdp.action_label(a)}", np.where(available[:, :, a], a, neutral)
    rng = np.random.default_rng(0)
    for i in range(RANDOM_STARTS):
        yield f"random {i + 1}", np.argmax(rng.random(available.shape) * available, axis=2)


def _lower_targets(points: FloatArray, target: float) -> FloatArray:
    """Return two targets below that of the best policy, which rules without memory may not reach."""
    column = int(np.searchsorted(points, target))
    return points[np.unique([int(0.9 * column), int(0.97 * column)])]
