import numpy as np

from bqrl.loops.clipped import clipped_stage


def test_against_a_plain_recursion():
    rng = np.random.default_rng(0)
    S, A, C, margin, reach = 3, 2, 5, 6, 2
    row_start, kind = np.array([0, 2, 3, 6]), np.array([0, 1, 2, 2, 1, 0])
    place, p = rng.integers(0, S, 6), np.array([0.25, 0.75, 1.0, 0.5, 0.2, 0.3])
    shift, between = rng.integers(-2, 3, 6), np.array([0.0, 0.5, 0.0, 0.25, 1.0, 0.0])
    row_shift, row_between, charge = rng.integers(-1, 2, 6), np.array([0.0, 0.5, 0.0, 0.0, 0.75, 0.0]), rng.random(6)
    after, value, action = rng.random((S, C + 2 * margin)), np.empty((S, C)), np.empty((S, C), np.int8)
    clipped_stage(
        (row_start, place, p, shift, between),
        (kind, row_shift, row_between),
        charge,
        A,
        after,
        margin,
        reach,
        value,
        action,
    )

    def at(s, c, steps, part):
        return (1.0 - part) * after[s, margin + c - steps] + part * after[s, margin + c - steps - 1]

    for s in range(S):
        for c in range(C):
            found = []
            for q in (s * A, s * A + 1):
                total = charge[q]
                for i in range(row_start[kind[q]], row_start[kind[q] + 1]):
                    for extra, share in ((0, 1.0 - row_between[q]), (1, row_between[q])):
                        total += share * p[i] * at(place[i], c, shift[i] + row_shift[q] + extra, between[i])
                found.append(total)
            assert np.isclose(value[s, c], min(found))
            assert action[s, c] == np.argmin(found)
