"""The chance to reach every target, by the model checker Storm on the target-unfolded model.

States of the unfolded model are (stage, state, amount still needed), in order, then two sinks: reached and lost. Rewards
must be whole numbers. One query, max P(F reached), answers for every state and so for every target at once.
"""

from dataclasses import dataclass

import numpy as np

from bqrl.mdp.model import MDP

CHUNK = 1_000_000  # entries handed to Storm at a time


@dataclass(frozen=True)
class Unfolded:
    """Entries of the transition matrix in row order, and where the choices of each state begin."""

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray
    groups: np.ndarray
    states: int
    first: np.ndarray  # (targets,) unfolded state of (0, start, need)
    lowest: int  # the target one below which is reached for certain

    @property
    def reached(self) -> int:
        return self.states - 2


def unfold(mdp: MDP) -> Unfolded:
    """The target-unfolded model; needs run from 1 to the most that can still be collected, all others are decided."""
    least, most = int(mdp.reward.min()), int(mdp.reward.max())
    widest = np.array([(mdp.H - h) * (most - least) for h in range(mdp.H + 1)])  # needs at each stage
    offset = np.r_[0, np.cumsum(mdp.S * widest[:-1])]
    reached, lost = offset[-1], offset[-1] + 1
    rows, columns, values, groups, row = [], [], [], [], 0
    for h in range(mdp.H):
        stage, n = mdp.stage(h), int(widest[h])
        need = np.arange(1, n + 1)
        actions = stage.available.sum(axis=1)
        rank = np.where(stage.available, np.cumsum(stage.available, axis=1) - 1, 0)
        before = np.r_[0, np.cumsum(actions)]
        # State (s, need) has actions[s] choices; those of one state come before those of the next.
        first_choice = row + before[:-1, None] * n + (need - 1)[None, :] * actions[:, None]
        groups.append(first_choice.ravel())
        q = np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start))
        s, a = q // mdp.A, q % mdp.A
        left = need[None, :] - (np.rint(stage.reward).astype(np.int64) - least)[:, None]
        inner = offset[h + 1] + stage.successor[:, None] * widest[h + 1] + left - 1
        to = np.where(left <= 0, reached, np.where(left > widest[h + 1], lost, inner))
        rows.append((first_choice[s] + rank[s, a][:, None]).ravel())
        columns.append(to.ravel())
        values.append(np.broadcast_to(stage.probability[:, None], to.shape).ravel())
        row += int(before[-1]) * n
    rows.append(np.array([row, row + 1]))  # the sinks stay where they are
    columns.append(np.array([reached, lost]))
    values.append(np.ones(2))
    groups.append(np.array([row, row + 1]))
    at, to, p = np.concatenate(rows), np.concatenate(columns), np.concatenate(values)
    order = np.lexsort((to, at))
    at, to = at[order], to[order]
    new = np.flatnonzero(np.r_[True, (np.diff(at) != 0) | (np.diff(to) != 0)])  # outcomes that lead to one state add up
    first = mdp.start * widest[0] + np.arange(widest[0])
    total = np.add.reduceat(p[order], new)
    return Unfolded(at[new], to[new], total, np.concatenate(groups), int(lost) + 1, first, mdp.H * least + 1)


def storm_model(unfolded: Unfolded):
    """The unfolded model as an MDP of Storm."""
    from stormpy.datastructures import BitVector, SparseMatrixBuilder
    from stormpy.models import SparseMdp, SparseModelComponents, StateLabeling

    u = unfolded
    builder = SparseMatrixBuilder[float](
        rows=int(u.rows[-1]) + 1,
        columns=u.states,
        entries=u.rows.size,
        has_custom_row_grouping=True,
        row_groups=u.states,
    )
    part = max(1, CHUNK * u.states // u.rows.size)  # states at a time: Python numbers take room
    for first in range(0, u.states, part):
        groups = u.groups[first : first + part]
        end = u.groups[first + part] if first + part < u.states else u.rows[-1] + 1
        here = slice(*np.searchsorted(u.rows, [groups[0], end]))
        builder.add_next_values(
            u.rows[here].tolist(), u.columns[here].tolist(), u.values[here].tolist(), groups.tolist()
        )
    labels = StateLabeling(u.states)
    labels.add_label("init")
    labels.set_states("init", BitVector(u.states, [0]))
    labels.add_label("reached")
    labels.set_states("reached", BitVector(u.states, [u.reached]))
    return SparseMdp[float](SparseModelComponents[float](builder.build(), labels))


def storm_query(model, method: str = "TOPOLOGICAL") -> np.ndarray:
    """max P(F reached) from every state of the model; the model has no cycles, so solving it in topological order is exact."""
    import stormpy

    environment = stormpy.environments.sound()
    solver = environment.solver().min_max()
    solver.method = getattr(stormpy.environments.MinMaxMethod, method)
    (prop,) = stormpy.parse_properties('Pmax=? [F "reached"]')
    return np.array(stormpy.model_checking(model, prop, environment=environment).get_value_vector())


def storm_chances(mdp: MDP) -> tuple[np.ndarray, np.ndarray]:
    """Targets x and max P(G >= x) of each, from the lowest return to one above the highest."""
    unfolded = unfold(mdp)
    chances = storm_query(storm_model(unfolded))[unfolded.first]
    targets = unfolded.lowest - 1 + np.arange(chances.size + 2)
    return targets, np.r_[1.0, chances, 0.0]
