"""Policies: an action for each (stage, state, memory), and a memory that is updated after each transition.

Quantile-optimal policies depend on more than the state, so every policy carries a small memory:

    memory = policy.start()
    action = policy.act(h, s, memory)
    memory = policy.next(memory, h, s, action, reward, s_next)

There are six kinds: Markov (no memory), stochastic (action probabilities, no memory), target (the amount still needed),
label graph (the paper's recursive label), scalar quantile level (the paper's pi[mu, Gamma]), and mixture (one of several
policies, drawn at the start).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import flag, random_seed, shown, wrong_type
from bqrl.display import Displayed, frame, views
from bqrl.errors import PolicyError
from bqrl.kernels.draws import draw
from bqrl.kernels.layout import Tables
from bqrl.kernels.tolerance import MASS_TOL, SUM_TOL
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.files import write_arrays
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.shares import check_shares
from bqrl.mdp.unroll import Acting, graph_arrays, markov_actions

ActionArray = NDArray[np.signedinteger[Any]]


def action_dtype(A: int) -> type[np.int16] | type[np.int32]:
    """Return the integer type of tables with `A` actions: 16 bits where they fit."""
    return np.int16 if A <= 2**15 else np.int32


class Policy(Displayed, Acting):
    """The protocol of every policy: an action for each stage, state and memory.

    Planners make policies: `plan.policy` and `curve.policy(tau)`. A policy of your own needs `act` and, if it has a memory,
    `start` and `next`. Files hold the six kinds of this module only: `policy.to_labels(mdp).save(path)` saves another one.

    Attributes
    ----------
    H, S : int
        Numbers of stages and states, which must be those of the problem; 0 if the policy does not state them.
    kind : str
        "markov", "stochastic", "target", "label", "quantile-level" or "mixture"; "custom" for a policy of your own.

    Examples
    --------
    >>> import bqrl
    >>> class First(bqrl.Policy):
    ...     def act(self, h, s, memory):
    ...         return 0
    >>> bqrl.evaluate(bqrl.envs.make("SafeOrRisky"), First()).quantile(0.1)
    10.0
    """

    kind: ClassVar[str] = "custom"
    H: int = 0
    S: int = 0

    def start(self, u: float | None = None) -> Any:
        """Memory before the first stage.

        Parameters
        ----------
        u : float, optional
            A uniform draw from [0, 1), which a mixture uses to choose its policy; by default it draws its own.

        Returns
        -------
        memory
            What the policy remembers; None if it needs no memory.
        """
        return None

    @abstractmethod
    def act(self, h: int, s: int, memory: Any) -> int:
        """Action of the policy.

        Parameters
        ----------
        h, s : int
            Stage and state, both counted from 0.
        memory
            The memory that `start` or the last call of `next` returned.

        Returns
        -------
        int
            Index of the action.
        """

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Memory after a transition.

        Parameters
        ----------
        memory
            The memory before the transition.
        h, s, action, reward, s_next
            Stage, state, action, reward (not discounted) and next state of the transition.

        Returns
        -------
        memory
            The memory at stage h + 1.
        """
        return memory

    def _check(self, h: int, s: int, memory: Any) -> None:
        """Raise PolicyError if stage, state or memory is not valid; a negative index would count from the end."""
        for name, given, size in (("h", h, self.H), ("s", s, self.S)):
            if not hasattr(given, "__index__") or not 0 <= given < size:
                rule = f"{name} must be a whole number from 0 to {size - 1}"
                raise PolicyError(f"{rule}, got {shown(given)}", stage=h, state=s)
        if memory is None or memory != memory:  # nothing, or nan
            raise PolicyError(
                f"expected a memory of this policy, got {memory}; begin with memory = policy.start()", stage=h, state=s
            )

    def arrays(self) -> dict[str, Any]:
        """The policy as plain arrays; a custom policy has none."""
        return {}

    def save(self, path: str | Path) -> None:
        """Write the policy to an .npz file, whole or not at all; PolicyError if it is a custom policy."""
        write_arrays(path, file_arrays(self))

    def rows(self, mdp: MDP) -> list[dict[str, Any]]:
        """One row per decision, including those that cannot occur: the same as `table(mdp, reachable=False)`."""
        return self.table(mdp, reachable=False)

    def table(
        self, mdp: MDP, reachable: bool = True, min_probability: float = 0.0, *, wide: bool = False
    ) -> list[dict[str, Any]]:
        """The decisions of the policy as rows, with the names of the problem; stages are counted from 1.

        Parameters
        ----------
        mdp
            The problem that the policy is for.
        reachable
            List only decisions that can occur under the policy, each with its probability and the rewards collected so
            far; neighbouring rows with the same action are merged. False lists every state that some policy can meet
            at a stage; label graphs and custom policies have decisions only for what they can meet themselves.
        min_probability
            Leave out decisions that occur with a smaller probability.
        wide
            One row per state and one column per stage, None where no decision is listed. PolicyError if an action
            depends on more than these two.

        Returns
        -------
        list of dict
            One dict per decision, of a `LabelPolicy` one per outcome of it; `bqrl.planners.decisions` explains how to
            follow the rows without bqrl.

        Examples
        --------
        >>> import bqrl
        >>> mdp = bqrl.envs.make("AssetSelling")
        >>> bqrl.solve(mdp, 0.1).policy.table(mdp)[0]["action"]
        'Continue'
        """
        if flag(wide, "wide"):
            return views().wide_rows(self, mdp, reachable=reachable, min_probability=min_probability)
        return views().decision_rows(self, mdp, reachable=reachable, min_probability=min_probability)

    def to_frame(self, mdp: MDP, **options: Any) -> Any:
        """The rows of `table` as a pandas DataFrame."""
        return frame(self.table(mdp, **options))

    def to_markov(self, mdp: MDP) -> MarkovPolicy:
        """The same policy without memory; PolicyError if its action in a (stage, state) of `mdp` depends on the memory."""
        if isinstance(self, MarkovPolicy):
            return self
        _check_unrolled(self, mdp)
        return MarkovPolicy(markov_actions(self, mdp))

    def to_labels(self, mdp: MDP) -> LabelPolicy:
        """The same policy as a label graph over the histories that `mdp` can produce."""
        if isinstance(self, LabelPolicy):
            return self
        _check_unrolled(self, mdp)
        return label_graph(self, mdp)


class MarkovPolicy(Policy):
    """Action by stage and state; the policy has no memory.

    The planners "expected" and "greedy" return one, and `policy.to_markov(mdp)` does if the memory is never used.

    Parameters
    ----------
    actions : array_like of int, shape (H, S)
        Indices of actions.

    Attributes
    ----------
    actions : ndarray of shape (H, S)
        The same, read-only.

    Examples
    --------
    >>> MarkovPolicy([[0, 1], [1, 1]]).act(0, 1)
    1
    """

    kind = "markov"

    def __init__(self, actions: Any) -> None:
        table = np.asarray(actions)
        if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iu" or table.min() < 0:
            raise PolicyError(
                f"actions must be whole numbers from 0 in shape (H, S), got {table.shape} of {table.dtype}"
            )
        small = table.dtype == np.int16  # as compiled loops write it
        self.actions: ActionArray = read_only(table.astype(np.int16 if small else action_dtype(int(table.max()) + 1)))
        self.H, self.S = table.shape

    def act(self, h: int, s: int, memory: Any = None) -> int:
        """Action at stage `h` in state `s`."""
        self._check(h, s, 0)
        return int(self.actions[h, s])

    def start_many(self, u: FloatArray) -> Any:
        """No memory."""
        return None

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Actions of many episodes."""
        return self.actions[h, s].astype(np.int64)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """No memory."""
        return None

    def arrays(self) -> dict[str, Any]:
        """The action table."""
        return {"actions": self.actions}

    def __repr__(self) -> str:
        return f"MarkovPolicy(H={self.H}, S={self.S})"


class StochasticPolicy(Policy):
    """Action probabilities by stage and state; the policy has no memory.

    `evaluate`, `simulate` and the scores of `learn` average over the draws exactly; only `act` draws. A learner returns one
    from `plan` to explore, or from `evaluated` to be scored by its draws.

    Parameters
    ----------
    probabilities : array_like of float, shape (H, S, A)
        Probability of each action, which sum to 1 up to 1e-6; all 0 in a state that is never met.
    seed : int or None
        Seed of the draws of `act`; None draws fresh entropy.

    Attributes
    ----------
    probabilities : ndarray of shape (H, S, A)
        The same, read-only.

    Examples
    --------
    >>> import bqrl
    >>> bqrl.evaluate(bqrl.envs.make("SafeOrRisky"), bqrl.StochasticPolicy([[[0.5, 0.5]]] * 10)).quantile(0.1)
    9.0
    """

    kind = "stochastic"

    def __init__(self, probabilities: Any, seed: int | None = 0) -> None:
        try:
            given = np.asarray(probabilities)
        except ValueError:  # nested lists of different lengths
            given = np.asarray(None)
        if given.dtype.kind not in "fiu":
            raise wrong_type("probabilities", probabilities, "be an array of numbers", type(probabilities).__name__)
        if given.ndim != 3 or given.size == 0:
            raise PolicyError(f"probabilities must have shape (H, S, A), got {given.shape}")
        table = np.array(given, dtype=np.float64)
        check_shares(table, np.ones(table.shape, bool), np.any(table, axis=2))
        self._hold(table, random_seed(seed))

    @classmethod
    def unchecked(cls, probabilities: FloatArray) -> StochasticPolicy:
        """The policy of probabilities that compiled loops computed, without a copy: learners make one per episode."""
        policy = cls.__new__(cls)
        policy._hold(probabilities, 0)
        return policy

    def _hold(self, table: FloatArray, seed: int) -> None:
        self.probabilities: FloatArray = read_only(table)
        self.H, self.S = table.shape[:2]
        self._seed = seed

    @cached_property
    def _coin(self) -> np.random.Generator:
        """The stream of `act`; engines never use it."""
        return np.random.default_rng(self._seed)

    def act(self, h: int, s: int, memory: Any = None) -> int:
        """Action drawn at stage `h` in state `s`, from the policy's own stream."""
        self._check(h, s, 0)
        shares = self.probabilities[h, s].tolist()
        if not any(shares):
            raise PolicyError(
                f"expected a state with action probabilities, got state {s} at stage {h + 1}", stage=h, state=s
            )
        return draw(shares, 0, len(shares), self._coin.random())

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Refused: a pass over histories would take one draw for the policy."""
        raise _no_draws()

    def arrays(self) -> dict[str, Any]:
        """The probabilities."""
        return {"probabilities": self.probabilities}

    def __repr__(self) -> str:
        return f"StochasticPolicy(H={self.H}, S={self.S}, A={self.probabilities.shape[2]})"


class TargetPolicy(Policy):
    """Action by stage, state and the amount still needed to reach a target; made by the planner "target".

    The memory is the remaining need, discounted to stage 0: target minus the discounted rewards so far. On a rounded
    grid the rounded rewards are subtracted, so that the return law of the policy can be bracketed.

    Attributes
    ----------
    target : float
        The return that the policy tries to reach, in the unit of the rewards; the first memory.
    grid : Grid
        The amounts that can be needed at each stage.
    actions : tuple of H ndarrays of shape (S, columns)
        The action for each state and amount; `column(h, need)` is the column of an amount.
    extra : int
        Number of columns for amounts above the highest return.

    Examples
    --------
    >>> import bqrl
    >>> policy = bqrl.solve(bqrl.envs.make("SafeOrRisky"), tau=0.1).policy
    >>> need = policy.start()
    >>> action = policy.act(0, 0, need)
    >>> need, policy.next(need, 0, 0, action, reward=3.0, s_next=0)
    (12.0, 9.0)
    """

    kind = "target"

    def __init__(self, grid: Grid, actions: Sequence[ActionArray] | Tables, target: float, extra: int = 1) -> None:
        self.grid, self.target, self.extra = grid, float(target), int(extra)
        if isinstance(actions, Tables):
            self.tables = actions
            self.H, self.S = actions.begin.size - 1, int(actions.begin[1]) // (int(grid.size[0]) + self.extra)
        else:
            self.actions = tuple(map(read_only, actions))
            self.H, self.S = len(self.actions), int(self.actions[0].shape[0])

    def start(self, u: float | None = None) -> float:
        """The first need, which is the target."""
        return self.target

    @cached_property
    def actions(self) -> tuple[ActionArray, ...]:
        """The action tables, one per stage (S, columns)."""
        table, begin = self.tables
        return tuple(table[i:j].reshape(self.S, -1) for i, j in pairwise(begin.tolist()))

    @cached_property
    def tables(self) -> Tables:
        """The tables of all stages one after the other, as compiled loops read them."""
        table = read_only(np.concatenate([actions.reshape(-1) for actions in self.actions]))
        return Tables(table, read_only(np.cumsum([0, *(actions.size for actions in self.actions)])))

    def column(self, h: int, need: Any) -> IntArray:
        """Column of the action table for the given needs."""
        return self.grid.column(h, need, self.extra)

    @cached_property
    def first_column(self) -> int:
        """Column of the target in the table of the first stage."""
        return int(self.column(0, self.target))

    def act(self, h: int, s: int, memory: Any) -> int:
        """Action for the remaining need `memory`."""
        self._check(h, s, memory)
        return int(self.actions[h][s, self.column(h, memory)])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> float:
        """The remaining need after the reward."""
        return float(self.grid.reduced(memory, h, reward))

    def start_many(self, u: FloatArray) -> Any:
        """Needs of many episodes."""
        return np.full(u.shape, self.target)

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Actions of many episodes."""
        return self.actions[h][s, self.column(h, memory)].astype(np.int64)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """Needs after one more stage."""
        return self.grid.reduced(memory, h, reward)

    def arrays(self) -> dict[str, Any]:
        """The action tables, the grid's columns and the rewards that they were planned for."""
        flat = {"target": np.array(self.target), "extra": np.array(self.extra), **self.grid.arrays()}
        flat |= {"paid_shape": np.zeros(2, np.int64)} if self.grid.paid is None else self.grid.paid.arrays()
        return flat | {f"actions_{h}": table for h, table in enumerate(self.actions)}

    def __repr__(self) -> str:
        return f"TargetPolicy(target={self.target:g}, H={self.H}, S={self.S}, {self.grid.kind})"


class LabelPolicy(Policy):
    """The paper's recursive label as a graph of n nodes: each has an action, and each outcome leads to the next node.

    The planners "frontier" and "capped-frontier" return one, and `policy.to_labels(mdp)` converts any policy without a random
    draw. The memory is the current node, -1 before the first stage.

    Attributes
    ----------
    root : ndarray of shape (S,)
        First node of every first state; -1 for other states.
    action : ndarray of shape (n,)
        Action of every node.
    child_start : ndarray of shape (n + 1,)
        The outcomes of node v are the entries child_start[v] to child_start[v + 1] - 1 of the next three arrays.
    successor, reward, child : ndarrays
        Next state and reward of every outcome, and the node that follows; -1 after the last stage.

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("SafeOrRisky")
    >>> bqrl.solve(mdp, tau=0.1).policy.to_labels(mdp).kind
    'label'
    """

    kind = "label"
    stored = ("root", "action", "child_start", "successor", "reward", "child")

    def __init__(
        self, H: int, root: IntArray, action: IntArray, child_start: IntArray, successor: IntArray, reward: FloatArray,
        child: IntArray,
    ) -> None:  # fmt: skip
        self.H, self.S = H, root.size
        self.root, self.action, self.child_start = read_only(root), read_only(action), read_only(child_start)
        self.successor, self.reward, self.child = read_only(successor), read_only(reward), read_only(child)

    def start(self, u: float | None = None) -> int:
        """No node yet (-1): the first state determines the first node."""
        return -1

    def node(self, s: int, memory: int) -> int:
        """The current label."""
        v = int(self.root[s]) if memory < 0 else memory
        if v < 0:
            raise PolicyError(f"expected a first state of this label policy, got state {s}", stage=0, state=s)
        return v

    def act(self, h: int, s: int, memory: Any) -> int:
        """Action of the current label."""
        self._check(h, s, memory)
        return int(self.action[self.node(s, memory)])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> int:
        """Continuation label of the outcome (s_next, reward)."""
        v = self.node(s, memory)
        here = slice(self.child_start[v], self.child_start[v + 1])
        misses = np.abs(self.reward[here] - reward) + np.where(self.successor[here] == s_next, 0.0, np.inf)
        if misses.size == 0 or not np.isfinite(misses.min()):
            message = f"h={h}: expected a successor of state {s} under the current label, got state {s_next}"
            raise PolicyError(message, stage=h, state=s)
        return int(self.child[here][misses.argmin()])

    def arrays(self) -> dict[str, Any]:
        """The graph."""
        return {"H": np.array(self.H), **{name: getattr(self, name) for name in self.stored}}

    def __repr__(self) -> str:
        return f"LabelPolicy(H={self.H}, S={self.S}, {self.action.size} labels)"


class QuantileLevelPolicy(Policy):
    """The paper's pi[mu, Gamma]: the memory is a quantile level q that starts at tau and is a martingale.

    `curve.level_policy(tau)` makes it from a sweep: the level of need n is q = W_h(s, n) + margin, where W is the
    smallest probability of missing the need and margin = tau - W_0(start, x). mu acts for the largest need whose level
    is at most q; Gamma is the level of the need that remains. If several needs share a level, the largest one is
    followed, and a need whose level would exceed 1 is abandoned although it may still be met. In these cases the policy
    may differ from the target policy on which it is based and fall short more often, but never so often that its
    quantile decreases.

    Corrected: a level must lie in [0, 1], so q is clipped at 1. It is a martingale until the need is almost certainly
    missed, and in general a supermartingale.

    Attributes
    ----------
    tau, margin : float
        The level, and its distance above the shortfall of the target.
    targets : TargetPolicy
        The target policy on which it is based.
    shortfall : tuple of H + 1 ndarrays of shape (S, columns)
        W for each state and amount still needed.

    Examples
    --------
    >>> import bqrl
    >>> policy = bqrl.guarantee_curve(bqrl.envs.make("SafeOrRisky"), keep=True).level_policy(0.1)
    >>> policy.start()
    0.1
    """

    kind = "quantile-level"

    def __init__(self, targets: TargetPolicy, shortfall: Sequence[FloatArray], tau: float, margin: float) -> None:
        self.targets, self.shortfall = targets, tuple(map(read_only, shortfall))  # H + 1 arrays (S, columns)
        self.tau, self.margin = float(tau), float(margin)
        self.H, self.S = targets.H, targets.S

    def start(self, u: float | None = None) -> float:
        """The level tau."""
        return self.tau

    def _column(self, h: int, s: int, q: float) -> int:
        levels = self.shortfall[h][s] + self.margin
        if h == 0:  # tau if the first state is fixed; if it is random, each first state has its own level
            q = float(levels[self.targets.first_column])
        return max(0, int(np.searchsorted(levels, q + MASS_TOL, side="right")) - 1)

    def act(self, h: int, s: int, memory: Any) -> int:
        """mu_h(s, q)."""
        self._check(h, s, memory)
        return int(self.targets.actions[h][s, self._column(h, s, memory)])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> float:
        """Gamma_h(s, q, a, s_next): the level of the remaining need."""
        grid, column = self.targets.grid, self._column(h, s, memory)
        points = grid.points(h)
        if column >= points.size:
            return 1.0
        need = grid.reduced(float(points[column]), h, reward)
        after = grid.column(h + 1, need, self.targets.extra)
        return float(min(1.0, self.shortfall[h + 1][s_next, after] + self.margin))

    def arrays(self) -> dict[str, Any]:
        """The target policy, the shortfalls and the level."""
        flat = {f"target_{key}": value for key, value in self.targets.arrays().items()}
        flat |= {f"shortfall_{h}": table for h, table in enumerate(self.shortfall)}
        return flat | {"tau": np.array(self.tau), "margin": np.array(self.margin)}

    def __repr__(self) -> str:
        return f"QuantileLevelPolicy(tau={self.tau:g}, H={self.H}, S={self.S})"


class MixturePolicy(Policy):
    """One of several policies, drawn once before the first stage; `solve(..., randomized=True)` may return one.

    The memory is the index of the policy that was drawn, with the memory of that policy.

    Parameters
    ----------
    policies : sequence of Policy
        The policies.
    weights : array_like of float
        Their probabilities, which sum to 1; the attributes `policies` and `weights` hold both.
    seed : int or None
        Seed of the draws of `start()`; None draws fresh entropy. `start(u)` draws by the uniform number u.

    Examples
    --------
    >>> mixture = MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[1]])], [0.25, 0.75])
    >>> mixture.act(0, 0, mixture.start(0.5))
    1
    """

    kind = "mixture"

    def __init__(self, policies: Sequence[Policy], weights: Any, seed: int | None = 0) -> None:
        if not isinstance(policies, Sequence) or not all(isinstance(policy, Policy) for policy in policies):
            raise wrong_type("policies", policies, "be a list of policies")
        self.policies = tuple(policies)
        try:
            self.weights: FloatArray = read_only(np.array(weights, dtype=np.float64))
        except (TypeError, ValueError, OverflowError):
            raise wrong_type("weights", weights, "hold one number per policy") from None
        if not self.policies or self.weights.shape != (len(self.policies),):
            rule = f"hold one number per policy ({len(self.policies)})"
            raise PolicyError(f"weights must {rule}, got shape {self.weights.shape}")
        if np.any(self.weights < 0) or not abs(self.weights.sum() - 1.0) <= SUM_TOL:
            raise PolicyError(f"weights must be probabilities that sum to 1, got {shown(self.weights.tolist())}")
        sizes = sorted({(policy.H, policy.S) for policy in self.policies} - {(0, 0)})
        if len(sizes) > 1:
            raise PolicyError(f"the policies of a mixture must have the same (H, S), got {sizes[0]} and {sizes[1]}")
        self.H, self.S = sizes[0] if sizes else (0, 0)
        self._coin = np.random.default_rng(random_seed(seed))  # used only if start() is called without u

    def drawn(self, u: float) -> tuple[int, float]:
        """Index of the policy that the uniform number `u` draws, and a uniform number for a mixture within it."""
        i = draw(self.weights.tolist(), 0, self.weights.size, u)
        rest = (u - float(self.weights[:i].sum())) / float(self.weights[i])
        return i, min(max(rest, 0.0), np.nextafter(1.0, 0.0))

    def start(self, u: float | None = None) -> tuple[int, Any]:
        """Index of the policy that is drawn, and its memory."""
        i, rest = self.drawn(self._coin.random() if u is None else u)
        part = self.policies[i]
        return i, part.start(rest) if isinstance(part, MixturePolicy) else part.start()

    def start_many(self, u: FloatArray) -> Any:
        """Memories of many episodes before the first stage."""
        return [self.start(float(x)) for x in u]

    def act(self, h: int, s: int, memory: Any) -> int:
        """Action of the policy that was drawn."""
        self._check(h, s, memory)
        return self.policies[memory[0]].act(h, s, memory[1])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> tuple[int, Any]:
        """Memory of the policy that was drawn."""
        return memory[0], self.policies[memory[0]].next(memory[1], h, s, action, reward, s_next)

    def arrays(self) -> dict[str, Any]:
        """The weights and every part."""
        flat: dict[str, Any] = {"weights": self.weights}
        for i, policy in enumerate(self.policies):
            flat |= {f"part{i}_{key}": value for key, value in file_arrays(policy).items()}
        return flat

    def __repr__(self) -> str:
        shares = ", ".join(f"{w:.4g} x {policy!r}" for w, policy in zip(self.weights, self.policies, strict=True))
        return f"MixturePolicy({shares})"


MAX_STORED_MOVES = 200_000  # per stage of a custom policy: about a second, spent whenever a record is stored
STORED = (  # what files can hold
    MarkovPolicy, StochasticPolicy, TargetPolicy, LabelPolicy, QuantileLevelPolicy, MixturePolicy,
)  # fmt: skip


def file_arrays(policy: Policy) -> dict[str, Any]:
    """The arrays of a policy's file; PolicyError for a custom policy, which no file could give back."""
    if type(policy) not in STORED:
        got = f"got {type(policy).__name__}, a custom policy"
        raise PolicyError(f"the policy must be of a class of bqrl to be stored, {got}; use policy.to_labels(mdp)")
    return {"bqrl_policy": np.array(policy.kind), **policy.arrays()}


def storable(policy: Policy, mdp: MDP) -> Policy:
    """The policy in a form that files can hold: a custom policy becomes a graph of labels, SizeError if that takes long."""
    if isinstance(policy, MixturePolicy):
        return MixturePolicy([storable(part, mdp) for part in policy.policies], policy.weights)
    return policy if type(policy) in STORED else label_graph(policy, mdp, MAX_STORED_MOVES)


def check_fits(policy: Policy, mdp: MDP) -> None:
    """Raise PolicyError unless the policy has the stages and states of the problem."""
    if not isinstance(policy, Policy):
        remedy = "pass plan.policy" if type(policy).__name__ == "Plan" else ""
        raise wrong_type("policy", policy, "be a Policy", type(policy).__name__, remedy=remedy)
    if not isinstance(mdp, MDP):
        raise wrong_type("mdp", mdp, "be an MDP", type(mdp).__name__, remedy="pass the problem of the policy")
    if (policy.H or mdp.H, policy.S or mdp.S) != (mdp.H, mdp.S):
        got = f"H={policy.H} and S={policy.S}"
        raise PolicyError(
            f"the policy must have H={mdp.H} and S={mdp.S} as the problem, got {got}; plan on this problem"
        )


def label_graph(policy: Acting, mdp: MDP, max_moves: float = np.inf) -> LabelPolicy:
    """A policy with a hashable memory as a graph of labels: one node per reachable (stage, state, memory)."""
    return LabelPolicy(mdp.H, **graph_arrays(policy, mdp, max_moves))


def _check_unrolled(policy: Policy, mdp: MDP) -> None:
    """Raise PolicyError if the policy cannot be followed through the histories of the problem."""
    check_fits(policy, mdp)
    if isinstance(policy, MixturePolicy):
        raise PolicyError(
            "expected a policy without a random draw at the start, got a mixture; convert its parts instead"
        )
    if isinstance(policy, StochasticPolicy):
        raise _no_draws()


def _no_draws() -> PolicyError:
    """The error of a conversion that requires one action per history."""
    remedy = "convert MarkovPolicy(policy.probabilities.argmax(axis=2)) for its most probable actions"
    return PolicyError(f"expected a policy that draws no actions, got a stochastic policy; {remedy}")
