"""Fields that cannot change, and views of them."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import ARRAYS, P, R, assert_same, models

from bqrl import MDP, from_step
from bqrl.envs import asset_selling


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
