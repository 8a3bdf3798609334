"""Enumeration of the (stage, state, memory) triples that a policy can reach: the basis of exact conversions and laws."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import shown
from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.model import MDP

MAX_LABELS = 1_000_000
MAX_CUSTOM_MOVES = 5_000_000  # per stage of a custom policy, whose memories Python computes one by one
RANDOM = "pass action probabilities (H, S, A) if it draws its actions, or simulate a function or a Policy"
NONE: IntArray = np.empty(0, np.int64)


class Acting(ABC):
    """The methods of a policy that an episode uses, for one episode and for many at once."""

    def start(self) -> Any:
        """Memory before the first stage."""
        return None

    @abstractmethod
    def act(self, h: int, s: int, memory: Any) -> int:
        """Action at stage `h` in state `s`."""

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Memory after a transition of stage `h`."""
        return memory

    def start_many(self, u: FloatArray) -> Any:
        """Memories of many episodes before the first stage; `u` are uniform draws, which a mixture uses."""
        return [self.start() for _ in u]

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Actions of many episodes."""
        played = [action_index(self.act(h, x, m), h, x) for x, m in zip(s.tolist(), memory, strict=True)]
        return np.array(played, dtype=np.int64)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """Memories after one more stage of many episodes."""
        steps = zip(memory, s.tolist(), a.tolist(), reward.tolist(), s_next.tolist(), strict=True)
        return [self.next(m, h, x, y, r, z) for m, x, y, r, z in steps]


def action_index(action: Any, h: int | None, s: int | None, label: str = "", rule: str = "a whole number") -> int:
    """Return an action as an int; PolicyError unless it is a whole number: 0.9 must not play action 0."""
    try:
        if isinstance(action, bool):
            raise TypeError
        return operator.index(action)
    except TypeError:
        where = f"in state {label or s}" + ("" if h is None else f" at stage {h + 1}")
        raise PolicyError(f"the action {where} must be {rule}, got {shown(action)}", stage=h, state=s) from None


def check_played(mdp: MDP, h: int, s: IntArray, a: IntArray) -> None:
    """Raise PolicyError unless every action `a` exists in its state `s` at stage `h`."""
    if a.dtype.kind not in "iu":  # of a custom act_many
        for state, action in zip(s.tolist(), a.tolist(), strict=True):
            action_index(action, h, state)
    wrong = (a >= mdp.A) | (a < 0)
    if not wrong.any():
        wrong = ~mdp.stage(h).available[s, a]
    if wrong.any():
        state, action = int(s[wrong.argmax()]), int(a[wrong.argmax()])
        rule = f"an action from 0 to {mdp.A - 1}, got {action}"
        if 0 <= action < mdp.A:
            rule = f"an available action, got {mdp.action_label(action)}"
        raise PolicyError(
            f"the policy must play {rule} in state {mdp.state_label(state)} at stage {h + 1}; is it a policy of this problem?",
            stage=h, state=state, action=action,
        )  # fmt: skip


class Pairs(NamedTuple):
    """The (state, memory) pairs that a policy can reach before one stage, and the moves from them in the order of the pairs."""

    state: IntArray  # (n,)
    memory: Any  # (n,) array or list, or None without memory
    total: FloatArray  # (n,) sum of the rewards so far, in one history of each pair
    probability: FloatArray  # (n,) of reaching each pair
    action: IntArray = NONE  # (n,), empty after the last stage, and so are the moves
    source: IntArray = NONE  # (m,) the pair from which each move leads
    outcome: IntArray = NONE  # (m,) its outcome, an index into the arrays of the stage
    child: IntArray = NONE  # (m,) the pair after this stage to which it leads
    onward: int = 0  # number of pairs after this stage


def reached_pairs(policy: Acting, mdp: MDP, unit: float | None = None, max_moves: float = np.inf) -> Iterator[Pairs]:
    """Yield the pairs that a policy can reach before each stage and at the end; every pass over memories is this one.

    Pairs are listed in the order in which they are found, and by state without memory. With a `unit` they also differ by
    the sum of rewards; sums and memories, which must be numbers, are then equal if they differ by less than about a unit.
    SizeError if the pairs of a stage have more than `max_moves` moves; PolicyError if a custom policy draws its answers.
    """
    s, twice = np.flatnonzero(mdp.mu), is_custom(policy)
    memory = policy.start_many(np.zeros(s.size))
    if twice:
        _check_repeated(mdp, 0, s, memory, policy.start_many(np.zeros(s.size)), "start with one memory")
    here = Pairs(state=s, memory=memory, total=np.zeros(s.size), probability=mdp.mu[s])
    for h in range(mdp.H):
        stage, s, memory = mdp.stage(h), here.state, here.memory
        a = policy.act_many(h, s, memory)
        check_played(mdp, h, s, a)
        if twice:
            _check_repeated(mdp, h, s, a.tolist(), policy.act_many(h, s, memory).tolist(), "repeat its action")
        source, i = stage.outcomes_of(s * mdp.A + a)
        if source.size > max_moves:
            raise SizeError(
                f"the policy must have at most {max_moves} moves per stage, got {source.size} at stage {h + 1}; use simulate",
                needed=source.size, limit=max_moves,
            )  # fmt: skip
        after, reward = stage.successor[i].astype(np.int64), stage.reward[i]
        step = (_take(memory, source), h, s[source], a[source], reward, after)
        memory = policy.next_many(*step)
        if twice:
            _check_repeated(mdp, h, s[source], memory, policy.next_many(*step), "repeat its next memory")
        total = here.total[source] + mdp.discount**h * reward
        first, child = _distinct(after, memory) if unit is None else _apart(after, total, memory, unit)
        yield here._replace(action=a, source=source, outcome=i, child=child, onward=first.size)
        p = np.bincount(child, here.probability[source] * stage.probability[i]).astype(np.float64)
        here = Pairs(state=after[first], memory=_take(memory, first), total=total[first], probability=p)
    yield here


def is_custom(policy: Acting) -> bool:
    """Return whether the class of a policy is the caller's own; it may then draw its answers, so each is asked for twice."""
    return not type(policy).__module__.startswith("bqrl.")


def _check_repeated(mdp: MDP, h: int, s: IntArray, first: Any, second: Any, rule: str) -> None:
    """Raise PolicyError if the two answers to one question differ: no exact law follows from answers drawn at random."""
    if first is None or second is None:
        return
    for state, x, y in zip(s.tolist(), first, second, strict=True):
        if not _same(x, y):
            raise random_answer(mdp, h, state, x, y, rule)


def _same(x: Any, y: Any) -> bool:
    """Return whether two answers are equal; nan equals nan, and memories that cannot be compared are refused later."""
    try:
        return x is y or bool(x == y) or bool(x != x and y != y)
    except ValueError:
        return True


def random_answer(mdp: MDP, h: int | None, s: int, x: Any, y: Any, rule: str = "repeat its action") -> PolicyError:
    """Return the error of a policy that answers differently when it is asked twice."""
    where = f"in state {mdp.state_label(s)}" + ("" if h is None else f" at stage {h + 1}")
    return PolicyError(
        f"the policy must {rule} when asked twice {where}, got {shown(x)} and {shown(y)}; {RANDOM}", stage=h, state=s
    )


def _take(memory: Any, places: IntArray) -> Any:
    """Return the memories at the given places of an array or a list."""
    if memory is None or isinstance(memory, np.ndarray):
        return None if memory is None else memory[places]
    return [memory[j] for j in places.tolist()]


def _distinct(s: IntArray, memory: Any) -> tuple[IntArray, IntArray]:
    """Return where each distinct pair is listed, and the number of every listed pair among the distinct ones."""
    if memory is None:
        place = np.full(s.max() + 1, -1)
        place[s] = np.arange(s.size)
        return place[place >= 0], (np.cumsum(place >= 0) - 1)[s]
    if isinstance(memory, np.ndarray) and memory.ndim == 1 and memory.dtype.kind in "fiu":
        order = np.lexsort((memory, s))  # stable: the first of equal pairs is the first found
        sorted_s, sorted_memory = s[order], memory[order]
        new = np.r_[True, (sorted_s[1:] != sorted_s[:-1]) | (sorted_memory[1:] != sorted_memory[:-1])]
        first = order[new]
        rank = np.empty(first.size, np.int64)
        rank[np.argsort(first)] = np.arange(first.size)
        number = np.empty(s.size, np.int64)
        number[order] = rank[np.cumsum(new) - 1]
        return np.sort(first), number
    found: dict[tuple[int, Any], int] = {}
    pairs = zip(s.tolist(), memory.tolist() if isinstance(memory, np.ndarray) else memory, strict=True)
    try:
        number = np.array([found.setdefault(pair, len(found)) for pair in pairs])
    except TypeError as fault:
        raise PolicyError(f"the memory of a policy must be hashable, got {fault}; return a tuple") from None
    return np.unique(number, return_index=True)[1], number


def _apart(s: IntArray, total: FloatArray, memory: Any, unit: float) -> tuple[IntArray, IntArray]:
    """Do `_distinct` for triples with the sum of rewards, up to `unit`."""
    keys = [s, np.rint(total / unit), *([] if memory is None else [np.rint(memory / unit)])]
    order = np.lexsort(keys)
    new = np.r_[True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0)]
    number = np.empty(s.size, np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def markov_actions(policy: Acting, mdp: MDP) -> IntArray:
    """Action by stage and state; raises PolicyError if an action depends on the memory."""
    actions = np.full((mdp.H, mdp.S), -1, np.int64)
    for h, pairs in zip(range(mdp.H), limited_pairs(policy, mdp), strict=False):
        actions[h, pairs.state] = pairs.action
        other = actions[h, pairs.state] != pairs.action
        if other.any():
            s, a = int(pairs.state[other.argmax()]), int(pairs.action[other.argmax()])
            raise PolicyError(
                f"the policy must play one action in state {mdp.state_label(s)} at stage {h + 1}, got {a} and "
                f"{int(actions[h, s])}: it depends on its memory; use to_labels", stage=h, state=s, action=int(actions[h, s]),
            )  # fmt: skip
        missing = actions[h] < 0  # states that are never reached: any action that exists
        actions[h, missing] = mdp.stage(h).available.argmax(axis=1)[missing]
    return actions


def graph_arrays(policy: Acting, mdp: MDP, max_moves: float = np.inf) -> dict[str, Any]:
    """The arrays of a label graph with one node per reachable (stage, state, memory)."""
    root = np.full(mdp.S, -1, np.int64)
    action, moves, successor, reward, child = [], [], [], [], []
    nodes = 0
    for h, pairs in zip(range(mdp.H), limited_pairs(policy, mdp, max_moves=max_moves), strict=False):
        if h == 0:
            root[pairs.state] = np.arange(pairs.state.size)
        stage, nodes = mdp.stage(h), nodes + pairs.state.size
        action.append(pairs.action)
        moves.append(np.bincount(pairs.source, minlength=pairs.state.size))
        successor.append(stage.successor[pairs.outcome].astype(np.int64))
        reward.append(stage.reward[pairs.outcome])
        child.append(pairs.child + nodes if h + 1 < mdp.H else np.full(pairs.child.size, -1))
    return {
        "root": root, "action": np.concatenate(action), "child_start": np.r_[0, np.cumsum(np.concatenate(moves))],
        "successor": np.concatenate(successor), "reward": np.concatenate(reward), "child": np.concatenate(child),
    }  # fmt: skip


def limited_pairs(
    policy: Acting, mdp: MDP, remedy: str = "keep it in its own form", max_moves: float = np.inf, least: int = 0
) -> Iterator[Pairs]:
    """Yield the reachable pairs; SizeError if all stages together have more than MAX_LABELS (or `least`) of them."""
    if is_custom(policy):
        max_moves = min(max_moves, MAX_CUSTOM_MOVES)
    total, limit = 0, max(MAX_LABELS, least)
    for h, pairs in enumerate(reached_pairs(policy, mdp, max_moves=max_moves)):
        total += pairs.onward if h < mdp.H - 1 else 0
        if total > limit:
            raise SizeError(
                f"the policy must have at most {limit} labels (pairs of a state and a memory), got {total} by stage "
                f"{h + 1}; {remedy}", needed=total, limit=limit,
            )  # fmt: skip
        yield pairs
