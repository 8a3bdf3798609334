"""Policies that let chance within the problem play the coin of a mix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps

import bqrl
from bqrl import LabelPolicy, Law, evaluate, solve
from bqrl.mdp.find_grid import lattice
from bqrl.planners import branch
from bqrl.planners.sweep import sweep

STEADY, BOLD = Law([4.0, 7.0], [0.5, 0.5]), Law([0.0, 7.0], [0.4, 0.6])


def choice_after_chance(histories):
    """One of equally likely states, then a choice between two laws that is the same in all of them."""
    chance = [(0, a, 1 + s, 1 / histories, 0.0) for a in (0, 1) for s in range(histories)]
    choice = [
        (1 + s, a, 0, p, x)
        for s in range(histories)
        for a, law in enumerate((STEADY, BOLD))
        for x, p in zip(law.values.tolist(), law.probabilities.tolist(), strict=True)
    ]
    return bqrl.MDP(chance + choice, horizon=2)


def best_share(histories):
    """The best buffered quantile when j of the histories take the bold choice."""
    return max(
        Law.mixture([BOLD, STEADY], [j / histories, 1 - j / histories]).buffered_quantile(0.5, 0.25)
        for j in range(histories + 1)
    )


@pytest.mark.parametrize("histories", [1, 2, 3, 5, 7, 8, 16])
def test_histories_share_a_choice_as_well_as_they_divide(histories):
    plan = solve(choice_after_chance(histories), 0.5, beta=0.25, exact=True)
    assert plan.value == pytest.approx(best_share(histories), abs=1e-12)
    assert plan.upper == pytest.approx(4.75, abs=1e-12)  # five eighths bold
    assert (plan.gap <= 1e-9) == (histories % 8 == 0)


@pytest.mark.parametrize(("tau", "beta"), [(0.1, 0.06), (0.5, 0.05), (0.7, 0.42)])
def test_asset_selling_needs_no_coin(tau, beta):
    mdp = bqrl.envs.make("AssetSelling")
    found, plan = solve(mdp, tau, beta=beta), solve(mdp, tau, beta=beta, exact=True)
    assert found.gap > 1e-5
    assert plan.gap <= 1e-9
    assert plan.upper == pytest.approx(found.upper, abs=1e-12)
    assert isinstance(plan.policy, LabelPolicy)
    assert evaluate(mdp, plan.policy).buffered_quantile(tau, beta) == pytest.approx(plan.value, abs=1e-12)


def test_what_is_not_proven_within_the_budget_says_what_is_left_open():
    mdp = choice_after_chance(5)
    with pytest.raises(ValueError, match=r"between 4\.72 and 4\.75, and 1 nodes.*allow gap=0\.03") as fault:
        solve(mdp, 0.5, beta=0.25, exact=True, max_nodes=1)
    gap = float(str(fault.value).split("gap=")[1].split(",")[0])
    plan = solve(mdp, 0.5, beta=0.25, exact=True, max_nodes=1, gap=gap)
    assert (plan.value, plan.gap) == pytest.approx((4.72, 0.03))
    assert "chance within the problem" in plan.notes[0]
    alone = solve(choice_after_chance(1), 0.5, beta=0.25, exact=True, gap=0.76)
    assert alone.notes == ("the policy found comes within 0.8 of the bound",)


@pytest.mark.parametrize("tau", [0.2, 0.225, 0.3, 0.45])
def test_the_gap_that_a_refusal_offers_is_accepted(tau):
    mdp = choice_after_chance(1).replace(horizon=4)
    try:
        plan = solve(mdp, tau, beta=tau / 5, exact=True, max_nodes=1)
    except ValueError as fault:
        gap = float(str(fault).split("gap=")[1].split(",")[0])
        plan = solve(mdp, tau, beta=tau / 5, exact=True, max_nodes=1, gap=gap)
        assert plan.gap <= gap
    assert plan.value <= plan.upper


def test_the_table_of_labels_tells_the_reward_where_it_decides():
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 4.0), (0, 0, 0, 0.5, 7.0), (0, 1, 0, 0.6, 7.0), (0, 1, 0, 0.4, 0.0)], horizon=2)
    policy = solve(mdp, 0.75, beta=0.1875, exact=True).policy
    assert isinstance(policy, LabelPolicy)
    assert policy.rows(mdp)[0]["then"] == "0(4):1 0(7):2"


def test_a_problem_with_too_many_histories_is_refused(monkeypatch):
    monkeypatch.setattr(branch, "MAX_MOVES", 10)
    with pytest.raises(ValueError, match="too many histories"):
        solve(choice_after_chance(5), 0.5, beta=0.25, exact=True)


def test_few_widths_bound_as_truly_as_all(monkeypatch):
    monkeypatch.setattr(branch, "MAX_WIDTHS", 0)
    for histories in (3, 5, 7):
        plan = solve(choice_after_chance(histories), 0.5, beta=0.25, exact=True)
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
    plan, law = solve(mdp, tau, beta=beta, exact=True), solve(mdp, tau, beta=beta, planner="frontier", dominance=True)
    assert plan.value == pytest.approx(law.value, abs=1e-9)
    assert evaluate(mdp, plan.policy).buffered_quantile(tau, beta) == pytest.approx(plan.value, abs=1e-12)


@given(small_mdps(), st.integers(1, 3), st.integers(0, 2))
def test_a_second_cost_breaks_ties_towards_its_extremes(mdp, width, k):
    columns, laws = lattice(mdp), achievable_laws(mdp, 200)
    if columns is None or laws is None:
        return
    steps = np.arange(max(width, k + 1) + 1.0)
    least, most = (
        sweep(mdp, columns, np.minimum(steps, width), extra=steps.size - 1, second=sign * (steps > k), keep=True)
        for sign in (1.0, -1.0)
    )
    assert np.array_equal(least.root, most.root)
    for i, z in enumerate(columns.points(0)):
        costs = []
        for law in laws:
            short = [(round((z - float(x)) / columns.step), p) for x, p in law]
            costs.append((sum(p * min(max(n, 0), width) for n, p in short), sum(p for n, p in short if n > k)))
        best = min(cost for cost, _ in costs)
        beyond = [float(often) for cost, often in costs if cost == best]
        assert least.root[i] == pytest.approx(float(best), abs=1e-12)
        assert -least.mean[i] == pytest.approx(min(beyond), abs=1e-12)
        assert most.mean[i] == pytest.approx(max(beyond), abs=1e-12)
