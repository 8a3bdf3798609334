import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import random_mdp

from bqrl import MarkovPolicy, envs, evaluate, guarantee_curve, solve
from bqrl.planners.confidence import log_buffer
from bqrl.theory import buffering_gap, mismatch_weights, optimistic_decomposition, weighted_counting
from bqrl.theory.decomposition import visits_before


@given(st.lists(st.integers(0, 5)))
def test_visits_before(rows):
    assert visits_before(np.array(rows, int)).tolist() == [rows[:i].count(x) for i, x in enumerate(rows)]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 60), st.integers(0, 10**6))
def test_counting_sum_stays_below_its_bound(S, A, H, T, seed):
    rng = np.random.default_rng(seed)
    skew = rng.dirichlet(np.full(S * A, 0.3))
    rows = rng.choice(S * A, size=(T, H), p=skew)
    found = weighted_counting(rows // A, rows % A, S, A)
    true = 0.0
    seen = np.zeros((H, S * A), int)
    for t in range(T):
        for h in range(H):
            true += (H - h - 1) / np.sqrt(max(1, seen[h, rows[t, h]]))
        seen[np.arange(H), rows[t]] += 1
    assert found.total == pytest.approx(true)
    assert found.by_stage.sum() == pytest.approx(found.by_episode.sum()) == pytest.approx(true)
    assert found.total <= found.bound + 1e-12
    assert found.bound == pytest.approx(H * (H - 1) * np.sqrt(S * A * T))
    assert found.scaled(2.0) == (2.0 * found.total, 2.0 * found.bound)


def test_counting_bound_is_within_a_factor_for_even_visits():
    T, S, A = 4000, 2, 2
    rows = np.tile(np.arange(4), T // 4)[:, None].repeat(2, axis=1)
    found = weighted_counting(rows // A, rows % A, S, A, weights=[1.0, 1.0])
    assert found.total >= 0.97 * found.bound


def test_counting_takes_a_problems_own_weights():
    mdp = envs.make("AssetSelling", offers=4, horizon=3, start=1)
    states, actions = np.ones((5, 4), int), np.zeros((5, 3), int)
    found = weighted_counting(states, actions, mdp.S, mdp.A, mismatch_weights(mdp))
    assert found.by_stage == pytest.approx(np.array([2.0, 1.0, 0.0]) * (2 + 2**-0.5 + 3**-0.5 + 0.5))


def test_brackets_add_up_and_bound_the_regret():
    # A toy run: optimistic plans on a ball that always holds the truth, so optimism must hold in every episode.
    rng = np.random.default_rng(4)
    for _ in range(6):
        mdp = random_mdp(rng, horizon=3, plain=True)
        tau = float(rng.choice([0.25, 0.5]))
        curve = guarantee_curve(mdp)
        best = evaluate(mdp, curve.policy(tau))
        betas = log_buffer(tau)(np.arange(4))
        laws, values = [], []
        for beta, eps in zip(betas, (1.0, 0.3, 0.1, 0.0), strict=True):
            if eps == 0.0:
                plan = solve(mdp, tau, beta, randomized=False)
            else:
                centre = mdp.with_probability(mdp.probability)
                plan = solve(centre, tau, beta, radius=eps, attitude="optimistic")
            laws.append(evaluate(mdp, plan.policy))
            values.append(plan.upper)
        found = optimistic_decomposition(best, laws, values, tau, betas)
        total = found.buffering + found.optimism + found.model + found.rest
        assert total == pytest.approx(found.regret, abs=1e-9)
        assert np.all(found.optimistic)
        assert np.all(found.rest <= 1e-9)
        assert np.all(found.regret <= found.bound + 1e-9)
        gap = buffering_gap(mdp, tau, betas)
        assert np.all(found.bound <= found.paper_bound(gap) + 1e-9)
        assert np.all(found.buffering <= gap + 1e-9)


def test_broken_optimism_is_seen():
    mdp = envs.make("AssetSelling", offers=5, horizon=3, start=1)
    best = solve(mdp, 0.5)
    lazy = evaluate(mdp, MarkovPolicy(np.zeros((3, 6), int)))
    found = optimistic_decomposition(best.law, [lazy, lazy], [0.0, 1.0], 0.5, 0.1)
    assert found.optimistic.tolist() == [False, True]
