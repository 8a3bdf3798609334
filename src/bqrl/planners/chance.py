"""The best probability of reaching a target: one column of the sweep over needs.

max over policies of P(G >= x)  =  1 - W_0(start, x),    W_h(s, n) as in target.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from bqrl.checks import number
from bqrl.display import format_number
from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective, gets
from bqrl.mdp.model import MDP
from bqrl.mdp.unstored import StepModel
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.facts import Bracketed, Fact
from bqrl.planners.options import Folder, MaxBytes, Pairs, Points, Precision, Tick
from bqrl.planners.plan import Plan
from bqrl.planners.room import MAX_BYTES, check_room
from bqrl.planners.target import choose_pairs, curve_over
from bqrl.policies.protocol import Policy


@dataclass(frozen=True, slots=True)
class Chance(Objective):
    """The probability that the return reaches a target.

    Parameters
    ----------
    target : float
        The return to be reached, in the unit of the rewards.

    Examples
    --------
    >>> import bqrl
    >>> plan = bqrl.solve(bqrl.envs.make("SafeOrRisky"), bqrl.Chance(12.0))
    >>> round(plan.value, 4), plan.exact
    (0.9449, True)
    """

    target: float
    probability: ClassVar[bool] = True
    name: ClassVar[str] = "chance"

    def __post_init__(self) -> None:
        object.__setattr__(self, "target", number(self.target, "target"))

    def __call__(self, law: Law) -> float:
        """Return P(G >= target)."""
        return 1.0 - law.shortfall(self.target)

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        return f"chance of {format_number(self.target)}"

    @property
    def kind(self) -> str:
        """The name in the title of a column."""
        return "probability"

    def axis(self, noun: str = "runs", total: str = "return") -> str:
        """Return the title of an axis of probabilities."""
        return f"probability of at least {format_number(self.target)}"

    def promise(self, amount: str, noun: str = "runs", total: str = "return") -> str:
        """Return the part of a sentence that states a probability."""
        return f"{gets(f'at least {format_number(self.target)}', noun, total)} with probability {amount}"


def plan_chance(
    mdp: MDP | StepModel, objective: Chance, *, points: Points = None, pairs: Pairs = None, max_bytes: MaxBytes = MAX_BYTES,
    folder: Folder = None, precision: Precision = "float64", cluster: Any = None, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the policy with the best probability of reaching the target; without an exact grid, a bracket."""
    room = check_room(max_bytes, folder, precision, cluster)
    met = choose_pairs(mdp, pairs, points, room)
    policy: Policy
    details: dict[str, Any]
    notes: tuple[Fact, ...] = ()
    if met is not None:
        policy, exact, details = met.policy(objective.target), True, {"pairs": met.count}
        law, law_upper = law_bracket(mdp, policy)
    else:
        curve = curve_over(mdp, points=points, room=room, tick=tick)
        policy, exact, details = curve.policy_for(objective.target), curve.exact, {"curve": curve}
        law, law_upper = law_bracket(mdp, policy, cluster=curve.cluster)
    value = upper = objective(law)
    if not exact:
        proven, bound = curve.chance(objective.target)
        value = max(value, proven)
        upper, notes = max(value, bound), (Bracketed(points=curve.points.size, by_choice=curve.by_choice),)
    return Plan(
        objective=objective, planner="target", policy=policy, law=law, law_upper=law_upper, value=value, upper=upper,
        nominal=value, certain=True, exact=exact, facts=notes, details=details,
    )  # fmt: skip
