"""The protocol of every policy: an action for each (stage, state, memory), and a memory that is updated after each transition.

Quantile-optimal policies depend on more than the state, so every policy carries a small memory:

    memory = policy.start()
    action = policy.act(h, s, memory)
    memory = policy.next(memory, h, s, action, reward, s_next)

Each kind has a file: `markov` (no memory), `stochastic` (no memory; actions are drawn), `target` (the amount still needed),
`labels` (the paper's recursive label as a graph), `envelope` (a network on the amount still needed), `levels` (the paper's
pi[mu, Gamma]) and `mixture` (one of several policies, drawn at the start).
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from bqrl.checks import bad_type, choice, flag, one_line
from bqrl.display import Displayed, frame
from bqrl.errors import PolicyError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.files import write_arrays
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Fault

if TYPE_CHECKING:
    from bqrl.policies.labels import LabelPolicy
    from bqrl.policies.markov import MarkovPolicy


PLANNED, THIS_MODEL = "planned", "this model"  # whose rewards a policy that tracks rewards must meet


def action_index(action: Any, h: int | None, s: int | None, label: str = "", rule: str = "a whole number") -> int:
    """Return an action as an int; raise PolicyError unless it is a whole number, because 0.9 must not become action 0."""
    try:
        if isinstance(action, bool):
            raise TypeError
        found = operator.index(action)
        if abs(found) >= 2**62:
            raise TypeError
        return found
    except TypeError:
        where = f"in state {label or s}" + ("" if h is None else f" at stage {h + 1}")
        raise PolicyError(f"the action {where} must be {rule}, got {one_line(action)}", stage=h, state=s) from None


def is_vector(answer: Any) -> bool:
    """Return whether a policy has answered with one probability per action."""
    if isinstance(answer, (list, tuple)):
        return not any(isinstance(part, (np.ndarray, list, tuple)) for part in answer)
    return isinstance(answer, np.ndarray) and answer.ndim == 1


def as_decisions(answers: list[Any], h: int, s: list[Any], A: int | None = None) -> Any:
    """Return the answers of a policy in the states `s` as actions (n,) or, if some are vectors, as probabilities (n, A)."""
    sizes = {len(answer) for answer in answers if is_vector(answer)}
    if A is not None and (wrong := sizes - {A}):
        raise PolicyError(f"action probabilities must have {A} entries, got {min(wrong)}", stage=h)
    if not sizes:
        return np.array([action_index(a, h, x) for a, x in zip(answers, s, strict=True)], np.int64)
    if len(sizes) > 1:
        raise PolicyError(f"action probabilities must have one entry per action, got {sorted(sizes)} entries", stage=h)
    shares = np.zeros((len(s), *sizes))
    for row, answer, x in zip(shares, answers, s, strict=True):
        if not is_vector(answer):
            a = action_index(answer, h, x)
            if not 0 <= a < row.size:
                raise PolicyError(f"the action must be from 0 to {row.size - 1}, got {a}", stage=h, state=x, action=a)
            row[a] = 1.0
            continue
        try:
            row[:] = answer
        except (TypeError, ValueError):
            raise PolicyError(
                f"action probabilities must be numbers, got {one_line(answer)} in state {x} at stage {h + 1}",
                stage=h,
                state=x,
            ) from None
    return shares


class Names(NamedTuple):
    """The names that a policy follows in a model with other states or actions, or with the same ones in another order."""

    state_names: tuple[str, ...]
    action_names: tuple[str, ...]


class Policy(Displayed, ABC):
    """The protocol of every policy: an action for each stage, state and memory.

    Planners make policies: `plan.policy` and `curve.policy(tau)`. A policy of your own needs `act`, which returns an action or
    one probability per action, and, if it has a memory, `start` and `next`. Files store only the kinds of this package; save
    another policy with `policy.to_labels(mdp).save(path)`.

    Attributes
    ----------
    H, S : int
        Numbers of stages and states, which must be those of the problem; 0 if the policy does not state them.
    kind : str
        "markov", "stochastic", "target", "label", "quantile-level" or "mixture"; "custom" for a policy of your own.
    names : Names or None
        Names of the states and actions, if the policy follows them: a policy of an estimate can be played in any model that
        has these states and actions, also after it was saved alone.

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
    names: Names | None = None

    def start(self, u: float | None = None) -> Any:
        """Return the memory before the first stage.

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
    def act(self, h: int, s: int, memory: Any) -> Any:
        """Return the action of the policy, or one probability per action.

        Parameters
        ----------
        h, s : int
            Stage and state, both counted from 0.
        memory
            The memory that `start` or the last call of `next` returned.

        Returns
        -------
        int or array_like of float, shape (A,)
            Index of the action, or the probabilities with which it is drawn. Evaluation averages over such draws exactly.
        """

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Return the memory after a transition.

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

    def start_many(self, u: FloatArray) -> Any:
        """Return the memories of many episodes before the first stage; a mixture uses the uniform draws `u`."""
        return [self.start() for _ in u]

    def act_many(self, h: int, s: IntArray, memory: Any) -> Any:
        """Return the actions of many episodes (n,), or their action probabilities (n, A)."""
        states = s.tolist()
        return as_decisions([self.act(h, x, m) for x, m in zip(states, memory, strict=True)], h, states)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """Return the memories of many episodes after one more stage."""
        steps = zip(memory, s.tolist(), a.tolist(), reward.tolist(), s_next.tolist(), strict=True)
        return [self.next(m, h, x, y, r, z) for m, x, y, r, z in steps]

    def _check(self, h: int, s: int, memory: Any) -> None:
        """Raise PolicyError if stage, state or memory is not valid; a negative index would count from the end."""
        for name, given, size in (("h", h, self.H), ("s", s, self.S)):
            if not hasattr(given, "__index__") or not 0 <= given < size:
                rule = f"{name} must be a whole number from 0 to {size - 1}"
                raise PolicyError(f"{rule}, got {one_line(given)}", stage=h, state=s)
        if memory is None or memory != memory:  # None or NaN
            raise PolicyError(
                f"expected a memory of this policy, got {memory}; begin with memory = policy.start()", stage=h, state=s
            )

    def reward_fault(self, mdp: MDP) -> Fault | None:
        """Return a transition of `mdp` with another reward than the policy was planned for; None if it tracks no rewards."""
        return None

    def arrays(self) -> dict[str, Any]:
        """Return the policy as plain arrays; a custom policy has none."""
        return {}

    def file_arrays(self) -> dict[str, Any]:
        """Return the arrays of the policy's file; raise PolicyError for a custom policy, which files cannot store."""
        if is_custom(self):
            got = f"got {type(self).__name__}, a custom policy"
            raise PolicyError(f"the policy must be of a class of bqrl to be stored, {got}; use policy.to_labels(mdp)")
        named = {} if self.names is None else {name: np.array(part) for name, part in self.names._asdict().items()}
        return {"bqrl_policy": np.array(self.kind), **named, **self.arrays()}

    def save(self, path: str | Path) -> None:
        """Write the policy to an .npz file atomically; raise PolicyError if it is a custom policy."""
        write_arrays(path, self.file_arrays())

    def rows(self, mdp: MDP) -> list[dict[str, Any]]:
        """Return one row per decision, including those that cannot occur: the same as `table(mdp, reachable=False)`."""
        return self.table(mdp, reachable=False)

    def table(
        self, mdp: MDP, reachable: bool = True, min_probability: float = 0.0, *, wide: bool = False, rewards: str = PLANNED,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """Return the decisions of the policy as rows, with the names of the problem; stages are counted from 1.

        Parameters
        ----------
        mdp
            The problem that the policy is for.
        reachable
            List only decisions that can occur under the policy, each with its probability and the rewards collected so
            far; neighbouring rows with the same action are merged. False lists every state that some policy can reach
            at a stage; label graphs and custom policies only have the decisions that they can reach.
        min_probability
            Leave out decisions that occur with a smaller probability.
        wide
            Return one row per state and one column per stage, None where no decision is listed. PolicyError if an
            action depends on more than state and stage.
        rewards
            "this model" lets a policy that tracks rewards follow those of `mdp`; see `evaluate`.

        Returns
        -------
        list of dict
            One dict per decision, or one per outcome of a decision for a `LabelPolicy`; `bqrl.policies.tables` explains
            how to follow the rows without bqrl.

        Examples
        --------
        >>> import bqrl
        >>> mdp = bqrl.envs.make("AssetSelling")
        >>> bqrl.solve(mdp, 0.1).policy.table(mdp)[0]["action"]
        'Continue'
        """
        from bqrl.policies.tables import decision_rows, wide_rows

        rows = wide_rows if flag(wide, "wide") else decision_rows
        return rows(self, mdp, reachable=reachable, min_probability=min_probability, rewards=rewards)

    def to_frame(self, mdp: MDP, **options: Any) -> Any:
        """Return the rows of `table` as a pandas DataFrame."""
        return frame(self.table(mdp, **options))

    def to_markov(self, mdp: MDP, *, rewards: str = PLANNED) -> MarkovPolicy:
        """Return the policy without memory; raise PolicyError if an action depends on more than stage and state in `mdp`."""
        from bqrl.policies.markov import to_markov

        return to_markov(self, mdp, rewards)

    def to_labels(self, mdp: MDP, *, rewards: str = PLANNED) -> LabelPolicy:
        """Return the same policy as a label graph over the histories that `mdp` can produce."""
        from bqrl.policies.labels import label_graph

        return label_graph(self, mdp, rewards=rewards)

    def check_unrolled(self) -> None:
        """Raise PolicyError if actions do not follow from the history; policies that draw at random override this."""


def check_fits(policy: Policy, mdp: MDP) -> None:
    """Raise PolicyError unless the policy has the stages and states of the problem."""
    if not isinstance(policy, Policy):
        remedy = "pass plan.policy" if type(policy).__name__ == "Plan" else ""
        raise bad_type("policy", policy, "be a Policy", type(policy).__name__, remedy=remedy)
    if not isinstance(mdp, MDP):
        raise bad_type("mdp", mdp, "be an MDP", type(mdp).__name__, remedy="pass the problem of the policy")
    check_methods(policy)
    if (policy.H or mdp.H, policy.S or mdp.S) != (mdp.H, mdp.S):
        got = f"H={policy.H} and S={policy.S}"
        raise PolicyError(
            f"the policy must have H={mdp.H} and S={mdp.S} as the problem, got {got}; plan on this problem"
        )


def check_methods(policy: Policy) -> None:
    """Raise PolicyError if a custom subclass of a stored kind overrides its methods: forward passes read only its tables."""
    if is_custom(policy):
        kind = next(each for each in type(policy).__mro__ if each.__module__.startswith("bqrl."))
        changed = [name for name in ("start", "act", "next") if getattr(type(policy), name) is not getattr(kind, name)]
        if changed and kind is not Policy:
            got = f"{type(policy).__name__}, which overrides {changed[0]} of {kind.__name__}"
            raise PolicyError(f"a policy with methods of its own must derive from bqrl.Policy, got {got}")


def check_rewards(policy: Policy, mdp: MDP, rewards: Any = PLANNED) -> None:
    """Raise PolicyError if the policy tracks rewards and a transition of `mdp` has another reward than it was planned for."""
    if choice(rewards, "rewards", (PLANNED, THIS_MODEL)) == THIS_MODEL:
        return
    fault = policy.reward_fault(mdp)
    if fault is not None:
        h, s, a, s_next, planned, found = fault
        where = f"from {mdp.state_label(s)} to {mdp.state_label(s_next)} with {mdp.action_label(a)} at stage {h + 1}"
        raise PolicyError(
            f"the policy must meet the rewards that it was planned for, {planned:g} {where}, got {found:g}; evaluate it in a "
            f"model with these, or pass rewards='{THIS_MODEL}' to let it follow the rewards of this one",
            stage=h, state=s, action=a,
        )  # fmt: skip


def is_custom(policy: Policy) -> bool:
    """Return whether the class of a policy is not part of bqrl; it may then answer at random, so it is asked twice."""
    return not type(policy).__module__.startswith("bqrl.")
