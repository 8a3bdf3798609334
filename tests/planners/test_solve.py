# ruff: noqa: E501  (a refusal and its message stay on one line)

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, best_objective, mixture_optimum, small_mdps

import bqrl
from bqrl import MDP, solve
from bqrl.errors import ArgumentError, SizeError
from bqrl.planners.solve import FORMS, KINDS, OBJECTIVES, read_objective

MODEL = bqrl.envs.make("AssetSelling")
DISCOUNTED = MODEL.replace(discount=0.9, horizon=30)
SHARES = (Fraction(1), Fraction(1, 2), Fraction(1, 5), Fraction(1, 1000))
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


@pytest.mark.parametrize("name", ["AssetSelling", "bqrl/AssetSelling-v0"])
def test_a_problem_may_be_given_by_its_name(name):
    plan, policy = solve(name, 0.1), solve(MODEL, 0.1).policy
    assert (plan.value, plan.policy.start()) == (19 / 24, policy.start())
    assert bqrl.guarantee_curve(name)(0.1) == 19 / 24
    assert bqrl.evaluate(name, policy).equals(plan.law, tol=0.0)
    assert np.array_equal(bqrl.simulate(name, policy, 20, seed=3), bqrl.simulate(MODEL, policy, 20, seed=3))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("AssetSeling", "did you mean 'AssetSelling'?"),
        ("bqrl/AssetSeling-v0", "did you mean 'AssetSelling'?"),
        ("model.csv", "read a file with bqrl.load"),
        ("CliffWalking-v1", "build it with bqrl.from_gymnasium"),
        ("", "choose from AmericanPut, "),
    ],
)
@pytest.mark.parametrize(
    "use",
    [
        lambda name: solve(name, 0.1),
        bqrl.guarantee_curve,
        lambda name: bqrl.evaluate(name, "always:Stop"),
        lambda name: bqrl.simulate(name, "always:Stop"),
    ],
    ids=["solve", "guarantee_curve", "evaluate", "simulate"],
)
def test_a_name_of_no_problem_is_refused_with_its_remedy(use, name, remedy, request):
    if name == "CliffWalking-v1" and "simulate" in request.node.name:
        return  # simulate plays it
    with pytest.raises(ArgumentError) as caught:
        use(name)
    assert str(caught.value).startswith(f"mdp must be an MDP or the name of a problem, got {name!r}; {remedy}")
    assert "\n" not in str(caught.value)


REFUSALS = [
    ("tau 1.2", lambda: solve(MODEL, 1.2), ValueError, "tau must be a number in (0, 1], got 1.2"),
    ("tau 0", lambda: solve(MODEL, 0.0), ValueError, "tau must be a number in (0, 1], got 0"),
    ("tau NaN", lambda: solve(MODEL, np.nan), ValueError, "got nan"),
    ("tau 1 without a buffer", lambda: solve(MODEL, 1.0), ValueError, "tau must be below 1 if beta is 0"),
    ("tau a word", lambda: solve(MODEL, "low"), TypeError, "got 'low'"),
    ("beta above tau", lambda: solve(MODEL, 0.1, beta=0.2), ValueError, "[0, tau] = [0, 0.1], got 0.2"),
    ("beta below 0", lambda: solve(MODEL, 0.1, beta=-0.1), ValueError, "got -0.1"),
    ("no MDP", lambda: solve([[1.0]], 0.1), TypeError, "mdp must be an MDP, got list"),
    ("unknown planner", lambda: solve(MODEL, 0.1, planner="fronteer"), ValueError, "did you mean 'frontier'?"),
    ("unknown attitude", lambda: solve(MODEL, 0.1, radius=0.1, attitude="bold"), ValueError, "attitude must be one of 'robust', 'optimistic'"),
    ("radius alone", lambda: solve(MODEL, 0.1, radius=0.1), ValueError, "attitude must be given with radius, got None"),
    ("attitude alone", lambda: solve(MODEL, 0.1, attitude="robust"), ValueError, "radius must be given with attitude, got None"),
    ("no points", lambda: solve(MODEL, 0.1, points=0), ValueError, "points must be a whole number of at least 2, got 0"),
    ("half a point", lambda: solve(MODEL, 0.1, beta=0.1, points=2.5), TypeError, "points must be a whole number"),
    ("a negative gap", lambda: solve(MODEL, 0.1, gap=-1), ValueError, "gap must be a number above 0, got -1"),
    ("memory in words", lambda: solve(MODEL, 0.1, max_bytes="1G"), TypeError, "got '1G'"),
    ("a gap over a ball", lambda: solve(MODEL, 0.1, radius=0.1, attitude="robust", gap=0.1), TypeError, "a parameter of planner target with radius, got 'gap'"),
    ("a typo", lambda: solve(MODEL, 0.1, planer="target"), TypeError, "a parameter of planner target, got 'planer'; did you mean 'planner'?"),
    ("levels in an array", lambda: solve(MODEL, np.array([0.1])), TypeError, "got array"),
    ("radius of a wrong shape", lambda: solve(MODEL, 0.1, radius=np.zeros((3, 3)), attitude="robust"), ValueError, "radius must be a number or have shape (10, 26, 2) or (26, 2), got shape (3, 3)"),
    ("negative radius", lambda: solve(MODEL, 0.1, radius=-1.0, attitude="robust"), ValueError, "radius must be at least 0, got -1"),
    ("radius in words", lambda: solve(MODEL, 0.1, radius="wide", attitude="robust"), TypeError, "radius must be a number"),
    ("a ragged radius", lambda: solve(MODEL, 0.1, radius=[[0.1], [0.1, 0.2]], attitude="robust"), TypeError, "radius must be a number or an array of numbers, got"),
    ("NaN radius", lambda: solve(MODEL, 0.1, radius=np.nan, attitude="robust"), ValueError, "radius must be finite"),
    ("greedy over a ball", lambda: solve(MODEL, 0.1, planner="greedy", radius=0.1, attitude="robust"), ValueError, "planner must be 'target' with radius, got 'greedy'"),
    ("a coin for greedy", lambda: solve(MODEL, 0.1, planner="greedy", randomized=True), ValueError, "planner must be 'target' with randomized=True, got 'greedy'"),
    ("a coin over a ball", lambda: solve(MODEL, 0.1, 0.1, radius=0.1, attitude="robust", randomized=True), ValueError, "expected one of radius and randomized=True, got both"),
    ("half a coin", lambda: solve(MODEL, 0.1, 0.1, randomized=0.5), TypeError, "randomized must be True, False or None"),
    ("an option of another planner", lambda: solve(MODEL, 0.1, planner="greedy", points=9), TypeError, "a parameter of planner greedy, got 'points'"),
    ("tick a number", lambda: solve(MODEL, 0.1, tick=5), TypeError, "tick must be a function of the stage, got 5"),
    ("kernels a word", lambda: solve(MODEL, 0.1, planner="frontier", kernels="abc"), TypeError, "kernels must be a number or an array of numbers, got 'abc'"),
    ("kernels of another problem", lambda: solve(BIG, 0.1, planner="frontier", kernels=[[0.5, 0.5]]), ValueError, "kernels must have shape (1, 72), got (1, 2)"),
    ("no kernels", lambda: solve(BIG, 0.1, planner="frontier", kernels=np.empty((0, 72))), ValueError, "kernels must have shape (1, 72), got (0, 72)"),
    ("no limit on laws", lambda: solve(BIG, 0.1, planner="frontier", max_laws=None), TypeError, "max_laws must be a whole number of at least 1, got None"),
    ("no limit on memory", lambda: solve(MODEL, 0.1, max_bytes=None), TypeError, "max_bytes must be a number above 0, got None"),
    ("missing a word", lambda: solve(MODEL, 0.1, radius=0.1, attitude="robust", missing="x"), TypeError, "missing must be a number or an array of numbers, got 'x'"),
    ("missing of another shape", lambda: solve(MODEL, 0.1, radius=0.1, attitude="robust", missing=[[0.1]]), ValueError, "missing must have shape (10, 26, 2), got (1, 1)"),
    ("dominance a word", lambda: solve(MODEL, 0.1, planner="capped-frontier", dominance="yes"), TypeError, "dominance must be True or False, got 'yes'"),
    ("two of margin and secondary", lambda: solve(MODEL, 0.1, secondary="mean", margin=0.2), ValueError, "expected one of margin and secondary='mean', got both"),
    ("a share of the margin above 1", lambda: solve(MODEL, 0.1, margin=1.2), ValueError, "margin must be a number in [0, 1], got 1.2"),
    ("greedy proven with a buffer", lambda: solve(MODEL, 0.1, 0.05, planner="greedy", randomized=False), ValueError, "planner must be 'target' with randomized=False, got 'greedy'"),
    ("unknown arithmetic", lambda: solve(MODEL, 0.1, arithmetic="decimal"), ValueError, "arithmetic must be one of"),
    ("fractions for a buffer", lambda: solve(MODEL, 0.1, beta=0.05, arithmetic="rational"), ValueError, "beta must be 0, the plain quantile, with arithmetic='rational', got 0.05"),
    ("unknown secondary", lambda: solve(MODEL, 0.1, secondary="variance"), ValueError, "secondary must be one of"),
    ("secondary of a buffer", lambda: solve(MODEL, 0.1, beta=0.05, secondary="mean"), ValueError, "beta must be 0, the plain quantile, with secondary='mean', got 0.05"),
    ("two specials", lambda: solve(MODEL, 0.1, secondary="mean", arithmetic="rational"), ValueError, "expected one of secondary='mean' and arithmetic='rational', got both"),
    ("an option that is none", lambda: solve(MODEL, 0.1, pointz=3), TypeError, "did you mean 'points'?"),
    ("one point", lambda: solve(DISCOUNTED, 0.1, points=1), ValueError, "at least 2, got 1"),
    ("a gap of 0", lambda: solve(DISCOUNTED, 0.1, points=50, gap=0.0), ValueError, "gap must be a number above 0"),
    ("greedy without a grid", lambda: solve(BIG.replace(discount=0.9), 0.1, planner="greedy"), ValueError, "use planner='target', which brackets"),
    ("frontier too large", lambda: solve(BIG, 0.1, planner="frontier"), ValueError, ""),
    ("fractions too large", lambda: solve(bqrl.envs.make("AssetSelling", offers=80, horizon=40), 0.1, arithmetic="rational"), ValueError, "products of fractions"),
    ("fractions of a discount", lambda: solve(DISCOUNTED, 0.1, arithmetic="rational"), ValueError, "requires undiscounted returns"),
    ("memory", lambda: bqrl.guarantee_curve(DISCOUNTED, points=100_000, max_bytes=10**6), ValueError, "must fit into max_bytes=0.000931 GiB, got 0.128 GiB"),
    ("a coin in a bracket", lambda: solve(DISCOUNTED, 0.1, beta=0.05, randomized=True), ValueError, "requires returns on a lattice"),
    ("a level off the curve", lambda: bqrl.guarantee_curve(MODEL)(1.5), ValueError, "tau must be a number in (0, 1]"),
    ("points that are none", lambda: bqrl.guarantee_curve(MODEL, points=np.nan), TypeError, "points must be a whole number of at least 2, got nan"),
    ("memory that is none", lambda: bqrl.guarantee_curve(MODEL, max_bytes=0), ValueError, "max_bytes must be a number above 0"),
    ("levels off the curve", lambda: bqrl.guarantee_curve(MODEL)(np.array([0.5, 2.0])), ValueError, "tau must be in (0, 1]"),
    ("levels without shortfalls", lambda: bqrl.guarantee_curve(MODEL).level_policy(0.1), ValueError, "make the curve with keep=True"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), [row[1:] for row in REFUSALS], ids=[row[0] for row in REFUSALS])
def test_what_cannot_be_done_is_refused_in_one_line(call, kind, message):
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("randomized", [True, False])
def test_without_a_buffer_a_coin_changes_nothing(randomized):
    assert solve(MODEL, 0.1, randomized=randomized).value == solve(MODEL, 0.1).value


@pytest.mark.parametrize("planner", ["target", "greedy", "frontier", "capped-frontier", "expected"])
def test_every_planner_accepts_no_coin_without_a_buffer(planner):
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 3.0), (0, 1, 0, 1.0, 1.0)], horizon=2)
    assert solve(mdp, 0.3, planner=planner, randomized=False).value == solve(mdp, 0.3, planner=planner).value


def test_missing_may_be_a_list():
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 0.0)], horizon=1)
    ball = {"radius": 0.2, "attitude": "robust"}
    assert solve(mdp, 0.55, missing=[[[0.0]]], **ball).value == solve(mdp, 0.55, **ball).value


def test_an_unknown_option_is_named_as_a_field():
    with pytest.raises(TypeError) as caught:
        solve(MODEL, 0.1, beta=0.1, pionts=3)
    assert caught.value.name == "pionts"
    assert "did you mean 'points'?" in str(caught.value)


@pytest.mark.parametrize("planner", ["target", "greedy", "expected", "frontier"])
def test_the_window_of_all_levels_is_the_mean(planner):
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 3.0), (0, 1, 0, 1.0, 1.0)], horizon=2)
    plan = solve(mdp, 1.0, beta=1.0, planner=planner)
    assert plan.value == pytest.approx(3.0)
    assert plan.upper is None or plan.upper == pytest.approx(3.0)


def test_the_window_of_all_levels_is_the_largest_mean_of_asset_selling():
    plan = solve(MODEL, 1.0, beta=1.0)
    assert plan.value == pytest.approx(solve(MODEL, 0.5, planner="expected").mean, abs=1e-9)
    assert plan.gap <= 1e-9


@given(small_mdps(), st.sampled_from(SHARES))
def test_windows_that_end_at_level_one_match_the_best_of_all_policies(mdp, share):
    laws = achievable_laws(mdp, 150)
    assume(laws is not None)
    plan = solve(mdp, 1.0, beta=float(share))
    best = float(best_objective(laws, Fraction(1), share))
    assert plan.value <= best + 1e-9
    assert plan.upper == pytest.approx(mixture_optimum(laws, Fraction(1), share), abs=1e-9)
    assert solve(mdp, 1.0, beta=float(share), randomized=False).value == pytest.approx(best, abs=1e-9)


@pytest.mark.parametrize("attitude", ["robust", "optimistic"])
@pytest.mark.parametrize("beta", [1e-9, 0.3, 1.0])
def test_windows_that_end_at_level_one_over_a_ball(attitude, beta):
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 3.0), (0, 1, 0, 1.0, 1.0)], horizon=2)
    plan, nominal = solve(mdp, 1.0, beta=beta, radius=0.2, attitude=attitude), solve(mdp, 1.0, beta=beta)
    assert plan.value <= nominal.upper + 1e-9
    assert plan.upper >= nominal.value - 1e-9


BALLS = [{}, *({"radius": 0.1, "attitude": attitude} for attitude in ("robust", "optimistic"))]


@pytest.mark.parametrize("discount", [1.0, 0.9])
@pytest.mark.parametrize("options", [ball | buffer for ball in BALLS for buffer in ({}, {"beta": 0.05})], ids=str)
def test_no_bound_is_beyond_the_possible_returns(options, discount):
    # On a coarse grid a bound was 112.75 where no return exceeds -50.
    rng = np.random.default_rng(1)
    mdp = MDP(rng.dirichlet(np.ones(4), (4, 2)), -10.0 - 300.0 * rng.random((4, 2)), horizon=5, discount=discount)
    least, most = np.zeros(4), np.zeros(4)
    for _ in range(5):  # every state follows every other one
        rewards = mdp.row_reward[0]
        least, most = rewards.min(axis=1) + discount * least.min(), rewards.max(axis=1) + discount * most.max()
    least, most = least[0] - 1e-9, most[0] + 1e-9
    for points in (2, 3, 7):
        plan = solve(mdp, 0.9, points=points, **options)
        assert least <= plan.value <= plan.upper <= most
        assert least <= plan.nominal <= most
    curve = bqrl.guarantee_curve(mdp, points=3)
    values = [curve(0.1), curve.ceiling(0.9), curve.upper(0.9), *curve.steps[1]]
    assert least <= min(values) <= max(values) <= most
    for law in bqrl.evaluate(mdp, plan.policy, bracket=True, points=2, max_points=1, max_set=1, max_atoms=1):
        assert least <= law.values[0] <= law.values[-1] <= most


@pytest.mark.parametrize("options", [{}, {"beta": 0.05}, {"radius": 0.1, "attitude": "robust"}], ids=str)
def test_too_little_memory_for_the_exact_grid_is_reported_for_that_grid(options):
    # It was reported for a rounded grid of more points, which nobody had asked for.
    with pytest.raises(
        SizeError, match=r"26 states on an exact grid of 25 returns must fit into .* give points"
    ) as caught:
        solve(MODEL, 0.1, max_bytes=2**14, **options)
    needed = caught.value.needed
    assert solve(MODEL, 0.1, max_bytes=needed, **options).exact
    with pytest.raises(SizeError, match="must fit into max_bytes"):
        solve(MODEL, 0.1, max_bytes=needed - 1, **options)


def test_a_bracket_in_place_of_an_exact_grid_must_be_asked_for():
    for beta in (0.0, 0.05):
        plan = solve(MODEL, 0.1, beta=beta, points=5, max_bytes=2**15)
        assert not plan.exact
        assert plan.value <= solve(MODEL, 0.1, beta=beta).value <= plan.upper


LEVELS = st.floats(1e-6, 1.0, exclude_max=True)
NUMBERS = st.floats(-1e9, 1e9)
GOALS = st.one_of(
    st.builds(bqrl.Quantile, LEVELS),
    st.builds(lambda tau, share: bqrl.Buffered(tau, max(share * tau, 1e-9)), LEVELS, LEVELS),
    st.builds(bqrl.CVaR, LEVELS),
    st.just(bqrl.Mean()),
    st.builds(bqrl.Chance, NUMBERS),
    st.builds(bqrl.Entropic, LEVELS),
    st.builds(bqrl.MeanCVaR, LEVELS, LEVELS),
)


@given(GOALS)
def test_the_written_form_gives_the_objective_back(goal):
    assert read_objective(goal.text) == goal


def test_every_objective_with_a_name_has_a_form():
    assert {form.partition(":")[0] for form in FORMS} == set(OBJECTIVES)
    assert {kind for kind in KINDS if not kind.name} == {bqrl.Utility}
    assert bqrl.Utility(abs).text == ""
    assert (bqrl.CVaR(0.1).text, bqrl.Chance(100).text, bqrl.Mean().text) == ("cvar:0.1", "chance:100", "mean")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cvarr:0.1", "got 'cvarr:0.1'; did you mean 'cvar'?"),
        ("best", "objective must be one of quantile:TAU, buffered:TAU,BETA, chance:TARGET, "),
        ("cvar", "objective must be written as cvar:TAU, got 'cvar'"),
        ("buffered:0.1", "objective must be written as buffered:TAU,BETA, got 'buffered:0.1'"),
        ("quantile:low", "objective must be written as quantile:TAU, got 'quantile:low'"),
        ("mean:1", "objective must be written as mean, got 'mean:1'"),
        ("cvar:2", "tau must be a number in (0, 1], got 2"),
        ("", "objective must be one of"),
        (0.1, "objective must be a text such as 'cvar:0.1', got 0.1"),
    ],
)
def test_bad_texts_get_one_line(text, message):
    with pytest.raises((ValueError, TypeError)) as caught:
        read_objective(text)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
