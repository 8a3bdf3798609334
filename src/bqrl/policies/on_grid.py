"""Policies for continuous states: a policy of a finite model, played on rounded states."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import one_line
from bqrl.errors import PolicyError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.grid import Lattice, Rounded
from bqrl.mdp.grid_affine import Chain
from bqrl.mdp.grid_step import GridModel
from bqrl.policies.protocol import Policy


class GridPolicy(Policy):
    """A policy for continuous states; made by `solve` for a model of `from_step(..., grid=)`.

    With `monotone` it acts on the state rounded towards the worse side and on the true need. With `lipschitz` it follows a
    chain of rounded states that is driven by the real events, so `next` requires the event. `act` returns the index of an action;
    `policy.model.actions` are the actions themselves. Outside the grid it plays the first action that exists.

    Attributes
    ----------
    model : GridModel
        The problem.
    inner : Policy
        The policy of the finite model `model.lower`, e.g. for `policy.inner.table(model.lower)`.

    Examples
    --------
    >>> import bqrl, numpy as np
    >>> def step(state, action, event):
    ...     return (state[0] + action * event,), action * event
    >>> grid = {"wealth": np.linspace(-2.0, 2.0, 41)}
    >>> model = bqrl.from_step(step, [0, 1], {-0.5: 0.1, 0.5: 0.9}, 3, (0.0,), grid=grid, monotone={"wealth": 1})
    >>> policy = bqrl.solve(model, tau=0.2).policy
    >>> memory = policy.start()
    >>> model.actions[policy.act(0, (0.0,), memory)]
    1
    """

    kind = "grid"

    def __init__(self, inner: Policy, model: GridModel, chain: Chain | None = None) -> None:
        self.inner, self.model, self.H, self.S = inner, model, model.H, 0
        self.chain = chain  # pays the rewards that the policy counts, if these are not those of the rounded states
        self.follows = model.signs is None

    def start(self, u: float | None = None) -> Any:
        """Return the memory before the first stage."""
        first = self.inner.start(u)
        return (None, first) if self.follows else first

    def act(self, h: int, s: Any, memory: Any) -> int:
        """Return the index of the action in the continuous state `s`."""
        state = np.array([s], float)
        chain = int(self._chain(state, (memory[0], None) if self.follows else None)[0])
        if chain < 0:
            return int(self.model.function.available(state)[0].argmax())
        return self.inner.act(h, chain, memory[1] if self.follows else memory)

    def next(self, memory: Any, h: int, s: Any, action: int, reward: float, s_next: Any, event: Any = None) -> Any:
        """Return the memory after a transition; with `lipschitz` the event is required unless the model has `invert`."""
        if not self.follows:
            return self.inner.next(memory, h, 0, action, float(self._on_lattice(h, np.array(float(reward)))), 0)
        state, a = np.array([s], float), np.array([action])
        chain = self._chain(state, (memory[0], None))
        events = self._inverted(state, a, [s_next]) if event is None else [event]
        paid, after = (column[0].item() for column in self._advance(h, chain, a, events))
        return after, self.inner.next(memory[1], h, max(int(chain[0]), 0), action, paid, max(after, 0))

    def start_many(self, u: FloatArray) -> Any:
        """Return the memories of many episodes; with `lipschitz` (states of the chain, memories of the inner policy)."""
        inner = self.inner.start_many(u)
        return (None, inner) if self.follows else inner

    def act_many(self, h: int, s: Any, memory: Any) -> IntArray:
        """Return the actions in continuous states (n, d)."""
        states = np.asarray(s, float)
        chain = self._chain(states, memory)
        played = self.inner.act_many(h, np.maximum(chain, 0), memory[1] if self.follows else memory)
        out = chain < 0
        if out.any():
            played = np.where(out, 0, played)
            played[out] = self.model.function.available(states[out]).argmax(axis=1)
        return played

    def next_many(
        self, memory: Any, h: int, s: Any, a: IntArray, reward: FloatArray, s_next: Any, events: Any = None
    ) -> Any:
        """Return the memories after one more stage."""
        if not self.follows:
            nowhere = np.zeros(len(a), np.int64)
            return self.inner.next_many(memory, h, nowhere, a, self._on_lattice(h, reward), nowhere)
        chain = self._chain(np.asarray(s, float), memory)
        paid, after = self._advance(h, chain, a, self._inverted(s, a, s_next) if events is None else events)
        return after, self.inner.next_many(memory[1], h, np.maximum(chain, 0), a, paid, np.maximum(after, 0))

    def _advance(self, h: int, chain: IntArray, a: IntArray, events: Any) -> tuple[FloatArray, IntArray]:
        """Return the rewards and next states of the chain of rounded states for the events; -1 outside the grid."""
        model, law = self.model, self.model.law(h)
        cell = law.find(events)
        drive = law.middle[cell] if model.linear is None else law.mean[cell]
        paid, after = np.zeros(len(a)), np.full(len(a), -1)
        here = chain >= 0
        if drive.dtype.kind == "f":
            here &= np.isfinite(drive)
        if here.any():
            codes = np.array(model.lower.state_values)[chain[here]]
            states = np.stack([p[codes[:, j]] for j, p in enumerate(model.grid.values())], axis=1)
            s_next, paid[here] = model.function.many(states, a[here], drive[here])
            after[here] = model.locate(s_next)
            if self.chain is not None:
                paid[here] = self.chain.paid(chain[here] * len(model.actions) + a[here], s_next)
        return paid, after

    def _chain(self, states: FloatArray, memory: Any) -> IntArray:
        """Return the states of the finite model, -1 outside the grid."""
        if self.follows and memory[0] is not None:
            return np.atleast_1d(np.asarray(memory[0], np.int64))
        return self.model.locate(states)

    def _on_lattice(self, h: int, reward: FloatArray) -> FloatArray:
        """Return true rewards rounded down to the lattice of the finite model, so that every need is one of its columns."""
        grid = getattr(self.inner, "grid", None)
        if not isinstance(grid, Lattice) or isinstance(grid, Rounded):  # a rounded grid rounds rewards itself
            return reward
        base, noise = float(grid.offset[h] - grid.offset[h + 1]), 2.0 * grid.noise / grid.width + 1e-9
        return base + np.floor((reward - base) / grid.width + noise) * grid.width

    def _inverted(self, s: Any, a: IntArray, s_next: Any) -> list[Any]:
        if self.model.invert is None:
            raise PolicyError(
                "this policy follows the events: expected next(..., event=info['event']) or a model with invert=, got no event"
            )
        steps = zip(np.asarray(s).tolist(), a.tolist(), np.asarray(s_next).tolist(), strict=True)
        return [self.model.invert(tuple(x), self.model.actions[y], tuple(z)) for x, y, z in steps]

    def file_arrays(self) -> dict[str, Any]:
        """Raise PolicyError: a file cannot store the step function."""
        raise PolicyError(
            "a policy for continuous states cannot be stored; save policy.inner, which acts on model.lower"
        )

    def __repr__(self) -> str:
        return f"GridPolicy({one_line(self.inner)}, {self.model!r})"
