import numpy as np
import pytest
from oracles import random_mdp

from bqrl import MarkovPolicy, envs, evaluate, guarantee_curve, solve
from bqrl.planners.confidence import log_buffer
from bqrl.theory import buffering_gap, optimistic_decomposition


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
