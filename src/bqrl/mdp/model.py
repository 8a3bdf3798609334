"""The model: a finite-horizon Markov decision process, validated once and frozen."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import nearest, wrong, wrong_type
from bqrl.errors import ModelError, SizeError
from bqrl.mdp import files
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.build import MAX_ID, Table, read
from bqrl.mdp.columns import check_flat, is_frame
from bqrl.mdp.frozen import FrozenMDP
from bqrl.mdp.gymnasium import MDPEnv
from bqrl.mdp.listing import Mentioned, read_frame
from bqrl.mdp.noise import SharedNoise, repeated
from bqrl.mdp.validation import check_table, checked, normalised

DIGITS = re.compile(r"\d+")


class MDP(FrozenMDP):
    """A finite-horizon MDP with known rewards: checked once, then frozen.

    Parameters
    ----------
    transitions
        An array (H,S,A,S), or (S,A,S) with `horizon`; SciPy matrices of shape (S*A, S), one or one per stage; with
        `rewards=None`, a list of (s, a, s_next, probability, reward), with the stage in front if stages differ; or a table
        (pandas, polars, a dict of columns or a list of dicts) with the columns state, action, next_state, probability,
        reward and optionally stage, whose ids are names or numbers. With a column event the rows share noise.
    rewards
        An array (S,A) or (H,S,A), each also with a trailing successor axis. Several outcomes with the same successor and
        different rewards are random rewards.
    start
        A state, its name, a law {state: probability}, or S probabilities.
    horizon
        Number of stages.
    discount
        Factor per stage, in (0, 1].
    available
        Boolean array (S,A) or (H,S,A): actions that exist.
    support
        Boolean array of the kernel's shape: successors that are possible although their probability is zero.
    known
        Boolean array (S,A) or (H,S,A): rows that learners may know exactly (rows with one outcome always are).
    state_names, action_names
        Distinct names for display and for `start`.
    columns
        Headers of a table by role, e.g. {"state": "from", "next_state": "to"}.
    units
        Unit of the rewards, for display.

    Attributes
    ----------
    H, S, A : int
        Numbers of stages, states and actions. K below is 1 if all stages share one kernel (`stationary`), else H.
    mu : ndarray of shape (S,)
        Law of the first state.
    row_start : ndarray of shape (K*S*A + 1,)
        Row (k, s, a) has the index q = (k*S + s)*A + a; its outcomes are row_start[q] to row_start[q + 1] - 1.
    successor, probability : ndarray of shape (n,)
        Next state and probability of every outcome; `outcomes(h, s, a)` returns those of one row with their rewards.
    noise : SharedNoise or None
        The laws of events that rows share.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    >>> mdp
    MDP(H=3, S=2, A=1, start=0, 3 transitions, stationary)
    """

    __slots__ = ()

    def __init__(
        self,
        transitions: Any,
        rewards: Any = None,
        start: Any = 0,
        horizon: int | None = None,
        discount: float = 1.0,
        *,
        available: Any = None,
        support: Any = None,
        known: Any = None,
        state_names: Any = None,
        action_names: Any = None,
        columns: Mapping[str, str] | None = None,
        units: str | None = None,
    ) -> None:
        if is_frame(transitions):
            check_flat(transitions)
            for name, value in (("rewards", rewards), ("support", support)):
                if value is not None:
                    remedy = "add a column reward, or pass arrays" if name == "rewards" else ""
                    raise wrong(name, value, "not be given with a table, which has its own columns", remedy=remedy)
            table, H, facts = read_frame(transitions, columns, horizon, state_names, action_names)
        elif columns is not None:
            raise wrong("columns", columns, "be given with a table of transitions (a frame) only", remedy="omit it")
        else:
            table, H = read(transitions, rewards, horizon, support)
            facts = {"state_names": state_names, "action_names": action_names, "noise": None}
        mentioned = facts.pop("mentioned", None)
        self._store(**checked(table, H, start, discount, available=available, known=known, units=units, **facts))
        self._check_actions(mentioned)

    @classmethod
    def from_table(
        cls, table: Table, H: int, start: Any = 0, discount: float = 1.0, *, mentioned: Mentioned | None = None, **optional: Any
    ) -> MDP:  # fmt: skip
        """MDP of outcomes already in a table, checked like any other model; `mentioned` as in `bqrl.mdp.listing`."""
        mdp = cls.__new__(cls)
        mdp._store(**checked(table, H, start, discount, **optional))
        mdp._check_actions(mentioned)
        return mdp

    def _check_actions(self, mentioned: Mentioned | None = None) -> None:
        """Raise ModelError if a reachable state has no action: it may be another state, misspelt."""
        stuck = self.reachable[:-1] & ~self.available.any(axis=2)
        if stuck.any():
            h, s = (int(i) for i in np.argwhere(stuck)[0])
            name, acting = self.state_label(s), np.atleast_1d(self.available.any(axis=(0, 2)))
            others = [] if acting[s] else [x for x, acts in zip(self.state_names or (), acting, strict=False) if acts]
            stem = DIGITS.sub("", name)  # s12 is no misspelt s11
            near = nearest(name, (other for other in others if DIGITS.sub("", other) != stem), listed=False)
            remedy = f"{near} if not, give it an action" if near else "; give it one (a loop will do)"
            where, line = (mentioned or {}).get(s, ("", None))
            message = f"{where}state {name}, reachable at stage {h + 1}, must have an action, got none{remedy}"
            raise ModelError(message, line=line, name="available")

    # -- views ------------------------------------------------------------------------------------------------------

    def with_probability(self, probability: FloatArray) -> MDP:
        """The same problem with other probabilities on the same outcomes; zeros keep their place in the support."""
        probability = np.array(probability, dtype=np.float64)
        if probability.shape != self.successor.shape:
            raise wrong("probability", probability, f"have shape {self.successor.shape}", probability.shape)
        table = replace(self._table(), probability=probability, reward=None, row_reward=None)
        check_table(table, self.H)
        twin = MDP.__new__(MDP)
        noise = self.noise and self.noise.hidden
        twin._store(**self.__getstate__() | {"probability": normalised(table), "noise": noise})
        object.__setattr__(twin, "_per_structure", self._per_structure)
        return twin

    def with_noise(self, noise: SharedNoise | None) -> MDP:
        """The same problem with these laws of events behind its rows; None: the rows share nothing."""
        if not isinstance(noise, SharedNoise | None):
            raise wrong_type("noise", noise, "be the SharedNoise of a model or None", type(noise).__name__)
        if noise is not None:
            noise.check(self.row_start, self.probability)
        twin = self.with_probability(self.probability)
        object.__setattr__(twin, "noise", noise)
        return twin

    def staged(self) -> MDP:
        """The same problem with one stored kernel per stage, so that stages can be changed separately."""
        if not self.stationary or self.H == 1:
            return self
        H, rows, nnz = self.H, self.S * self.A, self.successor.size
        needed = H * max(rows, nnz)
        if needed > MAX_ID:
            message = f"a kernel per stage must have at most {MAX_ID} rows and transitions, got {needed}; give a shorter horizon"
            raise SizeError(message, needed=needed, limit=MAX_ID, name="horizon")
        by_row, by_outcome = self.row_reward, self._reward
        if by_row is not None:
            by_row = np.array(np.broadcast_to(by_row, (H, self.S, self.A)))
        if by_outcome is not None:
            by_outcome = np.array(np.broadcast_to(by_outcome, (H, nnz))).reshape(1, -1)
        table = replace(
            self._table(),
            K=H,
            row_start=repeated(self.row_start, H),
            successor=np.tile(self.successor, H),
            probability=np.tile(self.probability, H),
            reward=by_outcome,
            row_reward=by_row,
        )
        known = np.array(np.broadcast_to(self.known, (H, self.S, self.A)))
        changed = {"known": known, "noise": self.noise and self.noise.staged(H)}
        return MDP.from_table(table, H, self.mu, self.discount, **self._facts() | changed)

    def replace(self, *, start: Any = None, horizon: int | None = None, discount: float | None = None) -> MDP:
        """The same problem with another start, discount or, if kernel and rewards are stationary, horizon."""
        if horizon is not None and horizon != self.H and not (self.stationary and len(self.reward) == 1):
            raise wrong("horizon", horizon, f"be {self.H} for a model whose stages differ")
        return MDP.from_table(
            self._table(),
            self.H if horizon is None else horizon,
            self.mu if start is None else start,
            self.discount if discount is None else discount,
            **self._facts(),
        )

    def _table(self) -> Table:
        """The outcomes as a table."""
        return Table(
            S=self.S,
            A=self.A,
            K=self.available.shape[0],
            row_start=self.row_start,
            successor=self.successor,
            probability=self.probability,
            reward=self._reward,
            row_reward=self.row_reward,
            infer_available=True,
        )

    def _facts(self) -> dict[str, Any]:
        """What a copy of the model keeps beside its table."""
        facts = ("known", "state_names", "action_names", "state_values", "units", "noise")
        return {name: getattr(self, name) for name in facts}

    # -- files, environments ----------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, plain: bool = False) -> None:
        """Write the model to .csv, .csv.gz, .npz or .json; see `bqrl.save`."""
        files.save(self, path, plain=plain)

    def as_env(self, **options: Any) -> MDPEnv[MDP]:
        """A Gymnasium environment that plays this problem."""
        return MDPEnv(self, **options)
