"""Promises of policies, without data, and projected to more data."""

import math
from dataclasses import replace

import numpy as np
import pytest
from log_oracle import log_of, random_problem
from logged_problems import coin, simulated, study

from bqrl.logs.fit import fit


def test_plug_in_plans_break_their_word_where_promises_hold():
    mdp = study.problems()["inventory"]
    found = [list(study.promises(mdp, "fixed", 100, seed=(1, k)))[1] for k in range(20)]
    assert sum(one["claimed"] > one["plug_in"] + 1e-9 for one in found) >= 5
    assert all(one["promise"] <= one["truth"] + 1e-9 for one in found)


def test_projections_grow_and_start_at_the_promise():
    mdp, log = simulated("machine", 200)
    estimate = fit(log, model=mdp)
    values = [one["value"] for one in estimate.projection(0.1, (1, 2, 4, 10))]
    assert values == sorted(values)
    assert values[0] == estimate.solve(0.1).value
    assert values[0] < values[-1] <= estimate.plug_in(0.1).value


def test_useless_means_not_above_the_lowest_possible_return():
    estimate = fit(coin(3000, 3000), reward_range=(0, 1))
    assert estimate.reason(0.1) is None
    assert math.isfinite(estimate.floor)
    assert estimate.trivial(estimate.floor)
    assert not estimate.trivial(estimate.floor + 0.1)


def sale(n, good):
    """To sell pays 1 for sure; to wait pays 3 in `good` of n episodes, and else 0."""
    log = coin(n + 5, n + 5) | {
        "action": ["sell"] * 5 + ["wait"] * n,
        "reward": [1.0] * 5 + [3.0] * good + [0.0] * (n - good),
    }
    support = [("s", "sell", "(end)", 1.0), ("s", "wait", "(end)", 0.0), ("s", "wait", "(end)", 3.0)]
    return fit(log | {"next_state": ["(end)"] * (n + 5)}, support=support, reward_range=(0, 3))


def test_a_promise_that_uses_no_data_says_so():
    """It was presented like any other, although the declarations alone guarantee it."""
    few, many = sale(20, 19), sale(2000, 1900)
    said = "This promise uses no data: it is what the declared support and rewards alone guarantee."
    assert few.solve(0.3).value == few.without_data(0.3) == 1.0
    assert said in few.solve(0.3).remarks[0]
    assert few.reason(0.3).startswith("action 'wait' in state 's' was tried 20 times")
    assert many.solve(0.3).value == 3.0 > many.without_data(0.3)
    assert "no data" not in many.solve(0.3).remarks[0]
    assert many.reason(0.3) is None
    for beta in (0.1, 0.3):
        assert few.without_data(0.3, beta) == pytest.approx(1.0)
        assert said in few.solve(0.3, beta).remarks[0]


def test_a_promise_may_use_the_first_states_alone():
    rows = [(0, "a", 1.0)] * 60 + [(0, "b", 2.0)] * 540
    log = {
        "episode": range(600),
        "state": [s for _, s, _ in rows],
        "action": ["x"] * 600,
        "reward": [r for *_, r in rows],
    }
    estimate = fit(log, reward_by="state-action", support=[("a", "x", "(end)"), ("b", "x", "(end)")])
    assert estimate.solve(0.5).value == 2.0
    assert "This promise uses no data but the first states: it is what" in estimate.solve(0.5).remarks[0]


def test_a_problem_that_is_known_exactly_has_a_useful_promise():
    known = [("s", "a", "(end)", 0.5, 0.0), ("s", "a", "(end)", 0.5, 1.0)]
    estimate = fit(coin(20, 10), reward_range=(0, 1), known=known)
    assert estimate.solve(0.6).value == estimate.without_data(0.6) == 1.0
    assert estimate.reason(0.6) is None
    assert "This promise uses no data" in estimate.solve(0.6).remarks[0]


@pytest.mark.parametrize("seed", range(12))
def test_the_promise_without_data_is_that_of_a_log_without_visits(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    options = [{"reward_range": (-3, 3)}, {"support": "states", "reward_by": "state-action", "reward_range": (-3, 3)}]
    declared = options[problem.deterministic and seed % 2]
    estimate = fit(log_of(problem, 30, rng), horizon=problem.H, stationary=len(problem.rows) == 1, **declared)
    blank = replace(estimate, balls=replace(estimate.balls, visits=np.zeros_like(estimate.balls.visits)), _memo={})
    for tau in (0.3, 0.7):
        assert estimate.without_data(tau) == blank.solve(tau).value <= estimate.solve(tau).value
