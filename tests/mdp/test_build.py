"""Every form of a model gives the same outcomes."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import P, R, assert_same, dense_models
from scipy import sparse

from bqrl import MDP
from bqrl.errors import ArgumentError, ModelError


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


def test_kernels_of_other_tools_name_the_call_that_turns_them():
    """(A,S,S) as toolboxes for Python store them, (S,S,A) as those for MATLAB and R, (S',S,A) as a conditional law."""
    usual = MDP(P, R, horizon=4)
    for order in ((1, 0), (2, 1), (2, 0)):
        kernel = np.moveaxis(P, *order)
        with pytest.raises(ModelError, match=r"; for this order of axes, whose rows sum to 1, pass np\.") as caught:
            MDP(kernel, R, horizon=4)
        turned = eval(str(caught.value).rpartition(" pass ")[2], {"np": np, "P": kernel})
        assert_same(usual, MDP(turned, R, horizon=4))
    square = np.array([[[0.25, 0.75], [0.5, 0.5]], [[1.0, 0.0], [0.1, 0.9]]])  # as many actions as states
    with pytest.raises(
        ModelError, match=r"sum to 1 over the last axis, got 0.75 in row \(0, 0\); .* pass np.moveaxis\(P, 1, 2\)"
    ):
        MDP(np.moveaxis(square, 2, 1), np.zeros((2, 2)), horizon=2)
    MDP([[[1.0], [0.0]]], [[1.0, 0.0]], horizon=2, available=[[True, False]])  # sums to 1 over both axes


def test_rewards_of_other_tools_name_the_call_that_turns_them():
    full = np.arange(18.0).reshape(3, 2, 3)
    for rewards, same in (
        (R[:, 0], np.repeat(R[:, :1], 2, axis=1)),
        (R.T, R),
        (full[:, 0], np.repeat(full[:, :1], 2, axis=1)),
        (np.moveaxis(full, 1, 0), full),
        (np.moveaxis(full, 2, 1), full),
    ):
        with pytest.raises(ModelError, match=r"rewards must have shape \(3, 2\), .*; for .* pass np\.") as caught:
            MDP(P, rewards, horizon=4)
        turned = eval(str(caught.value).rpartition(" pass ")[2], {"np": np, "R": rewards})
        assert_same(MDP(P, same, horizon=4), MDP(P, turned, horizon=4))
    with pytest.raises(TypeError, match=r"^rewards must be given with an array of transitions, as \(S,A\)"):
        MDP(P, horizon=4)


def test_one_sparse_matrix_per_action_is_not_read_as_one_per_stage():
    """Two matrices (S,S) and two of rewards were once read as two stages with one action."""
    matrices = [sparse.csr_array(P[:, a]) for a in range(2)]
    rewards = [sparse.csr_array(np.ones((3, 3)))] * 2
    with pytest.raises(ArgumentError, match="horizon must be 2 if each of 2 square matrices is a stage") as caught:
        MDP(matrices, rewards)
    remedy = str(caught.value).rpartition(" pass ")[2]
    stacked = eval(remedy, {"np": np, "sparse": sparse, "P": matrices, "A": 2, "S": 3})
    assert_same(MDP(P, R, horizon=4), MDP(stacked, R, horizon=4))
    for staged in (MDP(matrices, rewards, horizon=2), MDP(matrices, np.ones((3, 1)))):  # rewards tell of one action
        assert (staged.H, staged.A) == (2, 1)


def test_sparse_rewards_of_whole_numbers_are_stored_as_floats():
    """Rewards that differ by outcome kept the type of the matrix, so that a model had an array of integers as rewards."""
    rewards = sparse.csr_array(np.arange(18).reshape(6, 3))
    assert_same(
        MDP(P, np.arange(18.0).reshape(3, 2, 3), horizon=4), MDP(sparse.csr_array(P.reshape(6, 3)), rewards, horizon=4)
    )


def test_dicts_that_are_no_tables_name_the_remedy():
    matrices = {"go": P[:, 0], "stay": P[:, 1]}
    with pytest.raises(ModelError, match="got a dict of matrices"):
        MDP({"wait": [[1, 0], [0, 1]], "act": [[0, 1], [1, 0]]}, [[1, 2], [3, 4]], horizon=2)
    with pytest.raises(ModelError, match=r"got a dict of matrices; for one matrix \(S,S\) per action pass") as caught:
        MDP(matrices, R, horizon=4)
    call = str(caught.value).partition(" pass ")[2].partition(" and rewards")[0]
    assert_same(MDP(P, R, horizon=4), MDP(eval(call, {"np": np, "P": matrices}), R, horizon=4))
    with pytest.raises(
        ModelError, match=r"got a dict of dicts; list its outcomes as dicts, or read .* with from_gymnasium"
    ):
        MDP({0: {0: [(1.0, 0, 0.0, False)]}}, horizon=4)


def test_masked_numbers_are_not_read():
    R = np.ma.masked_array([[1.0], [99.0]], mask=[[False], [True]])
    with pytest.raises(TypeError, match="rewards must be an array of numbers of one shape, got MaskedArray"):
        MDP([[[0.1, 0.9]], [[0.0, 1.0]]], R, horizon=5)


def test_an_array_of_fractions_is_an_array_of_numbers():
    P = np.array([[[Fraction(1, 2)] * 2, [Fraction(1), Fraction(0)]]] * 2)  # as many actions as states
    assert MDP(P, [[0, 1], [2, 3]], horizon=2).probability.tolist() == [0.5, 0.5, 1.0, 0.5, 0.5, 1.0]


def test_an_object_array_of_matrices_is_read_like_their_list():
    P = np.empty(2, object)
    P[:] = [sparse.csr_array(np.eye(3)), sparse.csr_array(np.eye(3))]
    with pytest.raises(ValueError, match=r"for one matrix \(S,S\) per action pass sparse.vstack"):
        MDP(P, np.zeros((3, 2)), horizon=5)


def test_a_list_of_as_many_matrices_as_states_is_not_guessed():
    """One matrix per action was read as one per state, which a kernel of two states and two actions does not show."""
    wait, act, R = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[1.0, 0.0], [0.5, 0.5]]), np.zeros((2, 2))
    with pytest.raises(
        ModelError, match=r"got a list of 2 matrices of shape \(2, 2\); pass np.stack\(list, axis=1\) if"
    ):
        MDP([wait, act], R, horizon=3)
    mdp = MDP(np.stack([wait, act], axis=1), R, horizon=3)
    assert mdp.dense(0)[0::2].tolist() == wait.tolist()
    with pytest.raises(ModelError, match="rewards must be an array"):
        MDP(np.stack([wait, act], axis=1), [wait, act], horizon=3)
    assert MDP(np.stack([wait, act], axis=1)[None].repeat(2, axis=0), [R, R + 1.0]).reward.max() == 1.0  # one per stage
    assert MDP([[[0.5, 0.5], [1, 0]], [[0, 1], [1, 0]]], R, horizon=3).S == 2  # nested lists are an array


def test_rewards_of_a_shape_with_two_meanings_are_read_by_stage_or_refused():
    """With as many stages as states and actions, (H,S,A) is also (S,A,S); the first belongs to transitions by stage."""
    P, R = np.full((2, 2, 2, 2), 0.5), np.arange(8.0).reshape(2, 2, 2)
    by_stage = np.broadcast_to(R[..., None], P.shape)
    assert_same(MDP(P, R), MDP(P, by_stage))
    with pytest.raises(ModelError, match=r"may mean \(H,S,A\) or \(S,A,S\); give them as \(S,A\) or \(H,S,A,S\)"):
        MDP(P[0], R, horizon=2)
