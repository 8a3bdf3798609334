"""The proof of the best deterministic policy."""

import pytest
from planner_problems import choice_after_chance

from bqrl import solve
from bqrl.errors import SizeError


def test_what_is_not_proven_within_the_budget_says_what_is_left_open():
    mdp = choice_after_chance(5)
    with pytest.raises(SizeError, match="allow gap=") as fault:
        solve(mdp, 0.5, beta=0.25, randomized=False, max_nodes=1)
    assert (fault.value.limit, fault.value.needed) == pytest.approx((4.72, 4.75))
    gap = 1.01 * (fault.value.needed - fault.value.limit)
    plan = solve(mdp, 0.5, beta=0.25, randomized=False, max_nodes=1, gap=gap)
    assert (plan.value, plan.gap) == pytest.approx((4.72, 0.03))
    assert "comes within 0.03 of the randomized bound" in plan.notes[0]
    alone = solve(choice_after_chance(1), 0.5, beta=0.25, randomized=False, gap=0.76)
    assert "comes within 0.8 of" in alone.notes[0]


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
