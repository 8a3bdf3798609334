from fractions import Fraction

import numpy as np
import pytest

from bqrl import MDP, MarkovPolicy, envs, guarantee_curve, theory
from bqrl.checks import numbers
from bqrl.errors import ArgumentError, GridError
from bqrl.theory.inputs import as_buffers, as_level, columns_of, exact_curve

STOP = MarkovPolicy(np.zeros((10, 26), int))
NO_LATTICE = MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=40, discount=0.9)


@pytest.mark.parametrize(
    "statement",
    [
        lambda mdp: theory.optimal_margin(mdp, 0.1),
        lambda mdp: theory.plateau(mdp, 0.1, "always:Stop"),
        lambda mdp: theory.plateau_bounds(mdp, 0.1).upper,
        lambda mdp: theory.one_sided_gap(mdp, 0.1, [0.1]).bound.tolist(),
        lambda mdp: theory.regret_bound(mdp, 0.1, 100).total,
        lambda mdp: theory.return_law_perturbation(mdp, mdp, STOP).bound,
        lambda mdp: theory.total_variation_consequence(mdp, mdp, mdp, 0.1).holds,
    ],
)
def test_a_problem_may_be_given_by_its_name(statement):
    assert statement("AssetSelling") == statement(envs.make("AssetSelling"))


def test_numbers_are_copied():
    given = np.array([1.0, 2.0])
    found = numbers(given, "x")
    found[0] = 9.0
    assert given.tolist() == [1.0, 2.0]
    assert numbers(3, "x").shape == ()


def test_fractions_and_large_integers_are_numbers():
    assert numbers([Fraction(1, 4), 10**30, 2], "x").tolist() == [0.25, 1e30, 2.0]


@pytest.mark.parametrize("value", [np.inf, [0.1, np.nan]])
def test_not_finite(value):
    with pytest.raises(ArgumentError, match="x must be finite"):
        numbers(value, "x")


def test_buffers_reach_from_above_zero_to_tau():
    assert as_buffers([0.1, 0.5], 0.5).tolist() == [0.1, 0.5]
    for outside in (0.0, -0.1, 0.6):
        with pytest.raises(ArgumentError) as error:
            as_buffers([0.1, outside], 0.5, "betas")
        assert error.value.name == "betas"


def test_a_level_is_inside_the_unit_interval():
    assert as_level(Fraction(1, 4)) == 0.25
    for tau in (0.0, 1.0):
        with pytest.raises(ArgumentError):
            as_level(tau)


def test_problems_without_a_grid_are_refused_with_the_purpose():
    assert guarantee_curve(NO_LATTICE).exact is False
    for ask in (columns_of, exact_curve):
        with pytest.raises(GridError, match=r"^the margin requires returns on an exact grid"):
            ask(NO_LATTICE, "the margin")


def test_the_curve_of_a_problem_with_a_grid_is_exact():
    mdp = envs.make("AssetSelling")
    assert exact_curve(mdp, "the margin").exact
    assert exact_curve(mdp, "the margin")(0.1) == guarantee_curve(mdp)(0.1)
