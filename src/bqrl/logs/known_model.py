"""Estimates for a model of known structure: outcomes, rewards and shared noise are given; only probabilities are estimated.

With shared noise only the laws of the events are unknown, and every transition counts towards its law. A row's law is the
image of its event law, and the error of a set of outcomes is that of a set of events: a ball around the event law maps into
balls of at most that radius around rows. Each row may take its own worst law in its ball, which only enlarges the set.

With a column of events each step counts. Otherwise a step counts if and only if its row separates all events that the law
needs separated; counting only the events that happen to be visible would be biased.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.checks import bad_value, exact_text
from bqrl.logs.balls import Balls
from bqrl.logs.empirical import Empirical
from bqrl.logs.episodes import ENDED, Episodes
from bqrl.logs.read import near_labels, speller
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.columns import label_text
from bqrl.mdp.model import MDP
from bqrl.mdp.noise import SharedNoise


def from_model(log: Episodes, model: MDP, *, delta: float, stationary: bool) -> Empirical:
    """Return the model with the frequencies of the log; its outcomes, rewards, known rows and shared noise are taken as given."""
    if stationary and not model.stationary:
        raise bad_value("stationary", stationary, "be False for a model whose stages differ")
    states = _match_labels(log, model.state_names, model.S, log.states, "state")
    actions = _match_labels(log, model.action_names, model.A, log.actions, "action")
    row = _rows(log, model, states, actions)
    after = _successors(log, states)
    counts, outcome = _outcome_counts(log, model, row, after)
    size, known = np.diff(model.row_start), (model.known | ~model.available).reshape(-1)
    visits = tries = np.bincount(row[outcome >= 0], minlength=size.size)
    n = np.repeat(visits, size)
    p = np.where(n > 0, counts / np.maximum(n, 1), 1.0 / np.maximum(np.repeat(size, size), 1))
    outcomes, rows = size, int(np.count_nonzero(~known))
    seen = np.bincount(np.repeat(np.arange(size.size), size), counts > 0, minlength=size.size).astype(np.int64)
    noise, by_law = model.noise, list[IntArray]()
    if noise is not None:
        by_law = event_counts(log, model, noise, row, after, outcome)
        p = noise.image(laws_of(by_law), p)
        law = noise.row_law.reshape(-1)
        tries = np.bincount(row[(outcome >= 0) | ((law[row] >= 0) & (log.event is not None))], minlength=size.size)
        classes = np.array([*(np.unique(first).size for first in noise.classes), 0])
        visits = np.where(law >= 0, np.array([*(int(each.sum()) for each in by_law), 0])[law], visits)
        outcomes = np.where(law >= 0, classes[law], size)
        seen = np.where(law >= 0, np.array([*map(np.count_nonzero, by_law), 0])[law], seen)
        rows = len(noise.events) + int(np.count_nonzero(~known & (law < 0)))
    p = np.where(np.repeat(known, size), model.probability, p)
    most = np.zeros(size.size)
    np.maximum.at(most, np.repeat(np.arange(size.size), size), p)
    shape = model.available.shape
    balls = Balls(
        visits=visits.reshape(shape), outcomes=outcomes.reshape(shape), most=(most * visits).reshape(shape),
        seen=seen.reshape(shape), known=known.reshape(shape), free=False, rows=max(1, rows), delta=delta,
    )  # fmt: skip
    lowest = sum(float(model.stage(h).reward.min()) * model.discount**h for h in range(model.H))
    uncounted = np.bincount(row // model.A, minlength=shape[0] * model.S).reshape(shape[:2]) - tries.reshape(shape).sum(
        axis=2
    )
    return Empirical(
        mdp=model.with_probability(p), balls=balls, tries=tries.reshape(shape), uncounted=uncounted, floor=lowest,
        lowest=lowest, events=tuple(by_law),
    )  # fmt: skip


def check_absorbing(log: Episodes, model: MDP, absorbing: Any) -> None:
    """Raise ArgumentError unless the states declared absorbing are never left in the model and pay nothing."""
    states = _match_labels(log, model.state_names, model.S, log.states, "state")
    for label in absorbing or ():
        s = int(states[log.states.index(speller(log.states)(label_text(label)))])
        for h in range(model.H):
            stage = model.stage(h)
            here = slice(int(stage.row_start[s * model.A]), int(stage.row_start[(s + 1) * model.A]))
            if np.any(stage.successor[here] != s) or np.any(stage.reward[here] != 0.0):
                rule = "name states that the model never leaves, without reward"
                raise bad_value("absorbing", label, rule, f"{label!r}", remedy="correct the model or drop it")


def with_events(log: Episodes, model: MDP, found: Empirical) -> Empirical | None:
    """Return the estimate as if every step had shown its event, with the same frequencies; None if no more steps would count."""
    noise, balls = model.noise, found.balls
    if noise is None or log.event is not None:
        return None
    states = _match_labels(log, model.state_names, model.S, log.states, "state")
    actions = _match_labels(log, model.action_names, model.A, log.actions, "action")
    law = noise.row_law.reshape(-1)
    by_law = np.bincount(law[_rows(log, model, states, actions)] + 1, minlength=len(noise.events) + 1)
    visits = np.where(noise.row_law >= 0, by_law[noise.row_law + 1], balls.visits)
    if not np.any(visits > balls.visits):
        return None
    most = balls.most * (visits / np.maximum(balls.visits, 1))
    return replace(found, balls=replace(balls, visits=visits, most=most))


def _rows(log: Episodes, model: MDP, states: IntArray, actions: IntArray) -> IntArray:
    """Return the row of the model that every step of the log shows."""
    k = np.where(model.stationary, 0, log.stage)
    row = (k * model.S + states[log.state]) * model.A + actions[log.action]
    absent = np.flatnonzero(~model.available.reshape(-1)[row])
    if absent.size:
        i = absent[0]
        got = f"{log.actions[log.action[i]]!r} in state {log.states[log.state[i]]!r}"
        raise log.error(i, f"expected an action of the model, got {got}; correct the log or the model", "action")
    return row


def _match_labels(
    log: Episodes, names: tuple[str, ...] | None, size: int, labels: tuple[str, ...], role: str
) -> IntArray:
    """Return the index in the model of every label of the log."""
    place = {name: i for i, name in enumerate(names or map(str, range(size)))}
    meant = list(map(speller(place), labels))
    ids = [int(label) if label.isdecimal() and len(label) < 10 else size for label in labels]
    known = [name in place for name in meant]
    if max(ids, default=0) < size and not all(known):  # not the names of the model, but all may be indices
        if not any(known):
            return np.array(ids, np.int64)
        i, column = known.index(False), "next_state" if role == "state" else role
        problem = f"expected names of the model's {role}s, got {labels[i]!r}, which only fits if all labels are indices"
        remedy = "give names, or a model without names"
        raise log.columns.error(0, f"{problem}; {remedy}", role if role in log.columns.codes else column)
    for i, label in enumerate(labels):
        if meant[i] not in place:
            code = log.state if role == "state" else log.action
            where = np.flatnonzero(code == i)
            column = role if where.size else "next_state"
            where = where if where.size else np.flatnonzero(log.next_state == i)
            problem = f"expected one of the model's {role}s, got {label!r}{near_labels(label, place)}"
            raise log.error(where[0] if where.size else 0, problem, column)
    return np.array([place[name] for name in meant], np.int64)


def _successors(log: Episodes, states: IntArray) -> IntArray:
    """Return the successor of every step as a state of the model, -1 if unknown; a named one also counts at an end."""
    after = log.next_state
    if "next_state" in log.columns.codes:
        named = log.columns.codes["next_state"].code[log.row]
        after = np.where((after == ENDED) & (named >= 0), named, after)
    ended = np.flatnonzero(after == ENDED)
    if ended.size:
        problem = "expected an episode that lasts to the horizon, got an earlier end"
        raise log.error(ended[0], f"{problem}; name the next_state in which the model absorbs", "next_state")
    return np.where(after >= 0, states[np.maximum(after, 0)], -1)


def _outcome_counts(log: Episodes, model: MDP, row: IntArray, after: IntArray) -> tuple[IntArray, IntArray]:
    """Return how often the log shows every outcome of the model, and the outcome of every step, -1 if it is unknown.

    A logged reward may differ from the reward of its outcome by rounding; it is matched to the nearest one.
    """
    stage = log.stage if len(model.reward) > 1 else np.zeros(row.size, np.int64)
    paid_code = np.unique(log.reward, return_inverse=True)[1].reshape(-1)
    distinct, first, inverse = np.unique(
        np.c_[row, after, stage, paid_code], axis=0, return_index=True, return_inverse=True
    )
    place = np.empty(len(distinct), np.int64)
    for j, ((q, s_next, h, _), i) in enumerate(zip(distinct.tolist(), first.tolist(), strict=True)):
        here = slice(int(model.row_start[q]), int(model.row_start[q + 1]))
        fits = np.isclose(model.reward[h, here], log.reward[i], rtol=1e-9, atol=1e-12)
        if s_next >= 0:
            fits &= model.successor[here] == s_next
        if not fits.any():
            where = "with this next_state" if s_next >= 0 else "of this row"
            problem = f"expected the reward of an outcome {where}, got {exact_text(log.reward[i])}"
            raise log.error(i, f"{problem}; correct the log or the model", "reward")
        miss = np.where(fits, np.abs(model.reward[h, here] - log.reward[i]), np.inf)
        nearest = here.start + np.flatnonzero(miss == miss.min())
        if s_next >= 0 and np.ptp(model.reward[:, nearest], axis=1).any():  # they differ, here or at another stage
            problem = f"expected a reward that tells the outcomes of the model apart, got {exact_text(log.reward[i])}"
            raise log.error(i, f"{problem}, which fits two; correct it or pass model.staged()", "reward")
        place[j] = nearest[0]
    outcome = np.where(after >= 0, place[inverse.reshape(-1)], -1)
    return np.bincount(outcome[outcome >= 0], minlength=model.successor.size), outcome


# -- shared noise ------------------------------------------------------------------------------------------------------


def event_counts(
    log: Episodes, model: MDP, noise: SharedNoise, row: IntArray, successor: IntArray, outcome: IntArray
) -> list[IntArray]:
    """Return how often the log shows each event of each law; events that no row separates are counted as the first of them.

    `row`, `successor` and `outcome` (index in the model) have one entry per step of the log, -1 if unknown.
    """
    law = noise.row_law.reshape(-1)[row]
    if log.event is None:
        seen = outcome >= 0
        event = np.where(seen, noise.outcome_event[np.where(seen, outcome, 0)], -1)
    else:
        event = _named_events(log, noise, law)
        _check_images(log, model, noise, row, successor, event)
    counts = []
    for i, labels in enumerate(noise.events):
        here = event[(law == i) & (event >= 0)]
        counts.append(np.bincount(noise.classes[i][here], minlength=len(labels)))
    return counts


def _named_events(log: Episodes, noise: SharedNoise, law: IntArray) -> IntArray:
    """Return the index of the event of every step in its law, -1 in rows without a law."""
    assert log.event is not None
    code, labels = log.event.code, log.event.labels
    event = np.full(code.size, -1, np.int64)
    for i, known in enumerate(noise.events):
        names = [label_text(label) for label in known]
        place = {name: j for j, name in enumerate(names)}
        of_label = np.array([*(place.get(name, -1) for name in map(speller(names), labels)), -1])
        here = law == i
        event[here] = of_label[code[here]]
        bad = np.flatnonzero(here & (event < 0))
        if bad.size:
            text = labels[code[bad[0]]] if code[bad[0]] >= 0 else ""
            hint = near_labels(text, names) if text else "; fill it in"
            raise log.error(bad[0], f"expected an event of the noise law, got {text!r}{hint}", "event")
    return event


def _check_images(
    log: Episodes, model: MDP, noise: SharedNoise, row: IntArray, successor: IntArray, event: IntArray
) -> None:
    """Raise FileFormatError if an event does not lead to the recorded next state."""
    observed = np.flatnonzero((event >= 0) & (successor >= 0))
    leads = noise.pair_outcome[noise.pair_start[row[observed]] + event[observed]]
    differs = np.flatnonzero(model.successor[leads] != successor[observed])
    if differs.size:
        i = differs[0]
        right, got = (model.state_label(int(s[i])) for s in (model.successor[leads], successor[observed]))
        problem = f"expected next_state {right!r}, to which this event leads in the model, got {got!r}"
        raise log.error(observed[i], f"{problem}; correct one of them", "event")


def laws_of(counts: list[IntArray]) -> list[FloatArray]:
    """Return the frequencies of the events of each law, uniform if none was seen."""
    return [n / n.sum() if n.sum() else np.full(n.size, 1.0 / n.size) for n in counts]
