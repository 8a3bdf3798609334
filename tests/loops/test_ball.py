"""A fixed policy and a kernel that moves within its balls."""

import numpy as np
import pytest
from helpers import stage_rows

from bqrl.loops.ball import follow, improve_rows, push_needs, robust_stage
from bqrl.loops.layout import Ball, Moves
from bqrl.mdp.arrays import read_only
from bqrl.planners.sweep import NO_ORDER, NO_TABLE, NONE_MISSING, ROBUST

NO_JUMPS = np.empty((0, 0), np.int64)


@pytest.fixture
def stage():
    rng = np.random.default_rng(3)
    S, A, k, n = 3, 2, 3, 5
    probability = rng.dirichlet(np.ones(k), S * A).reshape(-1)
    rows = stage_rows(np.arange(0, S * A * k + 1, k), np.tile(np.arange(S), S * A), probability)
    moves = Moves(-rng.integers(0, 3, probability.size), NO_JUMPS)
    mass = rng.random((S, n))
    return rows, moves, read_only(rng.integers(0, A, (S, n)).astype(np.int16)), mass / mass.sum(), rng.random((S, n))


def test_pushing_forward_and_following_backward_agree(stage):
    rows, moves, action, mass, value_next = stage
    out, value = np.zeros_like(mass), np.empty_like(mass)
    push_needs(rows, moves, action, mass, out)
    follow(rows, moves, action, value_next, value)
    assert out.sum() == pytest.approx(1.0)
    assert np.sum(out * value_next) == pytest.approx(np.sum(mass * value))


def test_improved_rows_stay_in_the_ball_and_lower_the_expectation(stage):
    rows, moves, action, mass, value_next = stage
    half, moved = np.full(6, 0.1), np.empty_like(rows.probability)
    improve_rows(rows, half, moves, action, mass, value_next, moved)
    before, after = np.empty_like(mass), np.empty_like(mass)
    follow(rows, moves, action, value_next, before)
    follow(rows._replace(probability=read_only(moved)), moves, action, value_next, after)
    assert np.sum(mass * after) < np.sum(mass * before)
    assert np.all(moved >= 0.0)
    assert np.allclose(moved.reshape(6, 3).sum(axis=1), 1.0)
    assert np.abs(moved - rows.probability).reshape(6, 3).sum(axis=1).max() <= 0.2 + 1e-12


def test_the_worst_case_is_the_expectation_without_a_ball_and_grows_with_it(stage):
    rows, _, action, _, value_next = stage
    gain, column = np.tile(np.array([0, 1, 2]), 6), np.arange(5)
    costs = np.stack([value_next, 2.0 * value_next], axis=2)
    found = []
    for half in (0.0, 0.1, 2.0):
        value = np.empty((3, 5, 2))
        ball = Ball(np.full(6, half), ROBUST, NO_ORDER, NO_TABLE, NONE_MISSING)
        robust_stage(rows, ball, Moves(gain, NO_JUMPS), action, column, costs, value)
        found.append(value)
    plain = np.empty((3, 5))
    follow(rows, Moves(gain, NO_JUMPS), action, value_next, plain)
    assert np.allclose(found[0][..., 0], plain)
    assert np.all(found[1] > found[0])
    assert np.allclose(found[1][..., 1], 2.0 * found[1][..., 0])
    places = np.clip(np.arange(5)[:, None] + [0, 1, 2], 0, 4)
    assert np.allclose(found[2][..., 0], value_next[[0, 1, 2], places].max(axis=1))  # all mass at the worst outcome
