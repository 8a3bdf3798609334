"""The trade-off between guarantee and mean, against every policy of small problems."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import achievable_laws, exact_mean, exact_objective, small_mdps

import bqrl
from bqrl import evaluate, solve, tradeoff

LEVELS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9])


def shortfall(law, x):
    return sum((p for value, p in law if value < x), Fraction(0))


def best_means(laws, tau):
    """The best mean for every guarantee that some policy reaches, by guarantee."""
    exact = Fraction(repr(tau))
    reached = sorted({x for law in laws for x, _ in law if shortfall(law, x) < exact})
    return {x: max(exact_mean(law) for law in laws if shortfall(law, x) < exact) for x in reached}


def check_bracket(trade, best):
    for x, mean in best.items():
        i = trade.place(float(x))
        assert trade.mean[i] <= float(mean) + 1e-9
        assert float(mean) <= trade.mean_upper[i] + 1e-9 or trade.guarantee[i] > float(x) + 1e-9
    assert trade.guarantee[-1] == pytest.approx(float(max(best)), abs=1e-9)
    assert np.all(np.diff(trade.mean_upper) <= 1e-12)


@given(small_mdps(), LEVELS, LEVELS)
def test_means_for_every_guarantee_and_level_are_bracketed(mdp, tau, other):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    trade = tradeoff(mdp, tau=tau)
    check_bracket(trade, best_means(laws, tau))
    check_bracket(trade.at(other), best_means(laws, other))
    for row in trade.rows():
        law = evaluate(mdp, trade.policy(row["guarantee"]))
        assert law.mean() == pytest.approx(row["mean"], abs=1e-9)
        assert law.quantile(tau) >= row["guarantee"] - 1e-9
        assert law.shortfall(row["guarantee"] - 1e-9) <= row["shortfall"] + 1e-12


@given(small_mdps(horizon=3), LEVELS)
@settings(max_examples=30)
def test_rounded_returns_bracket_the_means(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    trade = tradeoff(mdp, tau=tau, points=7)
    best = best_means(laws, tau)
    for row in trade.rows():
        law = evaluate(mdp, trade.policy(row["guarantee"]))
        assert law.quantile(tau) >= row["guarantee"] - 1e-9
        assert law.exact_mean == pytest.approx(row["mean"], abs=1e-9)
        reached = [mean for x, mean in best.items() if float(x) >= row["guarantee"] - 1e-12]
        assert row["mean_upper"] >= float(max(reached)) - 1e-9


@given(small_mdps(horizon=3), LEVELS)
def test_no_policy_lies_above_the_curve_of_mean_and_cvar(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    exact = Fraction(repr(tau))
    trade = tradeoff(mdp, bqrl.CVaR(tau))
    for law in laws:
        cvar, mean = float(exact_objective(law, exact, exact)), float(exact_mean(law))
        for row in trade.rows():
            assert cvar < row["guarantee"] - 1e-9 or mean <= row["mean_upper"] + 1e-6
    for row in trade.rows():
        law = evaluate(mdp, trade.policy(row["guarantee"]))
        assert (law.cvar(tau), law.mean()) == pytest.approx((row["guarantee"], row["mean"]), abs=1e-9)


def test_the_ends_are_the_risk_neutral_policy_and_the_best_guarantee():
    trade = tradeoff("Inventory", tau=0.1)
    first, last = trade.rows()[0], trade.rows()[-1]
    neutral, plan = solve("Inventory", bqrl.Mean()), solve("Inventory", tau=0.1, margin=0.0)
    assert first["mean"] == first["mean_upper"] == pytest.approx(neutral.value)
    assert first["guarantee"] == neutral.law.quantile(0.1)
    assert last["guarantee"] == plan.value
    assert last["mean"] <= plan.mean + 1e-9 <= last["mean_upper"] + 2e-9
    assert trade.to_frame().columns.tolist() == ["guarantee", "mean", "mean_upper", "shortfall"]
    assert repr(trade).startswith("Tradeoff(0.1-quantile: ")


def test_more_sweeps_never_widen_the_band():
    few, many = (tradeoff("Inventory", tau=0.1, sweeps=n) for n in (6, 30))
    for x in many.guarantee.tolist():
        i, j = few.place(x), many.place(x)
        assert few.guarantee[i] > x or few.mean_upper[i] >= many.mean_upper[j] - 1e-9


def test_what_a_trade_off_cannot_do_is_refused_in_one_line():
    trade = tradeoff("SafeOrRisky", tau=0.1)
    with pytest.raises(ValueError, match="guarantee must be at most 12, the best guarantee, got 13"):
        trade.policy(13)
    with pytest.raises(ValueError, match="objective must be a quantile or CVaR"):
        tradeoff("SafeOrRisky", bqrl.Chance(3.0))
    with pytest.raises(ValueError, match="another level requires the trade-off of a quantile"):
        tradeoff("SafeOrRisky", bqrl.CVaR(0.1)).at(0.2)
