"""Shared noise as plain arrays: it comes back, and damaged arrays get one line."""

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import assert_same_noise, step_models

import bqrl
from bqrl.errors import ModelError
from bqrl.mdp.noise_arrays import PREFIX, from_arrays, to_arrays

MODEL = bqrl.envs.make("Inventory", capacity=2, demand={0: 0.25, 1: 0.5, 2: 0.25}, shared=True)


@given(step_models())
def test_the_arrays_describe_the_noise(case):
    mdp = case[0]
    arrays = to_arrays(mdp.noise)
    assert all(name.startswith(PREFIX) for name in arrays)
    again = from_arrays(arrays, mdp.row_start)
    assert_same_noise(mdp, mdp.with_noise(again))
    assert all(isinstance(event, str) for labels in again.events for event in labels)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("noise_pair_outcome", lambda x: x[:-1]),
        ("noise_pair_outcome", lambda x: x + 1000),
        ("noise_row_law", lambda x: x[:, :-1]),
        ("noise_row_law", lambda x: x - 2),
        ("noise_row_law", lambda x: x + 7),
        ("noise_law_start", lambda x: x + 1),
        ("noise_cut", lambda x: np.array(["many"])),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, change):
    arrays = to_arrays(MODEL.noise)
    with pytest.raises(
        ModelError, match=r"^the arrays noise_\.\.\. do not describe the rows of this model; save it again$"
    ):
        from_arrays(arrays | {name: change(arrays[name])}, MODEL.row_start)
    del arrays[name]
    with pytest.raises(ModelError, match="do not describe the rows"):
        from_arrays(arrays, MODEL.row_start)


def test_laws_that_are_not_known_stay_unknown():
    hidden = MODEL.with_probability(MODEL.probability)
    again = from_arrays(to_arrays(hidden.noise), MODEL.row_start)
    assert not again.known
    assert np.isnan(again.probabilities[0]).all()
