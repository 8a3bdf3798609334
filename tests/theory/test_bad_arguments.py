"""Wrong arguments, and the one line that each is answered with."""

import numpy as np
import pytest

from bqrl import MDP, MarkovPolicy, envs, guarantee_curve, solve, theory
from bqrl.planners.confidence import power_buffer

ASSET = envs.make("AssetSelling", offers=4, horizon=3, start=1)
CURVE = guarantee_curve(ASSET, keep=True)
ODD = MDP(np.full((2, 1, 2), 0.5), [[0.0], [np.pi**0.5]], horizon=3, discount=0.9)
LAW = solve(ASSET, 0.5).law
COUNTS = (np.zeros((3, 2), int), np.zeros((3, 2), int))

CASES = [
    (
        "rho of zero",
        lambda: theory.hard_instance(0.5, 0.0),
        ValueError,
        "rho must lie in (0, min(tau, 1 - tau)/8] = (0, 0.0625], got 0",
    ),
    (
        "rho too large",
        lambda: theory.hard_instance(0.1, 0.0126),
        ValueError,
        "rho must lie in (0, min(tau, 1 - tau)/8] = (0, 0.0125], got 0.0126",
    ),
    (
        "rho too large above a half",
        lambda: theory.hard_lower_bound(0.9, 0.02, 2, 2, 10),
        ValueError,
        "= (0, 0.0125], got 0.02",
    ),
    ("rho not a number", lambda: theory.quantile_jumps(0.5, "small"), TypeError, "rho must be a number, got 'small'"),
    ("rho nan", lambda: theory.hard_instance(0.5, float("nan")), ValueError, "got nan"),
    ("tau of 1", lambda: theory.hard_instance(1.0, 0.01), ValueError, "tau must lie strictly between 0 and 1, got 1"),
    ("one arm", lambda: theory.hard_instance(0.5, 0.05, A=1), ValueError, "A must be at least 2, got 1"),
    ("one stage", lambda: theory.hard_instance(0.5, 0.05, H=1), ValueError, "H must be at least 2, got 1"),
    (
        "a best action that is none",
        lambda: theory.hard_instance(0.5, 0.05, A=2, best=2),
        ValueError,
        "best is action 2, but actions run from 0 to 1",
    ),
    ("no episodes", lambda: theory.hard_lower_bound(0.5, 0.05, 2, 2, 0), ValueError, "T must be at least 1, got 0"),
    (
        "half an episode",
        lambda: theory.hard_lower_bound(0.5, 0.05, 2, 2, 1.5),
        TypeError,
        "T must be a whole number, got 1.5",
    ),
    (
        "slope through one point",
        lambda: theory.loglog_slope([1.0, 2.0], [1.0, 2.0]),
        ValueError,
        "x and y must be of one length, 3 or more, got shapes (2,) and (2,)",
    ),
    (
        "slope through zero",
        lambda: theory.loglog_slope([1, 2, 3], [1, 0, 3]),
        ValueError,
        "x and y must be positive for logarithms",
    ),
    ("zero weight", lambda: theory.knapsack_instance([3, 0]), ValueError, "weights[1] must be at least 1, got 0"),
    ("negative weight", lambda: theory.count_subsets([3, -2], 1), ValueError, "weights[1] must be at least 1, got -2"),
    ("half a weight", lambda: theory.support_growth([1.5]), TypeError, "weights[0] must be a whole number, got 1.5"),
    (
        "no weights",
        lambda: theory.knapsack_law([]),
        ValueError,
        "weights is empty; give at least one positive whole number",
    ),
    (
        "a word of weights",
        lambda: theory.knapsack_instance("12"),
        TypeError,
        "weights must be a list of positive whole numbers, got '12'",
    ),
    (
        "capacity below zero",
        lambda: theory.count_subsets([1, 2], -1),
        ValueError,
        "capacity must be at least 0, got -1",
    ),
    (
        "capacity above all",
        lambda: theory.count_subsets([1, 2], 4),
        ValueError,
        "capacity is 4, but all weights together are 3; it must lie in [0, 3]",
    ),
    (
        "an unknown oracle",
        lambda: theory.count_subsets([1, 2], 2, by="luck"),
        ValueError,
        "by must be one of quantile, buffered, got 'luck'",
    ),
    (
        "weights beyond the lattice",
        lambda: theory.knapsack_law([2**21]),
        ValueError,
        "weights sum to 2097152, more than 1048575 lattice points; raise max_atoms",
    ),
    (
        "a schedule that grows",
        lambda: theory.buffer_horizon(0.5, 0.1, [0.2, 0.3]),
        ValueError,
        "must not increase, got 0.2 and then 0.3 in episode 1",
    ),
    (
        "a function that grows",
        lambda: theory.buffer_horizon(0.5, 0.1, lambda t: 0.5 - 0.3 / (t + 1)),
        ValueError,
        "must not increase",
    ),
    (
        "a growing schedule in a bound",
        lambda: theory.regret_bound(ASSET, 0.5, 2, schedule=[0.2, 0.3]),
        ValueError,
        "must not increase",
    ),
    (
        "a schedule above tau",
        lambda: theory.regret_bound(ASSET, 0.1, 2, schedule=power_buffer(0.5, 0.5)),
        ValueError,
        "(0, tau] = (0, 0.1], got 0.5 in episode 0",
    ),
    (
        "a schedule too short",
        lambda: theory.regret_bound(ASSET, 0.5, 5, schedule=[0.3, 0.2]),
        ValueError,
        "the schedule lists 2 buffers, but episode 4 is asked for",
    ),
    (
        "a margin above tau",
        lambda: theory.buffer_horizon(0.1, 0.2),
        ValueError,
        "rho must lie in (0, tau] = (0, 0.1], got 0.2",
    ),
    (
        "a margin of zero",
        lambda: theory.buffer_horizon(0.1, 0),
        ValueError,
        "rho must lie in (0, tau] = (0, 0.1], got 0",
    ),
    (
        "a buffer of zero",
        lambda: theory.buffering_gap(ASSET, 0.5, 0.0),
        ValueError,
        "beta must lie in (0, tau] = (0, 0.5], got 0",
    ),
    (
        "a buffer above tau",
        lambda: theory.gap_profile(ASSET, 0.5, [0.2, 0.7]),
        ValueError,
        "beta must lie in (0, tau] = (0, 0.5], got 0.7",
    ),
    (
        "an unknown statement",
        lambda: theory.regret_bound(ASSET, 0.5, 10, "theorem 9"),
        ValueError,
        "statement must be one of 'theorem 1', 'corollary 1', 'ours', got 'theorem 9'",
    ),
    (
        "delta of zero",
        lambda: theory.regret_bound(ASSET, 0.5, 10, delta=0.0),
        ValueError,
        "delta must lie strictly between 0 and 1, got 0",
    ),
    (
        "negative gaps",
        lambda: theory.regret_bound(ASSET, 0.5, 10, planner_gap=-1.0),
        ValueError,
        "planner_gap must be a number, or one for each episode, and not negative",
    ),
    (
        "too few gaps",
        lambda: theory.regret_bound(ASSET, 0.5, 10, planner_gap=[0.0]),
        ValueError,
        "planner_gap has 1 entries, fewer than the 10 episodes",
    ),
    (
        "no problem",
        lambda: theory.plateau("asset", 0.5),
        TypeError,
        "mdp must be an MDP, got str; build one with bqrl.MDP, load or envs.make",
    ),
    ("tau of 2", lambda: theory.optimal_margin(ASSET, 2), ValueError, "tau must be a number in (0, 1], got 2"),
    (
        "no exact grid",
        lambda: theory.optimal_margin(ODD.replace(horizon=30), 0.5),
        ValueError,
        "the margin needs returns on an exact grid; round the rewards or drop the discount",
    ),
    ("too few kept", lambda: theory.plateau_bounds(ASSET, 0.5, keep=1), ValueError, "keep must be at least 2, got 1"),
    ("problems of two sizes", lambda: theory.total_variation(ASSET, ODD), ValueError, "the problems differ in size"),
    (
        "problems of two rewards",
        lambda: theory.total_variation(ODD, MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=3)),
        ValueError,
        "the problems differ in their rewards at stage 0; only kernels may differ",
    ),
    (
        "a policy from elsewhere",
        lambda: theory.return_law_perturbation(ASSET, ASSET, MarkovPolicy([[0]])),
        ValueError,
        "the policy is for H=1, S=1",
    ),
    (
        "levels without the stages",
        lambda: theory.levels(guarantee_curve(ASSET), 0.5),
        ValueError,
        "make the curve with guarantee_curve(mdp, keep=True)",
    ),
    (
        "levels of a curve without tau",
        lambda: theory.levels(CURVE),
        TypeError,
        "tau is missing; give the level, e.g. levels(curve, 0.1)",
    ),
    (
        "levels of another planner",
        lambda: theory.levels(solve(ASSET, 0.5, planner="expected")),
        TypeError,
        "levels needs a GuaranteeCurve, or a Plan of planner='target' with beta=0",
    ),
    (
        "an episode too short",
        lambda: theory.levels(CURVE, 0.5).path([1], []),
        ValueError,
        "an episode has 4 states and 3 rewards, got 1 and 0",
    ),
    (
        "values for other episodes",
        lambda: theory.optimistic_decomposition(LAW, [LAW], [1.0, 2.0], 0.5, 0.1),
        ValueError,
        "laws and optimistic must have one entry per episode, got 1 and shape (2,)",
    ),
    (
        "actions for other episodes",
        lambda: theory.weighted_counting(COUNTS[0], COUNTS[1][1:], 2, 2),
        ValueError,
        "states and actions must be (T, H), states also (T, H + 1); got (3, 2) and (2, 2)",
    ),
    (
        "states that do not exist",
        lambda: theory.weighted_counting(COUNTS[0] + 5, COUNTS[1], 2, 2),
        ValueError,
        "states must lie in 0 .. 1 and actions in 0 .. 1",
    ),
    (
        "states between states",
        lambda: theory.weighted_counting(COUNTS[0] + 0.5, COUNTS[1], 2, 2),
        TypeError,
        "states and actions must be whole numbers, got float64 and int64",
    ),
    (
        "weights of other stages",
        lambda: theory.weighted_counting(*COUNTS, 2, 2, weights=[1.0]),
        ValueError,
        "weights must be 2 numbers of at least 0, got shape (1,)",
    ),
    ("a negative distance", lambda: theory.weissman(5, -0.1, 2), ValueError, "eps must not be negative, got -0.1"),
    ("no draws", lambda: theory.weissman(0, 0.1, 2), ValueError, "n must be at least 1, got 0"),
    (
        "radii of another shape",
        lambda: theory.inside(ASSET, ASSET, [0.1]),
        ValueError,
        "width must be a number or have shape (3, 5, 2), got (1,)",
    ),
    (
        "runs that are no answers",
        lambda: theory.coverage([1, 0], 0.1),
        TypeError,
        "kept must hold one True or False per run",
    ),
]


@pytest.mark.parametrize(("call", "kind", "says"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_answer_is_one_line_that_says_what_to_do(call, kind, says):
    with pytest.raises(kind) as fault:
        call()
    assert says in str(fault.value)
    assert "\n" not in str(fault.value)


def test_public_names_exist():
    assert all(hasattr(theory, name) for name in theory.__all__)
    assert sorted(theory.__all__) == sorted(set(theory.__all__))
