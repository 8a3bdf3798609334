"""The MDP: every form says the same, it is checked once, and nothing changes afterwards."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import ARRAYS, P, R, assert_same, models
from scipy import sparse

from bqrl import MDP, from_step
from bqrl.envs import asset_selling
from bqrl.mdp.model import per_model, per_structure

# -- callers --------------------------------------------------------------------------------------------------------------


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
    with pytest.raises(ValueError, match=r"row \(s=0, a=1\) must sum to 1, got 0; mask actions .* with available="):
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


@given(st.lists(st.sets(st.integers(0, 5), min_size=1, max_size=2), min_size=6, max_size=6), st.integers(1, 9))
def test_states_that_come_and_go_are_reachable_at_their_own_stages(graph, H):
    lines = [(s, 0, t, 1.0 / len(after), 0.0) for s, after in enumerate(graph) for t in after]
    met, expected = {0}, []
    for _ in range(H + 1):
        expected.append([s in met for s in range(6)])
        met = set().union(*(graph[s] for s in met))
    assert MDP(lines, horizon=H).reachable.tolist() == expected


def test_unreachable_states_need_no_action():
    mdp = MDP([(0, 0, 0, 1.0, 0.0), (3, 0, 0, 1.0, 0.0)], horizon=2)
    assert mdp.unreachable_states == [1, 2, 3]
    with pytest.raises(ValueError, match="state 1, reachable at stage 1, must have an action, got none"):
        mdp.replace(start=1)


# -- variants ----------------------------------------------------------------------------------------------


@given(models(), st.sampled_from([1.0, 0.25]))
def test_replace_changes_what_it_is_told(mdp, discount):
    assert_same(mdp, mdp.replace())
    other = mdp.replace(discount=discount)
    assert_same(mdp, other, but=("discount",))
    assert other.discount == discount
    if mdp.stationary and len(mdp.reward) == 1:
        assert_same(mdp, mdp.replace(horizon=mdp.H + 3), but=("H",))
    else:
        with pytest.raises(ValueError, match=f"horizon must be {mdp.H} for a model whose stages differ"):
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


# -- a frozen record, and views of it ------------------------------------------------------------------------------------


@given(models())
def test_arrays_are_read_only_and_fields_frozen(mdp):
    for name in (*ARRAYS, "reachable"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(mdp, name)[...] = 0
        with pytest.raises(AttributeError, match="frozen"):
            setattr(mdp, name, None)
    with pytest.raises(AttributeError):
        mdp.anything = 1


@given(models())
def test_pickle_keeps_everything_and_stays_frozen(mdp):
    twin = pickle.loads(pickle.dumps(mdp))
    assert type(twin) is MDP
    assert not hasattr(twin, "__dict__")
    assert_same(mdp, twin)
    assert not twin.probability.flags.writeable
    assert copy.deepcopy(mdp) is mdp
    assert copy.copy(mdp) is mdp


@given(models())
def test_reachable_agrees_with_a_walk(mdp):
    met = {s for s in range(mdp.S) if mdp.mu[s] > 0}
    for h in range(mdp.H + 1):
        assert set(np.flatnonzero(mdp.reachable[h])) == met
        if h < mdp.H:
            met = {int(t) for s in met for a in range(mdp.A) for t in mdp.outcomes(h, s, a)[0]}


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


def test_repr_shows_ids_from_one_as_the_file_writes_them():
    """load(path, start=1) is the id 2 of such a file, but it looked like the id 1."""
    mdp = MDP(P, R, horizon=7, start=1, state_names=["1", "2", "3"])
    assert repr(mdp) == "MDP(H=7, S=3, A=2, start='2', 10 transitions, stationary)"


def test_the_views_of_all_stages_are_of_one_kind():
    """Compiled loops have one version per kind of array, and a writeable one beside a read-only one would be two."""
    mdp = asset_selling().staged()
    stages = [mdp.stage(h) for h in range(mdp.H)]
    kinds = {(stage.row_start.flags.writeable, stage.probability.flags.writeable) for stage in stages}
    assert kinds == {(False, False)}


def test_values_of_states_survive_every_copy():
    mdp = from_step(lambda s, a, e: ((s[0] + e, a), 1.0), [0, 1], {0: 0.5, 1: 0.5}, horizon=2, start=(0, 0))
    assert mdp.state_values is not None
    assert (2, 1) in mdp.state_values
    copies = (
        mdp.replace(discount=0.5),
        mdp.staged(),
        mdp.with_probability(mdp.probability),
        mdp.with_noise(None),
        pickle.loads(pickle.dumps(mdp)),
    )
    assert all(twin.state_values == mdp.state_values for twin in copies)
    with pytest.raises(AttributeError, match="frozen"):
        mdp.state_values = ()


@pytest.mark.parametrize("place", [(-1, 0, 0), (3, 0, 0), (0, 2, 0), (0, 0, 1)])
def test_rows_outside_the_model_are_refused(place):
    mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    assert mdp.outcomes(2, 1, 0)[0].tolist() == [1]
    with pytest.raises(IndexError, match=r"\(stage, state, action\) must be from \(0, 0, 0\) to \(2, 1, 0\), got"):
        mdp.outcomes(*place)


# -- derived values: computed once, and shared with twins where they depend on the structure alone


def a_model():
    return MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)


def test_a_value_is_computed_once_per_model_and_arguments():
    calls = []

    @per_model
    def scaled(mdp, factor):
        calls.append(factor)
        return mdp.S * factor

    mdp = a_model()
    assert [scaled(mdp, 2), scaled(mdp, 2), scaled(mdp, 3), scaled(a_model(), 2)] == [4, 4, 6, 4]
    assert calls == [2, 3, 2]


def test_twins_share_what_depends_on_the_structure_alone():
    calls = []

    @per_structure
    def outcomes(mdp):
        calls.append("structure")
        return mdp.successor.size

    @per_model
    def largest(mdp):
        calls.append("model")
        return float(mdp.probability.max())

    mdp = a_model()
    twin = mdp.with_probability(np.array([0.25, 0.75, 1.0]))
    assert outcomes(mdp) == outcomes(twin) == 3
    assert (largest(mdp), largest(twin)) == (1.0, 1.0)
    assert calls == ["structure", "model", "model"]


def test_two_owners_never_share_a_value():
    @per_model
    def first(mdp):
        return "first"

    @per_model
    def second(mdp):
        return "second"

    mdp = a_model()
    assert (first(mdp), second(mdp)) == ("first", "second")


def test_stored_arrays_are_read_only():
    @per_model
    def ones(mdp):
        return np.ones(mdp.S)

    with pytest.raises(ValueError, match="read-only"):
        ones(a_model())[0] = 2.0
