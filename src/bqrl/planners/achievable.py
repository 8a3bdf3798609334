"""The recursion over sets of return laws, and the labels that turn a law back into a policy.

    D_H(s) = { law of 0 },
    D_h(s) = { law of r + G' : an action a, and for every outcome (r, s') of (h, s, a) one law of D_{h+1}(s') for G' }.

Every law has a label L = (h, s, a, L_1, L_2, ...): an action, and a reference to one label for each of its outcomes. The
label encodes one deterministic history-dependent policy that attains the law. `Rules` decide which combinations are formed
and which laws are retained. `ReturnColumns` hold the returns that have mass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bqrl.laws.law import Law, size_of
from bqrl.laws.rows import buffered_rows, mean_rows, quantile_rows
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.greedy import MEAN_TIE, TIE, first_best
from bqrl.policies.labels import LabelPolicy


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LawSet:
    """The laws of one (stage, state) with their labels: an action, and one law of the next stage per outcome."""

    pmf: FloatArray  # (n, columns of the stage)
    action: IntArray  # (n,)
    child: IntArray  # (n, most outcomes of an action)
    usual: int  # the law to continue with after an outcome of probability zero

    def __post_init__(self) -> None:
        for name in ("pmf", "action", "child"):
            object.__setattr__(self, name, read_only(getattr(self, name)))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Frontier:
    """The laws at the root, `pmf` (n, m) on `points` (m,), and the labels below them."""

    mdp: MDP
    points: FloatArray
    pmf: FloatArray
    child: IntArray  # (n, first states)  which law of each first state
    stages: tuple[list[LawSet | None], ...]
    slack: float  # bound on the change of a distribution function, because laws were treated as equal or dominated

    def __post_init__(self) -> None:
        for name in ("points", "pmf", "child"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def __len__(self) -> int:
        return len(self.pmf)

    def law(self, i: int) -> Law:
        """Return root law `i`."""
        return Law(self.points, self.pmf[i])

    def values(self, tau: float, beta: float = 0.0) -> FloatArray:
        """Return the objective value of every root law."""
        if beta == 0.0:
            return quantile_rows(self.points, self.pmf, tau)
        return buffered_rows(self.points, self.pmf, tau, beta)

    def best(self, tau: float, beta: float = 0.0) -> int:
        """Return the index of the root law with the largest objective value; ties go to the larger mean, then the first."""
        values, means = self.values(tau, beta), mean_rows(self.points, self.pmf)
        scale = size_of(self.points)
        tied = np.flatnonzero(values >= values.max() - TIE * scale)
        return int(tied[first_best(means[tied], MEAN_TIE * scale)])

    def policy(self, i: int) -> LabelPolicy:
        """Return the policy encoded by the label of root law `i`; a label with several references becomes one node."""
        mdp, first = self.mdp, np.flatnonzero(self.mdp.mu)
        layer = [(0, int(s), int(k)) for s, k in zip(first, self.child[i], strict=True)]
        node = {key: v for v, key in enumerate(layer)}
        action, child_start, successor, reward, child = [], [0], [], [], []
        for h in range(mdp.H):
            after: list[tuple[int, int, int]] = []
            for _, s, k in layer:
                laws = self.stages[h][s]
                assert laws is not None
                successors, _, rewards = mdp.outcomes(h, s, int(laws.action[k]))
                for j, s_next in enumerate(successors.tolist()):
                    key = (h + 1, s_next, int(laws.child[k, j]))
                    if h + 1 < mdp.H and key not in node:
                        node[key] = len(node)
                        after.append(key)
                    child.append(node.get(key, -1))
                action.append(int(laws.action[k]))
                successor.extend(successors.tolist())
                reward.extend(rewards.tolist())
                child_start.append(len(child))
            layer = after
        root = np.full(mdp.S, -1, np.int64)
        root[first] = np.arange(first.size)
        return LabelPolicy(
            mdp.H, root, np.array(action), np.array(child_start), np.array(successor), np.array(reward), np.array(child)
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Part:
    """The contribution of one outcome of a row: its probability, the laws to choose from, and their columns."""

    weight: float
    pmf: FloatArray
    landing: IntArray

    def place(self, width: int, rows: slice = slice(None)) -> FloatArray:
        """Return the laws on the `width` columns of the stage, multiplied by the probability of the outcome."""
        pmf = self.pmf[rows]
        live = np.flatnonzero(pmf.any(axis=0))
        out, columns = np.zeros((len(pmf), width)), self.landing[live]
        if np.all(np.diff(columns) > 0):
            out[:, columns] = self.weight * pmf[:, live]
        else:  # rounding merged some columns
            for column, j in zip(columns, live, strict=True):
                out[:, column] += self.weight * pmf[:, j]
        return out


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReturnColumns:
    """The possible returns of every stage, one column each."""

    points: list[FloatArray]  # per stage 0..H the returns from this stage on, increasing
    units: list[IntArray]  # per stage the index of the reward of every outcome
    landings: list[dict[int, IntArray]]  # per stage and reward: the column that each column of the next stage becomes

    @classmethod
    def of_grid(cls, mdp: MDP, grid: Grid) -> ReturnColumns:
        """Return the columns of an exact grid."""
        units = [grid.stage_units(mdp, h) for h in range(mdp.H)]
        landings = [{u: grid.landing(h, u) for u in np.unique(units[h]).tolist()} for h in range(mdp.H)]
        return cls(points=[grid.points(h) for h in range(mdp.H + 1)], units=units, landings=landings)


class Rules(Protocol):
    """The rules by which laws are formed and retained."""

    def combine(self, parts: Sequence[Part], width: int, where: str) -> tuple[FloatArray, IntArray, float]:
        """Return the laws of a row, the law chosen from each part, and a bound on the change of a distribution function."""

    def keep(self, points: FloatArray, pmf: FloatArray) -> tuple[IntArray, float]:
        """Return the indices of the laws to retain, and a bound on the change of a distribution function."""

    def usual(self, points: FloatArray, pmf: FloatArray) -> int:
        """Return the law to continue with after an outcome of probability zero."""


def all_laws(mdp: MDP, columns: ReturnColumns, rules: Rules) -> Frontier:
    """Return the frontier at the root, computed backwards over all reachable states; the first state is one more draw."""
    end = LawSet(pmf=np.ones((1, 1)), action=np.zeros(1, np.int64), child=np.zeros((1, 0), np.int64), usual=0)
    after: list[LawSet | None] = [end] * mdp.S
    stages, slack = [], 0.0
    for h in range(mdp.H - 1, -1, -1):
        here: list[LawSet | None] = [None] * mdp.S
        lost = 0.0
        for s in np.flatnonzero(mdp.reachable[h]).tolist():
            here[s], moved = _laws_of_state(mdp, h, s, after, columns, rules)
            lost = max(lost, moved)
        slack += lost
        stages.append(here)
        after = here
    points = columns.points[0]
    parts = [
        Part(weight=float(mdp.mu[s]), pmf=laws.pmf, landing=np.arange(points.size))
        for s in np.flatnonzero(mdp.mu)
        if (laws := after[s]) is not None
    ]
    pmf, child, lost = rules.combine(parts, points.size, "the first state")
    retained, moved = rules.keep(points, pmf)
    return Frontier(
        mdp=mdp, points=points, pmf=pmf[retained], child=child[retained], stages=tuple(stages[::-1]),
        slack=slack + lost + moved,
    )  # fmt: skip


def _laws_of_state(
    mdp: MDP, h: int, s: int, after: Sequence[LawSet | None], columns: ReturnColumns, rules: Rules
) -> tuple[LawSet, float]:
    """Return the laws that the rules retain for one (stage, state), and a bound on the change of a distribution function."""
    stage, points, lost = mdp.stage(h), columns.points[h], 0.0
    rows = [s * mdp.A + int(a) for a in np.flatnonzero(stage.available[s])]
    most = max(int(stage.row_start[q + 1] - stage.row_start[q]) for q in rows)
    pmfs, actions, children = [], [], []
    for q in rows:
        outcomes = range(stage.row_start[q], stage.row_start[q + 1])
        nexts = [laws for i in outcomes if (laws := after[stage.successor[i]]) is not None]
        possible = [j for j, i in enumerate(outcomes) if stage.probability[i] > 0.0]
        parts = [
            Part(
                weight=float(stage.probability[i]),
                pmf=nexts[j].pmf,
                landing=columns.landings[h][int(columns.units[h][i])],
            )
            for j, i in enumerate(outcomes)
            if j in possible
        ]
        where = f"stage {h + 1}, state {mdp.state_label(s)}, action {mdp.action_label(q % mdp.A)}"
        pmf, picks, moved = rules.combine(parts, points.size, where)
        child = np.full((len(pmf), most), -1, np.int64)
        child[:, : len(nexts)] = [laws.usual for laws in nexts]
        child[:, possible] = picks
        pmfs.append(pmf)
        actions.append(np.full(len(pmf), q % mdp.A))
        children.append(child)
        lost = max(lost, moved)
    pmf = np.concatenate(pmfs)
    retained, moved = rules.keep(points, pmf)
    pmf = pmf[retained]
    action, child = np.concatenate(actions)[retained], np.concatenate(children)[retained]
    return LawSet(pmf=pmf, action=action, child=child, usual=rules.usual(points, pmf)), lost + moved
