"""Policies in another model, by the names of states and actions.

A plan of an estimate acts on the states of the log in the order in which they appeared, and on states that the estimate added. In
a model with the same names it plays the same actions. A state that the plan does not name is allowed if the model offers a
single action there, or if nothing depends on it: it is never left and pays nothing, like the added state "(end)".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeGuard

import numpy as np

from bqrl.checks import nearest
from bqrl.errors import PolicyError
from bqrl.mdp.arrays import IntArray, read_only
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Paid
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

ABSENT = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What translation needs of the model that a policy was made for: its stages and names."""

    H: int
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]

    @property
    def S(self) -> int:
        """Number of states."""
        return len(self.state_names)

    @property
    def A(self) -> int:
        """Number of actions."""
        return len(self.action_names)

    def state_label(self, s: int) -> str:
        """Return the name of a state."""
        return self.state_names[s]

    def action_label(self, a: int) -> str:
        """Return the name of an action."""
        return self.action_names[a]


def named_origin(policy: Policy) -> Origin | None:
    """Return the origin of a policy that carries names; None if it carries none."""
    return None if policy.names is None else Origin(H=policy.H, **policy.names._asdict())


def by_name(source: MDP | Origin | None, model: MDP) -> TypeGuard[MDP | Origin]:
    """Return whether a policy of `source` has to be translated for `model`: both have names, and these differ.

    A policy that carries names itself, as that of an estimate, is never played by index in a model with other names. It also
    follows the numbers of a model without names if its actions are such numbers: a log of that model holds them as labels.
    """
    if source is None or source.state_names is None or (model.state_names is None and isinstance(source, MDP)):
        return False
    states, actions = tuple(map(model.state_label, range(model.S))), tuple(map(model.action_label, range(model.A)))
    if model.state_names is None and not set(source.action_names or ()) <= set(actions):
        return False
    same = source.state_names == states and source.action_names in (actions, model.action_names)
    follows = isinstance(source, Origin) and model.state_names is not None
    return not same and (follows or bool(set(source.state_names) & set(states)))


def translated(policy: Policy, source: MDP | Origin, model: MDP) -> Policy:
    """Return a policy of `source` as a policy of `model`, by the names of states and actions.

    >>> one = MDP([[[0.5, 0.5], [1, 0]], [[0, 1], [0, 1]]], [[0, 1], [2, 2]], horizon=1, state_names="ab", action_names="xy")
    >>> other = MDP([[[1, 0], [1, 0]], [[0, 1], [0, 1]]], [[2, 2], [1, 0]], horizon=1, state_names="ba", action_names="yx")
    >>> translated(MarkovPolicy([[1, 0]]), one, other).actions.tolist()
    [[1, 0]]
    """
    if source.H != model.H:
        raise PolicyError(f"the policy must have H={model.H} as the problem, got H={source.H}; plan on this problem")
    if isinstance(policy, MixturePolicy):
        parts = [translated(part, source, model) for part in policy.policies]
        return MixturePolicy(parts, policy.weights)
    states, actions = _places(source, model)
    if isinstance(policy, MarkovPolicy):
        return MarkovPolicy(_moved(policy.actions[:, :, None], states, actions, source, model)[:, :, 0])
    if isinstance(policy, TargetPolicy):
        tables = [
            read_only(_moved(table[None], states, actions, source, model, h)[0].astype(table.dtype))
            for h, table in enumerate(policy.actions)
        ]
        paid = policy.grid.paid
        grid = replace(policy.grid, paid=None if paid is None else _moved_rewards(paid, states, actions, model))
        return TargetPolicy(grid, tables, policy.target, policy.extra)
    if isinstance(policy, StochasticPolicy):
        return StochasticPolicy(_moved_shares(policy.probabilities, states, actions, source, model))
    kind = type(policy).__name__
    raise PolicyError(
        f"the policy must be Markov, stochastic, target or mixed for a model with other names, got {kind}"
    )


def _places(source: MDP | Origin, model: MDP) -> tuple[IntArray, IntArray]:
    """Return the state of `source` for every state of `model`, and the action of `model` for every action of `source`."""
    names = {source.state_label(s): s for s in range(source.S)}
    offered = {model.action_label(a): a for a in range(model.A)}
    states = np.array([names.get(model.state_label(s), ABSENT) for s in range(model.S)])
    return states, np.array([offered.get(source.action_label(a), ABSENT) for a in range(source.A)])


def _moved(
    table: Any, states: IntArray, actions: IntArray, source: MDP | Origin, model: MDP, first: int = 0
) -> IntArray:
    """Return action tables (stages, S, columns) of `source` as those of `model`; the stages begin at `first`."""
    found = np.zeros((len(table), model.S, table.shape[2]), np.int64)
    for i, s in np.ndindex(len(table), model.S):
        h, stage = first + i, model.available[0 if model.stationary else first + i, s]
        own = actions[table[i, states[s]]] if states[s] >= 0 else np.full(table.shape[2], ABSENT)
        only = _only_action(model, h, s, stage)
        bad = (own < 0) | ~np.append(stage, False)[own]
        if not bad.any():
            found[i, s] = own
        elif only >= 0 or not model.reachable[h, s]:
            found[i, s] = np.where(bad, max(only, 0), own)
        else:
            raise _missing(source, model, h, s, states, table[i, states[s]][bad] if states[s] >= 0 else None)
    return found


def _only_action(model: MDP, h: int, s: int, offered: Any) -> int:
    """Return the only action of a state, or the first if the state is never left and pays nothing; ABSENT otherwise."""
    available = np.flatnonzero(offered)
    loops = all(
        np.all(successor == s) and not np.any(reward)
        for k in range(h, model.H)
        for successor, _, reward in (model.outcomes(k, s, int(a)) for a in available)
    )
    return int(available[0]) if available.size == 1 or loops else ABSENT


def _missing(source: MDP | Origin, model: MDP, h: int, s: int, states: IntArray, played: Any) -> PolicyError:
    """Return the error about a state or an action that only one of the two models has."""
    label = model.state_label(s)
    if played is None:
        names = [source.state_label(t) for t in range(source.S)]
        problem = f"the policy must name the states of the problem, got none for {label!r}{nearest(label, names, listed=False)}"
    else:
        action = source.action_label(int(played[0]))
        problem = f"the policy must play actions of the problem, got {action!r} in state {label!r} at stage {h + 1}"
    return PolicyError(f"{problem}; plan on this problem", stage=h, state=s)


def _moved_shares(shares: Any, states: IntArray, actions: IntArray, source: MDP | Origin, model: MDP) -> Any:
    """Return action probabilities (H, S, A) of `source` as those of `model`."""
    found = np.zeros((model.H, model.S, model.A))
    for h, s in np.ndindex(model.H, model.S):
        offered = model.available[0 if model.stationary else h, s]
        if states[s] >= 0:
            for a in np.flatnonzero(shares[h, states[s]]).tolist():
                if actions[a] >= 0 and offered[actions[a]]:
                    found[h, s, actions[a]] += shares[h, states[s], a]
        if abs(found[h, s].sum() - 1.0) > 1e-9:
            only = _only_action(model, h, s, offered)
            if only < 0 and model.reachable[h, s]:
                raise _missing(source, model, h, s, states, None)
            found[h, s] = np.eye(model.A)[max(only, 0)]
    return found


def _moved_rewards(paid: Paid, states: IntArray, actions: IntArray, model: MDP) -> Paid:
    """Return the rewards that a policy was planned for, of the transitions that both models name."""
    place = np.full(paid.S + 1, ABSENT)
    place[states[states >= 0]] = np.flatnonzero(states >= 0)
    K = (paid.row_start.size - 1) // (paid.S * paid.A)
    row = np.repeat(np.arange(K * paid.S * paid.A), np.diff(paid.row_start))
    k, s, a = row // (paid.S * paid.A), place[row // paid.A % paid.S], actions[row % paid.A]
    after = place[paid.successor]
    kept = np.flatnonzero((s >= 0) & (a >= 0) & (after >= 0))
    moved = (k[kept] * model.S + s[kept]) * model.A + a[kept]
    order = np.argsort(moved, kind="stable")
    start = np.r_[0, np.cumsum(np.bincount(moved, minlength=K * model.S * model.A))]
    take = kept[order]
    return Paid(
        S=model.S, A=model.A, row_start=start, successor=after[take].astype(np.int32), reward=paid.reward[:, take]
    )
