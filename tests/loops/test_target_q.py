"""The updates against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bqrl.loops.target_q import (
    best_columns,
    best_levels,
    distribution_episode,
    level_episode,
    level_tables,
    need_episode,
    quantile_step,
    update_rate,
)

VALUES = st.lists(st.integers(-4, 4).map(float), min_size=6, max_size=6)


def test_the_rate_falls_to_its_least_value():
    assert [update_rate(0.5, 4, n) for n in (1, 2, 6, 100)] == pytest.approx([1.0, 5 / 6, 0.5, 0.5])


@given(VALUES, VALUES, st.sampled_from([0.1, 1.0, 100.0]))
def test_a_step_follows_the_slope_of_the_pinball_loss_and_never_passes_the_quantile(theta, y, rate):
    y, before = np.sort(y), np.array(theta)
    after = before.copy()
    quantile_step(after, y, rate)
    for j, level in enumerate((np.arange(6) + 0.5) / 6):
        slope_down, slope_up = np.mean(y < before[j]) - level, level - np.mean(y <= before[j])
        if before[j] == y[j]:
            assert slope_down <= 0.0 >= slope_up  # the smallest slope is 0: nothing moves
            assert after[j] == before[j]
        elif before[j] > y[j]:
            assert after[j] == pytest.approx(max(y[j], before[j] - rate * slope_down))
        else:
            assert after[j] == pytest.approx(min(y[j], before[j] + rate * slope_up))


def test_repeated_steps_find_the_quantiles_of_a_law():
    rng, theta = np.random.default_rng(0), np.zeros(10)
    for n in range(1, 20_001):
        quantile_step(theta, np.full(10, rng.choice([0.0, 1.0, 5.0], p=[0.3, 0.4, 0.3])), 5.0 * 10 / (10 + n))
    assert np.round(theta).tolist() == [0, 0, 0, 1, 1, 1, 1, 5, 5, 5]
    assert np.abs(theta - np.round(theta)).max() < 0.02


def test_needs_are_updated_at_once_from_the_visited_actions():
    # Two stages, two states, two actions; returns 0 .. 2 from stage 0 and 0 .. 1 from stage 1, in steps of 1.
    J, visits = np.zeros((2, 2, 2, 3)), np.zeros((2, 2, 2), np.int64)
    table, grid = np.zeros((2, 2, 4), np.int8), (1.0, np.array([3, 2, 1]), np.zeros(3))
    need_episode(J, visits, table, grid, (0.1, True), np.array([-1, -1]), np.array([0, 1, 0]), np.array([1, 1]))
    assert J[1, 1, 1].tolist() == [0.0, 0.0, 0.0]  # 0 or 1 is needed, and 1 came
    assert J[0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    need_episode(J, visits, table, grid, (0.1, True), np.array([0, 0]), np.array([0, 1, 0]), np.array([0, 0]))
    assert J[1, 1, 0].tolist() == [0.0, 1.0, 0.0]
    assert J[0, 0, 0].tolist() == [0.0, 0.0, 1.0]  # action 1 of stage 1 costs nothing at need 1, and 1 more at need 2
    assert table[1, 1].tolist() == [0, 1, 1, 1]
    assert table[0, 0].tolist() == [0, 0, 1, 1]
    short = np.zeros((2, 2, 2, 3))
    need_episode(short, visits * 0, table, grid, (0.1, False), np.array([0, 0]), np.array([0, 1, 0]), np.array([0, 0]))
    assert short[0, 0, 0].tolist() == [0.0, 1.0, 1.0]  # the probability of falling short


def test_an_episode_that_ends_early_pays_its_whole_need():
    J, visits = np.zeros((3, 1, 1, 4)), np.zeros((3, 1, 1), np.int64)
    grid = (0.5, np.array([4, 3, 2, 1]), np.array([-0.5, -0.5, -0.5, 0.0]))
    need_episode(
        J, visits, np.zeros((3, 1, 5), np.int8), grid, (0.1, True), np.array([1]), np.zeros(2, int), np.zeros(1, int)
    )
    assert J[0, 0, 0].tolist() == [0.0, 0.5, 1.0, 1.5]


def test_ties_take_the_first_visited_action():
    table = np.zeros(4, np.int8)
    best_columns(np.array([[0.0, 0.0], [2.0, 1.0], [2.0, 0.5]]), np.array([0, 1, 1]), 2, table)
    assert table.tolist() == [1, 2, 2, 2]


def test_the_best_levels_ignore_actions_that_were_not_visited():
    Q = np.array([[9.0, 9.0], [1.0, 4.0], [2.0, 3.0]])
    assert best_levels(Q, np.array([0, 1, 1])).tolist() == [2.0, 4.0]


def test_levels_learn_from_the_best_quantiles_and_cover_each_need():
    Q, visits = np.zeros((2, 1, 2, 2)), np.zeros((2, 1, 2), np.int64)
    Q[1, 0], visits[1, 0] = [[1.0, 4.0], [2.0, 3.0]], 1
    level_episode(Q, visits, 0.1, np.array([1.0, 0.0]), np.array([10.0, 2.0]), np.zeros(3, int), np.array([0, 1]))
    assert Q[1, 0, 1].tolist() == [2.0, 3.0]  # a spread of 0 moves nothing
    assert Q[0, 0, 0].tolist() == [12.0, 14.0]  # a first visit takes the sample itself
    table, grid = np.zeros((2, 1, 6), np.int8), (1.0, np.array([5, 5, 1]), np.array([10.0, 0.0, 0.0]))
    level_tables(Q, visits, table, grid, np.zeros(3, int), np.array([0, 1]))
    assert table[1, 0].tolist() == [1, 1, 1, 0, 0, 0]  # needs 0 to 2 at the lower level, the others at the upper one


def test_the_distributional_update_follows_the_action_with_the_best_mean():
    Z, Q = np.zeros((2, 1, 2, 2)), np.zeros((2, 1, 2))
    Z[1, 0], Q[1, 0] = [[0.0, 9.0], [3.0, 4.0]], [4.5, 3.5]
    visits, action = np.zeros((2, 1, 2), np.int64), np.zeros((2, 1), np.int64)
    play = np.zeros(3, int), np.array([1, 1]), np.array([1.0, 2.0])
    assert distribution_episode(Z, Q, visits, action, (0.1, 0.5), np.ones(2), *play)
    assert Z[1, 0, 1].tolist() == [2.0, 2.0]
    assert Z[0, 0, 1].tolist() == [1.0, 5.5]
    assert Q[0, 0, 1] == 3.25
    assert action.tolist() == [[1], [0]]
