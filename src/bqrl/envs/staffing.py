"""Staffing for a service level: how many agents to call in when the number of calls is not known.

Before each hour a manager decides how many agents work; each answers four calls. Calls that are not answered wait for the
next hour, up to the number of lines, and others are lost. An hour that ends with nobody waiting meets the service level
and earns a bonus; agents are paid, and waiting and lost calls cost. The calls of an hour are Poisson. Illustrative
numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.envs.demand import poisson
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "dollars", "hour"


def staffing(
    agents: int = 5, horizon: int = 8, calls: float = 9.0, per_agent: int = 4, lines: int = 10, wage: float = 6.0,
    bonus: float = 20.0, waiting: float = 1.0, lost: float = 5.0, mass: float = 0.999, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the problem of a day in a call centre; its return is the bonuses minus the costs.

    Parameters
    ----------
    agents, horizon : int
        Largest number of agents, and number of hours.
    calls, mass : float
        Mean of the Poisson number of calls per hour, and the probability at which its law is cut.
    per_agent, lines : int
        Calls that one agent answers per hour, and calls that can wait.
    wage, bonus, waiting, lost : float
        Pay per agent, bonus of an hour that ends with nobody waiting, cost per waiting call and per lost call.
    shared : bool
        Whether learners know that one law of calls drives every row.

    Returns
    -------
    MDP

    Examples
    --------
    >>> staffing()
    MDP(H=8, S=11, A=6, start=0, 977 transitions, stationary)
    """
    lines, rate = whole(lines, "lines"), whole(per_agent, "per_agent", 1)
    wage, bonus = number(wage, "wage"), number(bonus, "bonus")
    waiting, lost = number(waiting, "waiting"), number(lost, "lost")

    def step(queue: int, working: int, new: int) -> tuple[int, float]:
        left = max(queue + new - rate * working, 0)
        after = min(left, lines)
        reward = (bonus if after == 0 else 0.0) - wage * working - waiting * after - lost * (left - after)
        return after, reward

    mdp = from_step(
        step, range(whole(agents, "agents", 1) + 1), poisson(calls, mass), horizon, 0,
        state_name=lambda queue: f"{queue} waiting", action_name=lambda working: f"{working} agents",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
