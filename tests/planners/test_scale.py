"""Rewards of every size: sums in steps never overflow, and scaled rewards give scaled answers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bqrl import MDP, Law, evaluate, load, simulate, solve
from bqrl.laws.law import size_of
from bqrl.mdp.grid import whole_steps
from bqrl.planners.plan import equal_values, is_steady, level_error

SCALES = (1e-9, 1e-6, 1.0, 1e6, 1e12)


def chain(rewards):
    """One state, one action, and one reward per stage."""
    return MDP(np.ones((len(rewards), 1, 1, 1)), np.reshape(rewards, (-1, 1, 1)))


def draws(values, probabilities, horizon):
    """The sum of `horizon` independent draws; nothing to decide."""
    n = len(values)
    return MDP(np.tile(probabilities, (n, 1, 1)), np.tile(values, (n, 1, 1)), horizon=horizon)


# -- integer overflow in the lattice --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rewards", "total"),
    [([1e18] * 10 + [1.0, 0.0], 1e19), ([1e15] * 9999, 9.999e18), ([1e15] * 9998 + [1.0], 9.998e18)],
    ids=["ten stages of 1e18", "9,999 stages of 1e15", "9,998 stages of 1e15 and one of 1"],
)
def test_integer_overflow_in_the_lattice(rewards, total):
    mdp = chain(rewards)
    plan = solve(mdp, 0.5)
    assert plan.value == pytest.approx(total, rel=1e-12)
    assert plan.upper == pytest.approx(total, rel=1e-12)
    assert plan.certain
    assert evaluate(mdp, plan.policy).mean() == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("beta", [0.0, 0.1])
def test_rewards_that_sums_cannot_tell_apart_give_a_bracket_of_the_truth(beta):
    mdp = draws([0.0, 1.0, 1e19], [0.4, 0.5, 0.1], 3)
    truth = 2.0  # at all levels in [0.4, 0.5], since P(G <= 1) = 0.304 and P(G <= 2) = 0.604
    plan = solve(mdp, 0.5, beta=beta)
    assert not plan.exact
    assert plan.value <= truth <= plan.upper
    lower, upper = evaluate(mdp, plan.policy, bracket=True)
    assert lower.quantile(0.5) <= 2.0 <= upper.quantile(0.5)
    assert upper.dominates(lower)


@pytest.mark.parametrize("top", [1e3, 1e6, 1e9, 1e10, 1e11, 1e12, 1e14, 1e16])
def test_a_reward_of_one_beside_a_large_one_is_never_lost(top):
    plan = solve(draws([0.0, 1.0, top], [0.4, 0.5, 0.1], 3), 0.5)
    assert plan.value <= 2.0 <= plan.upper
    assert plan.value == 2.0 or not plan.exact


@pytest.mark.parametrize("worth", [1e-15, 1e-3, 0.3, 1.0, 2.5])
def test_steps_are_rounded_outwards_however_small_a_reward_is(worth):
    down, up = (float(whole_steps(worth, 0.0, 1.0, up=up)) for up in (False, True))
    assert down <= worth <= up
    assert up - down == (worth != 1.0)


# -- tiny rewards -----------------------------------------------------------------------------------------------------------


def test_a_plan_for_tiny_rewards_attains_what_it_says():
    rng = np.random.default_rng(5)
    for _ in range(20):
        P = rng.dirichlet(np.ones(3), size=(3, 2))
        mdp = MDP(P, 1e-9 * rng.integers(0, 3, (3, 2, 3)), horizon=4)
        for tau in (0.1, 0.5, 0.9):
            plan = solve(mdp, tau)
            assert plan.exact
            assert plan.certain
            assert evaluate(mdp, plan.policy).quantile(tau) == plan.value
            played = simulate(mdp, plan.policy, 4000, seed=1)
            assert abs(np.mean(played < plan.value - 1e-12) - evaluate(mdp, plan.policy).shortfall(plan.value)) < 0.04


@pytest.mark.parametrize(("tau", "points"), [(0.2, 20_000), (0.6, 100), (0.7, 20_000)])
def test_no_step_of_a_grid_is_below_the_rounding_error_of_needs(tau, points):
    mdp = MDP([(0, 0, 0, 0.5, 1e12), (0, 0, 0, 0.5, 1e12 + 0.9), (0, 1, 0, 1.0, 1e12 + 0.4)], horizon=2)
    plan = solve(mdp, tau, points=points)
    returns = np.sort(simulate(mdp, plan.policy, episodes=20_000, seed=0))
    assert plan.value <= returns[int(tau * returns.size)]
    assert plan.upper >= 2e12 + 0.8


@pytest.mark.parametrize("unit", [1e-30, 1e-16, 1.0, 1e30])
def test_a_mixture_attains_the_bound_whatever_the_unit(unit):
    lines = [(0, 0, 0, 0.5, 4.0), (0, 0, 0, 0.5, 7.0), (0, 1, 0, 0.6, 7.0), (0, 1, 0, 0.4, 0.0)]
    plan = solve(MDP([(*line, x * unit) for *line, x in lines], horizon=1), 0.5, beta=0.25, randomized=True)
    assert (plan.value / unit, plan.upper / unit) == pytest.approx((4.75, 4.75))


def test_a_policy_for_one_huge_return_can_be_loaded_again(tmp_path):
    plan = solve(chain([3e12, 3e12]), 0.5, points=7)
    plan.policy.save(tmp_path / "policy.npz")
    assert load(tmp_path / "policy.npz").target == plan.policy.target == plan.value == 6e12
    assert plan.notes[0].points == 1


def test_laws_of_tiny_values_keep_their_atoms():
    law = Law([0.0, 1e-13, 2e-13], [0.25, 0.25, 0.5])
    assert law.values.tolist() == [0.0, 1e-13, 2e-13]
    assert law.cdf(0.5e-13) == 0.25
    assert not law.equals(law.shift(1e-13))
    assert law.equals(law.shift(1e-24))


def test_values_are_equal_relative_to_the_returns():
    law = Law([0.0, 3e-9], [0.5, 0.5])
    assert not equal_values(1e-9, 2e-9, law)
    assert equal_values(1e-9, 1e-9 + 1e-24, law)
    assert not equal_values(1.0, 2.0, Law([0.0, 1.0, 1e11], [0.4, 0.5, 0.1]))
    assert size_of(np.zeros(3)) == 1.0
    assert size_of(np.array([-3e-9, 1e-9])) == 3e-9


def test_values_that_a_buffered_quantile_does_not_average_do_not_blur_it():
    near, far = Law([0.0, 1.0, 2.0], [0.4, 0.5, 0.1]), Law([0.0, 1.0, 1e19], [0.4, 0.5, 0.1])
    assert level_error(far, 0.5, 0.2, 1e-15) == level_error(near, 0.5, 0.2, 1e-15) == pytest.approx(5e-15)
    assert is_steady(far, 0.5, 0.2, 1e-15)
    assert not is_steady(far, 0.95, 0.2, 1e-8)


# -- scaled rewards -----------------------------------------------------------------------------------------------------------


@st.composite
def problems(draw):
    """Transitions from counts, so that ties occur, and rewards with or without a common step."""
    S, A, H = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    counts = st.lists(st.integers(0, 3), min_size=S, max_size=S).filter(any)
    P = np.array([[draw(counts) for _ in range(A)] for _ in range(S)], float)
    values = draw(st.sampled_from([(0.0, 1.0, 2.0), (-1.0, 0.5, 3.0), (0.1, 0.2, 1 / 3), (0.0, np.sqrt(2), np.pi)]))
    R = np.array(draw(st.lists(st.sampled_from(values), min_size=S * A * S, max_size=S * A * S))).reshape(S, A, S)
    return P / P.sum(axis=2, keepdims=True), np.tile(R, (H, 1, 1, 1)), H


@given(
    problems(),
    st.sampled_from(SCALES),
    st.sampled_from([(0.1, 0.0), (0.25, 0.0), (0.5, 0.0), (0.9, 0.0), (0.5, 0.2), (0.3, 0.3)]),
    st.sampled_from([1.0, 0.9]),
)
def test_scaled_rewards_give_scaled_answers(problem, scale, levels, discount):
    P, R, H = problem
    tau, beta = levels
    points = {} if beta == 0.0 else {"points": 500}  # brackets of a moderate size
    plain = solve(MDP(P, R, horizon=H, discount=discount), tau, beta=beta, **points)
    scaled = solve(MDP(P, scale * R, horizon=H, discount=discount), tau, beta=beta, **points)
    size = scale * H * size_of(R)
    assert scaled.value == pytest.approx(scale * plain.value, rel=1e-9, abs=1e-12 * size)
    assert scaled.upper == pytest.approx(scale * plain.upper, rel=1e-9, abs=1e-12 * size)
    assert scaled.certain == plain.certain
    assert scaled.exact == plain.exact


# -- more than 32,767 actions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [0, 32_768, 35_000, 39_999])
def test_more_than_32767_actions(best):
    rewards = np.zeros((1, 40_000))
    rewards[0, best] = 9.0
    mdp = MDP(np.ones((1, 40_000, 1)), rewards, horizon=3)
    for planner in ("target", "expected"):
        plan = solve(mdp, 0.5, planner=planner)
        assert plan.value == 27.0
        assert plan.policy.act(0, 0, plan.policy.start()) == best
