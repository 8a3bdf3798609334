import copy
from itertools import pairwise

import numpy as np
import pytest
from small_theory import SMALL, small_theory, theory_of

from bqrl import theory
from bqrl.learners.run import Run
from bqrl.study.theory_runs import RUN, coverage_numbers, run_theory, worst_ratio
from bqrl.study.theory_spec import EXPERIMENTS
from bqrl.study.watch import Watch


@pytest.fixture(scope="module")
def found():
    return small_theory()


def test_all_experiments_run_in_the_order_of_reading(found):
    assert list(found) == list(EXPERIMENTS) == list(RUN)
    assert all(one["seconds"] >= 0.0 for one in found.values())


def test_the_same_settings_give_the_same_numbers(found):
    again = run_theory(theory_of(SMALL), ["coverage", "knapsack"])
    for name, one in again.items():
        assert {**one, "seconds": 0} == {**found[name], "seconds": 0}


def test_more_runs_do_not_change_the_first_ones(found):
    longer = copy.deepcopy(SMALL)
    longer["coverage"]["runs"] = 15
    rows = run_theory(theory_of(longer), ["coverage"])["coverage"]["tables"]["coverage_runs"]
    assert [row for row in rows if row["run"] < 12] == found["coverage"]["tables"]["coverage_runs"]


def test_progress_is_reported_run_by_run():
    class Counter(Watch):
        def __init__(self):
            self.total, self.ticks = 0, 0

        def phase(self, text, total=None):
            self.total += total or 0

        def tick(self):
            self.ticks += 1

    watch = Counter()
    run_theory(theory_of(SMALL), ["coverage", "buffer", "knapsack"], watch)
    assert watch.ticks == watch.total == 2 * 12 + 2 + 4


def test_columns_name_problem_and_level(found):
    for name, table in (("coverage", "coverage_runs"), ("bounds", "bounds_lines"), ("buffer", "buffer")):
        for row in found[name]["tables"][table]:
            assert list(row)[:2] == ["problem", "tau"]


# -- coverage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("key", "pooled"), [("hard", False), ("selling", False), ("selling", True)])
def test_the_largest_ratio_is_that_of_the_confidence_sets(key, pooled):
    mdp = theory_of(SMALL).problems[key].build()
    params = {"c_conf": "theory", "stationary": pooled}
    ratio = worst_ratio(mdp, 0.5, 30, 0.05, 5, params)
    run = Run(mdp, "ucb-bqrl", 0.5, 30, 5, delta=0.05, **params)
    truth, shape = mdp.staged(), (mdp.H, mdp.S, mdp.A)
    tight = loose = True
    while run.t < run.total:
        counts = run.learner.counts
        probability = np.tile(counts.probability, mdp.H // counts.M)
        visits = np.broadcast_to(counts.visits, shape)
        size = np.broadcast_to(np.maximum(counts.support_size, 1), shape)
        width = theory.radius(visits, mdp.S, mdp.A, 30, mdp.H, 0.05, size)
        for scale in (1.0 - 1e-9, 1.0 + 1e-9):
            reach = np.where(visits > 0, ratio * scale * width, 2.0)
            inside = theory.inside(truth, truth.with_probability(probability), reach).all()
            tight, loose = (tight and inside, loose) if scale < 1.0 else (tight, loose and inside)
        run.step()
    assert loose
    assert not tight


def test_coverage_counts_the_runs_of_its_table(found):
    tables = found["coverage"]["tables"]
    for case in tables["coverage"]:
        runs = [row for row in tables["coverage_runs"] if row["problem"] == case["problem"]]
        ratios = [row["largest_ratio"] for row in runs]
        assert [row["run"] for row in runs] == list(range(case["runs"]))
        assert case["held"] == sum(row["inside"] for row in runs) == sum(ratio <= 1.0 + 1e-12 for ratio in ratios)
        assert case["low"] <= case["share"] <= case["high"]
        assert not case["refuted"]  # the theorem; fails by chance with probability 0.025 at most, and the seed is fixed
        assert 0.0 < case["enough"] <= max(ratios)


def test_known_ratios_give_known_shares():
    one = coverage_numbers(np.arange(1, 101) / 97.0, 0.05, 0.95)
    assert (one["held"], one["share"], one["refuted"]) == (97, 0.97, False)
    assert one["enough"] == 95 / 97
    assert coverage_numbers(np.r_[np.full(80, 0.5), np.full(20, 2.0)], 0.05, 0.95)["refuted"]


# -- bounds -------------------------------------------------------------------------------------------------------------


def test_regret_stays_under_its_bounds(found):
    rows = found["bounds"]["tables"]["bounds"]
    assert len(rows) == 2 * 3  # numbers of episodes by statements
    for row in rows:
        assert 0.0 <= row["regret"] <= row["regret_most"]
        assert row["optimistic"] == 1.0
        assert row["regret"] <= row["buffering_of_the_optimum"] + row["model"] + 1e-9
        assert row["holds"]
        assert row["regret_most"] <= row["trivial"] <= row["bound"] or row["informative"]
        assert row["bound"] == pytest.approx(row["bound_buffering"] + row["bound_statistical"])
    total = {(row["episodes"], row["statement"]): row["bound"] for row in rows}
    assert all(total[T, "ours"] <= total[T, "theorem 1"] for T in (20, 60))


def test_lines_are_the_bounds_of_the_problem(found):
    proven = theory.RegretBounds(theory_of(SMALL).problems["hard"].build(), 0.5, delta=0.05, support=2)
    lines = found["bounds"]["tables"]["bounds_lines"]
    assert lines[0]["episodes"] == 20
    assert all(one["episodes"] < two["episodes"] for one, two in pairwise(lines))
    for row in lines[::20]:
        assert row["theorem_1"] == pytest.approx(proven(row["episodes"], "theorem 1").total)
        assert row["ours"] == pytest.approx(proven(row["episodes"], "ours").total)
        assert row["trivial"] == row["episodes"] * 3.0


def test_bounds_become_informative_where_they_say(found):
    proven = theory.RegretBounds(theory_of(SMALL).problems["hard"].build(), 0.5, delta=0.05, support=2)
    for row in found["bounds"]["tables"]["bounds"][:3]:
        T, statement = int(row["informative_from"]), row["statement"]
        assert proven(T, statement).informative
        assert not proven(T - 1, statement).informative
    assert found["bounds"]["cases"][0]["margin"] == pytest.approx(0.0625)


# -- buffers and possible returns ----------------------------------------------------------------------------------------


def test_buffers_cost_nothing_up_to_margin_and_plateau(found):
    tables = found["buffer"]["tables"]
    for key in ("hard", "selling"):
        rows = [row for row in tables["buffer"] if row["problem"] == key]
        clears = [row for row in tables["buffer_clears"] if row["problem"] == key]
        margin, plateau = clears[0]["margin"], clears[0]["plateau_low"]
        columns = ("beta", "one_sided_low", "one_sided_high", "two_sided")
        beta, low, high, two = (np.array([row[name] for row in rows]) for name in columns)
        assert np.any(np.isclose(beta, margin))  # the corner is drawn
        assert np.all(high[beta <= margin] == 0.0)
        assert np.all(high[beta > margin * 1.01] > 0.0)
        assert np.all(two[beta <= plateau] == pytest.approx(0.0, abs=1e-12))
        assert np.all(low <= high + 1e-9)
        assert np.all(low <= two + 1e-9)
        for gap in (high, two):
            assert np.all(np.diff(gap) >= -1e-9)
        for row in clears:
            assert row["episodes_until_margin"] <= row["episodes_until_plateau_high"]
    by_schedule = {(row["problem"], row["schedule"]): row for row in tables["buffer_clears"]}
    assert by_schedule["hard", "power 0.5"]["episodes_until_margin"] == 63.0


def test_supports_fit_histories_and_lattice_and_decisions_count(found):
    for one in found["knapsack"]["families"]:
        assert one["counted"] == one["subsets"]
        assert one["decisions"] <= 9
    for row in found["knapsack"]["tables"]["knapsack"]:
        assert row["support"] <= min(row["histories"], row["lattice"])
    equal = [row["support"] for row in found["knapsack"]["tables"]["knapsack"] if row["weights"] == "all equal"]
    assert equal == list(range(2, 10))
