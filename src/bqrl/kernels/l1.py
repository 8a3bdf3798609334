"""The l1 step: the extreme expectation over a ball around a row, within its support.

Mass half the radius moves from the least favoured outcomes to the most favoured one. `l1_expectation` is the reference, and
`l1_moved` the row that attains it. Two forms serve many columns at once and are tested against the reference:
`l1_columns` follows one sparse row from column to column; `l1_ordered` uses one order of the states per column for all rows
of a stage, which is twice as fast where rows are dense and share their successors (benchmarks/uncertain.py).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class Support(NamedTuple):
    """The outcomes of one row: outcome j has the values values[rows[j], c] in the columns c."""

    values: Any  # (states, columns)
    rows: Any  # (k,) unsigned
    probability: Any  # (k,)


class Apart(NamedTuple):
    """The columns begin .. end - 1, in which outcomes differ by more than `slack`."""

    begin: int
    end: int
    slack: float


@njit(cache=True)
def sorted_by_value(order, values, sense):
    """Insertion sort of `order` by sense * values; nearly free when neighbouring columns agree."""
    for j in range(1, order.size):
        item = order[j]
        key = sense * values[item]
        k = j - 1
        while k >= 0 and sense * values[order[k]] > key:
            order[k + 1] = order[k]
            k -= 1
        order[k + 1] = item


@njit(cache=True)
def l1_expectation(order, values, probability, half):
    """Extreme expectation over an l1 ball of radius 2 * half around `probability`, within its support.

    `order` lists the support from the favoured outcome to the least favoured: mass min(half, 1 - p(favoured)) moves to
    the first, taken from the last upwards. Every term is a product of nonnegative factors for nonnegative values.
    """
    best = order[0]
    left = min(half, 1.0 - probability[best])
    total = (probability[best] + left) * values[best]
    for j in range(order.size - 1, 0, -1):
        item = order[j]
        p = probability[item]
        if left > 0.0:
            taken = min(p, left)
            left -= taken
            p -= taken
        total += p * values[item]
    return total


@njit(cache=True)
def l1_moved(order, probability, half, out):
    """The row that attains `l1_expectation`: mass moved to the favoured outcome, taken from the least favoured upwards."""
    best = np.uint64(order[0])
    left = min(half, 1.0 - probability[best])
    for j in range(out.size):
        out[j] = probability[j]
    out[best] += left
    for j in range(order.size - 1, 0, -1):
        if left <= 0.0:
            break
        item = np.uint64(order[j])
        taken = min(probability[item], left)
        out[item] -= taken
        left -= taken


@njit(cache=True)
def l1_ordered(order, values, c, chance, half, sense, plain):
    """`l1_expectation` of column c from its plain expectation, where order[c] lists all states by rising values[c].

    `chance` holds the row's probabilities by state, -1 where a state is not a successor. Only the mass that moves is
    visited. A difference within the rounding error of the sums is set to 0, which preserves ties. Columns are named by
    number, since a view of each would cost more than the step.
    """
    S, column = order.shape[1], np.uint64(c)
    first, last = np.uint64(order[column, np.uint64(0)]), np.uint64(order[column, np.uint64(S - 1)])
    if values[column, first] == values[column, last]:  # the target is safe or lost: mass may move, and nothing changes
        return plain
    place, step = (0, 1) if sense > 0.0 else (S - 1, -1)
    while chance[np.uint64(order[column, np.uint64(place)])] < 0.0:
        place += step
    best = np.uint64(order[column, np.uint64(place)])
    left, low, total = min(half, 1.0 - chance[best]), values[column, best], plain
    j = S - 1 if sense > 0.0 else 0
    while left > 0.0 and j != place:
        s = np.uint64(order[column, np.uint64(j)])
        if chance[s] > 0.0:
            taken = min(chance[s], left)
            left -= taken
            total -= taken * (values[column, s] - low)
        j -= step
    return total if total > (S + 2) * 2.0**-52 * plain else 0.0


@njit(cache=True)
def part_kept(mass, taken, k):
    """Return mass - taken; differences below the rounding error of k sums are set to 0, which preserves ties."""
    left = mass - taken
    return left if left > (k + 2) * 2.0**-53 else 0.0


@njit(cache=True)
def largest(values, rows, c, sign):
    """The largest sign * value of a column."""
    most, column = -np.inf, np.uint64(c)
    for j in range(np.uint64(rows.size)):
        most = max(most, sign * values[rows[j], column])
    return most


@njit(cache=True)
def any_above(values, rows, c, sign, bound):
    """Whether some sign * value of a column exceeds the bound."""
    column = np.uint64(c)
    for j in range(np.uint64(rows.size)):
        if sign * values[rows[j], column] > bound:
            return True
    return False


@njit(cache=True)
def where_apart(values, rows, n, slack):
    """First and last + 1 of the columns in which outcomes differ; values do not fall along a row, so bisection finds them.

    Before them all needs are safe from every outcome, behind them all are lost.
    """
    safe, lost = -largest(values, rows, 0, -1.0), largest(values, rows, n - 1, 1.0)
    begin, end = 0, n
    while begin < end:
        c = (begin + end) // 2
        if any_above(values, rows, c, 1.0, safe + slack):
            end = c
        else:
            begin = c + 1
    low, end = begin, n
    while low < end:
        c = (low + end) // 2
        if any_above(values, rows, c, -1.0, slack - lost):
            low = c + 1
        else:
            end = c
    return begin, end


@njit(cache=True)
def first_givers(order, probability, half, sense, side):
    """Take mass `half` from the last of `order` upwards; returns the last giver, who may keep a part, and what others gave.

    side[j] is -sense where outcome j gave all, else sense.
    """
    side[:] = sense
    given, giver = 0.0, order[-1]
    for j in range(order.size - 1, -1, -1):
        giver = order[j]
        if j == 0 or given + probability[giver] >= half:
            break
        given += probability[giver]
        side[giver] = -sense
    return np.uint64(giver), given


@njit(cache=True)
def misplaced(values, rows, c, edge, side, slack, first):
    """From `first` on, an outcome that gave all though favoured over the last giver, or kept all though behind it.

    Their number, where there is none. Mostly there is none, so four are tested at a time.
    """
    j, k = first, np.uint64(side.size)
    while j + FOUR <= k:
        a = side[j] * (values[rows[j], c] - edge)
        b = side[j + ONE] * (values[rows[j + ONE], c] - edge)
        d = side[j + TWO] * (values[rows[j + TWO], c] - edge)
        e = side[j + THREE] * (values[rows[j + THREE], c] - edge)
        if (a > slack) | (b > slack) | (d > slack) | (e > slack):
            break
        j += FOUR
    while j < k and side[j] * (values[rows[j], c] - edge) <= slack:
        j += ONE
    return j


@njit(cache=True)
def last_givers(support, half, sense, apart, out):
    """out[c] = value of the last giver in each of the columns that are apart.

    Neighbouring columns mostly agree on who gives, so the givers are followed from column to column: an outcome on the
    wrong side of the last giver changes sides.
    """
    values, rows, probability = support
    begin, end, slack = apart
    k = np.uint64(rows.size)
    order, column, side = np.arange(rows.size), np.empty(rows.size), np.empty(rows.size)
    # The first columns mostly tie, so an order from further on serves them, too.
    early = np.uint64(begin + (end - begin) // 4)
    for j in range(k):
        column[j] = values[rows[j], early]
    sorted_by_value(order, column, sense)
    giver, given = first_givers(order, probability, half, sense, side)
    for c in range(np.uint64(begin), np.uint64(end)):
        changes, first = 0, np.uint64(0)
        while True:
            j = misplaced(values, rows, c, values[rows[giver], c], side, slack, first)
            if j == k:
                break
            changes += 1
            if changes > rows.size:  # these columns have little in common: begin anew
                for i in range(k):
                    column[i] = sense * values[rows[i], c]
                giver, given = first_givers(np.argsort(column), probability, half, sense, side)
                break
            last = giver
            if side[j] != sense:  # j takes its mass back, the last giver gives more; if that is all it has, j the rest
                given -= probability[j]
                side[j] = sense
                if given + probability[giver] < half:
                    given += probability[giver]
                    side[giver] = -sense
                    giver = j
            elif given + probability[j] <= half:  # j gives all, the last giver less
                given += probability[j]
                side[j] = -sense
            else:  # j gives in place of the last giver
                giver = j
            first = j + ONE if giver == last else np.uint64(0)  # those before it were compared with the same giver
        out[c] = values[rows[giver], c]


@njit(cache=True)
def sums_beside(support, sense, apart, edge, kept, mass, best):
    """Per column that is apart: the expectation over outcomes favoured over the edge, the mass of the others, the best value.

    Values are multiplied by `sense`, so that less is better. Four outcomes are added at a time, which saves memory traffic.
    """
    values, rows, probability = support
    begin, end, slack = apart
    at, n, k = np.uint64(begin), np.uint64(end - begin), np.uint64(rows.size)
    for j in range(np.uint64(0), k, FOUR):
        i, m, o = min(j + ONE, k - ONE), min(j + TWO, k - ONE), min(j + THREE, k - ONE)
        r, s, t, u = rows[j], rows[i], rows[m], rows[o]
        # Beyond the last outcome, it is repeated with weight 0.
        p, q = probability[j], probability[i] if i > j else 0.0
        y, z = probability[m] if m > i else 0.0, probability[o] if o > m else 0.0
        for c in range(n):
            bound = sense * edge[at + c] - slack
            a, b = sense * values[r, at + c], sense * values[s, at + c]
            d, e = sense * values[t, at + c], sense * values[u, at + c]
            total = kept[c] + (p * a if a < bound else 0.0)
            total += q * b if b < bound else 0.0
            total += y * d if d < bound else 0.0
            kept[c] = total + (z * e if e < bound else 0.0)
            total = mass[c] + (0.0 if a < bound else p)
            total += 0.0 if b < bound else q
            total += 0.0 if d < bound else y
            mass[c] = total + (0.0 if e < bound else z)
            best[c] = min(best[c], min(min(a, b), min(d, e)))


@njit(cache=True)
def l1_columns(values, rows, probability, half, sense, out):
    """out[c] = `l1_expectation` of values[rows, c] for every column: the least (sense +1) or the greatest (-1).

    Mass `half` goes from the least favoured values to the most favoured (what it takes from that one comes back to it):
    outcomes favoured over the last giver keep all, those level with it or behind keep together what is left of their mass
    after `half`. No term is negative for nonnegative values. Values closer than the rounding error of such sums count as
    level: `rounding_error` in planners/sweep.py allows for it.
    """
    at = rows.astype(np.uint64)  # see `add_span` for why indices are unsigned
    slack = (at.size + 2) * 2.0**-53 * max(largest(values, at, out.size - 1, 1.0), largest(values, at, 0, -1.0))
    begin, end = where_apart(values, at, out.size, slack)
    for c in range(out.size):
        out[c] = values[at[0], c]
    if begin == end:
        return
    support, apart = Support(values, at, probability), Apart(begin, end, slack)
    last_givers(support, half, sense, apart, out)
    kept, mass, best = np.zeros(end - begin), np.zeros(end - begin), np.full(end - begin, np.inf)
    sums_beside(support, sense, apart, out, kept, mass, best)
    for c in range(begin, end):
        i = c - begin
        out[c] = sense * (kept[i] + half * best[i]) + part_kept(mass[i], half, at.size) * out[c]


@njit(cache=True, parallel=True)
def l1_dense_rows(kernel, ball, product):
    """Replace product[q, c] = kernel[q] @ values[c] by its extreme over the ball of every row with a radius.

    `kernel` (rows, S) is -1 where a state is not a successor.
    """
    for q in prange(product.shape[0]):
        if ball.half[q] > 0.0:
            for c in range(ball.order.shape[0]):
                product[q, c] = l1_ordered(
                    ball.order, ball.values, c, kernel[q], ball.half[q], ball.sense, product[q, c]
                )
