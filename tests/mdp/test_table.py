"""The table of outcomes: probabilities, rewards and the rows that errors name."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import P, R, laws

from bqrl import MDP
from bqrl.errors import ModelError
from bqrl.mdp.table import from_columns


def test_rows_that_sum_to_one_keep_their_bits():
    row = np.array([0.1] * 10)
    row_of_thirds = np.array([1 / 3] * 3 + [0.0] * 7)
    kernel = np.stack([row, row_of_thirds] + [np.eye(10)[0]] * 8)[:, None, :]
    mdp = MDP(kernel, np.zeros((10, 1)), horizon=1)
    assert mdp.dense(0).tobytes() == np.ascontiguousarray(kernel[:, 0]).tobytes()


def test_rows_off_by_less_than_the_tolerance_are_renormalised():
    mdp = MDP([[[0.5, 0.5 + 9e-10]], [[0.25, 0.75]]], [[0.0], [0.0]], horizon=1)
    assert abs(mdp.dense(0)[0].sum() - 1.0) <= 2**-52
    assert mdp.dense(0)[1].tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match=r"row \(s=0, a=0\) must sum to 1 \(tolerance 1e-09\), got 1\.000000002"):
        MDP([[[0.5, 0.5 + 2e-9]], [[0.25, 0.75]]], [[0.0], [0.0]], horizon=1)


def test_the_error_names_stage_state_and_action():
    stages = np.tile(P, (5, 1, 1, 1))
    stages[3, 1, 1] = [0.1, 0.2, 0.68]
    with pytest.raises(ValueError, match=r"^row \(h=3, s=1, a=1\) must sum to 1 \(tolerance 1e-09\), got 0\.98"):
        MDP(stages, R)


@given(laws(4))
def test_normalising_twice_changes_nothing(p):
    mdp = MDP(np.tile(p * (1 + 5e-10), (4, 1, 1)), np.zeros((4, 1)), horizon=2)
    assert mdp.with_probability(mdp.probability).probability.tobytes() == mdp.probability.tobytes()


def test_rewards_whose_sums_could_overflow_are_refused():
    MDP(P, R * 1e298, horizon=10)
    with pytest.raises(ModelError, match=r"row \(s=1, a=0\) must be at most 1e\+299 .*, got -2e\+299") as caught:
        MDP(P, R * 1e299, horizon=10)
    assert caught.value.row == (None, 1, 0)


def test_rewards_too_small_for_a_grid_are_refused_unless_all_are_zero():
    for size in (5e-324, 1e-310, 9e-291):
        with pytest.raises(ModelError, match=r"largest reward must be 0 or at least 1e-290 in size, got .*; rescale"):
            MDP([(0, 0, 0, 0.5, size), (0, 0, 0, 0.5, 0.0)], horizon=3)
    assert MDP([(0, 0, 0, 1.0, -0.0)], horizon=3).reward.max() == 0.0
    assert MDP([(0, 0, 0, 0.5, 5e-324), (0, 0, 0, 0.5, 1.0)], horizon=3).S == 1


@given(
    st.lists(st.tuples(*[st.integers(0, 2)] * 3, st.sampled_from([-1.0, -0.0, 0.0, 0.5, 2.0])), min_size=1),
    st.booleans(),
)
def test_listed_lines_are_ordered_by_row_successor_and_reward_and_equal_ones_added_as_listed(lines, zeros):
    s, a, s_next, reward = (np.array(column) for column in zip(*lines, strict=True))
    p = np.where(np.arange(s.size) % 3 == 2, 0.0, 0.1 * (1 + np.arange(s.size)))
    p[0::5] = 0.3
    if not zeros:  # a row of zeros alone is refused
        p = np.maximum(p, 0.1)
    table, _ = from_columns(s * 0, s, a, s_next, p, reward, 2, S=3, A=3, keep_zeros=zeros)
    outcomes = {}
    for i in range(s.size):
        outcomes.setdefault((s[i], a[i], s_next[i], reward[i]), []).append(i)
    expected = sorted(outcomes)
    assert table.successor.tolist() == [key[2] for key in expected]
    assert table.probability.tolist() == [np.add.reduceat(p[outcomes[key]], [0])[0] for key in expected]
    assert [table.line_outcome[outcomes[key]].tolist() for key in expected] == [
        [i] * len(outcomes[key]) for i, key in enumerate(expected)
    ]
    stored = table.reward if table.reward is not None else np.repeat(table.row_reward.ravel(), np.diff(table.row_start))
    assert stored.ravel().tolist() == [key[3] for key in expected]


def test_percentages_are_asked_about():
    with pytest.raises(ModelError, match=r"row \(s=0, a=0\) must .*, got 100: percentages\? divide them by 100"):
        MDP(100 * P, R, horizon=1)


def test_errors_carry_the_row():
    stages = np.tile(P, (5, 1, 1, 1))
    stages[3, 1, 1] = [0.1, 0.2, 0.68]
    with pytest.raises(ModelError) as caught:
        MDP(stages, R)
    assert caught.value.row == (3, 1, 1)


def test_counts_and_actions_that_do_not_exist_name_the_remedy():
    with pytest.raises(
        ModelError, match=r"must sum to 1 \(tolerance 1e-09\), got 155: counts\? divide them by their sum"
    ):
        MDP([[[120, 35]], [[0, 1]]], [[0.0], [0.0]], horizon=1)
    with pytest.raises(ModelError, match=r"must be finite, got -inf; mask actions that do not exist with available="):
        MDP(P, np.where(R == -2.0, -np.inf, R), horizon=1)
    assert MDP(P, np.where(R == -2.0, -np.inf, R), horizon=1, available=R != -2.0).reward.min() == 0.0
