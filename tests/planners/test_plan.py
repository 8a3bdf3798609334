"""Plans as records: what they print, and that nothing handed out can be changed."""

import json
from dataclasses import replace

import numpy as np
import pytest

import bqrl
from bqrl import Law, Plan, solve
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.laws.objectives import check_levels, quantile_objective
from bqrl.mdp.model import check_mdp
from bqrl.planners.plan import fragility, level_error, plan_names

MODEL = bqrl.envs.make("AssetSelling")
DISCOUNTED = MODEL.replace(discount=0.9, horizon=30)
IRRATIONAL = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0), (0, 1, 0, 1.0, np.sqrt(0.5))], horizon=3, discount=0.9)

rng = np.random.default_rng(0)
BRACKETED = bqrl.MDP(rng.dirichlet(np.ones(6), (6, 2)), rng.random((6, 2, 6)), horizon=12, discount=0.95)
BRACKETED_PLAN = solve(BRACKETED, 0.3, points=300)


def arrays(value, seen, path, again):
    """Every array that can be reached from a public object, the way to it, and a function that fetches it again."""
    if isinstance(value, np.ndarray):
        yield path, value, again
        return
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        parts = [(key, part, lambda key=key: again()[key]) for key, part in value.items()]
    elif isinstance(value, (tuple, list)):
        parts = [(i, part, lambda i=i: again()[i]) for i, part in enumerate(value)]
    elif type(value).__module__.startswith("bqrl."):
        names = {*dir(type(value)), *getattr(value, "__dict__", ())} - {"snap"}  # undefined on a set
        public = sorted(name for name in names if not name.startswith("_"))
        parts = [(name, getattr(value, name), lambda name=name: getattr(again(), name)) for name in public]
    else:
        return
    for name, part, fetch in parts:
        yield from arrays(part, seen, f"{path}.{name}", fetch)


def public_objects():
    curve = bqrl.guarantee_curve(MODEL, keep=True)
    mixed = solve(MODEL, 0.5, beta=0.2, randomized=True)
    labels = solve(MODEL, 0.1, beta=0.06, randomized=False)
    return {
        "model": MODEL,
        "plan": solve(MODEL, 0.1),
        "plan on a set of returns": solve(IRRATIONAL, 0.5),
        "bracketed plan": solve(DISCOUNTED, 0.1, points=50),
        "mixture": mixed,
        "labels": labels,
        "frontier": solve(bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=2), 0.5, planner="frontier"),
        "optimistic plan": solve(MODEL, 0.1, radius=0.1, attitude="optimistic"),
        "curve": curve,
        "level policy": curve.level_policy(0.1),
        "law": solve(MODEL, 0.1).law,
    }


def test_no_array_handed_out_can_be_changed():
    checked = 0
    for name, value in public_objects().items():
        for path, array, again in arrays(value, set(), name, lambda value=value: value):
            if array.flags.writeable:  # only a fresh copy may be
                assert not np.shares_memory(array, again()), path
            elif array.size:
                checked += 1
                with pytest.raises(ValueError, match="read-only"):
                    array[...] = 7
    assert checked > 100


def test_scaling_the_points_of_a_curve_does_not_change_later_answers():
    before = solve(IRRATIONAL, 0.5).value
    with pytest.raises(ValueError, match="read-only"):
        bqrl.guarantee_curve(IRRATIONAL).points[:] *= 100
    assert solve(IRRATIONAL, 0.5).value == before


def test_records_are_built_by_keyword():
    with pytest.raises(TypeError, match="positional"):
        Plan(0.1, 0.0)


def test_a_plan_prints_what_a_person_needs():
    text = str(solve(MODEL, 0.1))
    for word in ("0.1-quantile", "value", "upper", "optimal", "margin", "fragile", "proven", "mean", "policy", "time"):
        assert word in text
    assert "buffered" in str(solve(MODEL, 0.1, beta=0.05))
    assert "CVaR" in str(solve(MODEL, 0.1, beta=0.1))
    assert "robust" in str(solve(MODEL, 0.1, radius=0.1, attitude="robust"))
    assert "proven lower bound" in str(solve(DISCOUNTED, 0.1, points=500))
    json.dumps(solve(MODEL, 0.1).summary(), allow_nan=False)


def test_a_plan_is_fragile_if_a_small_error_of_the_probabilities_breaks_its_promise():
    """Once a plan with a margin of 0.0003 was called "certain", which readers took for the opposite of fragile."""
    two = bqrl.MDP([(0, 0, 0, 0.0997, 1.0), (0, 0, 0, 0.9003, 2.0)], horizon=1)
    plan = solve(two, 0.1)
    assert (plan.value, plan.certain, plan.fragile) == (2.0, True, True)
    said = "yes: an error of 0.0003 in the probability of falling short would change it"
    assert f"fragile  {said}" in str(plan)
    assert "proven   yes" in str(plan)
    assert "certain" not in str(plan)
    assert (plan.summary()["proven"], plan.summary()["fragile"]) == (True, True)
    assert "certain" not in plan.summary()
    wide = solve(two, 0.2)
    assert (wide.value, wide.fragile) == (2.0, False)
    assert "fragile  no" in str(wide)


def test_a_promise_that_no_outcome_breaks_is_not_fragile_and_other_objectives_have_no_margin():
    sure = solve(bqrl.MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0)], horizon=1), 0.001)
    assert (sure.value, sure.policy_margin.below, sure.fragile) == (1.0, 0.001, False)
    assert fragility(0.0) == "the smallest error in the probability of falling short would change it"
    assert solve(MODEL, 0.1, beta=0.05).fragile is None
    assert solve(MODEL, 0.1, radius=0.1, attitude="robust").fragile is None
    assert solve(DISCOUNTED, 0.1, points=500).fragile is None
    assert "fragile" not in str(solve(DISCOUNTED, 0.1, points=500))


def test_the_law_of_a_bracketed_plan_is_a_law():
    plan = solve(BRACKETED, 0.3, points=200)
    assert isinstance(plan.law, Law)
    assert isinstance(plan.law.quantile(0.1) * 24, float)
    assert plan.law_upper.dominates(plan.law)
    assert not plan.exact
    assert solve(MODEL, 0.1).law_upper is None


@pytest.mark.parametrize("planner", ["target", "greedy", "frontier"])
def test_the_margins_of_a_policy_are_distances_to_both_ends_of_its_atom(planner):
    thirds = bqrl.MDP([(0, 0, 0, 0.25, 1.0), (0, 0, 0, 0.5, 2.0), (0, 0, 0, 0.25, 4.0)], horizon=1)
    assert solve(thirds, 0.4, planner=planner).policy_margin == pytest.approx((0.4 - 0.25, 0.75 - 0.4))
    assert solve(thirds, 0.4, beta=0.3, planner=planner).policy_margin == pytest.approx((0.4 - 0.25, 0.75 - 0.4))
    assert solve(thirds, 0.8, planner=planner).policy_margin == pytest.approx((0.8 - 0.75, 1.0 - 0.8))


def test_a_plan_beside_other_strategies():
    plan, mean = solve(MODEL, 0.1), solve(MODEL, 0.1, planner="expected")
    table = plan.compare(mean, "always:Stop", [1] * MODEL.S, tau=[0.1, 0.5])
    assert table.names == ("target", "expected", "always:Stop", "strategy 4")
    rows = {row["strategy"]: row for row in table.rows()}
    assert [rows[name]["quantile_0.1"] for name in table.names[:2]] == pytest.approx([19 / 24, 17 / 24])
    assert rows["expected"]["mean"] > rows["target"]["mean"]
    assert plan.compare(solve(MODEL, 0.5)).taus == (0.1, 0.5)  # the levels of the plans
    assert solve(MODEL, bqrl.Mean()).compare("always:Stop").taus == (0.1,)


def test_the_names_of_plans_are_unique():
    plan, median, mean = solve(MODEL, 0.1), solve(MODEL, 0.5), solve(MODEL, 0.1, planner="expected")
    robust = solve(MODEL, 0.1, radius=0.1, attitude="robust")

    def names(*plans):
        return plan_names(plans)

    assert names(plan, median) == ["0.1-quantile", "0.5-quantile"]
    assert names(plan, robust) == ["target", "robust target"]
    assert names(plan, median, mean) == ["target, 0.1-quantile", "target, 0.5-quantile", "expected, 0.1-quantile"]
    assert names(plan, plan) == ["1. target, 0.1-quantile", "2. target, 0.1-quantile"]


@pytest.mark.parametrize("ball", [{}, {"radius": 0.05, "attitude": "robust"}])
def test_numbers_of_a_bracketed_law_print_as_lower_bounds(ball):
    plan = solve(BRACKETED, 0.1, points=50, **ball)
    lines = dict(line.split(maxsplit=1) for line in str(plan).splitlines()[1:])
    assert lines["mean"] == f"{plan.mean:.6g}  (the law of the return is bracketed)"
    assert ball == {} or lines["nominal"].startswith(f"at least {plan.nominal:.6g}")
    assert "margin" not in lines
    assert plan.summary()["law_exact"] is False
    assert plan.law.mean() < plan.mean < plan.law_upper.mean()
    exact = solve(MODEL, 0.1, **ball)
    assert exact.summary()["law_exact"]
    assert "at least" not in str(exact).partition("note")[0]


def test_a_plan_is_compared_with_strategies_only():
    plan = solve(MODEL, 0.3)
    with pytest.raises(ArgumentTypeError, match=r"strategy 'strategy 2': policy must be a Policy, .*, got int"):
        plan.compare(3)
    with pytest.raises(ArgumentError, match="others must name at least one other strategy, got none"):
        plan.compare()
    with pytest.raises(ArgumentTypeError, match=r"plan must know its problem, .*; make it with solve"):
        replace(plan, mdp=None).compare("random")


@pytest.mark.parametrize(
    ("tau", "beta"), [(0.0, 0.0), (1.0, 0.0), (1.1, 0.1), (0.5, 0.6), (0.5, -0.1), (np.nan, 0.1), (0.5, np.nan)]
)
def test_levels_outside_their_range_are_refused(tau, beta):
    with pytest.raises(ArgumentError):
        check_levels(tau, beta)


def test_a_buffer_just_above_the_level_is_shown_with_all_its_digits():
    with pytest.raises(ValueError, match=r"\[0, 0\.3\], got 0\.30000000000000004;"):
        check_levels(0.3, 0.1 + 0.2)


@pytest.mark.parametrize("beta", [5e-324, 1e-18, 9e-10])
def test_buffers_that_floats_do_not_resolve_are_refused(beta):
    """Once CVaR at 1e-17 had the bound 0.6 where the optimum is 2, and was certain; the quantile has no such limit."""
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0), (0, 1, 0, 0.5, 0.3), (0, 1, 0, 0.5, 5.0)], horizon=2)
    for tau in (0.25, beta):
        for randomized in (None, True, False):
            with pytest.raises(
                ArgumentError, match=r"^beta must be 0 or at least 1e-09, got .*; .* beta = 0 is the quantile$"
            ):
                solve(mdp, tau, beta, randomized=randomized)
    plan = solve(mdp, beta)
    assert (plan.value, plan.upper, plan.certain) == (2.0, 2.0, True)


def test_level_one_needs_a_buffer():
    assert check_levels(1, 0.25) == (1.0, 0.25)
    assert check_levels(np.float64(0.5), 0) == (0.5, 0.0)


def test_objectives_in_words():
    assert quantile_objective(0.1, 0.0).label == "0.1-quantile"
    assert quantile_objective(0.1, 0.1).label == "CVaR at 0.1"
    assert quantile_objective(0.1, 0.05).label == "0.1-quantile buffered by 0.05"


def test_the_error_of_a_level_counts_the_tolerance_only_beside_a_step():
    law = Law([0, 2], [0.5, 0.5])
    assert level_error(law, 0.75, 0.1, 1e-15) == pytest.approx(2e-14)
    assert level_error(law, 0.5, 0.1, 0.0) == pytest.approx(2e-11)


def test_a_problem_is_an_mdp():
    assert check_mdp(MODEL) is MODEL
    with pytest.raises(ArgumentTypeError, match=r"^other must be an MDP, got list; build one with") as caught:
        check_mdp([1, 2], "other")
    assert (caught.value.name, caught.value.value) == ("other", [1, 2])


def test_notes_round_what_is_left_open_up():
    plan = solve(MODEL, 0.1, secondary="mean")
    left = float(plan.remarks[0].partition("at most ")[2].split()[0])
    gap = plan.mean_upper - plan.mean
    assert gap <= left <= 1.01 * gap
    found = float(plan.remarks[0].partition("mean ")[2].split(",")[0])
    assert plan.mean - 1e-5 < found <= plan.mean
    within = float(BRACKETED_PLAN.remarks[0].rpartition("within ")[2])
    error = BRACKETED_PLAN.details["curve"].sweep.grid.error
    assert error <= within <= 1.01 * error
