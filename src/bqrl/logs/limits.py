"""What limits a promise: the contribution of every row to the difference between worst-case and empirical shortfall.

For the policy of one target, with W the worst-case values and P_hat the empirical kernel,

    W_0 - V_0  =  sum over (h, s, n) of  occupancy_hat(h, s, n) * ( W_h(s, n) - P_hat W_{h+1}(s, n) ),

where V_0 is the policy's shortfall in the empirical model: each term is the loss through one row's ball, and they add up.
"""

from __future__ import annotations

import numpy as np

from bqrl.loops.ball import follow, push_needs
from bqrl.loops.layout import Rows
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import returns_grid, rounded_grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.room import exact_grid
from bqrl.planners.sweep import ROBUST, best_column, sweep
from bqrl.planners.uncertain import half_radius

# elementary steps of a sweep; where an exact grid takes more, returns are rounded down to fewer points
EXACT_WORK = 5e8
ROUNDED_WORK = 5e7
FEWEST = 1000


def coarse_points(mdp: MDP) -> int | None:
    """Return the number of points to which returns are rounded where a finer grid would take too long; None elsewhere."""
    columns = returns_grid(mdp)
    finest, cells = (
        (BRACKET_POINTS, BRACKET_POINTS * mdp.H) if columns is None else (int(columns.size[0]), columns.cells)
    )
    work = mdp.successor.size / len(mdp.available) * cells
    points = int(np.clip(ROUNDED_WORK / work * finest, FEWEST, BRACKET_POINTS))
    return None if work <= EXACT_WORK or points >= finest else points


def next_target(
    mdp: MDP, radius: FloatArray, level: float, missing: FloatArray | None = None, points: int | None = None
) -> float:
    """Return the lowest target that the robust sweep does not reach at this level, or the highest return if it reaches all."""
    columns = _columns(mdp, points)
    outside = None if missing is None else missing.reshape(mdp.H, -1)
    done = sweep(mdp, columns, half=half_radius(mdp, radius), sense=ROBUST, missing=outside, policy=False)
    highest = int(columns.size[0]) - 1
    return float(columns.points(0)[min(int(best_column(done.root[: highest + 1], level)) + 1, highest)])


def shares(
    mdp: MDP, radius: FloatArray, target: float, missing: FloatArray | None = None, points: int | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return the cost of every row's uncertainty, and the probability of every state while the target is not yet reached.

    Both are computed for the robust policy of one target in the empirical model.

    Returns
    -------
    costs : ndarray of shape (1 or H, S, A)
        Contribution of every row to the difference between the worst-case and the empirical probability of missing the
        target.
    met : ndarray of shape (H, S)
        Probability of being in each state at each stage with the target not yet reached.
    """
    columns, half = _columns(mdp, points), half_radius(mdp, radius)
    outside = None if missing is None else missing.reshape(mdp.H, -1)
    done = sweep(mdp, columns, half=half, sense=ROBUST, missing=outside, keep=True)
    assert done.values is not None
    K = mdp.available.shape[0]
    costs, met = np.zeros((K, mdp.S, mdp.A)), np.zeros((mdp.H, mdp.S))
    mass: FloatArray = np.zeros((mdp.S, done.values[0].shape[1]))
    mass[:, int(columns.column(0, target))] = mdp.mu
    for h, actions in enumerate(done.actions):
        stage, moves = mdp.stage(h), columns.moves(mdp, h)
        rows = Rows(stage.row_start, stage.successor, stage.probability)
        plain = np.empty(done.values[h].shape)
        follow(rows, moves, actions, done.values[h + 1], plain)
        loss = mass * (done.values[h] - plain)
        s, c = np.nonzero(mass)
        np.add.at(costs[h if K > 1 else 0], (s, actions[s, c]), loss[s, c])
        met[h] = mass[:, 1:].sum(axis=1)
        after: FloatArray = np.zeros(done.values[h + 1].shape)
        push_needs(rows, moves, actions, mass, after)
        mass = after
    return costs, met


def _columns(mdp: MDP, points: int | None) -> Grid:
    """Return the exact grid of returns, or one rounded down, to `points` points if given."""
    exact = exact_grid(mdp, or_rounded=True) if points is None else None
    return exact or rounded_grid(mdp, points or BRACKET_POINTS)
