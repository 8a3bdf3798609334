# ruff: noqa: E501  (a refusal and its message stay on one line)

import json

import numpy as np
import pytest

import bqrl
from bqrl import MDP, Plan, solve

MODEL = bqrl.envs.make("AssetSelling")
DISCOUNTED = MODEL.replace(discount=0.9, horizon=30)
BIG = MDP(np.full((6, 2, 6), 1 / 6), np.arange(12).reshape(6, 2) % 5, horizon=9)


@pytest.mark.parametrize("planner", ["target", "greedy", "expected", "capped-frontier"])
@pytest.mark.parametrize("beta", [0.0, 0.05])
def test_every_planner_reports_the_true_value_of_its_policy(planner, beta):
    plan = solve(MODEL, 0.1, beta=beta, planner=planner)
    law = bqrl.evaluate(MODEL, plan.policy)
    assert plan.value == pytest.approx(law.buffered_quantile(0.1, beta) if beta else law.quantile(0.1), abs=1e-12)
    assert plan.law.equals(law)
    assert plan.nominal == plan.value
    assert plan.planner == planner


def test_section_five_of_the_design_table():
    found = {
        planner: [round(solve(MODEL, tau, planner=planner).value * 24) for tau in (0.1, 0.5, 0.9)]
        for planner in ("target", "greedy", "expected")
    }
    assert found == {"target": [19, 23, 24], "greedy": [13, 22, 24], "expected": [17, 22, 24]}


def test_a_plan_prints_what_a_person_wants_to_know():
    text = str(solve(MODEL, 0.1))
    for word in ("0.1-quantile", "value", "upper", "optimal", "margin", "certain", "mean", "policy", "time"):
        assert word in text
    assert "buffered" in str(solve(MODEL, 0.1, beta=0.05))
    assert "CVaR" in str(solve(MODEL, 0.1, beta=0.1))
    assert "robust" in str(solve(MODEL, 0.1, radius=0.1, attitude="robust"))
    assert "proven lower value" in str(solve(DISCOUNTED, 0.1, points=500))
    json.dumps(solve(MODEL, 0.1).summary(), allow_nan=False)


def test_two_plans_side_by_side():
    both = solve(MODEL, 0.1).compare(solve(MODEL, 0.1, planner="expected"))
    rows = {row["statistic"]: row["values"] for row in both.rows()}
    assert rows["0.1-quantile"] == pytest.approx([19 / 24, 17 / 24])
    assert rows["mean"][1] > rows["mean"][0]
    assert "expected, 0.1-quantile" in str(both)
    assert isinstance(both.plans[0], Plan)


REFUSALS = [
    ("tau 1.2", lambda: solve(MODEL, 1.2), ValueError, "tau must lie strictly between 0 and 1, got 1.2"),
    ("tau 0", lambda: solve(MODEL, 0.0), ValueError, "tau must lie strictly between 0 and 1, got 0"),
    ("tau NaN", lambda: solve(MODEL, np.nan), ValueError, "tau must lie strictly between 0 and 1, got nan"),
    ("tau a word", lambda: solve(MODEL, "low"), TypeError, "tau must be a number, got 'low'"),
    ("beta above tau", lambda: solve(MODEL, 0.1, beta=0.2), ValueError, "beta must lie in [0, tau] = [0, 0.1], got 0.2"),
    ("beta below 0", lambda: solve(MODEL, 0.1, beta=-0.1), ValueError, "got -0.1"),
    ("no MDP", lambda: solve([[1.0]], 0.1), TypeError, "solve needs an MDP, got list"),
    ("unknown planner", lambda: solve(MODEL, 0.1, planner="fronteer"), ValueError, "did you mean 'frontier'?"),
    ("unknown attitude", lambda: solve(MODEL, 0.1, radius=0.1, attitude="bold"), ValueError, "attitude must be 'robust' or"),
    ("radius alone", lambda: solve(MODEL, 0.1, radius=0.1), ValueError, "radius and attitude go together"),
    ("attitude alone", lambda: solve(MODEL, 0.1, attitude="robust"), ValueError, "radius and attitude go together"),
    ("no points", lambda: solve(MODEL, 0.1, points=0), ValueError, "points must be a whole number of at least 2, got 0"),
    ("half a point", lambda: solve(MODEL, 0.1, beta=0.1, points=2.5), ValueError, "points must be a whole number"),
    ("a negative gap", lambda: solve(MODEL, 0.1, gap=-1), ValueError, "gap must be positive and finite, got -1"),
    ("memory in words", lambda: solve(MODEL, 0.1, max_bytes="1G"), TypeError, "max_bytes must be a number, got '1G'"),
    ("a gap over a ball", lambda: solve(MODEL, 0.1, radius=0.1, attitude="robust", gap=0.1), TypeError, "with radius takes no option 'gap'"),
    ("a typo", lambda: solve(MODEL, 0.1, planer="target"), TypeError, "takes no option 'planer'; did you mean 'planner'?"),
    ("levels in an array", lambda: solve(MODEL, np.array([0.1])), TypeError, "tau must be a number, got array"),
    ("radius of a wrong shape", lambda: solve(MODEL, 0.1, radius=np.zeros((3, 3)), attitude="robust"), ValueError, "radius must be a number or have shape (10, 26, 2) or (26, 2), got (3, 3)"),
    ("negative radius", lambda: solve(MODEL, 0.1, radius=-1.0, attitude="robust"), ValueError, "not negative, got -1.0"),
    ("radius in words", lambda: solve(MODEL, 0.1, radius="wide", attitude="robust"), TypeError, "radius must be a number"),
    ("NaN radius", lambda: solve(MODEL, 0.1, radius=np.nan, attitude="robust"), ValueError, "radius must be finite"),
    ("greedy over a ball", lambda: solve(MODEL, 0.1, planner="greedy", radius=0.1, attitude="robust"), ValueError, "radius needs planner='target'"),
    ("a coin without a buffer", lambda: solve(MODEL, 0.1, randomized=True), ValueError, "randomized is for buffered quantiles"),
    ("exact without a buffer", lambda: solve(MODEL, 0.1, exact=True), ValueError, "exact is for buffered quantiles"),
    ("a coin and none", lambda: solve(MODEL, 0.1, beta=0.1, randomized=True, exact=True), ValueError, "exclude each other"),
    ("unknown arithmetic", lambda: solve(MODEL, 0.1, arithmetic="decimal"), ValueError, "arithmetic must be 'float' or 'rational'"),
    ("fractions for a buffer", lambda: solve(MODEL, 0.1, beta=0.05, arithmetic="rational"), ValueError, "is for the plain quantile"),
    ("unknown secondary", lambda: solve(MODEL, 0.1, secondary="variance"), ValueError, "secondary must be 'mean'"),
    ("secondary of a buffer", lambda: solve(MODEL, 0.1, beta=0.05, secondary="mean"), ValueError, "is for the plain quantile"),
    ("two specials", lambda: solve(MODEL, 0.1, secondary="mean", arithmetic="rational"), ValueError, "cannot be combined"),
    ("an option that is none", lambda: solve(MODEL, 0.1, pointz=3), TypeError, "takes no option 'pointz'"),
    ("one point", lambda: solve(DISCOUNTED, 0.1, points=1), ValueError, "points must be a whole number of at least 2, got 1"),
    ("a gap of 0", lambda: solve(DISCOUNTED, 0.1, points=50, gap=0.0), ValueError, "gap must be positive"),
    ("greedy without a grid", lambda: solve(BIG.replace(discount=0.9), 0.1, planner="greedy"), ValueError, "use planner='target', which brackets"),
    ("frontier too large", lambda: solve(BIG, 0.1, planner="frontier"), ValueError, ""),
    ("fractions too large", lambda: solve(bqrl.envs.make("AssetSelling", offers=80, horizon=40), 0.1, arithmetic="rational"), ValueError, "products of fractions"),
    ("fractions of a discount", lambda: solve(DISCOUNTED, 0.1, arithmetic="rational"), ValueError, "needs undiscounted returns"),
    ("memory", lambda: bqrl.guarantee_curve(DISCOUNTED, points=100_000, max_bytes=10**6), ValueError, "GiB, the limit is"),
    ("a coin in a bracket", lambda: solve(DISCOUNTED, 0.1, beta=0.05, randomized=True), ValueError, "needs returns on a lattice"),
    ("a buffered ball without a lattice", lambda: solve(DISCOUNTED, 0.1, beta=0.05, radius=0.1, attitude="robust"), ValueError, "needs returns on a lattice"),
    ("a level off the curve", lambda: bqrl.guarantee_curve(MODEL)(1.0), ValueError, "tau must lie strictly between 0 and 1"),
    ("levels without shortfalls", lambda: bqrl.guarantee_curve(MODEL).level_policy(0.1), ValueError, "make the curve with keep=True"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_what_cannot_be_done_is_refused_in_one_line(call, kind, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    assert type(caught.value) is kind
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
