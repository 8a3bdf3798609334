import numpy as np
import pytest
from oracles import random_mdp

from bqrl import Law, MarkovPolicy, envs, evaluate, guarantee_curve, solve
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
        assert np.all(found.bound <= 2 * gap + found.model + 1e-9)
        assert np.all(found.buffering <= gap + 1e-9)


def test_broken_optimism_is_seen():
    mdp = envs.make("AssetSelling", offers=5, horizon=3, start=1)
    best = solve(mdp, 0.5)
    lazy = evaluate(mdp, MarkovPolicy(np.zeros((3, 6), int)))
    found = optimistic_decomposition(best.law, [lazy, lazy], [0.0, 1.0], 0.5, 0.1)
    assert found.optimistic.tolist() == [False, True]


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_optimism_is_judged_in_the_unit_of_the_rewards(unit):
    law = Law(unit * np.array([1.0, 2.0, 4.0]), [0.2, 0.3, 0.5])
    value = law.buffered_quantile(0.6, 0.3)
    offsets = unit * np.array([1e-13, -1e-13, 1e-6, -1e-6, 0.5, -0.5])  # rounding error, small gaps, large gaps
    found = optimistic_decomposition(law, [law] * 6, value + offsets, 0.6, 0.3)
    assert found.optimistic.tolist() == [True, True, True, False, True, False]


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_brackets_scale_with_the_rewards(unit):
    rng = np.random.default_rng(5)
    for _ in range(20):
        laws = [Law(rng.integers(0, 9, 4).astype(float), rng.dirichlet(np.ones(4))) for _ in range(4)]
        scaled = [Law(unit * law.values, law.probabilities) for law in laws]
        values, betas = rng.uniform(0.0, 9.0, 3), rng.uniform(0.05, 0.4, 3)
        plain = optimistic_decomposition(laws[0], laws[1:], values, 0.4, betas)
        other = optimistic_decomposition(scaled[0], scaled[1:], unit * values, 0.4, betas)
        assert other.optimistic.tolist() == plain.optimistic.tolist()
        for name in ("regret", "buffering", "optimism", "model", "rest"):
            assert getattr(other, name) / unit == pytest.approx(getattr(plain, name), abs=1e-12)


def test_only_zeros_have_no_scale():
    law = Law([0.0], [1.0])
    assert optimistic_decomposition(law, [law], [0.0], 0.5, 0.1).optimistic.all()
