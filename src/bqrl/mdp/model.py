"""The model: a finite-horizon Markov decision process, checked once and frozen.

`bqrl.mdp.build` and `bqrl.mdp.listing` convert every input format to a table of outcomes; `bqrl.mdp.table` and
`bqrl.mdp.validation` hold the checks.

A value derived from a model is computed once and stored with it; only the function that computes it writes it:

    @per_model          stored with this model alone, because the value depends on its probabilities
    @per_structure      shared with the models that `MDP.with_probability` makes from it, because the value depends only on
                        outcomes and rewards

Every caller receives the same object: arrays become read-only, and records are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from bqrl.checks import bad_type, bad_value, is_one_line
from bqrl.display import Tabular
from bqrl.errors import ModelError, SizeError
from bqrl.mdp import as_env, files, listing  # they import this module, too, to write and play models
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray, tile_starts
from bqrl.mdp.build import build_table
from bqrl.mdp.files.sources import is_frame
from bqrl.mdp.noise import SharedNoise
from bqrl.mdp.outcomes import Outcomes
from bqrl.mdp.paid import Paid
from bqrl.mdp.stage import Stage, Structure
from bqrl.mdp.table import MAX_ID, Table
from bqrl.mdp.validation import (
    check_actions,
    check_discount,
    check_horizon,
    check_mask,
    check_names,
    check_words,
    start_law,
    terminal_values,
)

M = TypeVar("M")  # the model
P = ParamSpec("P")
T = TypeVar("T")


def per_model(function: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Store the value of `function(mdp, *hashable)` with the model."""
    return _memoize(function, "_per_model")


def per_structure(function: Callable[Concatenate[M, P], T]) -> Callable[Concatenate[M, P], T]:
    """Store the value of `function(mdp, *hashable)` with the model and those that `with_probability` makes from it."""
    return _memoize(function, "_per_structure")


def _memoize(function: Callable[Concatenate[M, P], T], store: str) -> Callable[Concatenate[M, P], T]:
    @wraps(function)
    def stored(mdp: M, *args: P.args, **kwargs: P.kwargs) -> T:
        values: dict[Any, Any] = getattr(mdp, store)
        key = (function, args, tuple(sorted(kwargs.items())))
        if key not in values:
            values[key] = function(mdp, *args, **kwargs)
            if isinstance(values[key], np.ndarray):
                values[key].flags.writeable = False
        return values[key]

    return stored  # type: ignore[return-value]


class MDP(Tabular):
    """A finite-horizon MDP with known rewards: checked once, then frozen.

    Parameters
    ----------
    transitions
        An array (H,S,A,S), or (S,A,S) with `horizon`; SciPy matrices of shape (S*A, S), one or one per stage; with
        `rewards=None`, a list of (s, a, s_next, probability, reward), with the stage in front if stages differ; or a table
        (pandas, polars, a dict of columns or a list of dicts) with the columns state, action, next_state, probability,
        reward and optionally stage, whose ids are names or numbers. With a column event the rows share noise.
    rewards
        An array (S,A) or (H,S,A), each also with a trailing successor axis. Outcomes with the same successor and different
        rewards model random rewards. If H = S = A, an array (H,S,A) is read by stage where the transitions differ by stage,
        and refused where they do not; an array (H,S,A,S) is never ambiguous.
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
        Boolean array (S,A) or (H,S,A): rows that learners may know exactly. Rows with one outcome are always known.
    state_names, action_names
        Distinct names for display and for `start`.
    columns
        Headers of a table by role, e.g. {"state": "from", "next_state": "to"}.
    units
        Unit of the rewards, for display.
    terminal
        Value of the state in which an episode ends, e.g. salvage: S numbers, or {state: value} where others have 0. It is
        paid after the last stage and discounted like a reward there, so it is worth discount**H at the start. Rewards of
        the last stage (`reward`, `stage`, `outcomes`, environments) include it.
    outcomes
        Further outcomes by name, e.g. {"cost": array}, in the forms of `rewards`; with a list of transitions one number per
        line; with a table, headers of columns (a column `outcome:cost` needs no entry). Policies do not see them;
        `bqrl.expected_outcomes` computes their means.
    words
        What users call things, for display: any of {"title", "run", "return", "state", "action", "stage"}, e.g.
        {"run": "patient", "return": "net benefit", "stage": "year"}.

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
    terminal : ndarray of shape (S,) or None
        Terminal values.
    further : Outcomes or None
        The further outcomes; `outcome_names` lists their names.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    >>> mdp
    MDP(H=3, S=2, A=1, start=0, 3 transitions, stationary)
    """

    H: int
    S: int
    A: int
    mu: FloatArray
    discount: float
    row_start: IntArray
    successor: NDArray[np.int32]
    probability: FloatArray
    available: BoolArray
    known: BoolArray
    state_names: tuple[str, ...] | None
    state_values: tuple[Any, ...] | None  # the states as a step function or a frame gives them; files do not store them
    action_names: tuple[str, ...] | None
    units: str | None
    noise: SharedNoise | None  # the laws of the events that drive the rows, if rows share noise
    terminal: FloatArray | None  # (S,)
    further: Outcomes | None
    words: dict[str, str]
    _reward: FloatArray | None  # as given, (1 or H, n), without terminal values; None if _row_reward holds them
    _row_reward: FloatArray | None  # (1 or H, S, A)
    _per_model: dict[Any, Any]  # written by per_model alone
    _per_structure: dict[Any, Any]  # written by per_structure alone; shared with twins
    __slots__ = (
        "A", "H", "S", "_per_model", "_per_structure", "_reward", "_row_reward", "action_names", "available", "discount",
        "further", "known", "mu", "noise", "probability", "row_start", "state_names", "state_values", "successor", "terminal",
        "units", "words",
    )  # fmt: skip

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
        terminal: Any = None,
        outcomes: Mapping[str, Any] | None = None,
        words: Mapping[str, str] | None = None,
    ) -> None:
        if is_frame(transitions):
            given = {"rewards": rewards, "support": support}
            table, H, facts = listing.read_frame(
                transitions, given, outcomes, columns, horizon, state_names, action_names
            )
        elif columns is not None:
            raise bad_value("columns", columns, "be given with a table of transitions (a frame) only", remedy="omit it")
        else:
            table, H = build_table(transitions, rewards, horizon, support, outcomes)
            facts = {"state_names": state_names, "action_names": action_names}
        table = table.restrict(available, complete=rewards is not None)  # lists leave out actions that do not exist
        self._set(table, H, start, discount, known=known, units=units, terminal=terminal, words=words, **facts)

    @classmethod
    def from_table(
        cls, table: Table, H: int, start: Any = 0, discount: float = 1.0, *, mentioned: listing.Mentioned | None = None,
        **optional: Any,
    ) -> MDP:  # fmt: skip
        """Return the model of a table of outcomes, checked like any other; `bqrl.mdp.listing` explains `mentioned`."""
        mdp = cls.__new__(cls)
        mdp._set(table, H, start, discount, mentioned=mentioned, **optional)
        return mdp

    def _set(
        self, table: Table, H: int, start: Any, discount: float, *, known: Any = None, state_names: Any = None,
        action_names: Any = None, state_values: tuple[Any, ...] | None = None, units: str | None = None,
        noise: SharedNoise | None = None, mentioned: listing.Mentioned | None = None, terminal: Any = None,
        words: Any = None,
    ) -> None:  # fmt: skip
        """Check every field and store it."""
        S, A, shape = table.S, table.A, (table.K, table.S, table.A)
        H = check_horizon(H, S)
        if units is not None and not (isinstance(units, str) and is_one_line(units)):
            raise bad_type("units", units, "be a word such as 'EUR'")
        sizes = np.diff(table.row_start).reshape(shape)
        available, known_rows = sizes > 0, sizes == 1
        if known is not None:
            known_rows |= check_mask(known, shape, "known") & available
        if table.row_reward is not None and not available.all():  # rewards of absent actions have no meaning
            table.row_reward = np.where(available, table.row_reward, 0.0)
        probability = table.normalise()
        table.check_rewards(H)
        if table.further is not None:
            table.further.check(probability.size, (1, H) if table.K == 1 else (1,), H)
        if noise is not None:
            noise.check(table.row_start, probability)
        labels = check_names(state_names, S, "state_names")
        self._store(
            H=H, S=S, A=A, mu=start_law(start, S, labels), discount=check_discount(discount), row_start=table.row_start,
            successor=table.successor, probability=probability, _row_reward=table.row_reward, _reward=table.reward,
            available=available, known=known_rows, state_names=labels, state_values=state_values,
            action_names=check_names(action_names, A, "action_names"), units=units, noise=noise, further=table.further,
            terminal=terminal_values(terminal, S, labels), words=check_words(words),
        )  # fmt: skip
        check_actions(self, mentioned)

    # -- a frozen record --------------------------------------------------------------------------------------------

    def _store(self, **fields: Any) -> None:
        """Set all fields once: arrays become read-only, and no derived values are stored yet."""
        for name, value in ({"_per_model": {}, "_per_structure": {}} | fields).items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an MDP is frozen; build a new one to change {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an MDP is frozen; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        return {slot: getattr(self, slot) for slot in MDP.__slots__ if slot not in ("_per_model", "_per_structure")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store(**state)

    def __deepcopy__(self, memo: Any = None) -> MDP:
        return self  # a frozen model needs no copy

    __copy__ = __deepcopy__

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per outcome: stage (from 1; left out if all stages are the same), state, action and so on.

        Rewards of the last stage include terminal values. With further outcomes there is one dict per case of an outcome.
        """
        further = self.further
        fixed = self.stationary and len(self.reward) == 1 and (further is None or further.stages == 1)
        rows = []
        for h, s, a in np.ndindex(1 if fixed else self.H, self.S, self.A):
            where = ({} if fixed else {"stage": h + 1}) | {"state": self.state_label(s), "action": self.action_label(a)}
            first = self.row_start[((0 if self.stationary else h) * self.S + s) * self.A + a]
            for i, (t, p, r) in enumerate(
                zip(*(column.tolist() for column in self.outcomes(h, s, a)), strict=True), first
            ):
                row = where | {"next_state": self.state_label(t), "probability": p, "reward": r}
                rows += [row] if further is None else [row | case for case in further.rows(i, p, h)]
        return rows

    def __repr__(self) -> str:
        names, possible = self.state_names, np.flatnonzero(self.mu)
        start = f"law over {possible.size} states" if possible.size > 1 else str(possible[0])
        if names and possible.size == 1 and (names[0], names[-1]) == ("1", str(self.S)):
            start = repr(names[possible[0]])  # ids count from 1, so the index could be taken for an id
        extras = ", stationary" if self.stationary else ""
        extras += f", discount={self.discount:g}" if self.discount < 1 else ""
        return f"MDP(H={self.H}, S={self.S}, A={self.A}, start={start}, {self.successor.size} transitions{extras})"

    # -- views ------------------------------------------------------------------------------------------------------

    @property
    def stationary(self) -> bool:
        """Whether all stages share one stored kernel."""
        return self.available.shape[0] == 1

    @property
    def start(self) -> int:
        """The first state, if it is fixed."""
        if np.count_nonzero(self.mu) > 1:
            raise ModelError("expected a fixed first state, got a law over states; read mdp.mu", name="start")
        return int(self.mu.argmax())

    @property
    def reward(self) -> FloatArray:
        """Reward of every outcome, (1, nnz), or (H, nnz) if the rewards of a stationary kernel differ by stage.

        The rewards of the last stage include the terminal values, discounted by one stage.
        """
        return self.own_reward if self.terminal is None else self._add_terminal()

    @property
    def row_reward(self) -> FloatArray | None:
        """Reward of every row, (1 or H, S, A), if all outcomes of each row have the same reward."""
        return self._row_reward if self.terminal is None else None

    @property
    def rewards_by_row(self) -> FloatArray | None:
        """The rewards as `row_reward`, without terminal values."""
        return self._row_reward

    @property
    def own_reward(self) -> FloatArray:
        """The rewards as `reward`, without terminal values."""
        return self._reward if self._reward is not None else self._expand_rewards()

    @per_structure
    def _expand_rewards(self) -> FloatArray:
        assert self._row_reward is not None
        by_row = self._row_reward.reshape(-1, self.row_start.size - 1)
        return np.repeat(by_row, np.diff(self.row_start), axis=1)

    @per_structure
    def _add_terminal(self) -> FloatArray:
        own, (k, _, _) = self.own_reward, self.available.shape
        full = np.array(np.broadcast_to(own, (self.H if k == 1 else 1, own.shape[1])), order="C")
        last = slice(self.row_start[(k - 1) * self.S * self.A], None)
        full[-1, last] = self._last_rewards()
        return full

    @per_structure
    def _last_rewards(self) -> FloatArray:
        """Return the rewards of the outcomes of the last stage, with the terminal values of their successors."""
        assert self.terminal is not None
        last = slice(self.row_start[-1 - self.S * self.A], None)
        return self.own_reward[-1, last] + self.discount * self.terminal[self.successor[last]]

    @property
    @per_structure
    def paid(self) -> Paid:
        """The rewards, as a policy that tracks them remembers them."""
        return Paid(S=self.S, A=self.A, row_start=self.row_start, successor=self.successor, reward=self.reward)

    @property
    def outcome_names(self) -> tuple[str, ...]:
        """Names of the further outcomes."""
        return () if self.further is None else tuple(self.further.values)

    def stage(self, h: int) -> Stage:
        """Return views of the outcomes, rewards and actions of stage `h`."""
        k, rows = (0 if self.stationary else h), self.S * self.A
        starts = self.row_start[k * rows : (k + 1) * rows + 1]
        here = slice(starts[0], starts[-1])
        own = starts - starts[0] if starts[0] else starts
        own.flags.writeable = False  # read-only like the first stage, so that loops are compiled once
        rewards, by_row = self.own_reward, self._row_reward
        salvage = self.terminal is not None and h == self.H - 1
        return Stage(
            row_start=own,
            successor=self.successor[here],
            probability=self.probability[here],
            reward=self._last_rewards() if salvage else rewards[h if len(rewards) > 1 else 0, here],
            row_reward=None if by_row is None or salvage else by_row[h if len(by_row) > 1 else 0],
            available=self.available[k],
        )

    def outcomes(self, h: int, s: int, a: int) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
        """Return the successors, probabilities and rewards of one row."""
        if not (0 <= h < self.H and 0 <= s < self.S and 0 <= a < self.A):
            last = (self.H - 1, self.S - 1, self.A - 1)
            raise IndexError(f"(stage, state, action) must be from (0, 0, 0) to {last}, got {(h, s, a)}")
        q = ((0 if self.stationary else h) * self.S + s) * self.A + a
        here = slice(self.row_start[q], self.row_start[q + 1])
        rewards = self.reward
        return self.successor[here], self.probability[here], rewards[h if len(rewards) > 1 else 0, here]

    def dense(self, h: int) -> FloatArray:
        """Return the kernel of stage `h` as a matrix (S*A, S); outcomes with the same successor add up."""
        return self._dense_kernel(0 if self.stationary else h)

    @per_model
    def _dense_kernel(self, k: int) -> FloatArray:
        stage, matrix = self.stage(k), np.zeros((self.S * self.A, self.S))
        rows = np.repeat(np.arange(self.S * self.A), np.diff(stage.row_start))
        np.add.at(matrix, (rows, stage.successor), stage.probability)
        return matrix

    @property
    def max_outcomes(self) -> int:
        """The largest number of outcomes of one row."""
        return int(np.diff(self.row_start).max())

    @property
    @per_structure
    def reachable(self) -> BoolArray:
        """Whether each state can be reached at each stage, shape (H + 1, S)."""
        met = np.zeros((self.H + 1, self.S), bool)
        met[0] = self.mu > 0
        # if the states of a stage contain those before it, only the new ones need following
        fresh, grows = met[0], False
        for h in range(self.H):
            stage = self.stage(h)
            rows = (np.flatnonzero(fresh)[:, None] * self.A + np.arange(self.A)).reshape(-1)
            met[h + 1, stage.successor[stage.outcomes_of(rows, listed=True)[1]]] = True
            if self.stationary:
                met[h + 1] |= met[h] & grows
                if np.array_equal(met[h], met[h + 1]):
                    met[h + 2 :] = met[h]
                    break
                grows = not np.any(met[h] & ~met[h + 1])
            fresh = met[h + 1] & ~met[h] if grows else met[h + 1]
        return met

    @property
    def unreachable_states(self) -> list[int]:
        """States that cannot be reached at any stage: harmless, but often a mistake in the model."""
        return np.flatnonzero(~self.reachable.any(axis=0)).tolist()

    @property
    def structure(self) -> Structure:
        """The part of the kernel that learners may see."""
        hidden = np.repeat(~self.known.reshape(-1), np.diff(self.row_start))
        shown = np.where(hidden, np.nan, self.probability)
        shared = ("H", "S", "A", "mu", "row_start", "successor", "available", "known")
        return Structure(probability=shown, **{name: getattr(self, name) for name in shared})

    # -- names ------------------------------------------------------------------------------------------------------

    def state_label(self, s: int) -> str:
        """Return the state's name, or its number."""
        return self.state_names[s] if self.state_names else str(s)

    def action_label(self, a: int) -> str:
        """Return the action's name, or its number."""
        return self.action_names[a] if self.action_names else str(a)

    # -- variants ---------------------------------------------------------------------------------------------------

    def with_probability(self, probability: FloatArray) -> MDP:
        """Return the same problem with new probabilities of the same outcomes; outcomes of probability 0 stay possible."""
        probability = np.array(probability, dtype=np.float64)
        if probability.shape != self.successor.shape:
            raise bad_value("probability", probability, f"have shape {self.successor.shape}", probability.shape)
        probability = replace(self._table(), probability=probability).normalise()
        noise = self.noise and self.noise.hidden
        return self._twin(probability=probability, noise=noise, _per_structure=self._per_structure)

    def with_noise(self, noise: SharedNoise | None) -> MDP:
        """Return the same problem with the given shared noise; None removes it."""
        if not isinstance(noise, SharedNoise | None):
            raise bad_type("noise", noise, "be the SharedNoise of a model or None", type(noise).__name__)
        if noise is not None:
            noise.check(self.row_start, self.probability)
        return self._twin(noise=noise, _per_structure=self._per_structure)

    def staged(self) -> MDP:
        """Return the same problem with one stored kernel per stage, so that stages can be changed separately."""
        if not self.stationary or self.H == 1:
            return self
        H, needed = self.H, self.H * max(self.row_start.size - 1, self.successor.size)
        if needed > MAX_ID:
            rule = f"a kernel per stage must have at most {MAX_ID} rows and transitions"
            message = f"{rule}, got {needed}; give a shorter horizon"
            raise SizeError(message, needed=needed, limit=MAX_ID, name="horizon")

        def per_stage(array: Any) -> Any:
            return None if array is None else np.array(np.broadcast_to(array, (H, *array.shape[1:])), order="C")

        return self._twin(
            row_start=tile_starts(self.row_start, H), successor=np.tile(self.successor, H),
            probability=np.tile(self.probability, H), _row_reward=per_stage(self._row_reward),
            _reward=None if self._reward is None else per_stage(self._reward).reshape(1, -1),
            available=per_stage(self.available), known=per_stage(self.known), noise=self.noise and self.noise.staged(H),
            further=self.further and self.further.staged(H),
        )  # fmt: skip

    def replace(self, *, start: Any = None, horizon: int | None = None, discount: float | None = None) -> MDP:
        """Return the same problem with another start or discount, or another horizon if kernel and rewards are stationary.

        Terminal values are paid after the last stage of the new horizon.
        """
        fixed = self.stationary and len(self.own_reward) == 1 and (self.further is None or self.further.stages == 1)
        if horizon is not None and horizon != self.H and not fixed:
            raise bad_value("horizon", horizon, f"be {self.H} for a model whose stages differ")
        twin = self._twin(
            H=self.H if horizon is None else check_horizon(horizon, self.S),
            mu=self.mu if start is None else start_law(start, self.S, self.state_names),
            discount=self.discount if discount is None else check_discount(discount),
        )
        twin._table().check_rewards(twin.H)
        check_actions(twin)
        return twin

    def _twin(self, **changed: Any) -> MDP:
        """Return a copy with the changed fields."""
        twin = MDP.__new__(MDP)
        twin._store(**self.__getstate__() | changed)
        return twin

    def _table(self) -> Table:
        """Return the outcomes as a table."""
        return Table(
            S=self.S, A=self.A, K=self.available.shape[0], row_start=self.row_start, successor=self.successor,
            probability=self.probability, reward=self._reward, row_reward=self._row_reward, further=self.further,
        )  # fmt: skip

    # -- files, environments ----------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, plain: bool = False) -> None:
        """Write the model to .csv, .csv.gz, .npz or .json; see `bqrl.save`."""
        files.save_model(self, path, plain=plain)

    def as_env(self, **options: Any) -> as_env.MDPEnv:
        """Return a Gymnasium environment that plays this problem."""
        return as_env.MDPEnv(self, **options)


def check_mdp(given: Any, name: str = "mdp") -> MDP:
    """Return `given` if it is an MDP, or the problem of that name; raise ArgumentTypeError or ArgumentError otherwise."""
    if isinstance(given, str):
        return as_env.named_model(given, name)
    if not isinstance(given, MDP):
        remedy = "build one with bqrl.MDP, bqrl.load, bqrl.envs.make or bqrl.from_gymnasium"
        remedy = as_env.GYMNASIUM if isinstance(given, gym.Env) else remedy
        if not getattr(type(given), "stored", True):  # a StepModel
            remedy = "this function needs the transitions; build the model with stored=True"
        raise bad_type(name, given, "be an MDP", type(given).__name__, remedy=remedy)
    return given
