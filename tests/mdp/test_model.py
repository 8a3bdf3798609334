"""The MDP: every form says the same, it is checked once, and nothing changes afterwards."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import ARRAYS, assert_same, dense_models, laws, models
from scipy import sparse

from bqrl import MDP

P = np.array(
    [[[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]], [[0.0, 1.0, 0.0], [0.1, 0.2, 0.7]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
)
R = np.array([[0.0, 1.0], [-2.0, 0.5], [1 / 3, 0.0]])


def listed(P, R):
    """Transitions (s, a, s_next, p, r) of dense arrays, R by (s, a) or (s, a, s_next)."""
    S, A, _ = P.shape
    by_outcome = np.broadcast_to(R[:, :, None] if R.ndim == 2 else R, P.shape)
    return [
        (s, a, t, P[s, a, t], by_outcome[s, a, t]) for s in range(S) for a in range(A) for t in range(S) if P[s, a, t]
    ]


# -- forms ---------------------------------------------------------------------------------------------------------------


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


# -- frozen --------------------------------------------------------------------------------------------------------------


@given(models())
def test_arrays_are_read_only_and_fields_frozen(mdp):
    for name in (*ARRAYS, "reachable"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mdp, name)[...] = 0
        with pytest.raises(AttributeError, match="frozen"):
            setattr(mdp, name, None)
    with pytest.raises(AttributeError):
        mdp.anything = 1


def test_the_callers_arrays_stay_theirs():
    mask, known, start = np.ones((3, 2), bool), np.zeros((3, 2), bool), np.full(3, 1 / 3)
    given = [P.copy(), R.copy(), mask, known, start]
    before = [array.copy() for array in given]
    mdp = MDP(given[0], given[1], horizon=3, available=mask, known=known, start=start)
    for array, old in zip(given, before, strict=True):
        assert np.array_equal(array, old)
        assert array.flags.writeable
        array[...] = 0
    assert_same(mdp, MDP(P, R, horizon=3, start=np.full(3, 1 / 3)))


def test_the_callers_sparse_matrix_stays_theirs():
    matrix = sparse.csr_array(
        (np.array([0.5, 0.5, 0.0, 1.0]), np.array([1, 0, 0, 1]), np.array([0, 2, 4])), shape=(2, 2)
    )
    MDP(matrix, [[0.0], [1.0]], horizon=2)  # unsorted, with an explicit zero: cleaned up in a copy
    assert matrix.data.tolist() == [0.5, 0.5, 0.0, 1.0]
    assert matrix.indices.tolist() == [1, 0, 0, 1]


@given(models())
def test_pickle_keeps_everything_and_stays_frozen(mdp):
    twin = pickle.loads(pickle.dumps(mdp))
    assert_same(mdp, twin)
    assert not twin.probability.flags.writeable
    assert copy.deepcopy(mdp) is mdp
    assert copy.copy(mdp) is mdp


# -- probabilities -------------------------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match=r"row \(s=0, a=0\) sums to 1.000000002"):
        MDP([[[0.5, 0.5 + 2e-9]], [[0.25, 0.75]]], [[0.0], [0.0]], horizon=1)


def test_the_error_names_stage_state_and_action():
    stages = np.tile(P, (5, 1, 1, 1))
    stages[3, 1, 1] = [0.1, 0.2, 0.68]
    with pytest.raises(ValueError, match=r"^row \(h=3, s=1, a=1\) sums to 0.98; "):
        MDP(stages, R)


@given(laws(4))
def test_normalising_twice_changes_nothing(p):
    mdp = MDP(np.tile(p * (1 + 5e-10), (4, 1, 1)), np.zeros((4, 1)), horizon=2)
    assert mdp.with_probability(mdp.probability).probability.tobytes() == mdp.probability.tobytes()


# -- structure -----------------------------------------------------------------------------------------------------------


def test_masked_actions_are_absent():
    mask = np.array([[True, False], [True, True], [False, True]])
    kernel = P.copy()
    kernel[0, 1] = 0.0  # an all-zero row is fine where the action does not exist
    rewards = R.copy()
    rewards[2, 0] = np.nan  # and so is any reward
    mdp = MDP(kernel, rewards, horizon=3, available=mask)
    assert np.array_equal(mdp.available[0], mask)
    assert mdp.outcomes(0, 0, 1)[0].size == 0
    assert not mdp.known[0][~mask].any()
    with pytest.raises(ValueError, match=r"row \(s=0, a=1\) sums to 0; mask actions that do not exist with available="):
        MDP(kernel, R, horizon=3)


def test_availability_may_change_by_stage_with_the_kernel():
    mask = np.ones((3, 3, 2), bool)
    mask[2, :, 1] = False
    mdp = MDP(np.stack([P] * 3), R, available=mask)
    assert np.array_equal(mdp.available, mask)
    assert mdp.stage(2).successor.size == np.count_nonzero(P[:, 0])


def test_a_listed_action_that_is_missing_does_not_exist():
    mdp = MDP([(0, 0, 1, 1.0, 0.0), (1, 1, 0, 1.0, 2.0)], horizon=2)
    assert mdp.available[0].tolist() == [[True, False], [False, True]]


def test_known_structure_hides_the_rest():
    support = np.zeros((3, 2, 3), bool)
    support[0, 0, 2] = True
    known = np.zeros((3, 2), bool)
    known[1, 1] = True
    structure = MDP(P, R, horizon=2, support=support, known=known).structure
    assert structure.support_size[0].tolist() == [[3, 2], [1, 3], [1, 1]]
    shown = ~np.isnan(structure.probability)
    rows = np.repeat(np.arange(6), np.diff(structure.row_start))
    assert set(rows[shown]) == {2, 3, 4, 5}  # the row marked as known, and rows with a single outcome
    assert set(rows[~shown]) == {0, 1}


def test_possible_successors_of_probability_zero_count_as_reachable():
    kernel = np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
    support = np.array([[[False, True]], [[False, False]]])
    with_support = MDP(kernel, [[0.0], [0.0]], horizon=2, support=support)
    assert with_support.outcomes(0, 0, 0)[1].tolist() == [1.0, 0.0]
    assert with_support.unreachable_states == []
    assert MDP(kernel, [[0.0], [0.0]], horizon=2).unreachable_states == [1]
    sparse_support = sparse.csr_array(support.reshape(2, 2))
    assert_same(
        with_support, MDP(sparse.csr_array(kernel.reshape(2, 2)), [[0.0], [0.0]], horizon=2, support=sparse_support)
    )


def test_unreachable_states_need_no_action():
    mdp = MDP([(0, 0, 0, 1.0, 0.0), (3, 0, 0, 1.0, 0.0)], horizon=2)
    assert mdp.unreachable_states == [1, 2, 3]
    with pytest.raises(ValueError, match="state 1 is reachable at stage 0 but has no action"):
        mdp.replace(start=1)


@given(models())
def test_reachable_agrees_with_a_walk(mdp):
    met = {s for s in range(mdp.S) if mdp.mu[s] > 0}
    for h in range(mdp.H + 1):
        assert set(np.flatnonzero(mdp.reachable[h])) == met
        if h < mdp.H:
            met = {int(t) for s in met for a in range(mdp.A) for t in mdp.outcomes(h, s, a)[0]}


# -- start, names, variants ----------------------------------------------------------------------------------------------


def test_start_is_a_state_a_name_or_a_law():
    names = ["a", "b", "c"]
    assert MDP(P, R, start=np.int64(2), horizon=1).start == 2
    assert MDP(P, R, start="b", horizon=1, state_names=names).start == 1
    assert MDP(P, R, start="2", horizon=1).start == 2  # without names a state's label is its number
    spread = MDP(P, R, start=[0.5, 0.0, 0.5], horizon=1)
    assert spread.mu.tolist() == [0.5, 0.0, 0.5]
    with pytest.raises(ValueError, match="starts from a law over states"):
        _ = spread.start


def test_labels_are_names_or_numbers():
    mdp = MDP(P, R, horizon=1, state_names="xyz", action_names=["up", "down"])
    assert [mdp.state_label(s) for s in range(3)] == ["x", "y", "z"]
    assert mdp.action_label(1) == "down"
    assert MDP(P, R, horizon=1).state_label(2) == "2"


def test_repr_tells_the_size():
    assert (
        repr(MDP(P, R, horizon=7, discount=0.9))
        == "MDP(H=7, S=3, A=2, start=0, 10 transitions, stationary, discount=0.9)"
    )


@given(models(), st.sampled_from([1.0, 0.25]))
def test_replace_changes_what_it_is_told(mdp, discount):
    assert_same(mdp, mdp.replace())
    other = mdp.replace(discount=discount)
    assert_same(mdp, other, but=("discount",))
    assert other.discount == discount
    if mdp.stationary and len(mdp.reward) == 1:
        assert_same(mdp, mdp.replace(horizon=mdp.H + 3), but=("H",))
    else:
        with pytest.raises(ValueError, match=f"horizon is fixed at {mdp.H}"):
            mdp.replace(horizon=mdp.H + 3)


@given(models(), st.randoms(use_true_random=False))
def test_with_probability_keeps_the_structure(mdp, random):
    weights = np.array([0.01 + random.random() for _ in range(mdp.successor.size)])
    rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
    other = mdp.with_probability(weights / np.bincount(rows, weights)[rows])
    assert_same(mdp, other, but=("probability",))
    assert not other.probability.flags.writeable
    assert np.array_equal(other.stage(0).reward, mdp.stage(0).reward)
    back = other.with_probability(mdp.probability)
    assert_same(mdp, back)


def test_with_probability_drops_what_was_computed_from_the_old_one():
    mdp = MDP(P, R, horizon=2)
    old = mdp.dense(0)
    flipped = mdp.with_probability(
        np.where(mdp.probability == 0.75, 0.25, np.where(mdp.probability == 0.25, 0.75, mdp.probability))
    )
    assert np.array_equal(mdp.dense(0), old)
    assert flipped.dense(0)[1].tolist() == [0.0, 0.75, 0.25]
