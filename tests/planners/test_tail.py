"""The warning about the tail of a quantile plan: when it is given, and that a bracket must prove it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MDP, Law, solve
from bqrl.planners.cvar import FAR, tail_is_safe, with_tail
from bqrl.planners.facts import LowTail
from bqrl.planners.target import risk_neutral


def gamble(prize, disaster):
    """One choice: a sure 10, or `prize` with probability 0.95, else `disaster`."""
    return MDP([(0, 0, 0, 1.0, 10.0), (0, 1, 0, 0.95, prize), (0, 1, 0, 0.05, disaster)], horizon=1)


def tails(plan):
    return [note for note in plan.notes if isinstance(note, LowTail)]


def test_a_small_gain_for_a_terrible_tail_is_a_warning():
    """At 0.1 the gamble guarantees 11 instead of 10; its worst tenth brings (11 - 1000) / 2 on average."""
    plan = solve(gamble(11.0, -1000.0), tau=0.1)
    assert plan.value == 11.0
    (tail,) = tails(plan)
    assert (tail.tau, tail.cvar, tail.neutral) == (0.1, pytest.approx((11.0 - 1000.0) / 2), 10.0)
    said = "warning: the worst 10 % of runs bring -494.5 on average, with the risk-neutral policy 10"
    assert plan.remarks == [f"{said}; if that matters, plan for CVaR"]
    assert solve(gamble(11.0, -1000.0), bqrl.CVaR(0.1)).value == 10.0  # as the warning says
    assert not tails(solve(gamble(11.0, -1000.0), bqrl.CVaR(0.1)))


def test_a_tail_that_costs_less_than_the_guarantee_gains_is_none():
    """Gain 2, loss 10 - (12 + 7) / 2 = 0.5; the mean of the gamble is below 12, so the sure 10 is not the best mean."""
    assert not tails(solve(gamble(12.0, 7.0), tau=0.1))


def test_far_is_a_quarter_of_the_depth_of_the_risk_neutral_tail():
    """Laws of two atoms: CVaR at 0.5 is the lower atom; the same quantile, so any loss exceeds the gain."""
    neutral = Law([0.0, 10.0, 20.0], [0.4, 0.2, 0.4])  # mean 10, CVaR at 0.5: 2, so the depth is 8
    depth = neutral.mean() - neutral.cvar(0.5)
    plan = solve("SafeOrRisky", tau=0.5)

    def warned(loss):
        law = Law([-loss / 0.8, 10.0], [0.4, 0.6])
        found = with_tail(replace(plan, law=law, notes=()), neutral)
        assert neutral.cvar(0.5) - law.cvar(0.5) == pytest.approx(loss)
        return bool(tails(found))

    assert depth == pytest.approx(8.0)
    assert not warned(FAR * depth - 0.01)
    assert warned(FAR * depth + 0.01)


def test_a_bracket_must_prove_the_tail():
    neutral, plan = Law.point(10.0), solve("SafeOrRisky", tau=0.5)
    low, high = Law([-50.0, 10.0], [0.4, 0.6]), Law([9.5, 10.0], [0.4, 0.6])
    assert tails(with_tail(replace(plan, law=low, law_upper=None, notes=()), neutral))
    assert tails(with_tail(replace(plan, law=low, law_upper=low, notes=()), neutral))
    assert not tails(with_tail(replace(plan, law=low, law_upper=Law.point(10.0), notes=()), neutral))
    assert tails(with_tail(replace(plan, law=low, law_upper=high, notes=()), neutral))


def test_the_warning_is_given_once():
    plan = solve(gamble(11.0, -1000.0), tau=0.1)
    assert with_tail(plan, Law.point(10.0)) is plan


@given(small_mdps(), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_a_tail_that_the_curve_calls_safe_has_no_warning(mdp, tau):
    """The risk-neutral law is skipped only where it would not have led to a warning."""
    plan = replace(solve(mdp, tau), notes=())
    if tail_is_safe(plan):
        assert not tails(with_tail(plan, risk_neutral(mdp, 0)[1]))


def test_the_risk_neutral_law_is_not_computed_where_the_tail_is_safe(monkeypatch):
    monkeypatch.setattr("bqrl.planners.solve.risk_neutral", None)
    assert tail_is_safe(solve("MachineReplacement", tau=0.1))
    with pytest.raises(TypeError):
        solve("AssetSelling", tau=0.5)
