"""The outlook in the middle of an episode: what to do now, the chance of the target, and what can still be guaranteed.

The chance of the policy follows from the pairs (state, earned) that it can reach from here. The best chance and the best
guarantee come from the sweep: W_h(s, n), the smallest probability of collecting less than n from stage h on. Which policy of a
mixture was drawn before the first stage is part of the situation: without `drawn` each has the probability that it brought
the run here, by Bayes' rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, whole
from bqrl.display import Tabular, views
from bqrl.errors import ArgumentError, PolicyError
from bqrl.laws.law import Law, size_of
from bqrl.laws.objectives import Objective, check_objective
from bqrl.mdp.find_grid import rounded_grid
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.evaluate import BRACKET_POINTS, law_bracket
from bqrl.planners.room import MAX_BYTES, check_memory, exact_grid
from bqrl.planners.sweep import best_column, sweep
from bqrl.policies.convert import bind, one_policy
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.pairs import First, reached_pairs
from bqrl.policies.protocol import Policy, check_fits
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

MAX_MOVES = 20_000_000  # per stage of the policy from here


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outlook(Tabular):
    """What a policy does in one situation, and what it may still bring; made by `plan.outlook` and `outlook`.

    Attributes
    ----------
    stage : int
        The stage, counted from 1 as in the tables of decisions.
    state, action : str
        The state, and the action there; if the policy draws it, all of them with their probabilities.
    actions : dict
        Probability of every action that may be played, by name.
    earned : float
        The rewards so far, discounted to the first stage.
    target : float
        The return that the policy guarantees at the start.
    chance : float
        Probability that the policy reaches the target from here.
    best_chance : float
        The largest probability of that over all policies.
    guarantee : float or None
        The largest return, with what was earned, that some policy reaches from here with probability above 1 - tau; None for
        a plan without a level.
    tau : float
        The level of the plan.
    law : Law
        Law of the whole return if the policy goes on from here.
    exact : bool
        False if returns are rounded down, so that `best_chance` and `guarantee` are proven lower bounds.
    mdp : MDP
        The problem, in whose words `print` speaks.

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("SafeOrRisky")
    >>> now = bqrl.solve(mdp, tau=0.1).outlook(mdp, stage=6, state=0, earned=5.0)
    >>> now.action, round(now.chance, 3), now.guarantee
    ('Risky', 0.809, 11.0)
    """

    stage: int
    state: str
    actions: dict[str, float]
    earned: float
    target: float
    chance: float
    best_chance: float
    guarantee: float | None
    tau: float
    law: Law
    exact: bool
    mdp: MDP

    @property
    def action(self) -> str:
        """The action, or the actions with their probabilities."""
        return views().drawn_words(self.actions)

    def rows(self) -> list[dict[str, Any]]:
        """Return one row with the numbers."""
        names = ("stage", "state", "earned", "action", "target", "chance", "best_chance", "guarantee", "tau", "exact")
        return [{name: getattr(self, name) for name in names}]

    def __str__(self) -> str:
        return str(views().outlook_sentence(self))


def outlook(
    mdp: MDP | str, policy: Any, tau: float | None = None, *, stage: int, state: Any, earned: float = 0.0,
    drawn: int | None = None,
) -> Outlook:  # fmt: skip
    """Return what a policy does in one situation, its chance of the target from here, and what can still be guaranteed.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or its name as for `solve`.
    policy : Plan or Policy, or any form that `evaluate` accepts
        The policy; action probabilities must be given as a StochasticPolicy.
    tau : float
        Quantile level in (0, 1); the target is the quantile of the policy at this level. A plan has its own level.
    stage : int
        The stage, counted from 1 as in the tables of decisions.
    state : str, int or tuple
        The state: its value in the step function, its name or its number.
    earned : float
        The rewards so far, discounted to the first stage.
    drawn : int, optional
        Which policy of a mixture was drawn before the first stage, counted from 1.

    Returns
    -------
    Outlook

    Examples
    --------
    >>> import bqrl
    >>> now = outlook("SafeOrRisky", "random", 0.1, stage=10, state=0, earned=20.0)
    >>> now.action, now.target, now.chance
    ('Safe 50 %, Risky 50 %', 9.0, 1.0)
    """
    problem, chosen = check_mdp(mdp), one_policy(check_mdp(mdp), policy)
    if tau is None and hasattr(policy, "outlook"):
        return policy.outlook(problem, stage=stage, state=state, earned=earned, drawn=drawn)
    goal: Objective = check_objective(None, tau)
    target = goal(law_bracket(*bind(problem, chosen))[0])
    return outlook_of(problem, chosen, target, float(getattr(goal, "tau", math.nan)), stage, state, earned, drawn)


def outlook_of(
    mdp: MDP | str, policy: Policy, target: float, tau: float, stage: int, state: Any, earned: float,
    drawn: int | None = None,
) -> Outlook:  # fmt: skip
    """Return the outlook of a policy; `tau` is nan if the plan has no level."""
    mdp = check_mdp(mdp)
    check_fits(policy, mdp)
    h, s = whole(stage, "stage", 1, mdp.H) - 1, state_index(mdp, state)
    earned = number(earned, "earned")
    if not mdp.stage(h).available[s].any():
        raise bad_value("state", state, f"have an action at stage {stage}", mdp.state_label(s))
    unit = 1e-11 * (size_of(mdp.reward) * mdp.H + abs(earned) + abs(target)) or 1e-300
    parts = _parts(policy, drawn)
    if len(parts) > 1:
        shares = np.array([w * _chance_of(mdp, part, h, s, earned, unit) for w, part in parts])
        if shares.any():  # otherwise no policy of the mixture leads here
            parts = [(float(x), part) for x, (_, part) in zip(shares / shares.sum(), parts, strict=True) if x > 0.0]
    actions, laws = dict[str, float](), list[Law]()
    for weight, part in parts:
        memory = None if isinstance(part, MarkovPolicy | StochasticPolicy) else np.array([_memory(part, earned)])
        model, played = bind(mdp, part)
        pairs = list(reached_pairs(played, model, unit, MAX_MOVES, begin=First(h, s, memory, earned)))
        laws.append(Law(pairs[-1].total, pairs[-1].probability))
        drawn_here = (
            part.probabilities[h, s] if isinstance(part, StochasticPolicy) else np.eye(mdp.A)[pairs[0].action[0]]
        )
        for a in np.flatnonzero(drawn_here).tolist():
            name = mdp.action_label(a)
            actions[name] = actions.get(name, 0.0) + weight * float(drawn_here[a])
    law = laws[0] if len(laws) == 1 else Law.mixture(laws, [weight for weight, _ in parts])
    grid = exact_grid(mdp, or_rounded=True)
    columns = rounded_grid(mdp, BRACKET_POINTS) if grid is None else grid
    check_memory(mdp, columns, MAX_BYTES, sweeps=2 + mdp.H // 4)  # the values of every stage are kept
    done = sweep(mdp, columns, keep=True, policy=False)
    assert isinstance(done.values, tuple)
    short, needs = done.values[h][s, :-1], columns.points(h)
    at = int(columns.column(h, target - earned))
    guarantee = None
    if not math.isnan(tau):
        guarantee = earned + float(needs[best_column(short, tau)])
    slack = 1e-9 * (size_of(law.values) or 1.0)
    return Outlook(
        stage=stage, state=mdp.state_label(s), actions=actions, earned=earned, target=target,
        chance=1.0 - law.shortfall(target - slack), best_chance=1.0 - float(done.values[h][s, at]), guarantee=guarantee,
        tau=tau, law=law, exact=grid is not None, mdp=mdp,
    )  # fmt: skip


def _parts(policy: Policy, drawn: int | None = None) -> list[tuple[float, Policy]]:
    """Return the policies of a mixture with their probabilities, or the one that was drawn; any other policy alone."""
    if not isinstance(policy, MixturePolicy):
        if drawn is not None:
            raise ArgumentError(f"drawn requires a mixture, got a {policy.kind} policy; leave it out", name="drawn")
        return [(1.0, policy)]
    if drawn is not None:
        return _parts(policy.policies[whole(drawn, "drawn", 1, len(policy.policies)) - 1])
    pairs = zip(policy.weights.tolist(), policy.policies, strict=True)
    return [(w * v, one) for w, part in pairs if w > 0.0 for v, one in _parts(part)]


def _chance_of(mdp: MDP, policy: Policy, h: int, s: int, earned: float, unit: float) -> float:
    """Return the probability that a policy leads to a state at a stage with this amount earned."""
    model, played = bind(mdp, policy)
    pairs = next(islice(reached_pairs(played, model, unit, MAX_MOVES), h, None))
    here = (pairs.state == s) & (np.abs(pairs.total - earned) <= 100.0 * unit)
    return float(pairs.probability[here].sum())


def _memory(policy: Policy, earned: float) -> float:
    """Return the memory of a policy after earning an amount."""
    if isinstance(policy, TargetPolicy):
        return policy.target - earned
    if isinstance(policy, EarnedPolicy):
        return earned
    raise PolicyError(
        f"an outlook requires a policy whose memory follows from what was earned, got a {policy.kind} policy; plan with target"
    )


def state_index(mdp: MDP, state: Any) -> int:
    """Return the index of a state that is given by its value, its name or its number."""
    if mdp.state_values is not None and not isinstance(state, bool) and state in mdp.state_values:
        return list(mdp.state_values).index(state)
    if isinstance(state, str):
        if mdp.state_names is not None and state in mdp.state_names:
            return list(mdp.state_names).index(state)
        if not state.isdigit():
            raise bad_value("state", state, "be the name or the number of a state")
        state = int(state)
    if isinstance(state, bool) or not isinstance(state, (int, np.integer)):
        raise bad_type("state", state, "be a value, the name or the number of a state")
    return whole(int(state), "state", 0, mdp.S - 1)
