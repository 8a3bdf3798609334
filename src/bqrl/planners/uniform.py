"""The policy that plays every available action with equal chance: what anyone gets without a plan.

Averaging the rows of a state over its actions gives a problem with one action, whose only policy has the same return law:
the first action's outcomes with probability p / n, then the second's, and so on, each outcome with its own reward.
"""

from __future__ import annotations

import numpy as np

from bqrl.laws.bracket import LawBracket
from bqrl.laws.law import Law
from bqrl.mdp.forms import Table
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy
from bqrl.planners.evaluate import evaluate


def uniform_law(mdp: MDP) -> Law | LawBracket:
    """Exact law of the return when each available action is played with equal chance."""
    return evaluate(averaged(mdp), MarkovPolicy(np.zeros((mdp.H, mdp.S), np.int64)))


def averaged(mdp: MDP) -> MDP:
    """The problem with one action whose outcomes are those of all actions, each as likely as a fair choice makes it.

    >>> averaged(MDP([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]], [[0.0, 1.0], [2.0, 2.0]], horizon=3))
    MDP(H=3, S=2, A=1, start=0, 5 transitions, stationary)
    """
    K, S, A = mdp.available.shape
    choices = mdp.available.sum(axis=2).reshape(-1)  # actions of each (stored stage, state)
    shares = np.repeat(1.0 / np.maximum(choices, 1), np.diff(mdp.row_start[::A]))
    # Rows of one state lie one after the other, so its actions join where every A-th row starts.
    table = Table(
        S, 1, K, mdp.row_start[::A].copy(), mdp.successor, mdp.probability * shares, mdp.reward, None, infer_available=True
    )  # fmt: skip
    return MDP.from_table(table, mdp.H, mdp.mu, mdp.discount, state_names=mdp.state_names)
