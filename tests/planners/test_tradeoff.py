"""The trade-off between guarantee and mean, against every policy of small problems."""

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import achievable_laws, exact_mean, exact_objective, exact_outcomes, small_mdps

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
        assert float(mean) <= trade.bound[i] + 1e-9 or trade.guarantee[i] > float(x) + 1e-9
    assert trade.guarantee[-1] == pytest.approx(float(max(best)), abs=1e-9)
    assert np.all(np.diff(trade.bound) <= 1e-12)


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


@given(small_mdps(horizon=3), LEVELS, st.sampled_from([0.2, 0.5, 1.0]))
@settings(max_examples=60)
def test_no_policy_lies_above_the_curve_of_mean_and_buffered_quantile(mdp, tau, share):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    goal = bqrl.Buffered(tau, share * tau)
    exact = Fraction(repr(tau)), Fraction(repr(goal.beta))
    trade = tradeoff(mdp, goal)
    for law in laws:
        value, mean = float(exact_objective(law, *exact)), float(exact_mean(law))
        for row in trade.rows():
            assert value < row["guarantee"] - 1e-9 or mean <= row["mean_upper"] + 1e-6
    for row in trade.rows():
        law = evaluate(mdp, trade.policy(row["guarantee"]))
        assert (goal(law), law.mean()) == pytest.approx((row["guarantee"], row["mean"]), abs=1e-9)
    ends = trade.guarantee[-1], trade.mean[0]
    assert ends == pytest.approx((solve(mdp, goal).value, solve(mdp, bqrl.Mean()).value), abs=1e-9)


@st.composite
def models_with_costs(draw):
    """Small problems with integer rewards and costs, in which ties are common."""
    S, H = 2, draw(st.integers(2, 3))
    rows = st.sampled_from([(1.0, 0.0), (0.5, 0.5), (0.25, 0.75), (0.0, 1.0)])
    amounts = st.integers(0, 2)
    P, R, C = ([[draw(kind) for _ in range(2)] for _ in range(S)] for kind in (rows, amounts, st.integers(-2, 2)))
    discount = draw(st.sampled_from([1.0, 0.5]))
    return bqrl.MDP(P, R, 0, H, outcomes={"cost": C}, discount=discount), np.array(C)


def laws_and_costs(mdp, cost):
    """The law of the return and the mean cost of every policy that depends on the history."""
    after = [{(((Fraction(0), Fraction(1)),), Fraction(0))}] * mdp.S
    for h in reversed(range(mdp.H)):
        here = []
        for s in range(mdp.S):
            found = set()
            for a in range(mdp.A):
                paid = Fraction(mdp.discount) ** h * int(cost[s, a])
                partial = {((), paid)}
                for t, p, r in exact_outcomes(mdp, h, s, a):
                    partial = {
                        (tuple(sorted((mass + Counter({x + r: p * q for x, q in law})).items())), mean + p * more)
                        for (some, mean), (law, more) in product(partial, after[t])
                        for mass in [Counter(dict(some))]
                    }
                found |= partial
            here.append(found)
        after = here
    return after[0]


@given(models_with_costs(), LEVELS, st.booleans())
@settings(max_examples=40)
def test_the_mean_of_another_outcome_is_bracketed(model, tau, minimise):
    mdp, cost = model
    pairs, exact, sign = laws_and_costs(mdp, cost), Fraction(repr(tau)), -1 if minimise else 1
    trade = tradeoff(mdp, tau=tau, outcome="cost", minimise=minimise)
    reached = sorted({x for law, _ in pairs for x, _ in law if shortfall(law, x) < exact})
    assert trade.guarantee[-1] == pytest.approx(float(reached[-1]))
    for row in trade.rows():
        policy = trade.policy(row["guarantee"])
        assert bqrl.expected_outcomes(mdp, policy)["cost"] == pytest.approx(row["mean"], abs=1e-9)
        assert evaluate(mdp, policy).quantile(tau) >= row["guarantee"] - 1e-9
    for x in reached:
        best = max(sign * mean for law, mean in pairs if shortfall(law, x) < exact)
        row = trade.rows()[trade.place(float(x))]
        assert sign * row["mean"] <= float(best) + 1e-9
        bound = sign * row["mean_lower" if minimise else "mean_upper"]
        assert bound >= float(best) - 1e-9 or row["guarantee"] > float(x) + 1e-9


def test_the_return_as_an_outcome_gives_the_same_curve():
    mdp = bqrl.MDP([[[0.5, 0.5], [1.0, 0.0]], [[0.25, 0.75], [0.5, 0.5]]], [[0, 3], [2, 1]], 0, 6,
        outcomes={"same": [[0, 3], [2, 1]], "loss": [[0, -3], [-2, -1]]})  # fmt: skip
    plain, same = tradeoff(mdp, tau=0.3), tradeoff(mdp, tau=0.3, outcome="same")
    loss = tradeoff(mdp, tau=0.3, outcome="loss", minimise=True)
    assert same.guarantee.tolist() == plain.guarantee.tolist() == loss.guarantee.tolist()
    for one, other in (
        (plain.mean, same.mean),
        (plain.bound, same.bound),
        (plain.mean, -loss.mean),
        (plain.bound, -loss.bound),
    ):
        np.testing.assert_allclose(one, other, atol=1e-9)


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


@pytest.mark.parametrize("tau", [0.1, 0.3])
def test_the_curve_is_never_below_what_at_least_finds(tau):
    for row in tradeoff("Inventory", tau=tau).rows():
        plan = solve("Inventory", tau=tau, at_least=row["guarantee"])
        assert plan.mean == pytest.approx(row["mean"], abs=1e-9)
        assert plan.mean_upper == pytest.approx(row["mean_upper"], abs=1e-3)


def test_a_policy_that_misses_by_a_tie_does_not_end_the_search():
    # The risk-neutral policy misses 6 with probability 0.5 exactly, so its mean is the bound; others reach 6 with more than 4.85.
    kernel = [[[0.4, 0.6, 0], [0, 0, 1], [0.6, 0, 0.4]], [[0, 0.5, 0.5], [0, 1, 0], [0, 1, 0]],
              [[0, 0, 1], [1, 0, 0], [1 / 3, 1 / 3, 1 / 3]]]  # fmt: skip
    rewards = [
        [[4, -1, -1], [5, 1, 1], [0, -1, 3]],
        [[-2, -2, 5], [1, -3, 1], [2, 0, 2]],
        [[0, 4, 0], [3, -2, -2], [-1, 5, 4]],
    ]
    mdp = bqrl.MDP(kernel, [rewards] * 3, horizon=3)
    trade = tradeoff(mdp, tau=0.5)
    assert (
        trade.mean[trade.place(6)] == pytest.approx(solve(mdp, tau=0.5, at_least=6.0).mean) == pytest.approx(5 + 1 / 15)
    )


def test_the_best_guarantee_of_a_large_problem_gets_sweeps_of_its_own(monkeypatch):
    monkeypatch.setattr("bqrl.planners.tradeoff.QUICK_WORK", 0.0)
    trade, plan = tradeoff("Inventory", tau=0.1), solve("Inventory", tau=0.1, margin=0.0)
    assert 30 < trade.sweeps <= 50
    assert trade.mean[-1] == pytest.approx(plan.mean, abs=1e-9)


def test_more_sweeps_never_widen_the_band():
    few, many = (tradeoff("Inventory", tau=0.1, sweeps=n) for n in (6, 30))
    for x in many.guarantee.tolist():
        i, j = few.place(x), many.place(x)
        assert few.guarantee[i] > x or few.bound[i] >= many.bound[j] - 1e-9


def test_what_a_trade_off_cannot_do_is_refused_in_one_line():
    trade = tradeoff("SafeOrRisky", tau=0.1)
    with pytest.raises(ValueError, match="guarantee must be at most 12, the best guarantee, got 13"):
        trade.policy(13)
    with pytest.raises(ValueError, match="points must be omitted for a buffered quantile"):
        tradeoff("SafeOrRisky", bqrl.Buffered(0.1, 0.05), points=100)
    with pytest.raises(ValueError, match="objective must be a quantile, buffered or not"):
        tradeoff("SafeOrRisky", bqrl.Chance(3.0))
    with pytest.raises(ValueError, match="another level requires the trade-off of a quantile"):
        tradeoff("SafeOrRisky", bqrl.CVaR(0.1)).at(0.2)
    with pytest.raises(ValueError, match="outcome must be an outcome of the model, got 'cots'"):
        tradeoff("SafeOrRisky", tau=0.1, outcome="cots")
    with pytest.raises(ValueError, match="objective must be a quantile for another outcome"):
        tradeoff("SafeOrRisky", bqrl.CVaR(0.1), minimise=True)
    with pytest.raises(TypeError, match="minimise must be True or False"):
        tradeoff("SafeOrRisky", tau=0.1, minimise="cost")
