"""Treatment choice over a course of therapy: an intensive drug helps more often, and harms more often.

Each month a patient receives the standard therapy, an intensive one, or none. The condition then improves, stays or
worsens; remission can relapse, and death is final. A month of 30 days is weighted by its quality of life, less the
burden of the therapy itself. All numbers are illustrative, our own and of no clinical value: the problem shares only its
structure with those in the literature (for example Schaefer, Bailey, Shechter and Roberts 2005, "Modeling medical
treatment using Markov decision processes").
"""

from __future__ import annotations

from bqrl.checks import number
from bqrl.mdp.model import MDP

UNIT, STAGE = "quality-adjusted days", "month"
STATES = ("Remission", "Mild", "Severe", "Critical", "Dead")
ACTIONS = ("No therapy", "Standard", "Intensive")
QUALITY = (30.0, 24.0, 15.0, 6.0, 0.0)  # days per month, by condition
BURDEN = (0.0, 3.0, 6.0)  # days per month, by therapy
BETTER = (0.02, 0.25, 0.45)  # probability of improving by one state, by therapy
WORSE = ((0.15, 0.30, 0.35), (0.06, 0.15, 0.20), (0.04, 0.10, 0.12))  # from Remission, Mild, Severe, by therapy
DEATH = ((0.0, 0.01, 0.04, 0.25), (0.0, 0.01, 0.03, 0.18), (0.01, 0.03, 0.06, 0.22))  # by therapy and state


def treatment_choice(horizon: int = 18, start: str = "Severe", burden: float = 1.0) -> MDP:
    """Return the problem of treatment choice; its return is the quality-adjusted time in days.

    Parameters
    ----------
    horizon : int
        Number of months.
    start : str
        First condition: "Remission", "Mild", "Severe" or "Critical".
    burden : float
        Factor by which the loss of quality of life through therapy is multiplied.

    Returns
    -------
    MDP

    Examples
    --------
    >>> treatment_choice()
    MDP(H=18, S=5, A=3, start=2, 43 transitions, stationary)
    """
    burden = number(burden, "burden", 0.0)
    rows, dead = [], len(STATES) - 1
    for a in range(len(ACTIONS)):
        for s in range(dead):
            better = BETTER[a] if s else 0.0
            worse = WORSE[a][s] if s < dead - 1 else 0.0
            moves = {s - 1: better, s + 1: worse, dead: DEATH[a][s]}
            moves[s] = 1.0 - sum(moves.values())
            reward = QUALITY[s] - burden * BURDEN[a]
            rows += [(s, a, s_next, p, reward) for s_next, p in moves.items() if p > 0.0]
        rows.append((dead, a, dead, 1.0, 0.0))
    return MDP(rows, horizon=horizon, start=start, state_names=STATES, action_names=ACTIONS)
