"""The l1 step: the extreme expectation over a ball around a row, within its support.

Mass half the radius moves from the least favoured outcomes to the most favoured one. `l1_expectation` says it in a few
lines; the other forms give the same for many columns or rows at once, each where it is fastest, and are tested against it.
"""

import numpy as np
from numba import njit, prange

from bqrl.kernels.columns import add_span


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
    out[:] = probability
    out[best] += left
    for j in range(order.size - 1, 0, -1):
        if left <= 0.0:
            break
        item = np.uint64(order[j])
        taken = min(probability[item], left)
        out[item] -= taken
        left -= taken


@njit(cache=True)
def l1_moved_around(receiver, donor, begin, end, half, kernels, c):
    """`l1_moved` of the row begin .. end - 1 of kernels[c], in place, where donors stand in a circle.

    `receiver` takes; the others give from the `donor`-th after it on. The row is named by its numbers, since views of it
    would cost more than the step.
    """
    k, first = end - begin, np.uint64(begin)
    left = min(half, 1.0 - kernels[c, first + np.uint64(receiver)])
    kernels[c, first + np.uint64(receiver)] += left
    item = receiver + 1 + donor
    for _ in range(k - 1):
        if left <= 0.0:
            break
        item = item - k if item >= k else item
        if item == receiver:
            item = item + 1 if item + 1 < k else 0
        taken = min(kernels[c, first + np.uint64(item)], left)
        kernels[c, first + np.uint64(item)] -= taken
        left -= taken
        item += 1


@njit(cache=True)
def moved_expectation(order, chance, value, c, half, plain):
    """The plain expectation after the l1 step: mass min(half, 1 - p(favoured)) goes to the favoured outcome."""
    S = order.size
    best = -1
    for j in range(S):
        if chance[order[j]] >= 0.0:
            best = order[j]
            break
    left = min(half, 1.0 - chance[best])
    low = value[best, c]
    total = plain
    for j in range(S - 1, -1, -1):
        if left <= 0.0:
            break
        t = order[j]
        p = chance[t]
        if p > 0.0 and t != best:
            taken = min(p, left)
            left -= taken
            total -= taken * (value[t, c] - low)
    return total if total > (S + 2) * 2.0**-52 * plain else 0.0


@njit(cache=True)
def part_kept(mass, taken, k):
    """What is left of a mass after `taken`; a rest within the rounding error of k sums is none, so that ties stay ties."""
    rest = mass - taken
    return rest if rest > (k + 2) * 2.0**-53 else 0.0


@njit(cache=True)
def first_givers(order, probability, half, sense, kept, side):
    """Take mass `half` from the last of `order` upwards; returns the last giver and what the others gave.

    kept[j] is what outcome j keeps; side[j] is -sense where it gave all, else sense.
    """
    kept[:], side[:] = probability, sense
    given, giver = 0.0, order[-1]
    for j in range(order.size - 1, -1, -1):
        giver = order[j]
        if j == 0 or given + probability[giver] >= half:
            break
        given += probability[giver]
        kept[giver], side[giver] = 0.0, -sense
    kept[giver] = part_kept(probability[giver], half - given, order.size)
    return giver, given


@njit(cache=True)
def misplaced(values, rows, c, edge, side, slack, first):
    """From `first` on, an outcome that gave all though favoured over the last giver, or kept all though behind it; or -1."""
    column = np.uint64(c)
    for j in range(np.uint64(first), np.uint64(side.size)):
        if side[j] * (values[np.uint64(rows[j]), column] - edge) > slack:
            return np.int64(j)
    return -1


@njit(cache=True)
def largest(values, rows, c, sign):
    """The largest sign * value of a column."""
    most, column = -np.inf, np.uint64(c)
    for j in range(rows.size):
        most = max(most, sign * values[np.uint64(rows[j]), column])
    return most


@njit(cache=True)
def any_above(values, rows, c, sign, bound):
    """Whether some sign * value of a column exceeds the bound."""
    column = np.uint64(c)
    for j in range(rows.size):
        if sign * values[np.uint64(rows[j]), column] > bound:
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
def foremost(values, rows, begin, end, sense, out):
    """out[c] = least of values[rows, c] (sense +1) or the greatest (-1), for the columns begin .. end - 1; rows in pairs."""
    first, n, k = np.uint64(begin), np.uint64(end - begin), rows.size
    for j in range(0, k, 2):
        r, t = np.uint64(rows[j]), np.uint64(rows[min(j + 1, k - 1)])
        if sense > 0.0:
            for c in range(n):
                out[first + c] = min(out[first + c], min(values[r, first + c], values[t, first + c]))
        else:
            for c in range(n):
                out[first + c] = max(out[first + c], max(values[r, first + c], values[t, first + c]))


@njit(cache=True)
def l1_columns(values, rows, probability, half, sense, out):
    """out[c] = `l1_expectation` of values[rows, c] for every column: the least (sense +1) or the greatest (-1).

    Mass `half` goes from the least favoured values to the most favoured (what it takes from that one comes back to it).
    Neighbouring columns mostly agree on who gives, so the givers are followed from column to column: an outcome on the
    wrong side of the last giver, which gives only in part, changes sides. Weights are constant between two changes, so
    each outcome is added for all columns since its last change at once. No term is negative for nonnegative values.
    Values closer than the rounding error of such sums count as equal: `rounding_error` in planners/sweep.py allows for it.
    """
    k = rows.size
    slack = (k + 2) * 2.0**-53 * max(largest(values, rows, out.size - 1, 1.0), largest(values, rows, 0, -1.0))
    begin, n = where_apart(values, rows, out.size, slack)
    out[:] = values[rows[0], : out.size]
    foremost(values, rows, begin, n, sense, out)
    for c in range(begin, n):
        out[c] *= half
    if begin == n:
        return
    order, column = np.arange(k), np.empty(k)
    for j in range(k):  # the first columns mostly tie, so an order from further on serves them, too
        column[j] = values[rows[j], begin + (n - begin) // 4]
    sorted_by_value(order, column, sense)
    kept, side, since = np.empty(k), np.empty(k), np.full(k, begin)
    giver, given = first_givers(order, probability, half, sense, kept, side)
    for c in range(begin, n):
        changes, first = 0, 0
        while True:
            j = misplaced(values, rows, c, values[rows[giver], c], side, slack, first)
            if j < 0:
                break
            changes += 1
            if changes > k:  # these columns have little in common: begin anew
                for i in range(k):
                    add_span(out, since[i], c, kept[i], values, rows[i], since[i])
                since[:] = c
                order = np.argsort(sense * values[rows, c])
                giver, given = first_givers(order, probability, half, sense, kept, side)
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
            for i in (np.uint64(j), np.uint64(last)):
                if kept[i] > 0.0:
                    add_span(out, since[i], c, kept[i], values, rows[i], since[i])
                since[i] = c
                kept[i] = probability[i] if side[i] == sense else 0.0
            kept[giver] = part_kept(probability[giver], half - given, k)
            first = j + 1 if giver == last else 0  # those before it were compared with the same giver
    for i in range(k):
        if kept[i] > 0.0:
            add_span(out, since[i], n, kept[i], values, rows[i], since[i])


@njit(cache=True)
def l1_row(q, kernel, values, order, half, sense, product):
    """Dense row: replace product[q, c] = kernel[q] @ values[c] by its extreme over the l1 ball of the row.

    `values` (columns, S) has a column of needs in each row, and order[c] sorts the states by values[c], once for all rows.
    Only the mass that moves is walked, each row through its own support, which is where kernel[q] is not negative. What is
    left by subtraction and lies within its rounding error is 0: rests of 1e-17 would keep ties from the mean.
    """
    n, S = values.shape
    row = kernel[q]
    for c in range(n):
        best = 0 if sense > 0.0 else S - 1
        step = 1 if sense > 0.0 else -1
        while row[order[c, best]] < 0.0:
            best += step
        favoured = order[c, best]
        left = min(half[q], 1.0 - row[favoured])
        before = product[q, c] + left * values[c, favoured]
        total = before
        j = S - 1 if sense > 0.0 else 0
        while left > 0.0 and j != best:
            s = order[c, j]
            if row[s] > 0.0:
                taken = min(row[s], left)
                left -= taken
                total -= taken * values[c, s]
            j -= step
        product[q, c] = total if total > (S + 2) * 2.0**-52 * before else 0.0


@njit(cache=True, parallel=True)
def l1_rows_threads(kernel, values, order, half, sense, product):
    """`l1_row` for every row with a radius, over threads."""
    for q in prange(product.shape[0]):
        if half[q] > 0.0:
            l1_row(q, kernel, values, order, half, sense, product)
