"""Enumeration of the (stage, state, memory) triples that a policy can reach: the basis of exact conversions and laws."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import one_line
from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.policies.protocol import Policy, action_index, is_custom
from bqrl.policies.shares import pair_shares

MAX_LABELS = 1_000_000
MIN_ANSWERS = 64  # asked at each stage to find out whether a policy draws its answers
MAX_CUSTOM_MOVES = 5_000_000  # per stage of a custom policy, whose memories Python computes one by one
AVERAGED = "evaluate and simulate take a policy that draws its actions"
RANDOM = "return action probabilities if it draws its actions, or simulate a function or a Policy"
NONE: IntArray = np.empty(0, np.int64)
NO_CHANCE: FloatArray = np.empty(0)


def check_played(mdp: MDP, h: int, s: IntArray, a: IntArray) -> None:
    """Raise PolicyError unless every action `a` exists in its state `s` at stage `h`."""
    if a.dtype.kind not in "iu":  # a custom act_many may return floats
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
    probability: FloatArray  # (n,) probability of reaching each pair
    action: IntArray = NONE  # (n,), empty after the last stage, like the moves, and if actions are drawn
    source: IntArray = NONE  # (m,) the pair from which each move leads
    outcome: IntArray = NONE  # (m,) its outcome, an index into the arrays of the stage
    child: IntArray = NONE  # (m,) the pair after this stage to which it leads
    onward: int = 0  # number of pairs after this stage
    chance: FloatArray = NO_CHANCE  # (m,) probability of each move, given its pair
    shares: FloatArray | None = None  # (n, A) action probabilities, if actions are drawn


class First(NamedTuple):
    """A situation in the middle of an episode."""

    stage: int
    state: int
    memory: Any  # (1,) or None
    total: float  # earned so far


def reached_pairs(
    policy: Policy, mdp: MDP, unit: float | None = None, max_moves: float = np.inf, *, listed: bool = False,
    begin: First | None = None, drawn: bool = False,
) -> Iterator[Pairs]:  # fmt: skip
    """Yield the pairs that a policy can reach before each stage and at the end; all passes over memories use this function.

    Pairs are listed in the order in which they are found or, without memory, by state. With a `unit`, pairs with different
    sums of rewards are distinct; sums, and memories in an array, are then equal if they differ by less than about a unit.
    With `listed`, outcomes of probability 0 are followed, too; `begin` is a situation at a later stage. With `drawn`, a policy
    may answer with action probabilities: the moves of all its actions then follow.

    Raise SizeError if the pairs of a stage have more than `max_moves` moves, and PolicyError if a custom policy answers
    at random.
    """
    s, twice = np.flatnonzero(mdp.mu), is_custom(policy)
    memory = policy.start_many(np.zeros(s.size)) if begin is None else begin.memory
    if twice and begin is None:
        _check_repeated(mdp, 0, s, memory, partial(policy.start_many, np.zeros(s.size)), "start with one memory")
    here = Pairs(state=s, memory=memory, total=np.zeros(s.size), probability=mdp.mu[s])
    if begin is not None:
        here = Pairs(
            state=np.array([begin.state]), memory=memory, total=np.array([begin.total]), probability=np.ones(1)
        )
    for h in range(0 if begin is None else begin.stage, mdp.H):
        stage, s, memory = mdp.stage(h), here.state, here.memory
        answer = policy.act_many(h, s, memory)
        shares, pair, a = None, np.arange(s.size), answer
        if answer.ndim == 2:
            if not drawn:
                raise PolicyError(
                    f"the policy must play one action here, got action probabilities at stage {h + 1}; {AVERAGED}",
                    stage=h,
                )
            shares = pair_shares(mdp, h, s, answer)
            pair, a = np.nonzero(shares)
        if twice:
            _check_repeated(mdp, h, s, answer.tolist(), partial(_act, policy, h, s, memory), "repeat its action")
        check_played(mdp, h, s[pair], a)
        decision, i = stage.outcomes_of(s[pair] * mdp.A + a, listed=listed)
        source = pair[decision]
        if source.size > max_moves:
            raise SizeError(
                f"the policy must have at most {max_moves} moves per stage, got {source.size} at stage {h + 1}; use simulate",
                needed=source.size, limit=max_moves,
            )  # fmt: skip
        after, reward = stage.successor[i].astype(np.int64), stage.reward[i]
        step = (_take(memory, source), h, s[source], a[decision], reward, after)
        memory = policy.next_many(*step)
        if twice:
            _check_repeated(mdp, h, s[source], memory, partial(policy.next_many, *step), "repeat its next memory")
        total = here.total[source] + mdp.discount**h * reward
        first, child = _deduplicate(after, memory) if unit is None else _deduplicate_sums(after, total, memory, unit)
        chance = stage.probability[i] if shares is None else stage.probability[i] * shares[pair, a][decision]
        yield here._replace(
            action=a if shares is None else NONE, source=source, outcome=i, child=child, onward=first.size, chance=chance,
            shares=shares,
        )  # fmt: skip
        p = np.bincount(child, here.probability[source] * chance).astype(np.float64)
        here = Pairs(state=after[first], memory=_take(memory, first), total=total[first], probability=p)
    yield here


def times_asked(questions: int) -> int:
    """Return how often each of several questions is asked: twice, or more often if few random answers could agree by chance."""
    return max(2, MIN_ANSWERS // max(1, questions))


def _check_repeated(mdp: MDP, h: int, s: IntArray, first: Any, again: Callable[[], Any], rule: str) -> None:
    """Raise PolicyError if two answers to one question differ: random answers have no exact law."""
    for _ in range(times_asked(s.size) - 1):
        other = again()
        if first is None or other is None:
            return
        for state, x, y in zip(s.tolist(), first, other, strict=True):
            if not _are_equal(x, y):
                raise random_answer(mdp, h, state, x, y, rule)


def _act(policy: Policy, h: int, s: IntArray, memory: Any) -> list[Any]:
    """Return the answers of a policy as a list."""
    return policy.act_many(h, s, memory).tolist()


def _are_equal(x: Any, y: Any) -> bool:
    """Return whether two answers are equal; NaN equals NaN, and memories that cannot be compared are refused later."""
    try:
        return x is y or bool(x == y) or bool(x != x and y != y)
    except ValueError:
        return True


def random_answer(mdp: MDP, h: int | None, s: int, x: Any, y: Any, rule: str = "repeat its action") -> PolicyError:
    """Return the error for a policy that gives two different answers to one question."""
    where = f"in state {mdp.state_label(s)}" + ("" if h is None else f" at stage {h + 1}")
    return PolicyError(
        f"the policy must {rule} when asked twice {where}, got {one_line(x)} and {one_line(y)}; {RANDOM}",
        stage=h,
        state=s,
    )


def _take(memory: Any, places: IntArray) -> Any:
    """Return the memories at the given places of an array or a list."""
    if memory is None or isinstance(memory, np.ndarray):
        return None if memory is None else memory[places]
    return [memory[j] for j in places.tolist()]


def _deduplicate(s: IntArray, memory: Any) -> tuple[IntArray, IntArray]:
    """Deduplicate pairs: return the index of each distinct pair, and for every pair its number among the distinct ones."""
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
        kind = str(fault).rpartition("unhashable type: ")[2].rstrip(")")  # Python 3.14 says more than that
        raise PolicyError(f"the memory of a policy must be hashable, got {kind}; return a tuple") from None
    return np.unique(number, return_index=True)[1], number


def _deduplicate_sums(s: IntArray, total: FloatArray, memory: Any, unit: float) -> tuple[IntArray, IntArray]:
    """Deduplicate triples (state, sum of rewards, memory) that are equal up to `unit`; see `_deduplicate`."""
    keys = [s, np.rint(total / unit)]
    if isinstance(memory, np.ndarray):
        keys.append(np.rint(memory / unit))
    elif memory is not None:
        keys.append(_deduplicate(s, memory)[1])
    order = np.lexsort(keys)
    new = np.r_[True, np.any([np.diff(key[order]) != 0 for key in keys], axis=0)]
    number = np.empty(s.size, np.int64)
    number[order] = np.cumsum(new) - 1
    return order[new], number


def limited_pairs(
    policy: Policy, mdp: MDP, remedy: str = "keep it in its own form", max_moves: float = np.inf, least: int = 0,
    drawn: bool = False,
) -> Iterator[Pairs]:  # fmt: skip
    """Yield the reachable pairs; raise SizeError if all stages together have more than MAX_LABELS (or `least`) of them."""
    if is_custom(policy):
        max_moves = min(max_moves, MAX_CUSTOM_MOVES)
    total, limit = 0, max(MAX_LABELS, least)
    for h, pairs in enumerate(reached_pairs(policy, mdp, max_moves=max_moves, drawn=drawn)):
        total += pairs.onward if h < mdp.H - 1 else 0
        if total > limit:
            raise SizeError(
                f"the policy must have at most {limit} labels (pairs of a state and a memory), got {total} by stage "
                f"{h + 1}; {remedy}", needed=total, limit=limit,
            )  # fmt: skip
        yield pairs
