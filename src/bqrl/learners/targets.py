"""Optimistic target planning before every episode: the search of planners/buffered.py, warm and compiled.

The bound max_z min_d F(z, d) is valid for any set of widths d. The search starts at the width where the last one ended,
looks at its neighbours, and moves until the best target's minimum lies between two swept neighbours.
"""

from __future__ import annotations

import numpy as np

from bqrl.kernels.replan import sweep_stages
from bqrl.laws.functionals import Margin, reaches
from bqrl.mdp.find_grid import lattice
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import ActionArray, TargetPolicy
from bqrl.planners.sweep import OPTIMISTIC, TIE_TOL

MAX_SWEEPS = 12  # of one search; a bound from fewer widths is still a bound


class TargetReplanner:
    """Plans on kernels that share one structure: arrays are laid out once."""

    def __init__(self, model: MDP) -> None:
        found = lattice(model)
        if found is None:
            raise ValueError(
                "planner='target' learns on a lattice of returns, which this problem has not; "
                "use planner='greedy', or round the rewards to a common step"
            )
        self.model, self.grid = model, found
        rows, H = model.S * model.A, model.H
        stages = [model.stage(h) for h in range(H)]
        outcomes = max(stage.successor.size for stage in stages)
        self.shift = np.zeros((H, outcomes), np.int64)
        by_row = model.row_reward is not None
        self.row_shift = np.zeros((H if by_row else 0, rows), np.int64)
        for h, stage in enumerate(stages):
            units = found.stage_units(model, h)
            self.shift[h, : units.size] = found.drop(h) - units
            if by_row:
                listed = np.flatnonzero(np.diff(stage.row_start))
                self.row_shift[h, listed] = self.shift[h, stage.row_start[listed]]
        self._reserve(2)
        self.width = 1  # where the last search ended, in steps
        self.tie_for_mean = 1e-12 * max(1.0, float(np.abs(found.points(0)[[0, -1]]).max()))
        if by_row and model.row_reward is not None:
            worth = model.discount ** np.arange(H)
            by_stage = np.broadcast_to(model.row_reward.reshape(-1, rows), (H, rows))
            self._fixed_mean: FloatArray | None = np.ascontiguousarray(worth[:, None] * by_stage)
        else:
            self._fixed_mean = None

    def _reserve(self, extra: int) -> None:
        columns = int(self.grid.size.max()) + extra
        self._value = np.zeros((2, self.model.S, columns))
        self._mean = np.zeros((2, self.model.S, columns))
        self._order = np.zeros((columns, self.model.S), np.int64)

    def sweep(
        self, probability: FloatArray, half: FloatArray, width: int, point: bool = False
    ) -> tuple[FloatArray, ActionArray]:
        """Root values by target, and the action tables, for terminal cost clip(n, 0, width) or 1{n > 0}; in steps."""
        model, columns = self.model, self.grid
        extra = 1 if point else width
        if self._value.shape[2] < int(columns.size.max()) + extra:
            self._reserve(2 * extra)
        cost = np.array([0.0, 1.0]) if point else np.arange(width + 1.0)
        action = np.zeros((model.H, model.S, int(columns.size.max()) + extra), np.int16)
        root = sweep_stages(
            model.row_start, model.successor, probability, half, self.shift, self.row_shift,
            self._mean_rewards(probability), model.mu, model.A, columns.size, extra, cost, OPTIMISTIC, TIE_TOL,
            self.tie_for_mean, self._value, self._mean, self._order, action,
        )  # fmt: skip
        return root[: int(columns.size[0])], action

    def _mean_rewards(self, probability: FloatArray) -> FloatArray:
        if self._fixed_mean is not None:
            return self._fixed_mean
        model = self.model
        rows = model.S * model.A
        sums = np.zeros((model.H, rows))
        sizes = np.diff(model.row_start)
        listed = np.flatnonzero(sizes)
        weighted = np.add.reduceat(probability * model.reward, model.row_start[listed], axis=1)
        per_row = np.zeros((len(model.reward), sizes.size))
        per_row[:, listed] = weighted
        sums[:] = per_row.reshape(-1, rows) if per_row.size == model.H * rows else per_row[0][None]
        return sums * (model.discount ** np.arange(model.H))[:, None]

    def point(self, probability: FloatArray, half: FloatArray, tau: float) -> tuple[TargetPolicy, float, Margin]:
        """Optimistic plan for the plain quantile: policy, optimistic value, and how far tau lies from both shortfalls.

        Those are the shortfall of the best target, which stays below tau, and that of the next target, which does not.
        """
        shortfall, action = self.sweep(probability, half, 1, point=True)
        least = np.maximum.accumulate(shortfall)
        column = int(np.flatnonzero(reaches(least, tau))[-1])
        next_short = float(least[column + 1]) if column + 1 < least.size else 1.0
        value = float(self.grid.value(0, column))
        return self._policy(action, column, 1), value, Margin(tau - float(shortfall[column]), next_short - tau)

    def buffered(
        self, probability: FloatArray, half: FloatArray, tau: float, beta: float
    ) -> tuple[TargetPolicy, float, int]:
        """Optimistic plan for the buffered quantile: the policy, the bound on every policy, and sweeps used."""
        z = self.grid.points(0)
        step = self.grid.step
        bounds: dict[int, FloatArray] = {0: z}
        tables: dict[int, ActionArray] = {}

        def look(d: int) -> None:
            root, tables[d] = self.sweep(probability, half, d)
            bounds[d] = z + ((tau - beta) * d - root) * (step / beta)

        longest = max(1, z.size - 1)
        d = min(max(self.width, 1), longest)
        look(d)
        while True:
            swept = np.array(list(bounds))
            table = np.array(list(bounds.values()))
            column = int(table.min(axis=0).argmax())
            best = int(swept[table[:, column].argmin()])
            if len(tables) >= MAX_SWEEPS:
                break
            near = [w for w in (best + 1, best - 1) if 1 <= w <= min(longest, max(column, 1)) and w not in bounds]
            if not near:
                break
            look(near[0])
        self.width = max(best, 1)
        if self.width not in tables:  # the search was cut short, far from where it ended
            look(self.width)
        return self._policy(tables[self.width], column, self.width), float(table[:, column].min()), len(tables)

    def _policy(self, action: ActionArray, column: int, extra: int) -> TargetPolicy:
        sizes = self.grid.size
        tables = [action[h, :, : int(sizes[h]) + extra] for h in range(self.model.H)]
        policy = TargetPolicy(self.grid, tables, float(self.grid.value(0, column)), extra)
        policy.packed = action
        return policy
