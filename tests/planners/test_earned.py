"""Plans on the pairs that can be met, against brute force in fractions, lattices and published numbers."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, best_objective, small_mdps, to_law
from policy_kinds import followed

import bqrl
from bqrl.envs.betting_game import betting_game
from bqrl.planners import earned
from bqrl.planners.earned import met_pairs, search_cvar, search_target
from bqrl.planners.sweep import rounding_error

LEVELS = [Fraction(1, 10), Fraction(1, 4), Fraction(1, 2), Fraction(9, 10)]
DISCOUNTS = [1.0, 0.9, 0.5]


@given(small_mdps(), st.sampled_from(LEVELS), st.sampled_from(DISCOUNTS), st.booleans())
def test_quantile_and_cvar_are_those_of_brute_force(mdp, tau, discount, cvar):
    mdp = mdp.replace(discount=discount)
    laws = achievable_laws(mdp)
    assume(laws is not None)
    objective = bqrl.CVaR(float(tau)) if cvar else bqrl.Quantile(float(tau))
    plan = bqrl.solve(mdp, objective, pairs=True)
    best = float(best_objective(laws, tau, tau if cvar else Fraction(0)))
    assert plan.exact
    assert plan.policy.kind == "earned"
    if plan.certain:
        assert plan.value == pytest.approx(best, abs=1e-9)
    assert plan.upper >= best - 1e-9
    assert objective(bqrl.evaluate(mdp, plan.policy)) == plan.value
    law, shares = followed(mdp, plan.policy)
    assert law.wasserstein(plan.law) == pytest.approx(0.0, abs=1e-9)
    assert shares.sum() == pytest.approx(mdp.H)


@given(small_mdps(), st.sampled_from(DISCOUNTS))
def test_the_curve_over_pairs_is_that_of_brute_force(mdp, discount):
    mdp = mdp.replace(discount=discount)
    laws = achievable_laws(mdp)
    assume(laws is not None)
    laws = [to_law(law) for law in laws]
    pairs = met_pairs(mdp, 1e6, 1e9)
    assert pairs is not None
    short = pairs.shortfalls(pairs.returns)
    for x, least in zip(pairs.returns, short, strict=True):
        assert least == pytest.approx(min(law.shortfall(x - 1e-9) for law in laws), abs=1e-12)
    for tau in (0.1, 0.5, 0.9):
        points, found = search_target(pairs, tau, rounding_error(mdp))
        reached = short < tau - 1e-12
        assert points[found < tau - 1e-12].max() == pairs.returns[reached].max()
    for tau in (0.2, 0.7):
        value, _, bound = search_cvar(pairs, tau, 1e-12)
        assert value == pytest.approx((pairs.returns - pairs.missing(pairs.returns) / tau).max(), abs=1e-12)
        assert value <= bound <= value + 1e-9


@given(small_mdps(), st.sampled_from([0.1, 0.5, 0.9]))
def test_pairs_and_lattice_give_the_same_plan(mdp, tau):
    one, other = (bqrl.solve(mdp, tau, pairs=pairs) for pairs in (True, False))
    assert (one.value, one.upper) == pytest.approx((other.value, other.upper), abs=1e-12)
    assert one.certain == other.certain
    assert one.mean == pytest.approx(other.mean, abs=1e-9)
    assert one.policy_margin.below == pytest.approx(other.policy_margin.below, abs=1e-12)


@pytest.mark.parametrize(
    ("p", "objective", "published"),
    [
        (0.88, bqrl.CVaR(0.2), 23.8834), (0.88, bqrl.CVaR(0.05), 6.7782), (0.88, bqrl.Quantile(0.2), 112.0),
        (0.88, bqrl.Quantile(0.05), 29.4932), (0.8, bqrl.CVaR(0.2), 6.8918), (0.8, bqrl.CVaR(0.05), 0.7293),
        (0.8, bqrl.Quantile(0.2), 43.0625), (0.8, bqrl.Quantile(0.05), 11.3438), (0.8, bqrl.CVaR(0.25), 10.6569),
    ],
)  # fmt: skip
def test_betting_in_eighths_matches_an_independent_program(p, objective, published):
    plan = bqrl.solve(betting_game(p, stakes="eighths"), objective)
    assert plan.value == pytest.approx(published, abs=5e-5)
    assert plan.exact
    assert plan.certain
    assert plan.upper == plan.value


def test_cvar_is_planned_on_pairs_if_the_two_sweeps_that_it_needs_do_not_fit():
    # One sweep over 65,537 returns fits into memory, two do not: this raised SizeError.
    plan = bqrl.solve(betting_game(0.8, bets=4, stakes="eighths"), bqrl.CVaR(0.25))
    assert plan.exact
    assert plan.policy.kind == "earned"


def test_a_search_that_trusts_concavity_would_miss_the_best_cvar():
    pairs = met_pairs(betting_game(0.88, stakes="eighths"), 1e7, 1e9)
    values = pairs.returns - pairs.missing(pairs.returns) / 0.2
    peaks = np.flatnonzero((np.diff(values[:-1]) > 1e-9) & (np.diff(values[1:]) < -1e-9))
    assert peaks.size > 1
    assert search_cvar(pairs, 0.2, 1e-9)[0] == pytest.approx(values.max(), abs=1e-9)


def test_a_short_discounted_problem_is_exact_without_being_asked():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), horizon=6, discount=0.9)
    exact, coarse = bqrl.solve(mdp, 0.1), bqrl.solve(mdp, 0.1, points=500)
    assert exact.exact
    assert coarse.value <= exact.value <= coarse.upper
    assert bqrl.guarantee_curve(mdp)(0.1) == exact.value
    chance = bqrl.solve(mdp, bqrl.Chance(exact.value))
    assert chance.exact
    assert chance.value > 0.9


def test_too_many_pairs_are_refused_if_required_and_bracketed_if_not():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(4), (4, 4)), rng.random((4, 4)), horizon=40, discount=0.97)
    with pytest.raises(bqrl.errors.SizeError, match="pairs=True requires"):
        bqrl.solve(mdp, 0.1, pairs=True, max_bytes=1e8)
    assert not bqrl.solve(mdp, 0.1).exact
    with pytest.raises(ValueError, match="only CVaR"):
        bqrl.solve(mdp, 0.1, 0.05, pairs=True)
    for goal in (bqrl.Quantile(0.1), bqrl.Chance(1.0)):
        with pytest.raises(ValueError, match="pairs must be omitted with float32, got True; omit precision"):
            bqrl.solve(mdp, goal, pairs=True, precision="float32")


@pytest.mark.parametrize("staged", [False, True])
def test_pairs_that_are_too_many_in_any_case_are_not_enumerated(monkeypatch, staged):
    """Once a large model was refused only after millions of pairs had been sorted."""
    mdp = bqrl.MDP(np.full((6, 2, 6), 1 / 6), np.arange(12.0).reshape(6, 2), horizon=3)
    mdp = mdp.staged() if staged else mdp
    most = max(stage.child.size for stage in met_pairs(mdp, 1e6, 1e9).stages)
    assert most > 72
    assert met_pairs(mdp, most, 1e9) is not None
    monkeypatch.setattr(np, "lexsort", lambda keys: pytest.fail("pairs were enumerated"))
    assert met_pairs(mdp, 71, 1e9) is None  # every state is reached, and has 12 outcomes


def counted_pairs(monkeypatch, mdp, limit, sampled_from):
    """The pairs that can be met, and how many moves were followed to find them."""
    moves, follow = [], earned._followed

    def count(*given):
        found = follow(*given)
        moves.append(0 if found is None else found.child.size)
        return found

    monkeypatch.setattr(earned, "_followed", count)
    monkeypatch.setattr(earned, "SAMPLED_FROM", sampled_from)
    found = met_pairs(mdp, limit, 1e9)
    monkeypatch.undo()
    return found, sum(moves)


@given(small_mdps(), st.sampled_from(DISCOUNTS))
def test_following_a_part_of_the_pairs_first_changes_no_answer(mdp, discount):
    mdp, patch = mdp.replace(discount=discount), pytest.MonkeyPatch()
    most = max(stage.child.size for stage in met_pairs(mdp, 1e6, 1e9).stages)
    for limit in (most, most - 1, most // 2, most // 4):
        first, all_at_once = (counted_pairs(patch, mdp, limit, moves)[0] for moves in (7, np.inf))
        assert (first is None) == (all_at_once is None) == (limit < most)
        if first is not None:
            for one, other in zip(first.stages, all_at_once.stages, strict=True):
                assert all(map(np.array_equal, one, other))


def test_too_many_pairs_are_seen_before_most_of_them_are_followed(monkeypatch):
    """Two products of which 0 to 5 are ordered and 0 to 3 demanded: once all moves below the limit were sorted."""

    def step(stocks, orders, demands):
        ordered, demanded = (np.stack(np.divmod(n, base), -1) for n, base in ((orders, 6), (demands, 4)))
        level = np.minimum(stocks + ordered, 30)
        sold = np.minimum(level, demanded)
        return level - sold, sold @ np.array([10, 15]) - ordered @ np.array([4, 6])

    mdp = bqrl.from_step(step, range(36), dict.fromkeys(range(16), 1 / 16), 12, (0, 0), vectorized=True)
    limit = 2_000_000
    (found, few), (other, many) = (counted_pairs(monkeypatch, mdp, limit, moves) for moves in (2**15, np.inf))
    assert found is None
    assert other is None
    assert few < many / 4
