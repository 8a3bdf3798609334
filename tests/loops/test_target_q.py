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


def needs(H, S, A, sizes, lowest, step=1.0):
    """Empty costs, minima, visits and best actions, and the grid."""
    M = max(sizes)
    arrays = (
        np.zeros((H, S, A, M)),
        np.zeros((H, S, M)),
        np.zeros((H, S, A), np.int64),
        np.zeros((H, S, M + 1), np.int8),
    )
    return *arrays, (step, np.array(sizes), np.array(lowest, float))


def test_needs_are_updated_at_once_from_the_visited_actions():
    # Two stages, two states, two actions; returns 0 .. 2 from stage 0 and 0 .. 1 from stage 1, in steps of 1.
    J, V, visits, table, grid = needs(2, 2, 2, [3, 2, 1], [0, 0, 0])
    none, states, rule = np.zeros(2, bool), np.array([0, 1, 0]), (0.1, True, False)
    need_episode(J, V, visits, table, grid, rule, none, np.full((2, 2), -1), states, np.array([1, 1]))
    assert J[1, 1, 1].tolist() == [0.0, 0.0, 0.0]  # 0 or 1 is needed, and 1 came
    assert J[0, 0, 1].tolist() == [0.0, 0.0, 0.0]
    need_episode(J, V, visits, table, grid, rule, none, np.zeros((2, 2), int), states, np.array([0, 0]))
    assert J[1, 1, 0].tolist() == [0.0, 1.0, 0.0]
    assert J[0, 0, 0].tolist() == [0.0, 0.0, 1.0]  # action 1 of stage 1 costs nothing at need 1, and 1 more at need 2
    assert table[1, 1].tolist() == [0, 1, 1, 1]
    assert table[0, 0].tolist() == [0, 0, 1, 1]
    J, V, visits, table, grid = needs(2, 2, 2, [3, 2, 1], [0, 0, 0])
    rule = 0.1, False, False
    need_episode(J, V, visits, table, grid, rule, none, np.zeros((2, 2), int), states, np.array([0, 0]))
    assert J[0, 0, 0].tolist() == [0.0, 1.0, 1.0]  # the probability of falling short


def test_a_pooled_transition_updates_every_stage_whose_next_stage_is_known():
    J, V, visits, table, grid = needs(3, 2, 1, [4, 3, 2, 1], [0, 0, 0, 0])
    # 0 -> 0 -> 0 -> 1 with the rewards 1, 1, 0; nothing is known of state 1 before the last stage.
    shift = np.tile([-1, -1, 0], (3, 1))
    none, states, actions = np.zeros(2, bool), np.array([0, 0, 0, 1]), np.zeros(3, int)
    need_episode(J, V, visits, table, grid, (0.0, True, True), none, shift, states, actions)
    assert visits[:, 0, 0].tolist() == [2, 2, 3]  # the last transition counts at the last stage, the loops at all
    assert J[2, 0, 0, :2] == pytest.approx([0.0, (1 - 4 / 5) * (1 - 4 / 6)])
    assert not visits[:, 1].any()


def test_states_at_the_end_keep_their_costs():
    J, V, visits, table, grid = needs(2, 2, 1, [3, 2, 1], [0, 0, 0])
    J[:, 1], V[:, 1], visits[:, 1] = [[0.0, 1.0, 2.0]], [0.0, 1.0, 2.0], 1
    need_episode(
        J, V, visits, table, grid, (0.0, True, True), np.array([False, True]), np.zeros((2, 2), int),
        np.array([0, 1, 1]), np.zeros(2, int),
    )  # fmt: skip
    assert visits[:, :, 0].tolist() == [[1, 1], [1, 1]]
    assert J[:, 0, 0].tolist() == [[0.0, 1.0, 2.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize("pooled", [False, True])
def test_an_episode_that_ends_early_pays_its_whole_need(pooled):
    J, V, visits, table, grid = needs(3, 1, 1, [4, 3, 2, 1], [-0.5, -0.5, -0.5, 0.0], step=0.5)
    shift, rule = np.array([[1], [1], [0]]), (0.1, True, pooled)
    need_episode(J, V, visits, table, grid, rule, np.zeros(1, bool), shift, np.zeros(2, int), np.zeros(1, int))
    assert J[0, 0, 0].tolist() == [0.0, 0.5, 1.0, 1.5]
    assert visits[:, 0, 0].tolist() == [1, int(pooled), int(pooled)]


def test_ties_take_the_first_visited_action():
    table, V = np.zeros(4, np.int8), np.zeros(3)
    best_columns(np.array([[0.0, 0.0], [2.0, 1.0], [2.0, 0.5]]), np.array([0, 1, 1]), 2, V, table)
    assert table.tolist() == [1, 2, 2, 2]
    assert V.tolist() == [2.0, 0.5, 0.0]


def test_the_best_levels_ignore_actions_that_were_not_visited():
    Q = np.array([[9.0, 9.0], [1.0, 4.0], [2.0, 3.0]])
    assert best_levels(Q, np.array([0, 1, 1])).tolist() == [2.0, 4.0]


def test_levels_learn_from_the_best_quantiles_and_cover_each_need():
    Q, visits = np.zeros((2, 1, 2, 2)), np.zeros((2, 1, 2), np.int64)
    Q[1, 0], visits[1, 0] = [[1.0, 4.0], [2.0, 3.0]], 1
    rule, spread, worth = (0.1, False), np.array([1.0, 0.0]), np.array([[10.0, 0.0], [0.0, 2.0]])
    level_episode(Q, visits, rule, np.zeros(1, bool), spread, worth, np.zeros(3, int), np.array([0, 1]))
    assert Q[1, 0, 1].tolist() == [2.0, 3.0]  # a spread of 0 moves nothing
    assert Q[0, 0, 0].tolist() == [12.0, 14.0]  # a first visit takes the sample itself
    table, grid = np.zeros((2, 1, 6), np.int8), (1.0, np.array([5, 5, 1]), np.array([10.0, 0.0, 0.0]))
    level_tables(Q, visits, table, grid)
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
