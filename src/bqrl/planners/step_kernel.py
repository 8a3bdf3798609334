"""Passes over a model without a table: each block of states is stepped, gathered and reduced in turn.

Backwards a stage is the loop of stored models on one block of states after the other; forwards the masses of the sums are pushed
from the states that the policy reaches. Both call the step function again for every stage, while the loop works on the block
before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import bad_type
from bqrl.errors import PolicyError
from bqrl.laws.law import Law
from bqrl.loops.backward import sweep_rows, sweep_rows_threads
from bqrl.loops.layout import Goal, Moves, Part, Rows
from bqrl.loops.plain import by_numpy, plain_rows
from bqrl.loops.rollout import draw_many
from bqrl.loops.threads import run_loop
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import NO_JUMPS, Lattice
from bqrl.mdp.unstored import Outcomes, StepModel
from bqrl.policies.forward import empty_masses, push_stage
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy


class StepKernel:
    """One stage of a sweep; `run` has the arguments of `StageKernel.run`."""

    def __init__(self, model: StepModel, grid: Lattice, h: int) -> None:
        self.model, self.drop = model, grid.drop(h)
        self.base, self.width = float(model.grid.offset[-2]), model.grid.width

    def run(
        self, after: Any, rule: Goal, now: Any, action: ActionArray, first: int = 0, states: IntArray | None = None
    ) -> None:
        """Fill `now` with the values of the stage and, unless `action` is empty, the means; fill `action`.

        All states are computed, whichever are asked for: those that cannot be met are not stored.
        """
        for block, outcomes in self.model.blocks(first, first + len(now)):
            rows, moves = loop_arrays(outcomes, self.drop - outcomes.unit)
            goal = rule._replace(mean_reward=self._means(outcomes, wanted=action.size > 0))
            part, values = (action[block] if action.size else action), now[block]
            columns = now.shape[1] // (2 if action.size else 1)
            work = outcomes.unit.size * columns
            given = rows, moves, None, goal, after, values, part, Part(np.arange(len(values)), 0, columns)
            if by_numpy(work):
                plain_rows(*given)
            else:
                run_loop(work, sweep_rows, sweep_rows_threads, *given)

    def _means(self, outcomes: Outcomes, *, wanted: bool) -> FloatArray:
        """Return the mean reward of every row; zeros if they are not used."""
        means = np.zeros(outcomes.start.size - 1)
        if wanted:
            listed = np.flatnonzero(np.diff(outcomes.start))
            reward = self.base + self.width * outcomes.unit
            means[listed] = np.add.reduceat(outcomes.probability * reward, outcomes.start[listed])
        return means


def loop_arrays(outcomes: Outcomes, shift: IntArray) -> tuple[Rows, Moves]:
    """Return outcomes as the loops take them: read-only like those of a stored model, so that loops are compiled once."""
    return Rows(*map(read_only, outcomes[:3])), Moves(shift, NO_JUMPS)


def law_unstored(model: StepModel, policy: Policy) -> Law:
    """Return the law of the return of a Markov or target policy, over the states that it reaches."""
    lattice = model.grid
    top = int(lattice.units.max())
    states = np.flatnonzero(model.mu)
    mass = model.mu[states][:, None].copy()
    place = np.empty(model.S, np.int64)
    for h in range(model.H):
        sums = lattice.steps_value(np.arange(h * top + 1), 0, h)
        table, column = _decisions(policy, h, sums, states)
        reached, last = np.zeros(model.S, bool), h == model.H - 1
        parts = [slice(i, i + model.block) for i in range(0, states.size, model.block)]
        rows = [_played(model, table[states[part]][:, column], mass[part]) for part in parts]
        if not last:
            for part, played in zip(parts, rows, strict=True):
                reached[model.outcomes(states[part], played).successor] = True
        after = np.flatnonzero(reached) if not last else np.zeros(1, np.int64)
        place[after] = np.arange(after.size)
        out = empty_masses(after.size, (h + 1) * top + 1)
        for part, played in zip(parts, rows, strict=True):
            outcomes = model.outcomes(states[part], played)
            to = np.zeros(outcomes.successor.size, np.int32) if last else place[outcomes.successor].astype(np.int32)
            arrays = loop_arrays(outcomes._replace(successor=to), outcomes.unit)
            push_stage(*arrays, read_only(table[states[part]]), column, mass[part], out)
        states, mass = after, out
    return Law(lattice.steps_value(np.arange(mass.shape[1]), 0, model.H), mass[0])


def _decisions(policy: Policy, h: int, sums: FloatArray, states: IntArray) -> tuple[ActionArray, IntArray]:
    """Return an action table of a stage, with entries for the given states, and the column of every sum in it."""
    if isinstance(policy, TargetPolicy):
        return policy.decisions(h, policy.target - sums, states)
    assert isinstance(policy, MarkovPolicy)
    return policy.actions[h][:, None], np.zeros(sums.size, np.int64)


def _played(model: StepModel, actions: ActionArray, mass: FloatArray) -> Any:
    """Return which rows (n, A) the policy plays with positive probability."""
    played = np.zeros((len(actions), model.A), bool)
    s, g = np.nonzero(mass)
    if s.size and int(actions.max()) >= model.A:
        raise PolicyError(f"the policy must play actions below {model.A}, got {int(actions.max())}")
    played[s, actions[s, g]] = True
    return played


def play_unstored(model: StepModel, policy: Policy, u: FloatArray) -> FloatArray:
    """Return one return per row of uniforms: the policy's coin, the first state, then one draw per transition."""
    first, zeros = np.flatnonzero(model.mu), np.zeros(len(u), np.int64)
    drawn, total = np.empty(len(u), np.int64), np.zeros(len(u))
    draw_many(np.array([0, first.size]), model.mu[first], zeros, u[:, 1], drawn)
    s, memory = first[drawn], policy.start_many(u[:, 0])
    for h in range(model.H):
        a = policy.act_many(h, s, memory)
        draw_many(np.array([0, model.events.size]), np.array(model.chances), zeros, u[:, 2 + h], drawn)
        successor, reward = model.follow(s, a, drawn)
        after = successor.astype(np.int64)
        memory = policy.next_many(memory, h, s, a, reward, after)
        total, s = total + reward, after
    return total


def bind_unstored(model: StepModel, policy: Any) -> Policy:
    """Return a policy of a model without a table: a plan's policy, or the policy of an array of actions."""
    if (
        isinstance(policy, np.ndarray)
        and policy.dtype.kind in "iu"
        and policy.shape in ((model.S,), (model.H, model.S))
    ):
        policy = MarkovPolicy(np.broadcast_to(policy, (model.H, model.S)))
    if not isinstance(policy, (TargetPolicy, MarkovPolicy)):
        rule = "be the policy of a plan or an array of actions (S,) or (H, S) for a StepModel"
        raise bad_type("policy", policy, rule, type(policy).__name__, remedy="store the model for other policies")
    if (policy.H, policy.S) != (model.H, model.S):
        raise PolicyError(
            f"the policy must have H={model.H} and S={model.S} as the problem, got H={policy.H} and S={policy.S}; plan on this "
            "problem"
        )
    return policy
