"""Greedy actions of value-based learners."""

import numpy as np
import pytest

from bqrl.learners.model_based_loops import best_action


def test_an_action_that_does_not_exist_is_never_best():
    assert best_action(np.array([-np.inf, -3.0, -2.0])) == 2
    assert best_action(np.array([-np.inf, 0.0])) == 1


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1.0, 1e6])
def test_ties_do_not_depend_on_the_scale_of_rewards(scale):
    assert best_action(scale * np.array([1.0, 1.0 + 1e-9])) == 1
    assert best_action(scale * np.array([1.0, 1.0 + 1e-14])) == 0
