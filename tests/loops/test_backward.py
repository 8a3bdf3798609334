"""The loops under the planners against plain NumPy; run compiled and, a second time, interpreted."""

import tracemalloc

import numpy as np
import pytest
from helpers import stage_rows

from bqrl.loops.backward import (
    extend_ends,
    reduce_rows,
    sweep_rows,
    sweep_rows_threads,
)
from bqrl.loops.l1 import l1_expectation, l1_ordered, move_mass, sort_by_value
from bqrl.loops.layout import Ball, Goal, Moves, Part
from bqrl.loops.moves import add_outcome
from bqrl.loops.plain import plain_ends, plain_products, plain_rows
from bqrl.mdp.arrays import read_only

NO_JUMPS = np.empty((0, 0), np.int64)
NO_BALL = None


def every_part(now, action):
    """All states and columns of a stage."""
    return Part(np.arange(len(now)), 0, now.shape[1] // (2 if action.size else 1))


@pytest.mark.parametrize("shift", [-7, -3, -1, 0, 1, 2, 9])
@pytest.mark.parametrize("n", [1, 4, 6])
def test_add_outcome_clips_at_both_ends(shift, n):
    source = np.array([[9.0, 9.0, 9.0, 9.0, 9.0, 9.0], [9.0, 1.0, 2.0, 4.0, 8.0, 9.0]])
    out = np.full(n, 0.5)
    add_outcome(out, 2.0, source, 1, 1, 4, shift)
    assert out.tolist() == [0.5 + 2.0 * source[1, 1 + min(max(i + shift, 0), 3)] for i in range(n)]


def linear_programme(p, v, eps, sense):
    """min (or max) of q @ v over |q - p|_1 <= eps on the simplex."""
    from scipy.optimize import linprog

    k = p.size
    cost = np.r_[sense * v, np.zeros(k)]
    A = np.block([[np.eye(k), -np.eye(k)], [-np.eye(k), -np.eye(k)], [np.zeros((1, k)), np.ones((1, k))]])
    b = np.r_[p, -p, eps]
    solved = linprog(cost, A, b, np.r_[np.ones(k), np.zeros(k)][None], [1.0], [(0, None)] * (2 * k))
    return sense * solved.fun


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_the_l1_step_solves_its_linear_programme(seed, sense):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 6))
    p = rng.dirichlet(np.full(k, 0.5))
    p[rng.random(k) < 0.2] = 0.0
    p /= p.sum()
    v = rng.integers(0, 4, k) / 3.0
    for eps in (0.0, 0.1, 0.7, 2.0):
        order = np.arange(k)
        sort_by_value(order, v, sense)
        assert np.all(np.diff(sense * v[order]) >= 0)
        value = l1_expectation(order, v, p, eps / 2)
        assert value == pytest.approx(linear_programme(p, v, eps, sense), abs=1e-9)
        row = np.empty(k)
        move_mass(order, p, eps / 2, row)
        assert row.sum() == pytest.approx(1.0)
        assert np.abs(row - p).sum() <= eps + 1e-12
        assert row @ v == pytest.approx(value, abs=1e-12)
        full = np.argsort(v, kind="stable")
        if eps > 0:
            assert l1_ordered(full[None], v[None], 0, p, eps / 2, sense, p @ v) == pytest.approx(value, abs=1e-12)


def small_stage(rng):
    S, A, n, m = 3, 2, 5, 4
    P = rng.dirichlet(np.ones(S), size=S * A)
    shift = rng.integers(-3, 3, S * A)
    row_start = np.arange(0, S * A * S + 1, S)
    successor = np.tile(np.arange(S), S * A).astype(np.int32)
    value, mean = rng.random((S, m)), rng.random((S, m))
    reward = rng.random(S * A)
    return S, A, n, m, P, shift, row_start, successor, value, mean, reward


@pytest.mark.parametrize("seed", range(5))
def test_a_stage_by_rows_and_by_products(seed):
    S, A, n, m, P, shift, row_start, successor, value, mean, reward = small_stage(np.random.default_rng(seed))
    columns = np.clip(np.arange(n)[None, :] + shift[:, None], 0, m - 1)
    wanted = np.take_along_axis(P @ value, columns, axis=1).reshape(S, A, n)
    wanted_mean = (np.take_along_axis(P @ mean, columns, axis=1) + reward[:, None]).reshape(S, A, n)
    both, exists = np.hstack((value, mean)), np.ones((S, A), bool)
    out, action = np.empty((S, 2 * n)), np.empty((S, n), np.int16)
    rows, moves = stage_rows(row_start, successor, P.ravel()), Moves(np.repeat(shift, S), NO_JUMPS)
    goal = Goal(reward, 0.0, 1e-13, 1e-13)
    sweep_rows(rows, moves, NO_BALL, goal, both, out, action, every_part(out, action))
    assert np.allclose(out[:, :n], wanted.min(axis=1))
    assert np.array_equal(action, wanted.argmin(axis=1))
    assert np.allclose(out[:, n:], np.take_along_axis(wanted_mean, action[:, None].astype(int), axis=1)[:, 0])
    again, again_action = np.empty((S, 2 * n)), np.empty((S, n), np.int16)
    reduce_rows(P @ both, shift, exists, goal, again, again_action)
    assert np.allclose(again, out)
    assert np.array_equal(again_action, action)
    alone, no_action = np.empty((S, n)), np.empty((0, 0), np.int16)
    reduce_rows(P @ value, shift, exists, goal, alone, no_action)
    assert np.allclose(alone, out[:, :n])
    sweep_rows(rows, moves, NO_BALL, goal, value, alone, no_action, every_part(alone, no_action))
    assert np.allclose(alone, out[:, :n])
    table = np.clip(np.arange(n)[None, :] + np.unique(shift)[:, None], 0, m - 1)
    which = np.repeat(np.searchsorted(np.unique(shift), shift), S)
    sweep_rows(rows, Moves(which, table), NO_BALL, goal, both, again, again_action, every_part(again, again_action))
    assert np.allclose(again, out)


@pytest.mark.parametrize("k", range(1, 12))
@pytest.mark.parametrize("shift", [-6, -1, 0, 2, 7])
def test_any_number_of_outcomes_adds_up_in_order(k, shift):
    rng = np.random.default_rng(k)
    after, p, successor = rng.random((4, 10)), rng.random(k), rng.integers(0, 4, k).astype(np.int32)
    now, action = np.empty((1, 12)), np.empty((1, 6), np.int16)
    rows, moves = stage_rows(np.array([0, k]), successor, p), Moves(np.full(k, shift), NO_JUMPS)
    sweep_rows(rows, moves, NO_BALL, Goal(np.zeros(1), 0.0, 1e-13, 1e-13), after, now, action, every_part(now, action))
    columns = np.clip(np.arange(6) + shift, 0, 4)
    wanted = np.zeros(12)
    for i in range(k):  # in this order, so the bits agree
        wanted += p[i] * after[successor[i]][np.r_[columns, 5 + columns]]
    assert now[0].tolist() == wanted.tolist()


def test_ties_go_to_the_larger_mean_then_to_the_lower_action():
    row_start, successor = np.array([0, 1, 2, 3]), np.array([0, 0, 0], np.int32)
    after, now, action = np.array([[0.5, 0.5, 0.0, 0.0]]), np.empty((1, 4)), np.empty((1, 2), np.int16)
    rewards = np.array([1.0, 2.0, 2.0])
    rows, moves = stage_rows(row_start, successor, np.ones(3)), Moves(np.zeros(3, np.int64), NO_JUMPS)
    sweep_rows(rows, moves, NO_BALL, Goal(rewards, 0.0, 1e-13, 1e-13), after, now, action, every_part(now, action))
    assert action.tolist() == [[1, 1]]
    assert now.tolist() == [[0.5, 0.5, 2.0, 2.0]]


@pytest.mark.parametrize("seed", range(8))
def test_a_stage_by_numpy_has_the_same_bits(seed, monkeypatch):
    monkeypatch.setattr("bqrl.loops.plain.PLAIN_BLOCK", 40 if seed > 3 else 1_000)
    rng = np.random.default_rng(seed)
    S, A, n, m, layers = 4, 3, 7, 6, 1 + seed % 2
    sizes = rng.integers(0, 5, S * A)
    sizes[:A] = 0  # a state without actions
    start = np.r_[0, np.cumsum(sizes)]
    p = rng.integers(0, 4, start[-1]) / 3.0  # zeros, and sums that tie
    rows = stage_rows(start, rng.integers(0, S, start[-1]), p)
    shift = rng.integers(-4, 4, start[-1])
    on_set = Moves(shift + 4, np.clip(np.arange(n) + np.arange(-4, 4)[:, None], 0, m - 1))
    goal = Goal(rng.integers(-2, 3, S * A) / 3.0, 0.5 * (seed % 3), 1e-13, 1e-12)
    after = (rng.integers(0, 3, (S, layers * m)) / 7.0).astype(np.float32 if seed == 3 else np.float64)
    for moves in (Moves(shift, NO_JUMPS), on_set):
        found = []
        for run in (sweep_rows, plain_rows):
            now, action = np.ones((S, layers * n), after.dtype), np.ones((S, n) if layers == 2 else (0, 0), np.int16)
            run(rows, moves, NO_BALL, goal, after, now, action, every_part(now, action))
            found.append((now.tobytes(), action.tobytes()))
        assert found[0] == found[1]
    found = []
    product, exists = rng.integers(0, 3, (S * A, layers * m)) / 7.0, sizes.reshape(S, A) > 0
    for reduce in (reduce_rows, plain_products):
        now, action = np.ones((S, layers * n)), np.ones((S, n) if layers == 2 else (0, 0), np.int16)
        reduce(product, np.arange(S * A) % 8 - 4, exists, goal, now, action)
        found.append((now.tobytes(), action.tobytes()))
    assert found[0] == found[1]


def test_a_stage_by_numpy_requires_little_memory():
    S, n = 2_000, 200
    rows, moves = stage_rows(np.arange(S + 1), np.zeros(S), np.ones(S)), Moves(np.zeros(S, np.int64), NO_JUMPS)
    after, now, action = np.ones((S, 2 * n)), np.empty((S, 2 * n)), np.empty((S, n), np.int16)
    tracemalloc.start()
    plain_rows(rows, moves, NO_BALL, Goal(np.zeros(S), 0.0, 1e-13, 1e-12), after, now, action, every_part(now, action))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (now == after).all()
    assert peak < now.nbytes


@pytest.mark.parametrize("half", [None, 0.2])
def test_a_stage_over_threads_has_the_same_bits(half):
    rng = np.random.default_rng(5)
    S, A, k, n = 6, 2, 3, 9
    rows = stage_rows(np.arange(S * A + 1) * k, rng.integers(0, S, S * A * k), rng.dirichlet(np.ones(k), S * A).ravel())
    moves = Moves(rng.integers(-2, 3, S * A * k), NO_JUMPS)
    ball = None if half is None else Ball(np.full(S * A, half), 1.0, NO_JUMPS, np.empty((0, 0)), np.empty(0))
    goal = Goal(rng.random(S * A), 0.0, 1e-13, 1e-12)
    after = np.sort(rng.random((S, 2 * n)), axis=1)
    found = []
    for run in (sweep_rows, sweep_rows_threads):
        now, action = np.empty((S, 2 * n)), np.empty((S, n), np.int16)
        run(rows, moves, ball, goal, after, now, action, every_part(now, action))
        found.append((now, action))
    assert np.array_equal(found[0][0], found[1][0])
    assert np.array_equal(found[0][1], found[1][1])


@pytest.mark.parametrize("outcomes", [1, 2])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("run", [sweep_rows, sweep_rows_threads])
def test_a_part_of_a_stage_has_the_bits_of_the_whole_and_leaves_the_rest(run, layers, outcomes):
    rng = np.random.default_rng(outcomes)
    S, A, n = 7, 4, 9
    total = S * A * outcomes
    successor, p = rng.integers(0, S, total), np.full(total, 1.0 / outcomes)
    rows, shift = stage_rows(np.arange(S * A + 1) * outcomes, successor, p), rng.integers(-12, 12, total)
    goal = Goal(rng.integers(-2, 3, S * A) / 3.0, 0.0, 1e-13, 1e-12)
    after = rng.integers(-1, 2, (S, layers * n)) / 7.0  # ties
    whole, chosen = np.full((S, layers * n), 9.0), np.full((S, n) if layers == 2 else (0, 0), 9, np.int16)
    plain_rows(rows, Moves(shift, NO_JUMPS), NO_BALL, goal, after, whole, chosen, every_part(whole, chosen))
    for states, first, count in (([1, 2, 5], 3, 4), (range(S), 0, n), ([6], 8, 1)):
        now, action = np.full_like(whole, 9.0), np.full_like(chosen, 9)
        part = Part(np.array(states), first, count)
        run(rows, Moves(shift, NO_JUMPS), NO_BALL, goal, after, now, action, part)
        inside = np.zeros((S, n), bool)
        inside[states, first : first + count] = True
        values = np.where(np.tile(inside, layers), whole, 9.0)
        assert now.tobytes() == values.tobytes()
        assert np.array_equal(action, np.where(inside, chosen, 9) if layers == 2 else action)


def test_ends_by_numpy_are_the_same():
    rng = np.random.default_rng(0)
    start = np.array([0, 3, 3, 4, 9])  # the second state has no actions
    successor, after = rng.integers(0, 4, 9).astype(np.int32), rng.integers(-3, 4, (4, 2))
    found = np.ones((2, 4, 2), np.int64)
    for run, ends in zip((extend_ends, plain_ends), found, strict=True):
        run(read_only(start), read_only(successor), read_only(np.arange(9) % 4), after, ends)
    assert np.array_equal(found[0], found[1])
    assert found[0][1].tolist() == [0, 0]
