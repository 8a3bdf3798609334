"""Values derived from a model: computed once, and shared with twins where they depend on the structure alone."""

import numpy as np

from bqrl import MDP
from bqrl.mdp.derived import per_model, per_structure


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
