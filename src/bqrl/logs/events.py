"""Logs of models with shared noise: only the laws of the events are unknown, and every transition counts towards its law.

A row's law is the image of its event law, and images contract the errors of sets: a ball around the event law maps into
balls of at most that radius around rows. Each row may take its own worst law in its ball, which only enlarges the set.

With a column of events each step counts. Otherwise a step counts if and only if its row separates all events that the law
needs separated; to count the events that happen to be visible would be biased.
"""

from __future__ import annotations

import numpy as np

from bqrl.logs.episodes import Episodes
from bqrl.logs.read import label_text, near
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.mdp.noise import SharedNoise


def event_counts(
    log: Episodes, model: MDP, noise: SharedNoise, row: IntArray, successor: IntArray, outcome: IntArray
) -> list[IntArray]:
    """How often the log shows each event of each law; events that no row separates are counted as the first of them.

    `row`, `successor` and `outcome` (place in the model) are given for every step of the log, -1 where not known.
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
    """Index of the event of every step in its law, -1 in rows without a law."""
    assert log.event is not None
    code, labels = log.event.code, log.event.labels
    event = np.full(code.size, -1, np.int64)
    for i, known in enumerate(noise.events):
        names = [label_text(label) for label in known]
        place = {name: j for j, name in enumerate(names)}
        of_label = np.array([*(place.get(label, -1) for label in labels), -1])
        here = law == i
        event[here] = of_label[code[here]]
        wrong = np.flatnonzero(here & (event < 0))
        if wrong.size:
            text = labels[code[wrong[0]]] if code[wrong[0]] >= 0 else ""
            problem = (
                f"the event {text!r} is not in the noise law{near(text, names)}" if text else "the event is missing"
            )
            raise log.error(wrong[0], problem, "event")
    return event


def _check_images(
    log: Episodes, model: MDP, noise: SharedNoise, row: IntArray, successor: IntArray, event: IntArray
) -> None:
    """FileFormatError if an event does not lead to the recorded next state."""
    observed = np.flatnonzero((event >= 0) & (successor >= 0))
    leads = noise.pair_outcome[noise.pair_start[row[observed]] + event[observed]]
    wrong = np.flatnonzero(model.successor[leads] != successor[observed])
    if wrong.size:
        i = wrong[0]
        raise log.error(
            observed[i],
            f"in the model this event leads to state {model.state_label(int(model.successor[leads[i]]))!r}, not to this "
            "next_state; correct one of them", "event",
        )  # fmt: skip


def laws_of(counts: list[IntArray]) -> list[FloatArray]:
    """Frequencies of the events of each law; uniform where none was seen."""
    return [n / n.sum() if n.sum() else np.full(n.size, 1.0 / n.size) for n in counts]
