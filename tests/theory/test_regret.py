import math
from functools import partial

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import random_mdp, small_mdps

from bqrl import MDP, Quantile, envs, from_step
from bqrl.learners.protocol import Task, blank_model
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.planners.confidence import constant_buffer, log_buffer, power_buffer
from bqrl.theory import (
    RegretBounds,
    buffer_horizon,
    buffering_gap,
    confidence_constant,
    hard_instance,
    optimal_margin,
    plateau,
    regret_bound,
)
from bqrl.theory.perturbation import reward_spans

HARD = hard_instance(0.5, 0.05, 2, 3)


def test_theorem_1_term_by_term():
    S, A, H, T, tau, delta = 2, 2, 3, 500, 0.5, 0.05
    bound = regret_bound(HARD, tau, T, "theorem 1", delta=delta)
    c, L = confidence_constant(S, A, T, H, delta), math.log(2 * S * A * T * H / delta)
    beta = tau / np.log(np.e + np.arange(T))
    assert bound.buffering == pytest.approx(2 * sum(buffering_gap(HARD, tau, b) for b in beta))
    assert bound.counting == pytest.approx(c / beta[-1] * math.sqrt(S * A * T * H**4 * L))
    assert bound.martingale == pytest.approx(c / beta[-1] * math.sqrt(T * H**4 / 2 * L * math.log(1 / delta)))
    assert bound.planner == 0.0
    assert bound.trivial == T * H
    assert bound.probability == pytest.approx(1 - 2 * delta)
    assert bound.total == pytest.approx(bound.buffering + bound.counting + bound.martingale)


def test_corollary_1_waits_for_the_plateau():
    K = buffer_horizon(0.5, plateau(HARD, 0.5))
    for T in (10, K, 2 * K):
        assert regret_bound(HARD, 0.5, T, "corollary 1").buffering == pytest.approx(2 * 3 * min(T, K))
    with pytest.raises(ValueError, match="logarithmic"):
        regret_bound(HARD, 0.5, 10, "corollary 1", schedule=power_buffer(0.5, 0.5))


@settings(max_examples=40)
@given(small_mdps(plain=True), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([7, 300]))
def test_ours_is_never_above_the_papers(mdp, tau, T):
    assume(np.ptp(mdp.reward) > 0.0)
    bounds = RegretBounds(mdp, tau)
    ours, theorem, corollary = (bounds(T, name) for name in ("ours", "theorem 1", "corollary 1"))
    size = 1e-9 * max(1.0, theorem.total)
    assert ours.buffering <= theorem.buffering / 2 + size
    assert theorem.buffering <= corollary.buffering + size
    assert ours.counting <= theorem.counting + size
    assert ours.martingale <= theorem.martingale + size
    assert theorem.counting == corollary.counting


def test_ours_pays_for_the_buffer_until_the_margin_only():
    mdp, tau = envs.make("AssetSelling"), 0.1
    bounds = RegretBounds(mdp, tau)
    K = buffer_horizon(tau, optimal_margin(mdp, tau))
    assert bounds(K).buffering == bounds(10 * K).buffering < 10  # the logarithmic buffer clears rho* in 656 episodes
    assert (
        bounds(K, "theorem 1").buffering == 2 * 10 * K
    )  # rho_tau is below 1e-4: Delta_beta never vanishes in practice
    assert any("too many laws" in note for note in bounds(K, "theorem 1").notes)
    assert any(f"episode {K}" in note for note in bounds(K).notes)


def test_planner_gaps_are_added():
    gaps = np.linspace(0.0, 0.1, 20)
    plain = regret_bound(HARD, 0.5, 20)
    assert regret_bound(HARD, 0.5, 20, planner_gap=gaps).total == pytest.approx(plain.total + gaps.sum())
    assert regret_bound(HARD, 0.5, 20, planner_gap=0.25).planner == pytest.approx(5.0)


def test_support_replaces_the_number_of_states():
    wide = envs.make("AssetSelling", offers=60)
    full, known = (regret_bound(wide, 0.5, 1000, support=k) for k in (None, 2))
    assert known.counting < 0.7 * full.counting
    assert full == regret_bound(
        wide, 0.5, 1000, support=60
    )  # the next offers; the state after the sale is never among them
    single = MDP(np.ones((1, 2, 1)), [[0.0, 1.0]], horizon=2)
    assert math.isfinite(regret_bound(single, 0.5, 10).total)  # 2^1 - 2 = 0 takes no logarithm


def shared_dice():
    """Two actions read a law of four events differently: rows of two outcomes, but a law of four classes."""
    noise = dict.fromkeys(range(4), 0.25)
    return from_step(lambda s, a, e: (0, float(e // 2 if a else e % 2)), [0, 1], noise, horizon=3, start=0)


@pytest.mark.parametrize(
    "build", [*(partial(envs.make, name) for name in ("SafeOrRisky", "AssetSelling")), shared_dice]
)
def test_the_confidence_constant_is_that_of_the_learner(build):
    # SafeOrRisky has one state and rows of two outcomes; it was bounded with the constant of one outcome.
    mdp, T, delta = build(), 50, 0.05
    task = Task(
        structure=mdp.structure,
        model=blank_model(mdp),
        discount=mdp.discount,
        objective=Quantile(0.5),
        episodes=T,
        delta=delta,
    )
    learner = UCBBQRL(task, np.random.default_rng(0), c_conf="theory")
    learner.counts.visits[...] = 10**6
    C = 2.0 * learner.half_radius().max() * 1e3
    bounds = RegretBounds(mdp, 0.5, delta=delta, schedule=0.25)
    assert bounds(T).counting == pytest.approx(C / 0.25 * bounds.reach * math.sqrt(mdp.S * mdp.A * T))


def test_a_constant_buffer_above_the_margin_costs_every_episode():
    # A constant buffer above rho costs (H - 1)(1 - rho / beta) = 1.5 an episode for ever: below the trivial 3, but linear.
    constant = RegretBounds(HARD, 0.5, schedule=constant_buffer(0.2))
    assert constant(10**40).total / 10**40 == pytest.approx(1.5)


def test_listed_schedules_are_bounds_too():
    listed = log_buffer(0.5)(np.arange(50)).tolist()
    assert regret_bound(HARD, 0.5, 50, schedule=listed).total == pytest.approx(regret_bound(HARD, 0.5, 50).total)


def test_everything_but_probabilities_scales_with_the_rewards():
    mdp = envs.make("AssetSelling", offers=4, horizon=3, start=1)
    P = np.stack([mdp.dense(h).reshape(mdp.S, mdp.A, mdp.S) for h in range(3)])
    R = np.stack([mdp.stage(h).row_reward for h in range(3)])
    one, ten = (MDP(P, scale * R - 7.0 * (scale > 1), start=1) for scale in (1.0, 10.0))
    assert reward_spans(ten) == pytest.approx(10 * reward_spans(one))
    for statement in ("theorem 1", "corollary 1", "ours"):
        small, large = (regret_bound(m, 0.5, 100, statement) for m in (one, ten))
        assert large.total == pytest.approx(10 * small.total)
        assert large.trivial == pytest.approx(10 * small.trivial)


def test_statements_do_not_share_sums_where_plateau_and_margin_are_equal():
    mdp, tau = random_mdp(np.random.default_rng(21), horizon=3, plain=True), 0.5
    assert plateau(mdp, tau) == pytest.approx(optimal_margin(mdp, tau))
    bounds = RegretBounds(mdp, tau)
    for statement in ("theorem 1", "ours"):
        assert bounds(40, statement).buffering == regret_bound(mdp, tau, 40, statement).buffering
    assert bounds(40).buffering < 0.4 * bounds(40, "theorem 1").buffering


def test_printed_forms_use_h_times_h_plus_1_for_rewards_on_outcomes():
    paid = MDP(np.full((2, 1, 2), 0.5), [[[0.0, 1.0]], [[0.0, 1.0]]], horizon=4)
    bounds = RegretBounds(paid, 0.5)
    assert bounds(10, "theorem 1").counting == pytest.approx(bounds(10).counting)
