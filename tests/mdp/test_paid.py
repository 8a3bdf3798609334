"""The rewards that a policy was planned for, against those of other models."""

import numpy as np
import pytest

from bqrl import MDP
from bqrl.errors import FileFormatError
from bqrl.mdp.paid import Fault, paid_from_arrays

ROWS = [(0, 0, 0, 0.5, 1.0), (0, 0, 1, 0.5, 2.0), (1, 0, 1, 0.5, 0.0), (1, 0, 1, 0.5, 3.0)]
MODEL = MDP(ROWS, horizon=3)


def changed(i, reward):
    """The model in which outcome i pays another reward."""
    return MDP([(*row[:4], reward if j == i else row[4]) for j, row in enumerate(ROWS)], horizon=3)


def fault(mdp, planned=MODEL.paid):
    """What a policy finds that was planned for these rewards."""
    return planned.fault(mdp.paid, mdp.reachable, mdp.probability)


def test_one_record_serves_every_model_of_a_structure():
    twin = MODEL.with_probability(np.array([0.1, 0.9, 0.4, 0.6]))
    assert twin.paid is MODEL.paid
    assert fault(twin) is None


def test_a_transition_that_pays_otherwise_is_found():
    assert fault(changed(1, 2.5)) == Fault(0, 0, 0, 1, 2.0, 2.5)
    assert fault(changed(3, 4.0)) == Fault(0, 1, 0, 1, 3.0, 4.0)
    assert fault(changed(1, 2.0 + 1e-12)) is None


def test_the_stage_of_a_fault_is_that_of_the_reward():
    rewards = np.broadcast_to(MODEL.reward, (3, 4)).copy()
    stages = [(h, *row[:4], rewards[h, j]) for h in range(3) for j, row in enumerate(ROWS)]
    assert fault(MDP(stages, horizon=3)) is None
    stages[5] = (*stages[5][:5], 7.0)
    assert fault(MDP(stages, horizon=3)) == Fault(1, 0, 0, 1, 2.0, 7.0)


def test_fewer_outcomes_and_unreachable_states_are_no_fault():
    assert fault(MDP([*ROWS[:2], (1, 0, 1, 1.0, 3.0)], horizon=3)) is None  # a fit that saw one reward
    assert fault(MDP([(0, 0, 0, 1.0, 1.0), (1, 0, 1, 1.0, 9.0)], horizon=3)) is None
    assert fault(MDP([(0, 0, 0, 1.0, 1.0), (0, 1, 0, 1.0, 5.0), *ROWS[2:]], horizon=3)) is None


def test_arrays_come_back_and_damaged_ones_are_refused():
    arrays = MODEL.paid.arrays()
    back = paid_from_arrays(arrays, 3, 2)
    assert fault(MODEL, back) is None
    assert fault(changed(1, 2.5), back) == Fault(0, 0, 0, 1, 2.0, 2.5)
    assert paid_from_arrays({"paid_shape": np.zeros(2, np.int64)}, 3, 2) is None
    damages = [
        {"paid_shape": np.array([5, 1])}, {"paid_row_start": np.array([0, 2])}, {"paid_row_start": np.array([0, 9, 4])},
        {"paid_successor": np.array([0, 1, 1, 7])}, {"paid_reward": np.zeros((2, 4))},
    ]  # fmt: skip
    for damage in damages:
        with pytest.raises(FileFormatError, match=f"'{next(iter(damage))}' must"):
            paid_from_arrays(arrays | damage, 3, 2)
