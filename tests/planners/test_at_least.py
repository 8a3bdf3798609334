"""The best mean among all policies with a guarantee, against every policy of small problems."""

import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import achievable_laws, exact_mean, exact_quantile, small_mdps
from planner_problems import THREE_TENTHS

import bqrl
from bqrl import solve
from bqrl.errors import ArgumentError
from bqrl.planners.at_least import COIN_MARGIN, smaller_margins

LEVELS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9])


def shortfall(law, x):
    return sum((p for value, p in law if value < x), Fraction(0))


def best_mixed_mean(pairs, allowed):
    """The largest mean of a mixture of pairs (shortfall, mean) whose shortfall is at most `allowed`: the concave hull."""
    below = [pair for pair in pairs if pair[0] <= allowed]
    best = max(mean for _, mean in below)
    for short, mean in below:
        for other, more in pairs:
            if other > allowed and more > mean:
                best = max(best, mean + (more - mean) * (allowed - short) / (other - short))
    return best


@given(small_mdps(), LEVELS)
def test_the_best_mean_among_optimal_policies_is_bracketed(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    exact = Fraction(repr(tau))
    top = max(exact_quantile(law, exact) for law in laws)
    best = max(exact_mean(law) for law in laws if exact_quantile(law, exact) == top)
    plan = solve(mdp, tau, secondary="mean")
    assert plan.value == pytest.approx(float(top), abs=1e-9)
    assert plan.law.mean() <= float(best) + 1e-9
    assert plan.mean_upper >= float(best) - 1e-9
    assert plan.law.mean() >= solve(mdp, tau).law.mean() - 1e-9
    assert plan.details["best_mean"] == pytest.approx(float(max(map(exact_mean, laws))))


@given(small_mdps(), LEVELS, st.integers(0, 6), st.sampled_from([0.0, 0.25, 0.5, 1.0]))
def test_the_mean_for_any_guarantee_and_margin_is_bracketed_and_the_bound_is_that_of_mixtures(mdp, tau, i, margin):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    exact = Fraction(repr(tau))
    reached = sorted({x for law in laws for x, _ in law if shortfall(law, x) < exact})
    x = reached[i % len(reached)]
    least = min(shortfall(law, x) for law in laws)
    allowed = exact - Fraction(margin) * (exact - least)
    kept = [law for law in laws if shortfall(law, x) <= allowed and shortfall(law, x) < exact]
    best = max(map(exact_mean, kept))
    plan = solve(mdp, tau, at_least=float(x), margin=margin)
    assert plan.value >= float(x) - 1e-9
    assert plan.law.shortfall(float(x) - 1e-9) <= float(allowed) + 1e-9
    assert plan.mean <= float(best) + 1e-9 <= plan.mean_upper + 2e-9
    pairs = [(shortfall(law, x), exact_mean(law)) for law in laws]
    assert plan.mean_upper == pytest.approx(float(best_mixed_mean(pairs, allowed)), abs=1e-8)
    drawn = solve(mdp, tau, at_least=float(x), margin=margin, randomized=True)
    slope = (
        drawn.mean_upper - plan.mean
    ) / COIN_MARGIN  # no line of the hull is steeper than range / smallest probability
    assert drawn.value >= float(x) - 1e-9
    assert drawn.mean == pytest.approx(drawn.mean_upper, abs=1e-5) or slope < 1.0


@given(small_mdps(horizon=3), LEVELS, st.integers(0, 6))
@settings(max_examples=30)
def test_rounded_returns_bracket_the_best_mean(mdp, tau, i):
    mdp = mdp.replace(discount=0.9)
    laws = achievable_laws(mdp, 100)
    assume(laws is not None)
    exact = Fraction(repr(tau))
    rounded = solve(mdp, tau, margin=0.0, points=40)
    x = Fraction(rounded.details["guarantee"]) - Fraction(1, 10**9)
    best = max(exact_mean(law) for law in laws if shortfall(law, x) < exact)
    assert rounded.law.shortfall(float(x)) < tau
    assert rounded.mean <= float(best) + 1e-9 <= rounded.mean_upper + 2e-9


def test_the_pairs_that_can_be_met_give_the_same_means_as_the_lattice():
    mdp = bqrl.envs.make("SafeOrRisky")
    for margin in (0.0, 0.5):
        one, other = (solve(mdp, 0.1, margin=margin, pairs=pairs) for pairs in (False, True))
        assert (other.value, other.policy.kind) == (one.value, "earned")
        assert (other.mean, other.mean_upper) == pytest.approx((one.mean, one.mean_upper))


def test_the_whole_margin_is_the_plain_plan_bit_for_bit():
    plain, whole = solve("Inventory", 0.1), solve("Inventory", 0.1, margin=1.0)
    assert plain.law.probabilities.tobytes() == whole.law.probabilities.tobytes()
    assert (plain.mean_upper, whole.mean_upper) == (None, plain.mean)


def test_shares_of_the_best_guarantee_and_guarantees_out_of_reach():
    plan = solve("Inventory", 0.1, at_least="90%")
    assert plan.details["guarantee"] == pytest.approx(0.9 * 69.0)
    assert plan.value >= 0.9 * 69.0
    assert solve("Inventory", 0.1, at_least="62.1").mean == plan.mean
    with pytest.raises(ArgumentError, match=r"at_least must be at most 69, the best guarantee at level 0\.1, got 70"):
        solve("Inventory", 0.1, at_least=70)
    with pytest.raises(TypeError, match="at_least must be a number, or a share of the best guarantee"):
        solve("Inventory", 0.1, at_least="most")
    with pytest.raises(ArgumentError, match="because the best guarantee -25 is negative"):
        solve("PerishableInventory", 0.1, at_least="98%")


def test_the_note_says_among_which_policies_the_mean_is_best():
    """Once "at most 13.4 below the best possible" was read as the best mean of all policies, 2,089 higher."""
    sure, lottery = (0, 0, 0, 1.0, 10.0), [(0, 1, 0, 0.5, 0.0), (0, 1, 0, 0.5, 100.0)]
    plan = solve(bqrl.MDP([sure, *lottery], horizon=1), 0.4, secondary="mean")
    note = plan.notes[-1]
    assert (note.mean, note.gap, note.best, note.mixture) == (10.0, pytest.approx(32.0, abs=0.1), 50.0, True)
    assert plan.details["best_mean"] == 50.0
    plan = solve(bqrl.MDP([sure, (0, 1, 0, 1.0, 5.0)], horizon=1), 0.4, secondary="mean")
    assert (plan.notes[-1].mean, plan.notes[-1].gap, plan.notes[-1].best) == (10.0, 0.0, 10.0)
    pump = Path(__file__).parents[2] / "examples" / "pump.csv"
    plan = solve(bqrl.load(pump, horizon=12, start="1"), 0.1, secondary="mean")
    assert (plan.notes[-1].mean, plan.notes[-1].gap) == pytest.approx((103.771, 0.081), abs=1e-3)


def test_a_margin_that_is_met_exactly_leaves_a_policy():
    mdp = bqrl.MDP([(0, 0, 0, 0.63, 0.0), (0, 0, 0, 0.37, 1.0)], horizon=1)
    assert solve(mdp, 0.7, at_least=1.0, margin=1.0).value == 1.0
    assert solve(THREE_TENTHS, 0.3 + 1.5e-12, secondary="mean").value == 10.0


def test_a_rounded_grid_states_a_bracket_and_does_not_pass_a_worse_quantile_off_as_the_best():
    # On five points both actions reach the target 0.8; the first has the better quantile, the second the better mean.
    mdp = bqrl.MDP([(0, 0, 0, 1.0, 0.9), (0, 1, 0, 0.5, 0.8), (0, 1, 0, 0.5, 3.0)], horizon=1)
    assert solve(mdp, 0.4, secondary="mean").value == 0.9
    coarse = solve(mdp, 0.4, secondary="mean", points=5)
    assert (coarse.exact, coarse.value) == (False, 0.8)
    assert 0.9 <= coarse.upper


def test_a_rounding_error_is_no_gap_to_the_best_mean():
    """The note once said "at most 7.28e-12 EUR below the best mean"."""
    rows = [(0, 0, 0, 0.3, 1000.0), (0, 0, 0, 0.7, 700.1), (0, 1, 0, 1.0, 750.3)]
    plan = solve(bqrl.MDP(rows, horizon=12), 0.1, at_least=0.0)
    (note,) = [one for one in plan.notes if type(one).__name__ == "BestMean"]
    assert note.gap == 0.0


@pytest.mark.parametrize(("name", "tau"), [("Inventory", 0.1), ("AssetSelling", 0.1), ("SlipperyCliff", 0.1)])
def test_the_means_of_smaller_margins_are_those_of_plans_with_them(name, tau):
    plan = solve(name, tau)
    found = smaller_margins(plan.mdp, plan, 1.0)
    assert list(found) == [0.5, 0.0]
    for share, mean in found.items():
        other = solve(name, tau, margin=share)
        assert (other.value, other.mean) == (plan.value, pytest.approx(mean, rel=1e-12))


def test_smaller_margins_are_left_out_where_they_say_nothing_or_take_long():
    plan = solve("Inventory", 0.1)
    (found,) = smaller_margins(plan.mdp, plan, 0.01).values()  # two sweeps do not end the search
    assert plan.mean < found < solve("Inventory", 0.1, secondary="mean").mean
    assert smaller_margins(plan.mdp, plan, 1e-4) == {0.0: pytest.approx(math.nan, nan_ok=True)}
    for other in (
        solve("Inventory", 0.1, margin=0.5), solve("Inventory", 0.1, rule="state"), solve("RiverSwim", 0.1),
        solve("Inventory", bqrl.CVaR(0.1)), solve("Inventory", 0.1, radius=0.02, attitude="robust"),
    ):  # fmt: skip
        assert smaller_margins(other.mdp, other, 1.0) == {}


def test_a_bracketed_plan_says_that_a_better_mean_costs_nothing():
    """Nothing was once said about a plan on rounded returns, and about plans whose search took longer than a second."""
    plan = solve("Inventory", 0.1, points=400)
    assert not plan.exact
    other = solve("Inventory", 0.1, points=400, secondary="mean")
    assert other.value >= plan.value
    assert plan.mean < smaller_margins(plan.mdp, plan, 10.0)[0.0] == pytest.approx(other.mean)


def test_the_best_guarantee_is_accepted_up_to_rounding_and_the_error_tells_numbers_apart():
    root = bqrl.MDP([(0, 0, 0, 1.0, 2**0.5 / 2)], horizon=2)
    best = solve(root, 0.1).value
    assert solve(root, 0.1, at_least=best * (1 + 1e-10)).value == best
    with pytest.raises(ArgumentError, match=r"at most 1\.41421356237, the best .* got 1\.4142136"):
        solve(root, 0.1, at_least=1.4142136)
    with pytest.raises(ArgumentError, match=r"at most 1\.41421356237, the best guarantee, got 1\.4142136"):
        bqrl.tradeoff(root, tau=0.1).policy(guarantee=1.4142136)
