"""The l1 step: the extreme expectation over a ball around a row, within its support.

A mass of half the radius moves from the least favoured outcomes to the most favoured one. `l1_expectation` is the reference
implementation, and `move_mass` computes the row that attains it. `move_mass_around` moves the same mass to a given outcome from
the others, for the random candidates of Algorithm 3; these attain no extreme. Two functions compute many columns and are tested
against the reference. `l1_columns` follows one sparse row from column to column. `l1_ordered` uses one order of the states per
column for all rows of a stage, which is twice as fast if rows are dense and share their successors (benchmarks/uncertain.py).
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit, prange

from bqrl.loops.moves import inner

CHECKED = 256  # number of columns that are checked at once for changes of the last giver
SKIPPED = np.uint64(8)  # number of outcomes of probability 0 from which skipping them saves time
ONE, TWO, THREE, FOUR = np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


class Support(NamedTuple):
    """The outcomes of one row: outcome j has the values values[rows[j], c] in the columns c."""

    values: Any  # (states, columns)
    rows: Any  # (k,) unsigned
    probability: Any  # (k,)


class Apart(NamedTuple):
    """The range begin .. end - 1 of columns in which outcomes differ by more than `slack`."""

    begin: int
    end: int
    slack: float


@njit(cache=True)
def sort_by_value(order, values, sense):
    """Sort `order` by sense * values, ties by index, with insertion sort, which is fast if the order is nearly right."""
    for j in range(1, order.size):
        item = order[j]
        key = sense * values[item]
        k = j - 1
        while k >= 0:
            other = sense * values[order[k]]
            if other < key or (other == key and order[k] < item):
                break
            order[k + 1] = order[k]
            k -= 1
        order[k + 1] = item


@njit(cache=True)
def l1_expectation(order, values, probability, half):
    """Return the extreme expectation over an l1 ball of radius 2 * half around `probability`, within its support.

    `order` lists the support from the most favoured outcome to the least favoured. Mass min(half, 1 - p(most favoured)) moves
    to the first outcome, from the last ones first. For nonnegative values, every term is a product of nonnegative factors.
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
def move_mass(order, probability, half, out):
    """Fill `out` with the row that attains `l1_expectation`: mass moves from the least to the most favoured outcomes."""
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
def move_mass_around(receiver, donor, begin, end, half, kernels, c):
    """Move mass within the row begin .. end - 1 of kernels[c], in place, from donors in cyclic order.

    `receiver` takes mass; the others give it, beginning with the `donor`-th outcome after it. Rows are given by their
    indices, because views would take longer than the step.
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
def l1_ordered(order, values, c, chance, half, sense, plain):
    """Return `l1_expectation` of column c, given its plain expectation; order[c] lists all states by increasing values[c].

    `chance` holds the probabilities of the row by state, and -1 for states that are not successors. Only states whose mass
    moves are visited. A result below the rounding error of the sums is set to 0, which preserves ties. Columns are given by
    their indices, because views would take longer than the step.
    """
    S, column = order.shape[1], np.uint64(c)
    first, last = np.uint64(order[column, np.uint64(0)]), np.uint64(order[column, np.uint64(S - 1)])
    if values[column, first] == values[column, last]:  # moving mass changes nothing
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
def l1_sparse(values, rows, probability, half, sense, S, low, high, out):
    """Do the work of `l1_ordered` in the columns low .. high - 1 of a row that has few of the S states as successors.

    out[c] is the plain expectation at first. Sorting the few successors takes less time than finding them among all states.
    """
    k, scale = rows.size, (S + 2) * 2.0**-52
    if k == 2:
        r, t = np.uint64(rows[0]), np.uint64(rows[1])
        # the mass that each outcome may give
        first = min(probability[0], max(min(half, 1.0 - probability[1]), 0.0))
        second = min(probability[1], max(min(half, 1.0 - probability[0]), 0.0))
        for c in range(np.uint64(low), np.uint64(high)):
            rise = values[t, c] - values[r, c]
            total = out[c] - (second if sense * rise > 0.0 else first) * sense * abs(rise)
            out[c] = total if total > scale * out[c] else 0.0
        return
    place = np.argsort(rows)  # ties go to the state with the lower number
    order, column, chance = np.arange(k), np.empty(k), np.empty(k)
    for j in range(k):
        chance[j] = probability[place[j]]
    for c in range(np.uint64(low), np.uint64(high)):
        for j in range(k):
            column[j] = values[np.uint64(rows[place[j]]), c]
        sort_by_value(order, column, 1.0)
        favoured, j, step = (0, k - 1, -1) if sense > 0.0 else (k - 1, 0, 1)
        best = order[favoured]
        left, total = min(half, 1.0 - chance[best]), out[c]
        while left > 0.0 and j != favoured:
            taken = min(chance[order[j]], left)
            left -= taken
            total -= taken * (column[order[j]] - column[best])
            j += step
        out[c] = total if total > scale * out[c] else 0.0


@inner
def remainder(mass, taken, k):
    """Return mass - taken; differences below the rounding error of k sums are set to 0, which preserves ties."""
    left = mass - taken
    return left if left > (k + 2) * 2.0**-53 else 0.0


@inner
def largest_value(values, rows, c, sign):
    """Return the largest sign * value of a column."""
    most, column = -np.inf, np.uint64(c)
    for j in range(np.uint64(rows.size)):
        most = max(most, sign * values[rows[j], column])
    return most


@inner
def any_above(values, rows, c, sign, bound):
    """Return whether some sign * value of a column exceeds the bound."""
    column = np.uint64(c)
    for j in range(np.uint64(rows.size)):
        if sign * values[rows[j], column] > bound:
            return True
    return False


@inner
def differing_columns(values, rows, n, slack):
    """Return the range begin .. end - 1 of the columns in which outcomes differ, by bisection: values increase along a row.

    Below this range every need is met after each outcome; above it, none is.
    """
    safe, lost = -largest_value(values, rows, 0, -1.0), largest_value(values, rows, n - 1, 1.0)
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


@inner
def first_givers(order, probability, half, sense, side):
    """Take mass `half` from the outcomes at the end of `order`; return the last giver and the mass given by the others.

    The last giver may keep part of its mass. side[j] is -sense if outcome j gave all its mass, else sense.
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


@inner
def find_misplaced(values, rows, c, edge, side, slack, first):
    """Return the first outcome from `first` on that is on the wrong side of the last giver, or the number of outcomes.

    An outcome is on the wrong side if it gave all its mass although it is favoured over the last giver, or kept all its mass
    although it is less favoured. This is rare, so four outcomes are tested at a time.
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


@inner
def count_placed(values, rows, c, width, giver, side, slack, worst, out):
    """Return the number of columns, from c on and at most `width`, in which no outcome is on the wrong side of the last giver.

    out[c] is filled with the value of the last giver in these columns. `worst` is overwritten.
    """
    g, n = rows[giver], np.uint64(width)
    for x in range(n):
        out[c + x], worst[x] = values[g, c + x], 0.0
    for j in range(np.uint64(rows.size)):
        r, own = rows[j], side[j]
        for x in range(n):
            wrong = own * (values[r, c + x] - out[c + x])
            worst[x] = wrong if wrong > worst[x] else worst[x]
    for x in range(width):
        if worst[x] > slack:
            return x
    return width


@inner
def last_givers(support, half, sense, apart, worst, out):
    """Fill out[c] with the value of the last outcome that gives mass, for the columns in which outcomes differ.

    Neighbouring columns mostly have the same givers, so the givers are updated from column to column: an outcome on the wrong
    side of the last giver changes sides. `worst` is overwritten.
    """
    values, rows, probability = support
    begin, end, slack = apart
    k = np.uint64(rows.size)
    order, column, side = np.arange(rows.size), np.empty(rows.size), np.empty(rows.size)
    # Outcomes mostly tie in the first columns, so the initial order is that of a later column.
    early = np.uint64(begin + (end - begin) // 4)
    for j in range(k):
        column[j] = values[rows[j], early]
    sort_by_value(order, column, sense)
    giver, given = first_givers(order, probability, half, sense, side)
    c, last_column, width = np.uint64(begin), np.uint64(end), 8
    while c < last_column:
        if end - begin > CHECKED // 2:
            width = min(width, end - np.int64(c))
            placed = count_placed(values, rows, c, width, giver, side, slack, worst, out)
            c += np.uint64(placed)
            if placed == width:
                width = min(2 * width, CHECKED)
                continue
        changes, first, width = 0, np.uint64(0), 8
        while True:
            j = find_misplaced(values, rows, c, values[rows[giver], c], side, slack, first)
            if j == k:
                break
            changes += 1
            if changes > rows.size:  # this column differs much from the last one: sort again
                for i in range(k):
                    column[i] = values[rows[i], c]
                sort_by_value(order, column, sense)
                giver, given = first_givers(order, probability, half, sense, side)
                break
            last = giver
            # j takes its mass back, and the last giver gives more; if it has too little, j gives the rest
            if side[j] != sense:
                given -= probability[j]
                side[j] = sense
                if given + probability[giver] < half:
                    given += probability[giver]
                    side[giver] = -sense
                    giver = j
            elif given + probability[j] <= half:  # j gives all its mass, the last giver gives less
                given += probability[j]
                side[j] = -sense
            else:  # j gives in place of the last giver
                giver = j
            first = j + ONE if giver == last else np.uint64(0)  # earlier ones were compared with the same giver
        out[c] = values[rows[giver], c]
        c += ONE


@inner
def possible_outcomes(support, k, sense, at, best):
    """Return the k outcomes of positive probability; the others count for the best value only."""
    rows, probability, j = np.empty(k, np.uint64), np.empty(k), np.uint64(0)
    for i in range(np.uint64(support.rows.size)):
        r = support.rows[i]
        if support.probability[i] > 0.0:
            rows[j], probability[j] = r, support.probability[i]
            j += ONE
            continue
        for c in range(np.uint64(best.size)):
            best[c] = min(best[c], sense * support.values[r, at + c])
    return Support(support.values, rows, probability)


@inner
def add_by_side(support, sense, apart, edge, favoured, mass, best):
    """Compute per column the expectation over the outcomes favoured over `edge`, the mass of the others, and the best value.

    Values are multiplied by `sense`, so that smaller is better. Four outcomes are added at a time, which saves memory traffic.
    """
    values, rows, probability = support
    begin, end, slack = apart
    at, n, k = np.uint64(begin), np.uint64(end - begin), np.uint64(rows.size)
    for j in range(np.uint64(0), k, FOUR):
        i, m, o = min(j + ONE, k - ONE), min(j + TWO, k - ONE), min(j + THREE, k - ONE)
        r, s, t, u = rows[j], rows[i], rows[m], rows[o]
        # If fewer than four outcomes are left, the last one is repeated with weight 0.
        p, q = probability[j], probability[i] if i > j else 0.0
        y, z = probability[m] if m > i else 0.0, probability[o] if o > m else 0.0
        for c in range(n):
            bound = sense * edge[at + c] - slack
            a, b = sense * values[r, at + c], sense * values[s, at + c]
            d, e = sense * values[t, at + c], sense * values[u, at + c]
            total = favoured[c] + (p * a if a < bound else 0.0)
            total += q * b if b < bound else 0.0
            total += y * d if d < bound else 0.0
            favoured[c] = total + (z * e if e < bound else 0.0)
            total = mass[c] + (0.0 if a < bound else p)
            total += 0.0 if b < bound else q
            total += 0.0 if d < bound else y
            mass[c] = total + (0.0 if e < bound else z)
            best[c] = min(best[c], min(min(a, b), min(d, e)))


@njit(cache=True)
def l1_columns(values, rows, probability, half, sense, out):
    """Fill out[c] with `l1_expectation` of values[rows, c]: the smallest (sense +1) or the largest (-1), for every column.

    Mass `half` moves from the least favoured values to the most favoured one (mass taken from the latter returns to it).
    Outcomes favoured over the last giver keep all their mass. The other outcomes together keep the rest of their mass after
    `half` is taken; it counts with the value of the last giver. For nonnegative values no term is negative. Values closer than
    the rounding error of these sums are treated as equal; `rounding_error` in planners/sweep.py accounts for this.
    """
    most = max(largest_value(values, rows, out.size - 1, 1.0), largest_value(values, rows, 0, -1.0))
    slack = (rows.size + 2) * 2.0**-53 * most
    begin, end = differing_columns(values, rows, out.size, slack)
    for c in range(out.size):
        out[c] = values[rows[0], c]
    if begin == end:
        return
    support, apart = Support(values, rows, probability), Apart(begin, end, slack)
    favoured, mass, best = np.zeros(end - begin), np.zeros(end - begin), np.empty(end - begin)
    last_givers(support, half, sense, apart, best, out)
    best[:] = np.inf
    possible = np.uint64(0)
    for j in range(np.uint64(rows.size)):
        if probability[j] > 0.0:
            possible += ONE
    if possible + SKIPPED <= np.uint64(rows.size):
        at = np.uint64(begin)
        add_by_side(possible_outcomes(support, possible, sense, at, best), sense, apart, out, favoured, mass, best)
    else:
        add_by_side(support, sense, apart, out, favoured, mass, best)
    for c in range(begin, end):
        i = c - begin
        out[c] = sense * (favoured[i] + half * best[i]) + remainder(mass[i], half, rows.size) * out[c]


@njit(cache=True)
def l1_dense_rows(kernel, ball, product):
    """Replace product[q, c] = kernel[q] @ values[c] by its extreme over the ball, for every row with a positive radius.

    `kernel` (rows, S) is -1 for states that are not successors.
    """
    for q in range(product.shape[0]):
        _l1_dense_row(q, kernel, ball, product)


@njit(cache=True, parallel=True)
def l1_dense_rows_threads(kernel, ball, product):
    """Run `l1_dense_rows` over threads."""
    for q in prange(product.shape[0]):
        _l1_dense_row(q, kernel, ball, product)


@njit(cache=True)
def _l1_dense_row(q, kernel, ball, product):
    """Fill product[q] of `l1_dense_rows`."""
    if ball.half[q] > 0.0:
        for c in range(ball.order.shape[0]):
            product[q, c] = l1_ordered(ball.order, ball.values, c, kernel[q], ball.half[q], ball.sense, product[q, c])
