"""Action probabilities."""

import numpy as np
import pytest

import bqrl
from bqrl.errors import PolicyError
from bqrl.policies.shares import ACTIONS_TOL, check_shares, shares_in, uniform

MASKED = bqrl.MDP([(0, 0, 1, 1.0, 1.0), (0, 1, 1, 1.0, 2.0), (1, 0, 1, 1.0, 0.0)], horizon=2)


def test_probabilities_count_only_where_they_are_met():
    shares = np.array([[[0.5, 0.5], [np.nan, 7.0]]])
    everywhere = np.ones((1, 2), bool)
    check_shares(shares, np.ones(shares.shape, bool), np.array([[True, False]]))
    with pytest.raises(PolicyError, match="must sum to 1, got nan in state 1 at stage 1"):
        check_shares(shares, np.ones(shares.shape, bool), everywhere)


def test_rounding_of_single_precision_is_rescaled_and_more_is_refused():
    shares = uniform(MASKED)
    shares[0, 0] = [0.5, 0.5 + 0.5 * ACTIONS_TOL]
    assert shares_in(MASKED, shares)[0, 0].sum() == pytest.approx(1.0, abs=1e-15)
    shares[0, 0] = [0.5, 0.5 + 2.0 * ACTIONS_TOL]
    with pytest.raises(PolicyError, match=r"must sum to 1, got 1\.00000(2|19)\d* in state 0 at stage 1"):
        shares_in(MASKED, shares)


def test_an_action_that_does_not_exist_has_probability_zero():
    shares = np.full((2, 2, 2), 0.5)
    with pytest.raises(PolicyError, match=r"not available, got 0\.5 for action 1 in state 1 at stage 2") as caught:
        shares_in(MASKED, shares)
    assert (caught.value.stage, caught.value.state, caught.value.action) == (1, 1, 1)
    assert uniform(MASKED)[0].tolist() == [[0.5, 0.5], [1.0, 0.0]]
