"""Facts: what planners record about their plans, by type and value."""

from dataclasses import FrozenInstanceError
from fractions import Fraction

import pytest

import bqrl
from bqrl.planners.facts import BestMean, Bracketed, DecidedInFractions, Guaranteed, RoundedReturns, Tied

HALF = bqrl.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[[0.0, 1.0]], [[0.0, 0.0]]], horizon=1)  # returns 0 and 1


def test_a_tie_is_a_fact_that_a_ball_of_radius_0_keeps_without_its_remedy():
    assert bqrl.solve(HALF, tau=0.5).notes == (Tied(decidable=True),)
    assert bqrl.solve(HALF, tau=0.5, radius=0.0, attitude="robust").notes == (Tied(),)
    (decided,) = bqrl.solve(HALF, tau=0.5, arithmetic="rational").notes
    assert isinstance(decided, DecidedInFractions)
    assert decided.level == Fraction(1, 2) > decided.shortfall


def test_the_facts_of_a_plan_agree_with_its_numbers():
    coarse = bqrl.solve("SafeOrRisky", tau=0.1, points=50)
    size = coarse.details["curve"].points.size
    assert coarse.notes[0] == Bracketed(points=size, by_choice=True, law_error=0.0)
    plan = bqrl.solve("SafeOrRisky", tau=0.1, secondary="mean")
    bound, best, safest = plan.mean_upper, plan.details["best_mean"], bqrl.solve("SafeOrRisky", tau=0.1).mean
    said = BestMean(mean=plan.mean, gap=bound - plan.mean, best=best, guarantee=plan.value, safest=safest, mixture=True)
    assert plan.notes == (said,)
    robust = bqrl.solve("SafeOrRisky", tau=0.1, radius=0.1, attitude="robust", points=50)
    first, rounded = robust.notes
    assert first == Guaranteed(value=robust.value, objective=bqrl.Quantile(0.1))
    assert (type(rounded), rounded.points, rounded.up) == (RoundedReturns, size, False)
    assert len(robust.remarks) == 2
    with pytest.raises(FrozenInstanceError):
        first.value = 2.0
