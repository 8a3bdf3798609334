"""The events of an episode of a problem with shared noise."""

from typing import Any, NamedTuple

from numba import njit

from bqrl.loops.rollout import draw


class EventSource(NamedTuple):
    """A kernel whose rows are images of event laws; row q = (k * S + s) * A + a."""

    shape: tuple[int, int, int]  # (K, S, A)
    row_start: Any  # (K*S*A + 1,)
    probability: Any  # (nnz,)
    row_law: Any  # (K*S*A,)
    pair_start: Any  # (K*S*A + 1,)
    pair_outcome: Any  # (pairs,)
    pair_probability: Any  # (pairs,)  probability of each event in its law


@njit(cache=True)
def find_events(source, u, episode):
    """Fill in the events of an episode that was played with the uniforms u (one for the first state, one per stage).

    The events of an outcome divide its interval into parts, and the uniform falls into one of them. Events therefore follow
    their law, and states and rewards do not depend on the events.
    """
    K, S, A = source.shape
    for h in range(episode.actions.size):
        q = ((h if K > 1 else 0) * S + episode.states[h]) * A + episode.actions[h]
        episode.events[h] = -1
        if source.row_law[q] < 0:
            continue
        i = draw(source.probability, source.row_start[q], source.row_start[q + 1], u[1 + h])
        left = u[1 + h]
        for j in range(source.row_start[q], i):
            left -= source.probability[j]
        for j in range(source.pair_start[q], source.pair_start[q + 1]):
            if source.pair_outcome[j] == i and source.pair_probability[j] > 0.0:
                episode.events[h] = j - source.pair_start[q]
                left -= source.pair_probability[j]
                if left < 0.0:
                    break
