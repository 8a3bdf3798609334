"""The outlook in the middle of an episode: what to do now, the chance of the target, and what can still be guaranteed.

The chance of the plan's own policy follows from the pairs (state, earned) that it can reach from here. The best chance and the
best guarantee come from the sweep: W_h(s, n), the smallest probability of collecting less than n from stage h on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, whole
from bqrl.display import Tabular, format_number, percent, runs
from bqrl.errors import PolicyError
from bqrl.laws.law import Law, size_of
from bqrl.mdp.find_grid import rounded_grid
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.room import MAX_BYTES, check_memory, exact_grid
from bqrl.planners.sweep import best_column, sweep
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.pairs import First, reached_pairs
from bqrl.policies.protocol import Policy, check_fits
from bqrl.policies.target import TargetPolicy

MAX_MOVES = 20_000_000  # per stage of the policy from here


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outlook(Tabular):
    """What a plan says in one situation; made by `plan.outlook`.

    Attributes
    ----------
    stage : int
        The stage, counted from 1 as in the tables of decisions.
    state, action : str
        The state, and the action of the plan there.
    earned : float
        The rewards so far, discounted to the first stage.
    target : float
        The return that the plan guarantees.
    chance : float
        Probability that the plan reaches the target from here.
    best_chance : float
        The largest probability of that over all policies.
    guarantee : float or None
        The largest return, with what was earned, that some policy reaches from here with probability above 1 - tau; None for
        a plan without a level.
    tau : float
        The level of the plan.
    law : Law
        Law of the whole return if the plan goes on from here.
    exact : bool
        False if returns are rounded down, so that `best_chance` and `guarantee` are proven lower bounds.

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
    action: str
    earned: float
    target: float
    chance: float
    best_chance: float
    guarantee: float | None
    tau: float
    law: Law
    exact: bool

    def rows(self) -> list[dict[str, Any]]:
        """Return one row with the numbers."""
        names = ("stage", "state", "earned", "action", "target", "chance", "best_chance", "guarantee", "tau", "exact")
        return [{name: getattr(self, name) for name in names}]

    def __str__(self) -> str:
        said = f"Stage {self.stage}, state {self.state}, earned {format_number(self.earned)}: {self.action}."
        said += (
            f" The target {format_number(self.target)} is reached from here with probability {percent(self.chance)}."
        )
        if self.guarantee is not None:
            least = format_number(self.guarantee, direction=-1)
            said += f" From here {least} can still be guaranteed in {runs(self.tau)}."
        return said


def outlook_of(
    mdp: MDP | str, policy: Policy, target: float, tau: float, stage: int, state: Any, earned: float
) -> Outlook:
    """Return the outlook of a policy; `tau` is nan if the plan has no level."""
    mdp = check_mdp(mdp)
    check_fits(policy, mdp)
    h, s = whole(stage, "stage", 1, mdp.H) - 1, state_index(mdp, state)
    earned = number(earned, "earned")
    if not mdp.stage(h).available[s].any():
        raise bad_value("state", state, f"have an action at stage {stage}", mdp.state_label(s))
    memory = np.array([_memory(policy, earned)]) if not isinstance(policy, MarkovPolicy) else None
    unit = 1e-11 * (size_of(mdp.reward) * mdp.H + abs(earned) + abs(target)) or 1e-300
    pairs = list(reached_pairs(policy, mdp, unit, MAX_MOVES, begin=First(h, s, memory, earned)))
    law = Law(pairs[-1].total, pairs[-1].probability)
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
        stage=stage, state=mdp.state_label(s), action=mdp.action_label(int(pairs[0].action[0])), earned=earned, target=target,
        chance=1.0 - law.shortfall(target - slack), best_chance=1.0 - float(done.values[h][s, at]), guarantee=guarantee,
        tau=tau, law=law, exact=grid is not None,
    )  # fmt: skip


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
    """Return the index of a state that is given by its name or its number."""
    if isinstance(state, str):
        if mdp.state_names is not None and state in mdp.state_names:
            return list(mdp.state_names).index(state)
        if not state.isdigit():
            raise bad_value("state", state, "be the name or the number of a state")
        state = int(state)
    if isinstance(state, bool) or not isinstance(state, (int, np.integer)):
        raise bad_type("state", state, "be the name or the number of a state")
    return whole(int(state), "state", 0, mdp.S - 1)
