from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from law_oracle import exact_buffered
from oracles import LEVELS, achievable_laws, best_objective, mixture_optimum, random_mdp, small_mdps

import bqrl
from bqrl import MixturePolicy, evaluate, solve
from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.facts import NoFinerGrid

SHARES = (Fraction(1), Fraction(1, 2), Fraction(1, 5), Fraction(1, 20), Fraction(1, 1000))


def close(a, b):
    return abs(a - b) <= 1e-9 * max(1.0, abs(b))


@pytest.mark.slow
def test_the_certificate_on_random_problems():
    rng, done, attained = np.random.default_rng(77), 0, 0
    while done < 400:
        mdp = random_mdp(rng)
        laws = achievable_laws(mdp, 150)
        if laws is None:
            continue
        tau = LEVELS[rng.integers(len(LEVELS))]
        beta = tau * SHARES[rng.integers(len(SHARES))]
        best = float(best_objective(laws, tau, beta))
        plan = solve(mdp, float(tau), beta=float(beta))
        assert plan.value <= best + 1e-9
        assert best <= plan.upper + 1e-9
        assert close(plan.upper, mixture_optimum(laws, tau, beta))
        attained += plan.value >= best - 1e-9
        mixed = solve(mdp, float(tau), beta=float(beta), randomized=True)
        assert close(mixed.value, mixed.upper)
        assert close(evaluate(mdp, mixed.policy).buffered_quantile(float(tau), float(beta)), mixed.value)
        exact = solve(mdp, float(tau), beta=float(beta), randomized=False)
        assert close(exact.value, best)
        done += 1
    assert attained >= 0.99 * done


@given(small_mdps(), st.sampled_from(LEVELS))
def test_cvar_has_no_gap(mdp, tau):
    plan = solve(mdp, float(tau), beta=float(tau))
    assert close(plan.value, plan.upper)


@given(small_mdps(), st.sampled_from(LEVELS))
def test_a_buffer_within_the_margin_gives_the_quantile(mdp, tau):
    point = solve(mdp, float(tau))
    assume(point.certain and point.policy_margin.below >= 1e-6)
    plan = solve(mdp, float(tau), beta=point.policy_margin.below / 3)
    assert close(plan.value, point.value)
    assert close(plan.upper, point.value)


@given(small_mdps(), st.sampled_from(LEVELS), st.sampled_from(SHARES))
def test_the_value_is_the_policy_s_own(mdp, tau, share):
    plan = solve(mdp, float(tau), beta=float(tau * share))
    assert close(evaluate(mdp, plan.policy).buffered_quantile(float(tau), float(tau * share)), plan.value)


@pytest.mark.parametrize("base", [0.0, 0.25, 0.3])
@pytest.mark.parametrize("beta", [1e-9, 1e-8, 1e-6])
def test_bounds_hold_for_buffers_as_small_as_differences_of_probabilities(base, beta):
    """Rounding errors divided by the buffer once made a bound too low by up to 1e-8 of the returns."""
    rng = np.random.default_rng(5)
    for _ in range(40):
        rows, laws = [], []
        for a in range(3):
            p, q = base + beta * rng.choice([0.1, 0.5, 0.7, 1.0, 3.0]), beta * rng.choice([0.1, 0.3, 1.0])
            law = dict(zip(rng.permutation(50)[:3].tolist(), (p, q, 1.0 - p - q), strict=True))
            rows += [(0, a, 0, mass, x) for x, mass in law.items()]
            total = sum(map(Fraction, law.values()))
            laws.append(sorted((Fraction(x), Fraction(mass) / total) for x, mass in law.items()))
        tau = base + beta * rng.choice([1.0, 1.5, 2.0])
        best = max(exact_buffered(law, Fraction(tau), Fraction(beta)) for law in laws)
        assert solve(bqrl.MDP(rows, horizon=1), tau, beta).upper >= float(best) - 1e-9 * 50


def test_a_search_on_a_rounded_grid_ends_at_the_error_of_the_grid():
    """Between two atoms all targets have the same bound, each at its own width; this search once took 416 sweeps."""
    rows = [
        (0, 0, 0, 0, 1, 6), (0, 0, 1, 0, 2 / 7, 7), (0, 0, 1, 1, 4 / 7, 14), (0, 0, 1, 1, 1 / 7, 24), (0, 1, 0, 0, 1, 8),
        (0, 1, 1, 1, 5 / 6, 18), (0, 1, 1, 0, 1 / 6, 2), (1, 0, 0, 0, 1 / 3, -3), (1, 0, 0, 2, 2 / 3, 4),
        (1, 0, 1, 1, 0.5, 20), (1, 0, 1, 1, 0.5, 19), (1, 1, 0, 0, 1 / 3, -5), (1, 1, 0, 1, 2 / 3, 22), (1, 1, 1, 1, 1, -5),
        (2, 0, 0, 2, 1, 1), (2, 1, 0, 1, 1, 0), (2, 2, 0, 0, 1, 18),
    ]  # fmt: skip
    mdp = bqrl.MDP([(*row, r / 24) for *row, r in rows], start=[3 / 7, 4 / 7, 0], discount=0.97)
    plan = solve(mdp, 0.5, beta=0.25)
    assert plan.details["sweeps"] <= 100
    assert plan.value == pytest.approx(1.112797619)
    assert (
        1.1215866 - 0.0003 <= plan.upper <= 1.1215866 + 0.0006
    )  # the search to the end gives 1.1215866, error 0.00024


def test_a_coin_attains_the_bound_above_the_policy_found():
    mdp = bqrl.envs.make("AssetSelling")
    plain, mixed = solve(mdp, 0.5, beta=0.2), solve(mdp, 0.5, beta=0.2, randomized=True)
    assert isinstance(mixed.policy, MixturePolicy)
    assert len(mixed.policy.policies) == 2
    assert mixed.value == pytest.approx(plain.upper, abs=1e-9)
    assert mixed.value > plain.value + 1e-4


def test_a_gap_that_only_a_coin_could_close_is_not_chased():
    contracts = [(0, 0, 0, 0.5, 4.0), (0, 0, 0, 0.5, 7.0), (0, 1, 0, 0.6, 7.0), (0, 1, 0, 0.4, 0.0)]
    plan = solve(bqrl.MDP(contracts, horizon=1, discount=0.9), 0.5, beta=0.25, gap=0.5)
    assert plan.value == pytest.approx(4.0)
    assert plan.upper == pytest.approx(4.75, abs=0.01)
    assert plan.notes[-1] == NoFinerGrid(gap=0.5)


def test_the_note_of_a_bracket_names_the_lattice_where_an_exact_set_of_returns_fits():
    mdp = bqrl.envs.make("AssetSelling", horizon=3).replace(discount=0.5)
    assert returns_grid(mdp).exact
    plan = solve(mdp, 0.1, beta=0.05)
    assert not plan.exact
    assert plan.law_upper is None  # the law of the policy is exact, the optimum is bracketed
    assert plan.notes[0].lattice


def test_brackets_without_a_lattice():
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.9)
    coarse, fine = (solve(mdp, 0.1, beta=0.05, points=points) for points in (100, 500))
    for plan in (coarse, fine):
        assert not plan.exact
        assert plan.value <= plan.upper
        lower, upper = evaluate(mdp, plan.policy, max_atoms=0, bracket=True)
        assert lower.buffered_quantile(0.1, 0.05) - 1e-9 <= plan.value <= upper.buffered_quantile(0.1, 0.05) + 1e-9
    assert fine.gap < coarse.gap
    assert solve(mdp, 0.1, beta=0.05, points=100, gap=0.01).gap <= 0.01
    assert max(coarse.value, fine.value) <= min(coarse.upper, fine.upper) + 1e-12


def test_randomized_with_points_names_the_points():
    mdp = bqrl.envs.make("SafeOrRisky")
    for randomized in (True, False):
        with pytest.raises(ValueError, match=r"on a lattice, got points=50, which rounds them; omit points$"):
            solve(mdp, 0.1, beta=0.05, randomized=randomized, points=50)
