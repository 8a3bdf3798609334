"""Counting what happened: which outcome of which row, and the empirical row that follows."""

from numba import njit


@njit(cache=True)
def find_outcome(successor, reward, k, offset, begin, end, s_next, r):
    """Outcome among begin .. end that leads to s_next, by the reward nearest to r where several do; -1 where none does.

    The reward of outcome i is reward[k, i - offset]; it has no columns where no row lists a successor twice.
    """
    found = -1
    for i in range(begin, end):
        if successor[i] == s_next:
            if reward.shape[1] == 0:
                return i
            if found < 0 or abs(reward[k, i - offset] - r) < abs(reward[k, found - offset] - r):
                found = i
    return found


@njit(cache=True)
def count_episode(
    row_start, successor, reward, repeated, known, S, A, M, states, actions, rewards, seen, visits, probability
):
    """Count one episode in place and renew the rows it touched; returns the first impossible stage, or H.

    Rows are q = (m * S + s) * A + a with m = h where stages are counted apart (M > 1). `repeated` is the number of
    outcomes of a stored kernel that the layout repeats for each stage, 0 where it repeats none.
    """
    H = actions.size
    for h in range(H):
        q = ((h if M > 1 else 0) * S + states[h]) * A + actions[h]
        begin, end = row_start[q], row_start[q + 1]
        k = h if reward.shape[0] > 1 else 0
        i = find_outcome(successor, reward, k, h * repeated, begin, end, states[h + 1], rewards[h])
        if i < 0:
            return h
        seen[i] += 1
        visits[q] += 1
        if not known[q]:
            for j in range(begin, end):
                probability[j] = seen[j] / visits[q]
    return H
