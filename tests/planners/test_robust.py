"""Robust plans for means, entropic values, chances and utilities, against recursions by hand with linear programmes."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import small_mdps
from scipy.optimize import linprog

import bqrl
from bqrl import MDP, evaluate, solve
from bqrl.errors import ArgumentError
from bqrl.mdp.find_grid import lattice
from bqrl.mdp.table import from_columns
from bqrl.planners.robust import lowest_return
from bqrl.planners.solve import KINDS, SOLVERS
from bqrl.planners.uncertain import half_radius

CAPPED = bqrl.Utility(lambda g: min(g, 2.0), increasing=True)
OBJECTIVES = [
    bqrl.Mean(), bqrl.Entropic(0.7), bqrl.Entropic(-0.7), bqrl.Chance(2.0), bqrl.MeanCVaR(0.4, 0.6), bqrl.MeanCVaR(0.3, 1.0),
    CAPPED,
]  # fmt: skip
RADII = st.sampled_from([0.1, 0.5, 1.5])


def unknown(mdp):
    """The same problem with no row known."""
    return MDP.from_table(mdp._table(), mdp.H, mdp.mu, mdp.discount, known=np.zeros(mdp.known.shape, bool))


@cache
def least(values, p, half):
    """The smallest expectation over the ball, by a linear programme in the law and in what leaves each outcome."""
    k, values = len(p), np.array(values)
    if k == 1 or np.ptp(values) == 0.0:
        return float(values.min())
    leaves = np.hstack([-np.eye(k), -np.eye(k)])  # leaves >= p - law
    found = linprog(
        np.r_[values, np.zeros(k)], A_ub=np.vstack([leaves, np.r_[np.zeros(k), np.ones(k)]]), b_ub=np.r_[-np.array(p), half],
        A_eq=[np.r_[np.ones(k), np.zeros(k)]], b_eq=[1.0], bounds=[(0, None)] * (2 * k),
    )  # fmt: skip
    return float(found.fun)


def best_worst_mean(mdp, half, function):
    """max over policies that see the sum of rewards of the least mean of a function of the return, by recursion over sums."""

    def value(h, s, g):
        if h == mdp.H:
            return function(g)
        found = []
        for a in np.flatnonzero(mdp.stage(h).available[s]).tolist():
            successor, p, reward = mdp.outcomes(h, s, a)
            paid = [round(g + r * mdp.discount**h, 12) for r in reward.tolist()]
            after = tuple(value(h + 1, t, earned) for t, earned in zip(successor.tolist(), paid, strict=True))
            found.append(least(after, tuple(p.tolist()), float(half[h, s * mdp.A + a])))
        return max(found)

    value = cache(value)
    return sum(float(p) * value(0, s, 0.0) for s, p in enumerate(mdp.mu) if p > 0.0)


def expected(mdp, half, objective):
    """The best guarantee of an objective, by hand."""
    if isinstance(objective, bqrl.Mean):
        return best_worst_mean(mdp, half, lambda g: g)
    if isinstance(objective, bqrl.Entropic):
        theta = objective.theta
        return (
            -np.log(np.sign(-theta) * best_worst_mean(mdp, half, lambda g: -np.sign(theta) * np.exp(-theta * g)))
            / theta
        )
    if isinstance(objective, bqrl.Chance):
        return best_worst_mean(mdp, half, lambda g: float(g >= objective.target - 1e-9))
    if isinstance(objective, bqrl.Utility):
        return best_worst_mean(mdp, half, objective.f)
    return max(best_worst_mean(mdp, half, mean_cvar(objective, z)) for z in lattice(mdp).points(0))


def mean_cvar(objective, z):
    """u_z of the formula."""
    w, tau = objective.weight, objective.tau
    return lambda g: (1 - w) * g + w * (z - max(z - g, 0.0) / tau)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@settings(max_examples=12)
@given(small_mdps(horizon=3), RADII)
def test_the_guarantee_is_the_best_of_all_policies_by_linear_programmes(objective, mdp, radius):
    mdp = unknown(mdp)
    if mdp.discount != 1.0 or lattice(mdp) is None:
        mdp = unknown(mdp.replace(discount=1.0))
    if lattice(mdp) is None or lattice(mdp).size[0] > 17:
        return
    plan = solve(mdp, objective, radius=radius, attitude="robust")
    assert plan.value == pytest.approx(expected(mdp, half_radius(mdp, radius), objective), abs=1e-9)
    assert plan.value <= solve(mdp, objective).value + 1e-9 <= plan.upper + 2e-9
    assert plan.exact
    assert plan.nominal == pytest.approx(objective(evaluate(mdp, plan.policy)), abs=1e-12)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
@settings(max_examples=15)
@given(small_mdps(horizon=4), RADII, st.integers(0, 10**6))
def test_the_guarantee_holds_for_kernels_of_the_ball(objective, mdp, radius, seed):
    mdp, rng = unknown(mdp), np.random.default_rng(seed)
    plan = solve(mdp, objective, radius=radius, attitude="robust")
    half = half_radius(mdp, radius)
    centre = mdp.staged()
    for _ in range(6):
        p = centre.probability.copy()
        for q in range(centre.row_start.size - 1):
            here = slice(centre.row_start[q], centre.row_start[q + 1])
            row, k = p[here], p[here].size
            if k > 1:
                receiver, left = rng.integers(k), half.reshape(-1)[q]
                left = min(left, 1.0 - row[receiver])
                row[receiver] += left
                for donor in rng.permutation([j for j in range(k) if j != receiver]):
                    taken = min(row[donor], left)
                    row[donor], left = row[donor] - taken, left - taken
        law = evaluate(centre.with_probability(np.clip(p, 0.0, 1.0)), plan.policy, bracket=True)
        assert objective(law[1]) >= plan.value - 1e-9  # of a law that is bounded, the upper end


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_first_states_that_may_be_others_lower_the_guarantee(objective):
    # Two first states of which the second pays more; a mass of 0.1 may begin anywhere, at worst with the lowest return.
    mdp = MDP([(0, 0, 0, 1.0, 1.0), (1, 0, 1, 1.0, 3.0), (2, 0, 2, 1.0, -1.0)], horizon=1, start={0: 0.5, 1: 0.5})
    assert lowest_return(mdp) == -1.0
    worst = bqrl.Law([-1.0, 1.0, 3.0], [0.1, 0.5, 0.4])
    plan = solve(mdp, objective, radius=0.0, attitude="robust", start_error=0.1)
    assert plan.value == pytest.approx(objective(worst), abs=1e-9)


def test_unseen_outcomes_take_at_most_their_mass():
    # One row: outcomes 0, 1, 2 with 0.3, 0.3, 0.4 and an unseen one of -5, which takes 0.05 of the lowest.
    lines = [(0, 0, 0, 0.3, 0.0), (0, 0, 0, 0.3, 1.0), (0, 0, 0, 0.4, 2.0), (0, 0, 1, 0.0, -5.0), (1, 0, 1, 1.0, 0.0)]
    s, a, t, p, r = (np.array(column) for column in zip(*lines, strict=True))
    table, _ = from_columns(np.zeros(5, int), s, a, t, p, r, 1, S=2, A=1, keep_zeros=True)
    mdp = MDP.from_table(table, 1, np.array([1.0, 0.0]))
    assert mdp.outcomes(0, 0, 0)[2].tolist()[-1] == -5.0  # the unseen outcome is the last of its row
    given = {"radius": np.array([[[0.2], [0.0]]]), "attitude": "robust", "missing": np.array([[[0.05], [0.0]]])}
    law = bqrl.Law([-5.0, 0.0, 1.0, 2.0], [0.05, 0.35, 0.3, 0.3])
    for objective in OBJECTIVES:
        assert solve(mdp, objective, **given).value == pytest.approx(objective(law), abs=1e-9)


def test_a_utility_that_falls_has_no_robust_plan():
    with pytest.raises(
        ArgumentError, match=r"f must be finite and never fall with the return for a robust plan.* got"
    ) as caught:
        solve("SafeOrRisky", bqrl.Utility(lambda g: -abs(g - 12.0)), radius=0.1, attitude="robust")
    assert caught.value.name == "f"


def test_other_objectives_have_no_optimistic_plan():
    with pytest.raises(ArgumentError, match="attitude must be one of 'robust', got 'optimistic'"):
        solve("SafeOrRisky", bqrl.Mean(), radius=0.1, attitude="optimistic")


def test_every_objective_has_a_robust_plan():
    robust = {kind for one in SOLVERS if one.selector == "radius" for kind in one.objectives}
    assert robust == set(KINDS)


@pytest.mark.parametrize("objective", OBJECTIVES, ids=str)
def test_radius_zero_is_the_nominal_plan(objective):
    plan = solve("SafeOrRisky", objective, radius=0.0, attitude="robust")
    assert plan.value == solve("SafeOrRisky", objective).value
    assert plan.attitude == "robust"


@pytest.mark.parametrize("objective", [bqrl.Chance(1.7), *OBJECTIVES[4:], bqrl.Mean(), bqrl.Entropic(0.7)], ids=str)
def test_without_a_lattice_the_guarantee_is_rounded_down(objective):
    mdp = MDP([[[0.5, 0.5]], [[0.3, 0.7]]], [[[0.1, np.sqrt(2.0)]], [[0.7, np.pi / 3.0]]], horizon=3, discount=0.9)
    half = half_radius(mdp, 0.2)
    if isinstance(objective, bqrl.MeanCVaR):
        best = max(best_worst_mean(mdp, half, mean_cvar(objective, z)) for z in possible_returns(mdp))
    else:
        best = expected(mdp, half, objective)
    plan = solve(mdp, objective, radius=0.2, attitude="robust")
    rough = solve(mdp, objective, radius=0.2, attitude="robust", points=50)
    assert rough.value <= plan.value + 1e-9
    assert best - 0.01 <= plan.value <= best + 1e-9


def possible_returns(mdp):
    """Every return of a problem with one action."""
    found = {(0, 0.0)}
    for h in range(mdp.H):
        found = {
            (t, round(g + r * mdp.discount**h, 12))
            for s, g in found
            for t, _, r in zip(*(x.tolist() for x in mdp.outcomes(h, s, 0)), strict=True)
        }
    return sorted({g for _, g in found})
