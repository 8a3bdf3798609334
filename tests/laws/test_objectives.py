import pickle

import pytest
from hypothesis import given
from law_oracle import exact_laws, levels_and_buffers
from oracles import to_law

import bqrl
from bqrl import Buffered, CVaR, Law, Mean, Quantile
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.laws.objectives import check_objective, quantile_objective

LAW = Law([0, 1, 2], [0.25, 0.25, 0.5])


@given(exact_laws(), levels_and_buffers())
def test_an_objective_scores_a_law_as_its_method_does(exact, levels):
    law, (tau, beta) = to_law(exact), map(float, levels)
    if tau < 1.0:
        assert Quantile(tau)(law) == law.quantile(tau)
    assert CVaR(tau)(law) == law.cvar(tau)
    if beta > 0.0:
        assert Buffered(tau, beta)(law) == law.buffered_quantile(tau, beta)
    assert Mean()(law) == law.mean()


def test_an_objective_is_a_value():
    assert CVaR(0.1) == Buffered(0.1, 0.1) != Buffered(0.1, 0.05)
    assert len({Quantile(0.1), Quantile(0.1), CVaR(0.1), Mean(), Mean()}) == 3
    with pytest.raises(AttributeError):
        Quantile(0.1).tau = 0.2
    for each in (Quantile(0.1), CVaR(0.1), Buffered(0.2, 0.1), Mean()):
        assert pickle.loads(pickle.dumps(each)) == each
    assert (Quantile(0.1).label, CVaR(0.1).label, str(Mean())) == ("0.1-quantile", "CVaR at 0.1", "mean")
    assert Quantile(0.1).promise("5 EUR") == "in 9 of 10 runs you get at least 5 EUR"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quantile(1.5), r"tau must be a number in \(0, 1\]"),
        (lambda: Quantile(1.0), "tau must be below 1"),
        (lambda: Buffered(0.1, 0.2), r"beta must be a number in \[0, tau\]"),
        (lambda: Buffered(0.1, 0.0), "use Quantile"),
        (lambda: check_objective(CVaR(0.1), tau=0.2), "not be given together with the objective CVaR at 0.1"),
        (lambda: check_objective(CVaR(0.1), beta=0.05), "beta must not be given together"),
        (lambda: check_objective(0.1, tau=0.2), "tau must be given once"),
    ],
)
def test_bad_levels_are_named(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()


@pytest.mark.parametrize("given", [None, "cvar", CVaR])
def test_what_is_no_objective_is_refused_with_an_example(given):
    with pytest.raises(ArgumentTypeError, match=r"must be|be given"):
        check_objective(given)


def test_a_level_is_the_short_form_of_a_quantile():
    assert check_objective(0.1) == check_objective(None, tau=0.1) == Quantile(0.1)
    assert check_objective(0.1, beta=0.1) == quantile_objective(0.1, 0.1) == CVaR(0.1)


def test_an_objective_of_your_own_scores_laws_but_needs_a_planner():
    class Median(bqrl.Objective):
        label = "median"

        def __call__(self, law):
            return law.quantile(0.5)

    assert Median()(LAW) == 1.0
    with pytest.raises(ArgumentError, match=r"objective must be one of .*Quantile.*, got Median"):
        bqrl.solve("SafeOrRisky", Median())


def test_the_label_of_a_level_below_1_does_not_say_1():
    assert Quantile(0.9999999).label == "0.9999999-quantile"
    assert CVaR(0.9999999).label == "CVaR at 0.9999999"
    assert (CVaR(1.0).label, Quantile(1 / 3).label) == ("CVaR at 1", "0.333333-quantile")


def test_an_objective_in_the_place_of_a_level_names_the_argument():
    with pytest.raises(TypeError, match=r"objective=bqrl\.CVaR\(0\.1\)"):
        bqrl.compare("AssetSelling", ["psrl"], bqrl.CVaR(0.1))
