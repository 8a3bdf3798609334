import numpy as np
import pytest

from bqrl.loops.q_learning import explore_table, td_episode


def tables():
    """Two stages, two states; in state 1 the first action does not exist."""
    Q = np.zeros((2, 2, 2))
    Q[:, 1, 0] = -np.inf
    Q[1] = [[3.0, 5.0], [-np.inf, 2.0]]
    return Q, np.zeros((2, 2, 2), np.int64), np.array([[0, 1], [1, 1]])


STATES, ACTIONS = np.array([0, 0, 1]), np.array([1, 0])


@pytest.mark.parametrize(("on_policy", "following"), [(False, 5.0), (True, 3.0)])
def test_the_target_is_the_best_value_or_that_of_the_action_played(on_policy, following):
    Q, visits, action = found = tables()
    assert td_episode(*found, (0.1, 0.5, on_policy), STATES, ACTIONS, np.array([1.0, 10.0]))
    assert Q[0, 0, 1] == 1.0 + 0.5 * following  # a first visit takes the target itself
    assert Q[1, 0, 0] == 10.0  # nothing follows the last stage
    assert action.tolist() == [[1, 1], [0, 1]]
    assert visits.sum() == 2


def test_the_rate_falls_with_the_visits_to_its_least_value():
    Q, _, _ = found = tables()
    values = []
    for reward in (8.0, 0.0, 0.0, 0.0):
        td_episode(*found, (0.4, 1.0, False), STATES, ACTIONS, np.array([0.0, reward]))
        values.append(Q[1, 0, 0])
    assert values == pytest.approx([8.0, 4.0, 2.4, 1.44])


def test_the_next_state_may_lack_the_first_action():
    Q, _, _ = found = tables()
    td_episode(*found, (0.1, 1.0, False), np.array([0, 1, 1]), np.array([1, 1]), np.array([1.0, 10.0]))
    assert Q[0, 0, 1] == 3.0
    assert np.isneginf(Q[:, 1, 0]).all()


def test_exploration_spreads_epsilon_over_the_actions_that_exist():
    available = np.array([[[True, True, False], [False, True, True]]])
    chances = np.empty((1, 2, 3))
    explore_table(np.array([[0, 2]]), available, 0.2, chances)
    assert np.allclose(chances, [[[0.9, 0.1, 0.0], [0.0, 0.1, 0.9]]])
