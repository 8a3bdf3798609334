"""The proof of the best deterministic policy, and mixes of two policies that need no coin."""

import pytest
from planner_problems import best_share, choice_after_chance

import bqrl
from bqrl import LabelPolicy, evaluate, solve
from bqrl.errors import SizeError
from bqrl.planners.facts import NearRandomized


def test_what_is_not_proven_within_the_budget_says_what_is_left_open():
    mdp = choice_after_chance(5)
    with pytest.raises(SizeError, match="allow gap=") as fault:
        solve(mdp, 0.5, beta=0.25, randomized=False, max_nodes=1)
    assert (fault.value.limit, fault.value.needed) == pytest.approx((4.72, 4.75))
    gap = 1.01 * (fault.value.needed - fault.value.limit)
    plan = solve(mdp, 0.5, beta=0.25, randomized=False, max_nodes=1, gap=gap)
    assert (plan.value, plan.gap) == pytest.approx((4.72, 0.03))
    assert plan.notes == (NearRandomized(gap=pytest.approx(0.03)),)
    alone = solve(choice_after_chance(1), 0.5, beta=0.25, randomized=False, gap=0.76)
    assert alone.notes[0] == NearRandomized(gap=pytest.approx(0.75))


@pytest.mark.parametrize("tau", [0.2, 0.225, 0.3, 0.45])
def test_the_gap_that_a_refusal_offers_is_accepted(tau):
    mdp = choice_after_chance(1).replace(horizon=4)
    try:
        plan = solve(mdp, tau, beta=tau / 5, randomized=False, max_nodes=1)
    except SizeError as fault:
        gap = float(str(fault).split("gap=")[1].split()[0])  # the number that a person would copy
        plan = solve(mdp, tau, beta=tau / 5, randomized=False, max_nodes=1, gap=gap)
        assert plan.gap <= gap
    assert plan.value <= plan.upper


@pytest.mark.parametrize("histories", [1, 2, 3, 5, 7, 8, 16])
def test_histories_share_a_choice_as_well_as_they_divide(histories):
    plan = solve(choice_after_chance(histories), 0.5, beta=0.25, randomized=False)
    assert plan.value == pytest.approx(best_share(histories), abs=1e-12)
    assert plan.upper == pytest.approx(4.75, abs=1e-12)  # five eighths bold
    assert (plan.gap <= 1e-9) == (histories % 8 == 0)


@pytest.mark.parametrize(("tau", "beta"), [(0.1, 0.06), (0.5, 0.05), (0.7, 0.42)])
def test_asset_selling_needs_no_coin(tau, beta):
    mdp = bqrl.envs.make("AssetSelling")
    found, plan = solve(mdp, tau, beta=beta), solve(mdp, tau, beta=beta, randomized=False)
    assert found.gap > 1e-5
    assert plan.gap <= 1e-9
    assert plan.upper == pytest.approx(found.upper, abs=1e-12)
    assert isinstance(plan.policy, LabelPolicy)
    assert evaluate(mdp, plan.policy).buffered_quantile(tau, beta) == pytest.approx(plan.value, abs=1e-12)


def test_the_table_of_labels_tells_the_reward_where_it_decides():
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 4.0), (0, 0, 0, 0.5, 7.0), (0, 1, 0, 0.6, 7.0), (0, 1, 0, 0.4, 0.0)], horizon=2)
    policy = solve(mdp, 0.75, beta=0.1875, randomized=False).policy
    assert isinstance(policy, LabelPolicy)
    first = [row for row in policy.rows(mdp) if row["stage"] == 1]
    assert [(row["reward"], row["next_label"]) for row in first] == [(4.0, 1), (7.0, 2)]


TIED = [(0, 0, 0, 1.0, -1.7), (0, 1, 0, 0.5, 3.7), (0, 1, 0, 0.5, -1.7)]
SURE = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.1, 3.0), (0, 1, 0, 0.9, -2.0)], [(0, 0, 0, 1.0, 0.0), (0, 1, 0, 1.0, -1.0)]
LAST = [(0, 0, 0, 0.5, 3.0), (0, 0, 0, 0.5, -2.0), (0, 1, 0, 1 / 3, 2.0), (0, 1, 0, 2 / 3, 3.0), (0, 2, 0, 1.0, 0.0)]
STAGED = [(h, *line) for h, lines in enumerate((*SURE, LAST)) for line in lines]


@pytest.mark.parametrize("beta", [1e-9, 3e-9, 1e-8])
@pytest.mark.parametrize(("lines", "tau", "best"), [(TIED, 0.5, -1.7), (STAGED, 1 / 3, 3.0)])
def test_bounds_that_differ_by_the_rounding_of_a_small_buffer_leave_no_target_to_search(lines, tau, best, beta):
    """The search over histories began without targets and crashed; a tie at the level makes the plan uncertain."""
    plan = solve(bqrl.MDP(lines, horizon=None if lines is STAGED else 1), tau, beta=beta, randomized=False)
    assert plan.value == pytest.approx(best, abs=1e-9)
    assert plan.value <= plan.upper <= best + 1e-4
    assert not plan.certain
