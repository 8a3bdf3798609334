"""Every form of a model gives the same outcomes."""

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import P, R, assert_same, dense_models
from scipy import sparse

from bqrl import MDP
from bqrl.errors import ArgumentError


def listed(P, R):
    """Transitions (s, a, s_next, p, r) of dense arrays, R by (s, a) or (s, a, s_next)."""
    S, A, _ = P.shape
    by_outcome = np.broadcast_to(R[:, :, None] if R.ndim == 2 else R, P.shape)
    return [
        (s, a, t, P[s, a, t], by_outcome[s, a, t]) for s in range(S) for a in range(A) for t in range(S) if P[s, a, t]
    ]


@pytest.mark.parametrize("by_outcome", [False, True])
def test_dense_sparse_and_listed_forms_agree(by_outcome):
    rewards = np.arange(18.0).reshape(3, 2, 3) if by_outcome else R
    dense = MDP(P, rewards, start=1, horizon=4)
    matrix = sparse.csr_array(P.reshape(6, 3))
    others = [
        MDP(matrix, sparse.csr_array(rewards.reshape(6, 3)) if by_outcome else rewards, start=1, horizon=4),
        MDP(sparse.coo_matrix(P.reshape(6, 3)), rewards, start=1, horizon=4),
        MDP(listed(P, rewards), start=1, horizon=4),
        MDP(np.array(listed(P, rewards))[::-1], start=1, horizon=4),
    ]
    for other in others:
        assert_same(dense, other)


def test_stage_dependent_forms_agree():
    stages = np.stack([P, P[:, ::-1], P])
    rewards = np.stack([R, 2 * R, -R])
    dense = MDP(stages, rewards)
    matrices = [sparse.csr_array(p.reshape(6, 3)) for p in stages]
    by_line = [(h, *line) for h in range(3) for line in listed(stages[h], rewards[h])]
    assert not dense.stationary
    assert_same(dense, MDP(matrices, rewards))
    assert_same(dense, MDP(by_line))
    assert_same(dense, MDP(stages, np.repeat(rewards[..., None], 3, axis=3)))


def test_a_stationary_kernel_is_stored_once():
    mdp = MDP(P, R, horizon=1000)
    assert mdp.stationary
    assert mdp.probability.size == np.count_nonzero(P)
    assert mdp.stage(0).probability.base is mdp.stage(999).probability.base
    by_stage = MDP(P, np.stack([R] * 5), horizon=5)  # rewards may change by stage without copying the kernel
    assert by_stage.stationary
    assert by_stage.reward.shape == (5, np.count_nonzero(P))


def test_stage_rewards_reach_their_stage():
    rewards = np.arange(24.0).reshape(4, 3, 2)
    mdp = MDP(P, rewards, horizon=4)
    for h in range(4):
        stage = mdp.stage(h)
        assert np.array_equal(stage.row_reward, rewards[h])
        assert np.array_equal(stage.reward, np.repeat(rewards[h].ravel(), np.diff(stage.row_start)))
        assert mdp.outcomes(h, 1, 1)[2].tolist() == [rewards[h, 1, 1]] * 3


def test_one_reward_array_serves_every_stage_of_a_staged_kernel():
    rewards = np.arange(18.0).reshape(3, 2, 3)
    staged = MDP(np.stack([P] * 4), rewards)
    once = MDP(P, rewards, horizon=4)
    for h in range(4):
        assert np.array_equal(staged.stage(h).reward, once.stage(h).reward)


def test_outcomes_with_one_successor_and_other_rewards_are_random_rewards():
    mdp = MDP([(0, 0, 0, 0.25, 1.0), (0, 0, 0, 0.25, 3.0), (0, 0, 0, 0.5, 1.0)], horizon=2)
    successors, probabilities, rewards = mdp.outcomes(0, 0, 0)
    assert successors.tolist() == [0, 0]
    assert probabilities.tolist() == [0.75, 0.25]  # equal rewards add up
    assert rewards.tolist() == [1.0, 3.0]
    assert mdp.row_reward is None
    assert mdp.dense(1).tolist() == [[1.0]]


def test_rewards_that_the_outcome_does_not_change_are_kept_by_row():
    assert MDP(P, np.repeat(R[..., None], 3, axis=2), horizon=5).row_reward is not None
    assert MDP(sparse.csr_array(P.reshape(6, 3)), sparse.csr_array(np.ones((6, 3))), horizon=5).row_reward is not None


@given(dense_models(staged=True))
def test_dense_of_a_stage_is_the_kernel_that_was_given(arguments):
    mdp = MDP(**arguments)
    H, S, A, _ = arguments["transitions"].shape
    for h in range(H):
        rows = mdp.available[0 if mdp.stationary else h].reshape(-1)
        expected = arguments["transitions"][h].reshape(S * A, S)
        assert np.allclose(mdp.dense(h)[rows], expected[rows], rtol=0, atol=1e-15)
        assert not mdp.dense(h)[~rows].any()


def test_names_may_hold_the_spaces_and_joiners_of_other_scripts():
    names = ["Drug\u00a0A", "می\u200cروم", "\U0001f469\u200d\U0001f467", "状態\u3000一"]
    rows = [(s, 0, (s + 1) % 4, 1.0, 1.0) for s in range(4)]
    assert MDP(rows, horizon=2, state_names=names, units="1\u202f000 €").state_names == tuple(names)
    for bad in ("a\nb", "a\x00b", "a\u202eb", "a\u2028b", "a\ud800b"):
        with pytest.raises(ArgumentError, match=r"printable on one line, got .*; remove line breaks"):
            MDP(rows, horizon=2, state_names=[*names[:3], bad])
