"""Wrong arguments: the type of the error, the argument that it names, and a key phrase of its one line."""

import numpy as np
import pytest

from bqrl import MDP, MarkovPolicy, envs, solve, theory
from bqrl.errors import ArgumentError, ArgumentTypeError, GridError, SizeError
from bqrl.planners.confidence import power_buffer
from bqrl.theory.total_variation import rows_inside, total_variation

NAN = float("nan")
ASSET = envs.make("AssetSelling", offers=4, horizon=3, start=1)
ODD = MDP(np.full((2, 1, 2), 0.5), [[0.0], [np.pi**0.5]], horizon=3, discount=0.9)
OTHER_REWARDS = MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=3)
LONG = ODD.replace(horizon=30)
LAW = solve(ASSET, 0.5).law
VISITS = np.zeros((3, 2), int)

VALUES = [  # (call, name of the argument, key phrase): the type is right, the value is not
    (lambda: theory.hard_instance(0.5, 0.0), "rho", "(0, 0.0625], got 0"),
    (lambda: theory.hard_instance(0.1, 0.0126), "rho", "(0, 0.0125], got 0.0126"),
    (lambda: theory.hard_lower_bound(0.9, 0.02, 2, 2, 10), "rho", "(0, 0.0125], got 0.02"),
    (lambda: theory.hard_instance(0.5, NAN), "rho", "got nan"),
    (lambda: theory.hard_instance(NAN, 0.05), "tau", "in (0, 1), got nan"),
    (lambda: theory.hard_instance(1.0, 0.01), "tau", "in (0, 1), got 1"),
    (lambda: theory.hard_instance(0.5, 0.05, A=1), "A", "at least 2, got 1"),
    (lambda: theory.hard_instance(0.5, 0.05, H=1), "H", "at least 2, got 1"),
    (lambda: theory.hard_instance(0.5, 0.05, A=2, best=2), "best", "from 0 to 1, got 2"),
    (lambda: theory.hard_lower_bound(0.5, 0.05, 2, 2, 0), "T", "at least 1, got 0"),
    (lambda: theory.knapsack_instance([3, 0]), "weights[1]", "at least 1, got 0"),
    (lambda: theory.count_subsets([3, -2], 1), "weights[1]", "at least 1, got -2"),
    (lambda: theory.knapsack_law([]), "weights", "at least one positive whole number"),
    (lambda: theory.count_subsets([1, 2], -1), "capacity", "from 0 to 3, got -1"),
    (lambda: theory.count_subsets([1, 2], 4), "capacity", "from 0 to 3, got 4"),
    (lambda: theory.count_subsets([1, 2], 2, by="bufered"), "by", "did you mean 'buffered'?"),
    (lambda: theory.regret_bound(ASSET, 0.5, 5, schedule=[0.3, 0.2]), "schedule", "got 2 buffers"),
    (lambda: theory.regret_bound(ASSET, 0.5, 5, "corollary 1", schedule=0.3), "schedule", "logarithmic"),
    (lambda: theory.buffer_horizon(0.1, 0.2), "rho", "(0, 0.1], got 0.2"),
    (lambda: theory.buffer_horizon(0.1, 0), "rho", "(0, 0.1], got 0"),
    (lambda: theory.buffering_sum(np.abs, 0.5, 10, rho=NAN), "rho", "got nan"),
    (lambda: theory.buffering_sum(np.abs, 2.0, 10), "tau", "in (0, 1), got 2"),
    (lambda: theory.buffering_gap(ASSET, 0.5, 0.0), "beta", "(0, 0.5], got 0"),
    (lambda: theory.buffering_gap(ASSET, 0.5, NAN), "beta", "finite, got nan"),
    (lambda: theory.buffering_gap(ASSET, 0.5, 0.1, max_laws=0), "max_laws", "at least 1, got 0"),
    (lambda: theory.buffer_horizon(0.5, 0.1, 0.7), "schedule", "(0, 0.5], got 0.7"),
    (lambda: theory.buffer_horizon(0.5, 0.1, []), "schedule", "got 0 buffers"),
    (lambda: theory.one_sided_gap(ASSET, 0.5, [0.6]), "betas", "(0, 0.5], got 0.6"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, "theorem 9"), "statement", "'theorem 1', 'corollary 1', 'ours'"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, delta=0.0), "delta", "in (0, 1), got 0"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, delta=NAN), "delta", "in (0, 1), got nan"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, support=0), "support", "at least 1, got 0"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, planner_gap=-1.0), "planner_gap", "at least 0"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, planner_gap=NAN), "planner_gap", "finite, got nan"),
    (
        lambda: theory.regret_bound(ASSET, 0.5, 10, planner_gap=[0.0]),
        "planner_gap",
        "one entry per episode (10), got 1",
    ),
    (lambda: theory.optimal_margin(ASSET, 2), "tau", "in (0, 1), got 2"),
    (lambda: theory.plateau_bounds(ASSET, 0.5, keep=1), "keep", "at least 2, got 1"),
    (lambda: theory.plateau(ASSET, 0.5, max_values=0), "max_values", "at least 1, got 0"),
    (lambda: total_variation(ASSET, ODD), "other", "size"),
    (lambda: total_variation(ODD, OTHER_REWARDS), "other", "different rewards at stage 0; only the kernels"),
    (lambda: theory.optimistic_decomposition(LAW, [LAW], [1.0, 2.0], 0.5, 0.1), "optimistic", "one entry per law (1)"),
    (lambda: theory.optimistic_decomposition(LAW, [LAW], [1.0], 0.5, [0.1, 0.1]), "betas", "per episode (1)"),
    (lambda: theory.optimistic_decomposition(LAW, [LAW], [NAN], 0.5, 0.1), "optimistic", "finite, got nan"),
    (lambda: theory.weighted_counting(VISITS, VISITS[1:], 2, 2), "states", "got (3, 2) and (2, 2)"),
    (lambda: theory.weighted_counting(VISITS + 5, VISITS, 2, 2), "states", "from 0 to 1, got values from 5"),
    (lambda: theory.weighted_counting(VISITS, VISITS - 1, 2, 2), "actions", "from 0 to 1, got values from -1"),
    (lambda: theory.weighted_counting(VISITS, VISITS, 2, 2, weights=[1.0]), "weights", "got shape (1,)"),
    (lambda: theory.weighted_counting(VISITS, VISITS, 2, 2, weights=[1.0, -1.0]), "weights", "at least 0"),
    (lambda: theory.weissman(5, -0.1, 2), "eps", "at least 0, got -0.1"),
    (lambda: theory.weissman(0, 0.1, 2), "n", "at least 1, got 0"),
    (lambda: rows_inside(ASSET, ASSET, [0.1]), "radius", "shape (3, 5, 2) or (5, 2), got shape (1,)"),
]

TYPES = [  # (call, name of the argument, key phrase): the type is wrong
    (lambda: theory.hard_lower_bound(0.5, 0.05, 2, 2, 1.5), "T", "whole number"),
    (lambda: theory.hard_lower_bound(0.5, 0.05, 2, 2, "many"), "T", "got 'many'"),
    (lambda: theory.support_growth([1.5]), "weights[0]", "whole number"),
    (lambda: theory.knapsack_instance("12"), "weights", "list of positive whole numbers"),
    (lambda: theory.count_subsets(7, 1), "weights", "got 7"),
    (lambda: theory.count_subsets([1], 1, by=3), "by", "'quantile', 'buffered'"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, delta="x"), "delta", "got 'x'"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, delta=None), "delta", "got None"),
    (lambda: theory.regret_bound(ASSET, True, 10), "tau", "got True"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, planner_gap="x"), "planner_gap", "got 'x'"),
    (lambda: theory.regret_bound(ASSET, 0.5, 10, schedule="log"), "schedule", "got 'log'"),
    (lambda: theory.buffering_gap(ASSET, 0.5, "wide"), "beta", "got 'wide'"),
    (lambda: theory.buffering_gap(ASSET, 0.5, [[0.1], [0.1, 0.2]]), "beta", "array of numbers"),
    (lambda: theory.plateau([0], 0.5), "mdp", "got list; build one with"),
    (lambda: theory.optimal_margin(None, 0.5), "mdp", "got NoneType"),
    (lambda: total_variation(ASSET, 3), "other", "got int"),
    (lambda: rows_inside(ASSET, ASSET, "wide"), "radius", "got 'wide'"),
    (lambda: theory.optimistic_decomposition(0.5, [LAW], [1.0], 0.5, 0.1), "best", "be a Law, got float"),
    (lambda: theory.optimistic_decomposition(LAW, [0.5], [1.0], 0.5, 0.1), "laws", "list of laws"),
    (lambda: theory.buffering_sum(0.1, 0.5, 10), "gap", "function of an array of buffers, got 0.1"),
    (lambda: theory.weighted_counting(VISITS + 0.5, VISITS, 2, 2), "states", "float64"),
]


def check(error, name, phrase):
    assert error.name == name
    assert phrase in str(error)
    assert "must" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(("call", "name", "phrase"), VALUES)
def test_wrong_value(call, name, phrase):
    with pytest.raises(ArgumentError) as error:
        call()
    check(error.value, name, phrase)


@pytest.mark.parametrize(("call", "name", "phrase"), TYPES)
def test_wrong_type(call, name, phrase):
    with pytest.raises(ArgumentTypeError) as error:
        call()
    check(error.value, name, phrase)


@pytest.mark.parametrize(
    "call",
    [
        lambda: theory.optimal_margin(LONG, 0.5),
        lambda: theory.plateau(LONG, 0.5),
        lambda: theory.plateau(LONG, 0.5, MarkovPolicy(np.zeros((30, 2), int))),
        lambda: theory.plateau_bounds(LONG, 0.5),
        lambda: theory.return_law_perturbation(LONG, LONG, MarkovPolicy(np.zeros((30, 2), int))),
        lambda: theory.regret_bound(LONG, 0.5, 10),
    ],
)
def test_no_exact_grid(call):
    with pytest.raises(GridError, match="round the rewards or drop the discount"):
        call()


@pytest.mark.parametrize(
    ("call", "needed", "limit"),
    [
        (lambda: theory.knapsack_law([2**21]), 2**21 + 1, 2**20),
        (lambda: theory.knapsack_law([1, 2, 4], lattice=False, max_atoms=5), 8, 5),
    ],
)
def test_too_large(call, needed, limit):
    with pytest.raises(SizeError, match="raise max_atoms") as error:
        call()
    assert (error.value.needed, error.value.limit, error.value.name) == (needed, limit, "max_atoms")


@pytest.mark.parametrize(
    "schedule", [[0.2, 0.3], lambda t: 0.5 - 0.3 / (t + 1), power_buffer(0.9, 0.5), [0.7, 0.1], lambda t: 0.0]
)
def test_buffers_that_increase_or_leave_their_range(schedule):
    for call in (
        lambda: theory.buffer_horizon(0.5, 0.1, schedule),
        lambda: theory.regret_bound(ASSET, 0.5, 2, schedule=schedule),
    ):
        with pytest.raises(ValueError, match="buffer"):
            call()


def test_a_policy_for_another_problem():
    with pytest.raises(ValueError, match="the policy must have H=3 and S=5 as the problem, got H=1 and S=1"):
        theory.return_law_perturbation(ASSET, ASSET, MarkovPolicy([[0]]))
