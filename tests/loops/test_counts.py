import numpy as np

from bqrl.learners.protocol import Episode
from bqrl.loops.counts import EventLaws, Tally, count_episode, count_events, find_outcome

NONE = np.zeros((1, 0)), 0


def tally():
    """One state, two actions with two outcomes each, of which the second action's are the same state with two rewards."""
    return Tally(
        np.array([0, 2, 4]), np.array([0, 1, 0, 0], np.int32), np.zeros(4, np.int64), np.zeros((1, 1, 2), np.int64),
        np.full(4, 0.5), np.array([[[False, True]]]),
    )  # fmt: skip


def test_outcomes_are_found_by_successor_then_by_the_nearest_reward():
    successor, paid = tally().successor, (np.array([[0.0, 0.0, 1.0, 3.0]]), 0)
    assert find_outcome(successor, *NONE, 0, 0, 2, 1, 9.0) == 1
    assert find_outcome(successor, *NONE, 0, 0, 2, 2, 9.0) == -1
    assert [find_outcome(successor, *paid, 0, 2, 4, 0, r) for r in (0.9, 1.9, 2.1)] == [2, 2, 3]


def test_rewards_of_a_layout_that_repeats_the_kernel_are_read_at_their_stage():
    successor, paid = np.zeros(4, np.int32), (np.array([[1.0, 2.0], [2.0, 1.0]]), 2)
    assert find_outcome(successor, *paid, 0, 0, 2, 0, 2.0) == 1
    assert find_outcome(successor, *paid, 1, 2, 4, 0, 2.0) == 2


def test_counting_stops_at_the_first_impossible_stage():
    found = tally()
    assert count_episode(tuple(found), *NONE, np.array([0, 0, 5]), np.array([0, 0]), np.zeros(2)) == 1
    assert found.seen.tolist() == [1, 0, 0, 0]


def test_known_rows_keep_their_probabilities():
    found = tally()
    assert count_episode(tuple(found), *NONE, np.array([0, 0, 0]), np.array([1, 0]), np.zeros(2)) == 2
    assert found.visits.tolist() == [[[1, 1]]]
    assert found.probability.tolist() == [1.0, 0.0, 0.5, 0.5]


def test_unreported_events_count_in_revealing_rows_only():
    """Action 0 sends three events to its outcomes 0, 1, 1; the second and third form a class that it reveals."""
    laws = EventLaws(
        np.array([0, -1]), np.array([0, 3]), np.array([0, 1, 1]), np.array([0, 1, -1, -1]), np.array([0, 3, 3]),
        np.array([0, 1, 1]), np.zeros(2, np.int64),
    )  # fmt: skip
    episode = Episode(np.array([0, 0, 1]), np.array([1, 0]), np.zeros(2))
    assert count_events(tally(), *NONE, laws, *episode) == 2
    assert laws.seen.tolist() == [0, 1]
    hidden = laws._replace(outcome_class=np.full(4, -1), seen=np.zeros(2, np.int64))
    assert count_events(tally(), *NONE, hidden, *episode) == 2
    assert not hidden.seen.any()
    assert count_events(tally(), *NONE, hidden, *episode._replace(events=np.array([-1, 2]))) == 2
    assert hidden.seen.tolist() == [0, 1]
    for wrong in (0, 3, -1):  # another outcome, no such event, no event
        assert count_events(tally(), *NONE, hidden, *episode._replace(events=np.array([-1, wrong]))) == 1
