from fractions import Fraction

import numpy as np
import pytest
from oracles import achievable_laws, exact_quantile

from bqrl import evaluate, solve
from bqrl.policies.markov import MarkovPolicy
from bqrl.theory import hard_instance, hard_lower_bound, optimal_margin, plateau

CASES = [
    (Fraction(1, 2), Fraction(1, 20), 2, 2, 0),
    (Fraction(1, 10), Fraction(1, 80), 3, 5, 2),
    (Fraction(9, 10), Fraction(1, 100), 4, 3, 1),
    (Fraction(3, 10), Fraction(3, 80), 5, 2, 4),
]


@pytest.mark.parametrize(("tau", "rho", "A", "H", "best"), CASES)
def test_plateau_and_margin_are_exactly_rho(tau, rho, A, H, best):
    mdp = hard_instance(float(tau), float(rho), A, H, best)
    laws = achievable_laws(mdp)
    assert len(laws) == 2  # of the best action, and of any other
    plateaus = []
    for law in laws:
        x = exact_quantile(law, tau)
        plateaus.append(tau - sum((p for z, p in law if z < x), Fraction(0)))
    assert min(plateaus) == rho  # in fractions
    assert plateau(mdp, float(tau)) == pytest.approx(float(rho), abs=1e-15)
    assert optimal_margin(mdp, float(tau)) == pytest.approx(float(rho), abs=1e-15)


@pytest.mark.parametrize(("tau", "rho", "A", "H", "best"), CASES)
def test_only_the_best_action_reaches_the_upper_end(tau, rho, A, H, best):
    mdp = hard_instance(float(tau), float(rho), A, H, best)
    for a in range(A):
        law = evaluate(mdp, MarkovPolicy(np.full((H, 2), a)))
        assert law.quantile(float(tau)) == (H - 1 if a == best else 0)
    plan = solve(mdp, float(tau))
    assert plan.value == H - 1
    assert plan.policy.act(0, 0, plan.policy.start()) == best


@pytest.mark.parametrize("tau", [0.02, 0.1, 0.5, 0.85, 0.98])
@pytest.mark.parametrize("share", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("A", [2, 3, 20])
def test_closed_form_never_exceeds_the_direct_bound(tau, share, A):
    rho = share * min(tau, 1 - tau) / 8
    last = 0.0
    for T in (1, 2, 3, 4, 5, 10, 100, 10**4, 10**6, 10**9):
        bound = hard_lower_bound(tau, rho, A, 2, T)
        assert (
            0.0 < bound.rate <= bound.direct <= T * (1 - 1 / A) + 1e-12
        )  # H - 1 = 1: at most a wrong choice an episode
        assert bound.direct >= last
        last = bound.direct


def test_bound_is_flat_once_the_arms_can_be_told_apart():
    far, further = (hard_lower_bound(0.5, 0.05, 3, 4, T) for T in (10**6, 10**12))
    assert (far.direct, far.rate) == (further.direct, further.rate)
    assert far.saturated_from < 3 / 0.05**2


@pytest.mark.parametrize("chance", [False, True])
def test_simulated_learners_stay_above_the_lower_bound(chance):
    # 400 runs for each best action; wrong choices lie in [0, T], so their mean over the actions is off by more than
    # T sqrt(log(1/1e-6) / (2 * 800)) = 0.093 T with probability below 1e-6 (Hoeffding).
    tau, rho, A, T, runs = 0.5, 0.06, 2, 30, 400
    rng = np.random.default_rng(7)
    wrong = []
    for best in range(A):
        p = np.where(np.arange(A) == best, 1 - tau + rho, 1 - tau - rho)
        wins, plays = np.ones((runs, A)), np.full((runs, A), 2.0)
        count = np.zeros(runs)
        for _ in range(T):
            index = rng.beta(wins, plays - wins + 1) if chance else wins / plays + np.sqrt(np.log(T) / (2 * plays))
            a = index.argmax(axis=1)
            count += a != best
            wins[np.arange(runs), a] += rng.random(runs) < p[a]
            plays[np.arange(runs), a] += 1
        wrong.append(count.mean())
    assert np.mean(wrong) + 0.093 * T >= hard_lower_bound(tau, rho, A, 2, T).direct
