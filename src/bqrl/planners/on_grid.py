"""Plans for continuous states: the optimum lies between those of two finite models (`bqrl.mdp.grid_step` has the proofs).

The policy is that of the lower model; the upper model gives the bound. Quantiles and chances come from the guarantee curves of
the two models, means and CVaR from the planners of these objectives. Episodes are played in the continuous problem itself.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, flag, number, random_seed, unknown_argument, whole
from bqrl.display import Charted
from bqrl.errors import PolicyError, SizeError
from bqrl.laws.objectives import Buffered, Mean, Objective, Quantile
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP
from bqrl.planners.affine import plan_affine
from bqrl.planners.chance import Chance
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.evaluate import Limits, law_bracket
from bqrl.planners.expected import best_mean
from bqrl.planners.facts import OnStateGrid, StoppedRefining
from bqrl.planners.plan import Plan
from bqrl.planners.room import MAX_BYTES, check_memory
from bqrl.planners.target import MAX_CELLS, GuaranteeCurve
from bqrl.planners.terminal import MeanCVaR, best_target, mean_cvar_cost
from bqrl.policies.on_grid import GridPolicy
from bqrl.policies.protocol import Policy, as_decisions
from bqrl.policies.shares import draw_actions, some_shares

MAX_REFINED = 10_000_000  # outcomes of the two models up to which `refine` halves the grid
LAW_WORK = 1e9  # outcomes times stages times returns of the law, which is for display only
SOLVED = (Quantile, Chance, Mean, MeanCVaR)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Refinement(Charted):
    """The bracket on ever finer grids, in `plan.details["refinement"]`; `chart()` shows it closing."""

    path: tuple[dict[str, float], ...]
    objective: str

    def rows(self) -> list[dict[str, float]]:
        """Return one row per grid: its points, the two ends of the bracket and the seconds."""
        return list(self.path)

    def __repr__(self) -> str:
        return f"Refinement({len(self.path)} grids)"


def plan_on_grid(model: GridModel, goal: Objective, options: dict[str, Any]) -> Plan:
    """Return the plan for continuous states.

    `refine` halves the grid until the bracket is at most `gap` wide or the next models would have more than `max_transitions`
    outcomes. The plan has the best ends found on any of the grids.
    """
    known = {"refine": False, "gap": None, "points": None, "max_bytes": MAX_BYTES, "max_transitions": MAX_REFINED}
    for name, value in options.items():
        if name not in known:
            raise unknown_argument("solve for continuous states", name, value, known)
    given = known | options
    refine, gap = flag(given["refine"], "refine"), given["gap"]
    gap = 0.0 if gap is None else number(gap, "gap", 0.0)
    limit = whole(given["max_transitions"], "max_transitions", 1)
    points = None if given["points"] is None else whole(given["points"], "points", 2)
    aim = MeanCVaR(goal.tau, 1.0) if isinstance(goal, Buffered) and goal.beta == goal.tau else goal
    if not isinstance(aim, SOLVED):
        rule = "be a quantile, Chance, Mean, CVaR or MeanCVaR for continuous states"
        raise bad_value("objective", goal, rule, goal.label)
    begun, best = time.perf_counter(), None
    path: list[dict[str, float]] = []
    while True:
        plan = _plan(model, aim, points, number(given["max_bytes"], "max_bytes", 0.0, ends="(]"))
        plan, upper = replace(plan, objective=goal), _bound(plan)
        path.append(
            {"points": model.points, "value": plan.value, "upper": upper, "seconds": time.perf_counter() - begun}
        )
        if best is not None:
            upper = min(_bound(best), upper)
            plan = replace(plan if plan.value >= best.value else best, upper=upper)
        best = plan
        if not refine or upper - plan.value <= gap:
            break
        try:
            if not _too_large(model, limit):
                model = model.refined()
                continue
        except SizeError:  # max_states or max_transitions of from_step
            pass
        plan = replace(plan, facts=(*plan.facts, StoppedRefining(gap=upper - plan.value)))
        break
    if refine:
        plan = replace(plan, details=plan.details | {"refinement": Refinement(path=tuple(path), objective=goal.label)})
    return replace(plan, seconds=time.perf_counter() - begun)


def _bound(plan: Plan) -> float:
    assert plan.upper is not None
    return plan.upper


def _too_large(model: GridModel, limit: int) -> bool:
    """Return whether the models on the next grid would have more outcomes than allowed."""
    finer = int(model.rounded.sum()) + any(law.source is not None for law in model.laws)
    return (model.lower.successor.size + model.upper.successor.size) * 2**finer > limit


def _plan(model: GridModel, goal: Objective, points: int | None, max_bytes: float) -> Plan:
    """Return the plan on one grid."""
    details: dict[str, Any] = {"model": model}
    certain, error, finite, policy = True, model.total_error, model.lower, None
    if isinstance(goal, (Quantile, Chance)):
        curve = guarantee_curve(model, points=points, max_bytes=max_bytes)
        details["grid_curve"] = curve
        if isinstance(goal, Quantile):
            inner: Policy = curve.low.policy(goal.tau)
            value, upper = curve(goal.tau), curve.upper(goal.tau)
            assert isinstance(curve.low, GuaranteeCurve)
            certain = curve.low.certain(goal.tau)
        else:
            value, upper, inner = curve.chance(goal.target)
    else:
        if any(model.infinite):
            raise bad_value(
                "reward_range", None, f"be given to from_step for {goal.label} if states can leave the grid",
                remedy="widen the grid or state bounds on the rewards",
            )  # fmt: skip
        if isinstance(goal, MeanCVaR) and model.linear is not None:
            proven, bound, policy, finite = plan_affine(model, goal, points, max_bytes)
            inner = policy.inner
        elif isinstance(goal, MeanCVaR):
            columns, cost = _columns(model.planned, points), partial(mean_cvar_cost, goal)
            check_memory(model.lower, columns, max_bytes, sweeps=2)
            proven, _, inner = best_target(model.planned, columns, cost, None)
            bound = best_target(model.upper, _columns(model.upper, points, up=True), cost, None)[0]
        else:
            (proven, inner), (bound, _) = best_mean(model.lower), best_mean(model.upper)
        value, upper = proven - error, bound + error
    law, law_upper = law_bracket(finite, inner, _law_limits(finite))
    note = OnStateGrid(
        points=model.points, error=error, may_leave=model.infinite, averaged=model.linear is not None and policy is None
    )
    return Plan(
        objective=goal, planner="grid", policy=policy or GridPolicy(inner, model), law=law, law_upper=law_upper, value=value,
        upper=max(value, upper), nominal=value, certain=certain, exact=False, mdp=finite, facts=(note,), details=details,
    )  # fmt: skip


def _law_limits(mdp: MDP) -> Limits:
    """Return sizes at which the law of a policy costs about LAW_WORK."""
    points = int(min(2_000, max(50, LAW_WORK / (mdp.successor.size * mdp.H))))
    return Limits(points=points, max_points=10 * points, max_set=points, max_atoms=points)


def _columns(mdp: MDP, points: int | None, *, up: bool = False) -> Lattice:
    """Return the lattice of the returns if it is of moderate size, else a grid of rounded returns."""
    exact = lattice(mdp) if points is None else None
    if exact is not None and mdp.S * int(exact.size[0]) <= MAX_CELLS:
        return exact
    return rounded_grid(mdp, points or int(max(200, min(2_000, MAX_CELLS // mdp.S))), up=up)


def play_continuous(model: GridModel, policy: Any, episodes: int, seed: Any) -> FloatArray:
    """Return the returns of episodes in the continuous problem itself: no rounding of states, events or rewards."""
    if not isinstance(policy, Policy):
        raise bad_type(
            "policy", policy, "be a Policy for continuous states", type(policy).__name__, remedy="pass plan.policy"
        )
    episodes = whole(episodes, "episodes", 1)
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(random_seed(seed))
    u = rng.random((episodes, model.H + 2))  # the policy's coin, the first state, then one draw per event
    firsts, below = np.array(list(model.start)), np.cumsum(list(model.start.values()))
    s = firsts[np.minimum(np.searchsorted(below, u[:, 1], side="right"), len(firsts) - 1)]
    memory, total = policy.start_many(u[:, 0]), np.zeros(episodes)
    for h in range(model.H):
        states: list[Any] = list(map(tuple, s.tolist()))  # a policy of the user sees tuples
        left = u[:, 2 + h]
        if isinstance(policy, GridPolicy):
            a = policy.act_many(h, s, memory)
        else:
            answers = [policy.act(h, x, m) for x, m in zip(states, memory, strict=True)]
            a, left = _played(model, h, s, as_decisions(answers, h, states, len(model.actions)), left)
        events = model.law(h).draw(left)
        after, reward = model.function.many(s, a, events)
        if isinstance(policy, GridPolicy):
            memory = policy.next_many(memory, h, s, a, reward, after, events)
        else:
            onward: list[Any] = list(map(tuple, after.tolist()))
            steps = zip(memory, states, a.tolist(), reward.tolist(), onward, strict=True)
            memory = [policy.next(m, h, x, y, r, z) for m, x, y, r, z in steps]
        total += model.discount**h * reward
        s = after
    return total


def _played(model: GridModel, h: int, s: FloatArray, decisions: Any, u: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the actions of a user's policy, drawn where it answers with probabilities, and what is left of the draws."""
    exists = model.function.available(s)
    if decisions.ndim == 2:
        return draw_actions(some_shares(decisions, exists, h, lambda i: str(tuple(s[i].tolist()))), u)
    wrong = (decisions < 0) | (decisions >= exists.shape[1])
    if not wrong.any():
        wrong = ~exists[np.arange(len(s)), decisions]
    if wrong.any():
        i = int(wrong.argmax())
        rule = f"an available action from 0 to {exists.shape[1] - 1}, got {decisions[i]}"
        raise PolicyError(f"the policy must play {rule} in state {tuple(s[i].tolist())} at stage {h + 1}", stage=h)
    return decisions, u
