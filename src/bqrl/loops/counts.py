"""Counts of transitions and of events, and the resulting empirical rows."""

from typing import Any, NamedTuple

from numba import njit


class Tally(NamedTuple):
    """Counts of M kernels; row q = (m * S + s) * A + a has the outcomes row_start[q] .. row_start[q + 1]."""

    row_start: Any  # (M*S*A + 1,)
    successor: Any  # (nnz,)
    seen: Any  # (nnz,)
    visits: Any  # (M, S, A)
    probability: Any  # (nnz,)
    known: Any  # (M, S, A)


@njit(cache=True)
def find_outcome(successor, table, repeated, h, begin, end, s_next, r):
    """Return the outcome among begin .. end - 1 that leads to s_next, or -1; if there are several, the one with reward nearest r.

    `table` (H or 1, outcomes of one stored kernel) holds the rewards that distinguish outcomes with the same successor; it
    has no columns if no row has two outcomes with the same successor. If one stored kernel is repeated at every stage,
    `repeated` is its number of outcomes, else 0.
    """
    found, least = -1, 0.0
    for i in range(begin, end):
        if successor[i] == s_next:
            if table.shape[1] == 0:
                return i
            miss = abs(table[h if table.shape[0] > 1 else 0, i - h * repeated] - r)
            if found < 0 or miss < least:
                found, least = i, miss
    return found


@njit(cache=True)
def count_episode(group, table, repeated, states, actions, rewards):
    """Count one episode and update the rows that it visited; return the first stage with an impossible transition, or H."""
    tally = Tally(*group)
    H = actions.size
    M, S, A = tally.visits.shape
    for h in range(H):
        m, s, a = (h if M > 1 else 0), states[h], actions[h]
        q = (m * S + s) * A + a
        begin, end = tally.row_start[q], tally.row_start[q + 1]
        i = find_outcome(tally.successor, table, repeated, h, begin, end, states[h + 1], rewards[h])
        if i < 0:
            return h
        tally.seen[i] += 1
        tally.visits[m, s, a] += 1
        if not tally.known[m, s, a]:
            for j in range(begin, end):
                tally.probability[j] = tally.seen[j] / tally.visits[m, s, a]
    return H


@njit(cache=True)
def posterior_shapes(seen, outcomes, prior, divisor, shapes):
    """Fill shapes[j] with (prior[j] + seen[outcomes[j]]) / divisor."""
    for j in range(outcomes.size):
        shapes[j] = (prior[j] + seen[outcomes[j]]) / divisor


class EventLaws(NamedTuple):
    """Counts of event laws; learners/shared_counts.py explains classes of events."""

    row_law: Any  # (M*S*A,)
    event_start: Any  # (laws + 1,)  first event of every law among all events
    event_class: Any  # (events,)
    outcome_class: Any  # (nnz,)  class that an outcome identifies, -1 in rows that do not reveal their law
    pair_start: Any  # (M*S*A + 1,)
    pair_outcome: Any  # (pairs,)  outcome to which each event of a row leads
    seen: Any  # (classes,)


@njit(cache=True)
def count_events(tally, table, repeated, laws, states, actions, rewards, events):
    """Count the events of one episode; return the first stage with an impossible event, or H.

    If events are not reported, a transition counts if and only if its row reveals the law, whatever its outcome.
    """
    H = actions.size
    M, S, A = tally.visits.shape
    for h in range(H):
        q = ((h if M > 1 else 0) * S + states[h]) * A + actions[h]
        law = laws.row_law[q]
        if law < 0:
            continue
        begin, end = tally.row_start[q], tally.row_start[q + 1]
        i = find_outcome(tally.successor, table, repeated, h, begin, end, states[h + 1], rewards[h])
        c = laws.outcome_class[i]
        if events.size > 0:
            first, e = laws.event_start[law], events[h]
            if e < 0 or first + e >= laws.event_start[law + 1] or laws.pair_outcome[laws.pair_start[q] + e] != i:
                return h
            c = laws.event_class[first + e]
        if c >= 0:
            laws.seen[c] += 1
    return H
