"""Selection of the laws of a frontier to keep. A law is a row of masses on shared columns; nothing is checked."""

import numpy as np
from numba import njit


@njit(cache=True)
def mark_distinct(pmf, order, keys, window, tol, keep):
    """Mark in `keep` one row per distinct law: the first of the rows whose masses agree up to `tol`.

    `order` sorts the rows by `keys`, weighted sums of their masses; the keys of equal laws differ by at most `window`. Return a
    bound on the difference of two distribution functions that were treated as equal.
    """
    n, m = pmf.shape
    model = np.empty(n, np.int64)  # the row with which each law is compared
    lowest = np.empty(n, np.int64)  # the first row of each law
    count, worst = 0, 0.0
    for place in range(n):
        i, same = order[place], -1
        for g in range(count - 1, -1, -1):
            if keys[i] - keys[model[g]] > window:
                break
            equal, run, gap = True, 0.0, 0.0
            for j in range(m):
                d = pmf[i, j] - pmf[model[g], j]
                if abs(d) > tol:
                    equal = False
                    break
                run += d
                gap = max(gap, abs(run))
            if equal:
                same, worst = g, max(worst, gap)
                break
        if same < 0:
            model[count], lowest[count] = i, i
            count += 1
        else:
            lowest[same] = min(lowest[same], i)
    keep[:] = False
    for g in range(count):
        keep[lowest[g]] = True
    return 2.0 * worst


@njit(cache=True)
def mark_undominated(cdf, order, tol, keep):
    """Mark in `keep` the rows that no other row dominates in first order, up to `tol` in mass.

    `order` lists the rows by increasing sum of their distribution functions, so only an earlier law can dominate a law. Return
    the largest excess of a retained distribution function over one that it was assumed to dominate.
    """
    n, m = cdf.shape
    worst = 0.0
    retained = np.empty(n, np.int64)
    count = 0
    keep[:] = False
    for place in range(n):
        i = order[place]
        dominated = False
        for k in range(count):
            r, excess = retained[k], 0.0
            below = True
            for j in range(m):
                d = cdf[r, j] - cdf[i, j]
                if d > tol:
                    below = False
                    break
                excess = max(excess, d)
            if below:
                dominated = True
                worst = max(worst, excess)
                break
        if not dominated:
            retained[count] = i
            count += 1
            keep[i] = True
    return worst
