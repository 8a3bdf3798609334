"""Decision tables: the actions of a policy, for people and for programs that do not use bqrl.

A row says: at this stage, in this state, with this much earned so far, play this action. Stages are counted from 1. The
rows of one policy can be followed without bqrl:

- Markov policy: find the row with the stage and the state.
- Stochastic policy: draw one of the rows with the stage and the state, each with the probability `share`.
- Target policy: begin with need = `target`. Find the row with the stage and the state whose range `need_from` to
  `need_to` contains the need (or is nearest to it, which allows for rounding errors). After a reward r, subtract
  `worth` * r from the need (r itself where there is no column `worth`). Where the table has a column `reward_step`,
  subtract `reward_floor` + `reward_step` * floor((`worth` * r - `reward_floor`) / `reward_step` + 1e-9) instead.
- Label policy, or a target policy of another problem if its needs do not follow from the sums of rewards in this one:
  begin with the row of stage 1 and the first state, which has the first `label`. Play its action, find the
  row of the same label with the `next_state` and the (nearest) `reward`, and continue with its `next_label`.
- Mixture: draw one `part` with probability `weight` before the first stage, then follow the rows of this part. Where
  the parts are of different kinds, cells of a column that a part does not have are None.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bqrl.checks import bad_value, flag, number
from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.grid import Rounded
from bqrl.mdp.model import MDP
from bqrl.policies.earned import EarnedPolicy
from bqrl.policies.forward import play_shares, stage_masses, sums_grid
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.pairs import reached_pairs
from bqrl.policies.protocol import PLANNED, THIS_MODEL, Policy, check_fits, check_rewards
from bqrl.policies.shares import shares_in
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

MAX_ROWS = 1_000_000
COLUMNS = (  # in the order of the table, without the column of stages
    "part", "weight", "state", "action", "earned_from", "earned_to", "target", "need_from", "need_to", "need_above",
    "need_up_to", "label", "share", "probability", "worth", "reward_floor", "reward_step", "next_state", "reward", "next_label",
)  # fmt: skip
Row = dict[str, Any]


def decision_rows(
    policy: Policy, mdp: MDP, *, reachable: bool = True, min_probability: float = 0.0, stage: str = "stage",
    rewards: str = PLANNED,
) -> list[Row]:  # fmt: skip
    """Return the decisions of a policy, one row each, with the names of the problem; see `Policy.table` and this module.

    `stage` is the name of the column of stages.
    """
    check_fits(policy, mdp)
    check_rewards(policy, mdp, rewards)
    reachable = flag(reachable, "reachable")
    if stage in COLUMNS:
        raise bad_value("stage", stage, "not be the name of another column", remedy="choose another word")
    smallest = number(min_probability, "min_probability", 0.0, 1.0)
    needed = int(mdp.reachable[:-1].sum())
    if needed > MAX_ROWS:
        message = f"the table must have at most {MAX_ROWS} rows, got {needed} or more; save the policy as .npz instead"
        raise SizeError(message, needed=needed, limit=MAX_ROWS)
    left_out = () if reachable else ("probability",)
    rows = [
        {stage if key == "stage" else key: value for key, value in row.items() if key not in left_out}
        for row in _rows(policy, mdp, reachable)
        if not reachable or row["probability"] >= smallest
    ]
    if isinstance(policy, MixturePolicy) and len({frozenset(row) for row in rows}) > 1:  # parts of different kinds
        columns = [key for key in ("part", "weight", stage, *COLUMNS[2:]) if any(key in row for row in rows)]
        rows = [{key: row.get(key) for key in columns} for row in rows]
    return rows


def wide_rows(policy: Policy, mdp: MDP, **options: Any) -> list[Row]:
    """Return the decisions with one row per state and one column per stage; None where there is no decision.

    Raise PolicyError if the action depends on the rewards so far or on a random draw.
    """
    actions: dict[str, Row] = {}
    for row in decision_rows(policy, mdp, **options):
        h, action = row["stage"], row["action"]
        if actions.setdefault(row["state"], {}).setdefault(str(h), action) != action:
            where = f"state {row['state']} at stage {h}"
            raise PolicyError(
                f"the wide table requires one action per state and stage, got several in {where}; use the long table",
                stage=h - 1, state=[mdp.state_label(s) for s in range(mdp.S)].index(row["state"]),
            )  # fmt: skip
    return [
        {"state": state} | {str(h + 1): actions[state].get(str(h + 1)) for h in range(mdp.H)}
        for state in map(mdp.state_label, range(mdp.S))
        if state in actions
    ]


def _rows(policy: Policy, mdp: MDP, reachable: bool) -> Iterator[Row]:
    """Yield rows with probabilities for the decisions that can occur, or rows for every stage, state and need."""
    if isinstance(policy, MixturePolicy):
        for i, (part, weight) in enumerate(zip(policy.policies, policy.weights.tolist(), strict=True)):
            for row in _rows(part, mdp, reachable):
                yield {"part": i + 1, "weight": weight, **row, "probability": weight * row.get("probability", 1.0)}
    elif isinstance(policy, MarkovPolicy):
        mass = play_shares(mdp, policy).sum(axis=2) if reachable else mdp.reachable[:-1]
        for h, s in np.argwhere(mass > 0.0).tolist():
            yield _row(mdp, h, s, policy.actions[h, s], probability=float(mass[h, s]))
    elif isinstance(policy, StochasticPolicy):
        shares, mass = shares_in(mdp, policy.probabilities), play_shares(mdp, policy)
        met = mass if reachable else mdp.reachable[:-1, :, None] * shares
        for h, s, a in np.argwhere(met > 0.0).tolist():
            yield _row(mdp, h, s, a, share=float(shares[h, s, a]), probability=float(mass[h, s, a]))
    elif isinstance(policy, TargetPolicy):
        yield from _target_rows(policy, mdp) if reachable else _need_rows(policy, mdp)
    elif isinstance(policy, EarnedPolicy) and reachable and policy.discount == mdp.discount:
        yield from _earned_rows(policy, mdp)
    else:
        yield from _label_rows(policy, mdp)


def _row(mdp: MDP, h: int, s: int, a: Any, memory: Row | None = None, **more: Any) -> Row:
    """Return one row: the stage, the state, the action, the memory if the action depends on it, and further columns."""
    return {"stage": h + 1, "state": mdp.state_label(s), "action": mdp.action_label(int(a)), **(memory or {}), **more}


def _runs(actions: Any) -> Iterator[tuple[int, int]]:
    """Return the first and the last index of every run of equal actions."""
    last = [*np.flatnonzero(np.diff(actions)).tolist(), actions.size - 1]
    return zip([0, *(end + 1 for end in last[:-1])], last, strict=True)


def _target_rows(policy: TargetPolicy, mdp: MDP) -> Iterator[Row]:
    """Yield one row per run of attainable sums with the same action; label rows if sums do not determine the need."""
    columns, target = policy.grid, policy.target
    if isinstance(columns, Rounded) and columns.up:
        raise PolicyError(
            "a table requires a policy that rounds rewards down, got one that rounds them up; save it as .npz"
        )
    found = sums_grid(mdp, policy)
    if found is None:
        yield from _label_rows(policy, mdp)
        return
    for h, (sums, mass) in zip(range(mdp.H), stage_masses(mdp, policy, found), strict=False):
        counting: Row = {} if mdp.discount == 1.0 and columns.exact else {"worth": mdp.discount**h}
        if isinstance(columns, Rounded):
            counting |= {"reward_floor": float(columns.base[h]), "reward_step": columns.width}
        table, column = policy.decisions(h, target - sums, mdp.reachable[h])
        played = table[:, column]
        for s in np.flatnonzero(mass.any(axis=1)).tolist():
            met = np.flatnonzero(mass[s] > 0.0)
            met = met[np.argsort(sums[met], kind="stable")]
            for first, last in _runs(played[s, met]):
                low, high = float(sums[met[first]]), float(sums[met[last]])
                least, most = (target - high, target - low) if h > 0 else (target, target)
                memory = {"earned_from": low, "earned_to": high, "target": target, "need_from": least, "need_to": most}
                probability = float(mass[s, met[first : last + 1]].sum())
                yield _row(mdp, h, s, played[s, met[first]], memory, probability=probability, **counting)


def _earned_rows(policy: EarnedPolicy, mdp: MDP) -> Iterator[Row]:
    """Yield one row per run of amounts earned with the same action, in the form of the rows of a target policy."""
    for h, pairs in zip(range(mdp.H), reached_pairs(policy, mdp), strict=False):
        order = np.lexsort((pairs.memory, pairs.state))
        counting: Row = {} if mdp.discount == 1.0 else {"worth": mdp.discount**h}
        for part in np.split(order, np.flatnonzero(np.diff(pairs.state[order])) + 1):
            for first, last in _runs(pairs.action[part]):
                run = part[first : last + 1]
                low, high = float(pairs.memory[run[0]]), float(pairs.memory[run[-1]])
                needs = {"target": policy.target, "need_from": policy.target - high, "need_to": policy.target - low}
                memory = {"earned_from": low, "earned_to": high, **needs}
                probability = float(pairs.probability[run].sum())
                s, a = int(pairs.state[run[0]]), pairs.action[run[0]]
                yield _row(mdp, h, s, a, memory, probability=probability, **counting)


def _need_rows(policy: TargetPolicy, mdp: MDP) -> Iterator[Row]:
    """Yield one row per run of needs with the same action, which is played if need_above < need <= need_up_to."""
    for h, s in np.argwhere(mdp.reachable[:-1]).tolist():
        actions, ends = policy.actions[h][s], np.r_[-np.inf, policy.grid.points(h, policy.extra - 1), np.inf]
        for first, last in _runs(actions):
            needs = {"target": policy.target, "need_above": float(ends[first]), "need_up_to": float(ends[last + 1])}
            yield _row(mdp, h, s, actions[first], needs)


def _label_rows(policy: Policy, mdp: MDP) -> Iterator[Row]:
    """Yield one row per label and outcome, so that the next label can be looked up."""
    labels = policy.to_labels(mdp, rewards=THIS_MODEL)  # checked before
    for h, pairs in zip(range(mdp.H), reached_pairs(labels, mdp), strict=False):
        stage, start = mdp.stage(h), np.searchsorted(pairs.source, np.arange(pairs.state.size + 1))
        state = pairs.state.tolist()
        label = [labels.node(s, v) for s, v in zip(state, pairs.memory, strict=True)]
        for v, s, j in sorted(zip(label, state, range(len(state)), strict=True)):
            row = _row(mdp, h, s, pairs.action[j], {"label": v}, probability=float(pairs.probability[j]))
            if h == mdp.H - 1:
                yield row | {"next_state": None, "reward": None, "next_label": None}
                continue
            for i in pairs.outcome[start[j] : start[j + 1]]:
                t, r = int(stage.successor[i]), float(stage.reward[i])
                child = labels.next(v, h, s, int(pairs.action[j]), r, t)
                yield row | {"next_state": mdp.state_label(t), "reward": r, "next_label": child}
