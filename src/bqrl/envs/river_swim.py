"""River swim: drift to the near bank for a small reward, or swim against the current for a large one.

The river is a chain of positions with small rewards at the left end and large ones at the right end. Left always succeeds;
Right succeeds with probability 0.35 and moves back with probability 0.05. The problem is from Strehl and Littman (2008, "An
analysis of model-based interval estimation for Markov decision processes"). Probabilities, six positions and twenty strokes
are those of Osband, Russo and Van Roy (2013, "(More) efficient reinforcement learning via posterior sampling"); whole rewards
of 1 and 50 replace their rewards of 0.005 and 1.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP

UNIT, STAGE = "points", "stroke"


def river_swim(positions: int = 6, horizon: int = 20, small: float = 1.0, large: float = 50.0) -> MDP:
    """Return the river-swim problem.

    Parameters
    ----------
    positions, horizon : int
        Length of the river (at least 3) and number of strokes.
    small, large : float
        Reward of Left at the left bank and of Right at the right bank.

    Returns
    -------
    MDP

    Examples
    --------
    >>> river_swim()
    MDP(H=20, S=6, A=2, start=0, 22 transitions, stationary)
    """
    S = whole(positions, "positions", 3)
    small, large = number(small, "small"), number(large, "large")
    rows = []
    for s in range(S):
        rows.append((s, 0, max(s - 1, 0), 1.0, small if s == 0 else 0.0))
        prize = large if s == S - 1 else 0.0
        if s == 0:
            rows += [(s, 1, 0, 0.4, prize), (s, 1, 1, 0.6, prize)]
        elif s == S - 1:
            rows += [(s, 1, s - 1, 0.4, prize), (s, 1, s, 0.6, prize)]
        else:
            rows += [(s, 1, s - 1, 0.05, prize), (s, 1, s, 0.6, prize), (s, 1, s + 1, 0.35, prize)]
    names = ["left bank", *(f"position {s}" for s in range(1, S - 1)), "right bank"]
    return MDP(rows, horizon=horizon, start=0, state_names=names, action_names=["Left", "Right"])
