"""The search over histories for the best deterministic policy."""

import numpy as np
import pytest
from planner_problems import best_share, choice_after_chance

import bqrl
from bqrl import evaluate, solve
from bqrl.planners import branch


def test_a_problem_with_too_many_histories_is_refused(monkeypatch):
    monkeypatch.setattr(branch, "MAX_MOVES", 10)
    with pytest.raises(ValueError, match="too many histories"):
        solve(choice_after_chance(5), 0.5, beta=0.25, randomized=False)


def test_few_widths_bound_as_truly_as_all(monkeypatch):
    monkeypatch.setattr(branch, "MAX_WIDTHS", 0)
    for histories in (3, 5, 7):
        plan = solve(choice_after_chance(histories), 0.5, beta=0.25, randomized=False)
        assert plan.value == pytest.approx(best_share(histories), abs=1e-12)


@pytest.mark.parametrize(
    ("S", "A", "H", "seed"), [(2, 2, 4, 3), (3, 3, 4, 45), (3, 3, 4, 77), (3, 3, 5, 88), (3, 3, 5, 289)]
)
def test_branching_finds_the_best_of_all_undominated_laws(S, A, H, seed):
    rng = np.random.default_rng(seed)
    kernel = rng.multinomial(10, np.ones(S) / S, size=(S, A)) / 10
    mdp = bqrl.MDP(kernel, rng.integers(0, 4, (S, A)).astype(float), horizon=H)
    tau = float(rng.choice([0.1, 0.25, 0.5, 0.75, 0.9]))
    beta = tau * float(rng.choice([0.1, 0.3, 0.5, 0.8]))
    plan, law = (
        solve(mdp, tau, beta=beta, randomized=False),
        solve(mdp, tau, beta=beta, planner="frontier", dominance=True),
    )
    assert plan.value == pytest.approx(law.value, abs=1e-9)
    assert evaluate(mdp, plan.policy).buffered_quantile(tau, beta) == pytest.approx(plan.value, abs=1e-12)


@pytest.mark.parametrize("unit", [1.0, 1e-11, 1e-13, 1e12])
def test_nodes_of_tiny_rewards_are_not_merged(unit):
    """With rewards of 1e-11 the costs of all nodes were rounded to 0, and a policy of value 4.53 was proven the best."""
    weights = [0.13, 0.3, 0.02, 0.55]
    chance = [(0, a, 1 + s, w, 0.0) for a in (0, 1) for s, w in enumerate(weights)]
    laws = {0: [(0.5, 4.0), (0.5, 7.0)], 1: [(0.4, 0.0), (0.6, 7.0)]}
    choice = [(1 + s, a, 0, p, x * unit) for s in range(4) for a, law in laws.items() for p, x in law]
    plan = solve(bqrl.MDP(chance + choice, horizon=2), 0.5, beta=0.25, randomized=False)
    shares = [sum(w for s, w in enumerate(weights) if bold >> s & 1) for bold in range(16)]
    every = [bqrl.Law([0, 4, 7], [0.4 * b, 0.5 * (1 - b), 0.5 + 0.1 * b]).buffered_quantile(0.5, 0.25) for b in shares]
    assert plan.value / unit == pytest.approx(max(every), abs=1e-9)
