from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import achievable_laws, exact_objective

from bqrl import evaluate, solve
from bqrl.policies.markov import MarkovPolicy
from bqrl.theory import count_subsets, knapsack_instance, knapsack_law, support_growth

weights = st.lists(st.integers(1, 12), min_size=1, max_size=9)


def direct_count(w, capacity):
    return sum(sum(chosen) <= capacity for k in range(len(w) + 1) for chosen in combinations(w, k))


@given(weights, st.data())
def test_decisions_alone_count_the_subsets(w, data):
    capacity = data.draw(st.integers(0, sum(w)))
    counts = {count_subsets(w, capacity, by=by) for by in ("quantile", "buffered")}
    assert counts == {direct_count(w, capacity)}


@given(weights)
def test_both_laws_agree_and_are_the_problems(w):
    law = knapsack_law(w)
    assert law == knapsack_law(w, lattice=False)
    assert law.running[-1] == 2 ** len(w)
    floats = evaluate(knapsack_instance(w), MarkovPolicy([[0, 0]] * (len(w) + 1)))
    assert floats.values == pytest.approx([k / sum(w) for k in law.sums], abs=1e-12)
    assert floats.running == pytest.approx([c / 2 ** len(w) for c in law.running], abs=1e-12)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(1, 63), st.integers(1, 64))
def test_quantiles_in_fractions(w, i, j):
    tau = Fraction(i, 64)
    beta = min(Fraction(j, 64), tau)
    (only,) = achievable_laws(knapsack_instance(w))
    law = knapsack_law(w)
    assert law.quantile(tau) == exact_objective(only, tau)
    assert law.buffered_quantile(tau, beta) == exact_objective(only, tau, beta)


def test_the_number_of_decisions_is_linear():
    w, asked = [3, 5, 7, 11, 13, 17], []
    law = knapsack_law(w)

    def decide(tau, beta, c):
        asked.append((tau, beta, c))
        return law.decide(tau, beta, c)

    assert count_subsets(w, 20, decide=decide) == direct_count(w, 20)
    assert len(asked) == len(w)
    assert all(beta == 0 and 0 < tau < 1 for tau, beta, _ in asked)


def test_any_planner_may_decide():
    w = [2, 3, 5]
    mdp = knapsack_instance(w)

    def decide(tau, beta, c):
        return solve(mdp, float(tau), float(beta)).value <= float(c) + 1e-9

    assert [count_subsets(w, K, by, decide) for K in range(11) for by in ("quantile", "buffered")] == [
        direct_count(w, K) for K in range(11) for _ in range(2)
    ]


def test_weights_too_long_for_a_lattice_go_atom_by_atom():
    w = [2**40 + 3**k for k in range(8)]
    assert count_subsets(w, 3 * 2**40 + 3000) == direct_count(w, 3 * 2**40 + 3000)


@given(weights)
def test_growth_counts_what_it_says(w):
    growth = support_growth(w)
    for k in range(len(w)):
        law = knapsack_law(w[: k + 1], lattice=False)
        assert growth.horizon[k] == k + 2
        assert growth.histories[k] == 2 ** (k + 1)
        assert growth.support[k] == len(law.sums) <= min(growth.histories[k], growth.lattice[k])


def test_support_beyond_the_budget_is_left_open():
    growth = support_growth([2**k for k in range(12)], max_atoms=1000)
    assert growth.support[8] == 512
    assert growth.support[9:] == (None, None, None)
