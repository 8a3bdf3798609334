import numpy as np
import pytest

import bqrl
from bqrl import StochasticPolicy
from bqrl.errors import PolicyError

HALF = StochasticPolicy([[[0.5, 0.5]]] * 10)


def test_a_stochastic_policy_draws_from_its_own_seeded_stream():
    shares = [[[0.2, 0.0, 0.8]]]
    first, again, other = (StochasticPolicy(shares, seed=seed) for seed in (3, 3, 4))
    drawn = [[policy.act(0, 0) for _ in range(2000)] for policy in (first, again, other)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert set(drawn[0]) == {0, 2}
    assert np.mean(np.array(drawn[0]) == 2) == pytest.approx(0.8, abs=4 * np.sqrt(0.16 / 2000))


@pytest.mark.parametrize(
    ("shares", "kind", "message"),
    [
        ([[0.5, 0.5]], PolicyError, r"probabilities must have shape \(H, S, A\), got \(1, 2\)"),
        ([[[0.5, 0.4]]], PolicyError, "must sum to 1, got 0.9 in state 0 at stage 1"),
        ([[[1.5, -0.5]]], PolicyError, "must not be negative, got -0.5 for action 1 in state 0 at stage 1"),
        ([[[0.0, float("nan")]]], PolicyError, "must sum to 1, got nan"),
        ([[["a", "b"]]], TypeError, "must be an array of numbers, got list"),
        ([[[1.0], [0.5, 0.5]]], TypeError, "must be an array of numbers, got list"),
    ],
)
def test_action_probabilities_that_are_none_are_refused(shares, kind, message):
    with pytest.raises(kind, match=message):
        StochasticPolicy(shares)


def test_later_changes_of_an_array_do_not_change_the_policy():
    shares = np.full((1, 1, 2), 0.5)
    policy = StochasticPolicy(shares)
    shares[:] = [1.0, 0.0]
    assert policy.probabilities.tolist() == [[[0.5, 0.5]]]
    with pytest.raises(ValueError, match="read-only"):
        policy.probabilities[:] = 0.0


def test_a_state_without_probabilities_has_no_draw():
    with pytest.raises(PolicyError, match="expected a state with action probabilities, got state 1 at stage 1"):
        StochasticPolicy([[[0.5, 0.5], [0.0, 0.0]]]).act(0, 1)


@pytest.mark.parametrize("convert", ["to_markov", "to_labels"])
def test_a_stochastic_policy_has_no_form_with_one_action_per_history(convert):
    mdp = bqrl.envs.make("SafeOrRisky")
    with pytest.raises(PolicyError, match=r"expected a policy that draws no actions, .*argmax\(axis=2\)\)"):
        getattr(HALF, convert)(mdp)
