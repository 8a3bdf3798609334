import numpy as np
import pytest
from learner_problems import chain

import bqrl
from bqrl.envs import asset_selling, make
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.learners.protocol import Episode, Task, blank_model, stored_array, with_events
from bqrl.mdp.model import MDP


def task(mdp, discount=1.0):
    return Task(
        structure=mdp.structure, model=None, discount=discount, objective=bqrl.Quantile(0.5), episodes=5, delta=0.05
    )


def test_a_task_knows_the_structure_and_not_the_kernel():
    mdp = asset_selling(stop_at_end=True)
    known = task(mdp)
    assert (known.H, known.S, known.A) == (mdp.H, mdp.S, mdp.A)
    assert np.array_equal(known.available, mdp.available)
    hidden = np.repeat(~mdp.known.reshape(-1), np.diff(mdp.row_start))
    assert np.isnan(known.structure.probability[hidden]).all()
    assert np.array_equal(known.structure.probability[~hidden], mdp.probability[~hidden])


def test_a_stationary_task_lists_its_actions_for_every_stage():
    assert task(chain()).available.shape == (6, 3, 2)


@pytest.mark.parametrize(
    ("own", "given", "found"), [(1.0, None, 0.99), (0.9, None, 0.9), (0.9, 0.5, 0.5), (1.0, 1.0, 1.0)]
)
def test_the_discount_of_updates(own, given, found):
    assert task(chain(), own).update_discount(given) == found


def test_the_discount_of_updates_is_checked():
    with pytest.raises(ArgumentError, match="discount must be"):
        task(chain()).update_discount(1.5)


def test_the_blank_model_is_uniform_where_the_kernel_is_not_known():
    mdp = MDP([(0, 0, 0, 0.9, 1.0), (0, 0, 1, 0.1, 2.0), (1, 0, 1, 1.0, 0.0)], horizon=2)
    blank = blank_model(mdp)
    assert blank.probability.tolist() == [0.5, 0.5, 1.0]
    assert np.array_equal(blank.reward, mdp.reward)


def test_the_blank_model_keeps_shared_noise_without_its_laws():
    mdp = make("SafeOrRisky", shared=True)
    noise = blank_model(mdp).noise
    assert not noise.known
    assert np.array_equal(noise.pair_outcome, mdp.noise.pair_outcome)
    assert blank_model(mdp.with_probability(mdp.probability)).noise is None


def test_events_can_be_hidden_and_shown():
    mdp = make("SafeOrRisky", shared=True)
    assert with_events(mdp, None) is mdp
    assert not with_events(mdp, False).noise.events_observed
    assert with_events(with_events(mdp, False), True).noise.events_observed
    assert with_events(mdp, False).noise.known
    with pytest.raises(ArgumentError, match="without shared noise, got True") as caught:
        with_events(make("SafeOrRisky"), True)
    assert caught.value.name == "events_observed"


def test_stored_arrays_must_have_their_shape_and_kind():
    like = np.zeros(3, np.int64)
    state = {"x": np.array([1, 2, 3], np.int32)}
    found = stored_array(state, "x", like)
    assert found.dtype == np.int64
    found[0] = 9
    assert state["x"][0] == 1  # a copy
    for bad in ({}, {"x": np.zeros(4, np.int64)}, {"x": np.zeros(3)}):
        with pytest.raises(FileFormatError, match="x"):
            stored_array(bad, "x", like)


def test_an_episode_without_events_reports_none():
    assert Episode(np.zeros(2), np.zeros(1), np.zeros(1)).events.size == 0
