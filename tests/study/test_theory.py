import copy
import json
import math

import numpy as np
import pytest

from bqrl import theory
from bqrl.learners.run import Run
from bqrl.results.result import read, write
from bqrl.results.theory import TABLES, growth_kind, headline, remarks, theory_result
from bqrl.results.theory_charts import CHARTS, theory_charts
from bqrl.study.papers import paper_file
from bqrl.study.settings import settings_of
from bqrl.study.theory_hard import average, growth_exponent, power_of_rho
from bqrl.study.theory_runs import RUN, coverage_numbers, run_theory, worst_ratio
from bqrl.study.theory_spec import EXPERIMENTS, CoverageSpec, TheorySpec, read_theory, run_seed

SMALL = {
    "theory": {"seed": 7},
    "problems": {
        "hard": {"hard": {"tau": 0.5, "rho": 0.0625, "actions": 2, "horizon": 3, "best": 1}},
        "selling": {"label": "selling", "name": "AssetSelling", "params": {"offers": 4, "horizon": 3, "start": 1}},
    },
    "coverage": {
        "runs": 12,
        "episodes": 25,
        "delta": 0.05,
        "params": {"c_conf": "theory", "replan_factor": 1.5},
        "cases": [{"problem": "hard", "tau": 0.5}, {"problem": "selling", "tau": 0.25}],
    },
    "bounds": {
        "runs": 2,
        "episodes": [20, 60],
        "delta": 0.05,
        "params": {"c_conf": "theory"},
        "cases": [{"problem": "hard", "tau": 0.5}],
    },
    "hard": {
        "tau": 0.5,
        "actions": 2,
        "horizon": 2,
        "rhos": [0.0625, 0.05],
        "runs": 2,
        "learners": [
            {"learner": "sarsa", "label": "SARSA"},
            {"learner": "sarsa", "label": "again"},
            {"learner": "ucb-bqrl", "label": "UCB", "params": {"c_conf": "theory", "replan_factor": 1.5}},
        ],
        "growth_rho": 0.0625,
        "growth_factor": 2,
        "growth_runs": 2,
        "growth_points": 10,
    },
    "buffer": {
        "points": 7,
        "powers": [0.5],
        "cases": [{"problem": "hard", "tau": 0.5}, {"problem": "selling", "tau": 0.5}],
    },
    "knapsack": {"weights": 8},
    "quick": {"knapsack": {"weights": 4}},
}


def theory_of(tables):
    return settings_of(tables, TheorySpec)


@pytest.fixture(scope="module")
def found():
    return run_theory(theory_of(SMALL))


def test_all_experiments_run_in_the_order_of_reading(found):
    assert list(found) == list(EXPERIMENTS) == list(RUN) == list(CHARTS) == list(TABLES)
    assert all(one["seconds"] >= 0.0 for one in found.values())


def test_the_same_settings_give_the_same_numbers(found):
    again = run_theory(theory_of(SMALL), ["coverage", "knapsack"])
    for name, one in again.items():
        assert {**one, "seconds": 0} == {**found[name], "seconds": 0}


def test_more_runs_do_not_change_the_first_ones(found):
    longer = copy.deepcopy(SMALL)
    longer["coverage"]["runs"] = 15
    more = run_theory(theory_of(longer), ["coverage"])["coverage"]["cases"]
    for old, new in zip(found["coverage"]["cases"], more, strict=True):
        assert new["ratios"][:12] == old["ratios"]


def test_seeds_of_all_places_differ():
    places = [(1, i, j) for i in range(20) for j in range(20)] + [
        (2, i, j, k) for i in range(5) for j in range(5) for k in (0, 1)
    ]
    assert len({run_seed(3, *place) for place in places}) == len(places)


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


def test_coverage_holds_what_it_must(found):
    for case in found["coverage"]["cases"]:
        assert case["held"] == sum(ratio <= 1.0 + 1e-12 for ratio in case["ratios"])
        assert case["low"] <= case["share"] <= case["high"]
        assert not case["refuted"]  # the theorem; fails by chance with probability 0.025 at most, and the seed is fixed
        assert 0.0 < case["enough"] <= max(case["ratios"])


def test_known_ratios_give_known_shares():
    spec = CoverageSpec.model_construct(runs=100, episodes=1, delta=0.05, confidence=0.95)
    one = coverage_numbers(np.arange(1, 101) / 97.0, spec)
    assert (one["held"], one["share"], one["refuted"]) == (97, 0.97, False)
    assert one["enough"] == 95 / 97
    assert coverage_numbers(np.r_[np.full(80, 0.5), np.full(20, 2.0)], spec)["refuted"]


# -- bounds -------------------------------------------------------------------------------------------------------------


def test_regret_stays_under_its_bounds(found):
    for case in found["bounds"]["cases"]:
        for point in case["points"]:
            assert 0.0 <= point["regret"] <= point["regret_most"]
            assert point["optimistic"] == 1.0
            assert point["regret"] <= point["buffering"] + point["model"] + 1e-9
            for bound in point["bounds"].values():
                assert bound["holds"]
                assert point["regret_most"] <= bound["trivial"] <= bound["total"] or bound["informative"]
                assert bound["total"] == pytest.approx(bound["buffering"] + bound["statistical"])
            assert point["bounds"]["ours"]["total"] <= point["bounds"]["theorem 1"]["total"]


def test_bounds_become_informative_where_they_say(found):
    spec = theory_of(SMALL)
    case = found["bounds"]["cases"][0]
    proven = theory.RegretBounds(spec.problems["hard"].build(), 0.5, delta=0.05, support=2)
    for statement, T in case["informative_from"].items():
        assert proven(int(T), statement).informative
        assert not proven(int(T) - 1, statement).informative
    assert case["margin"] == pytest.approx(0.0625)


# -- the hard family ------------------------------------------------------------------------------------------------------


def test_learners_meet_the_same_chance(found):
    first, second, _ = found["hard"]["learners"]
    assert first["points"] == second["points"]
    assert first["growth"] == second["growth"]


def test_regret_on_the_hard_family_lies_between_what_is_possible(found):
    hard = found["hard"]
    assert hard["episodes"] == [512, 800]
    for one in hard["learners"]:
        for point, lower, most in zip(one["points"], hard["lower"], hard["most"], strict=True):
            assert lower - 4.0 * point["error"] <= point["regret"] <= most
        assert np.all(np.diff(one["growth"]["regret"]) >= 0.0)
    assert hard["lower_rate"] == pytest.approx([21 / 4 / 8192 * 2 * T for T in (512, 800)])


def test_the_mean_over_best_actions_has_the_error_of_strata():
    mean, error = average(np.array([[0.0, 2.0], [10.0, 14.0]]))
    assert mean == 6.5
    assert error == pytest.approx(math.sqrt(2.0 / 2 + 8.0 / 2) / 2)


def test_exponents_of_known_data():
    rhos = np.array([0.06, 0.04, 0.03, 0.02])
    points = [{"rho": rho, "regret": 3.0 / rho**2, "error": 0.1 / rho**2} for rho in rhos]
    slope = power_of_rho(points)
    assert slope["slope"] == pytest.approx(2.0)
    u = np.log(rhos)
    assert slope["error"] == pytest.approx(0.1 / 3.0 / math.sqrt(((u - u.mean()) ** 2).sum()))
    stuck = [{**point, "error": 0.0} for point in points]
    assert power_of_rho(stuck)["slope"] == pytest.approx(2.0)
    assert power_of_rho([{**point, "regret": 0.0} for point in points]) is None


def test_growth_of_known_curves():
    looks = np.unique(np.geomspace(10, 10_000, 30).astype(int))
    linear = np.broadcast_to(0.5 * looks, (2, 3, looks.size))
    found = growth_exponent(looks, linear, 100.0)
    assert (found["slope"], found["error"]) == (pytest.approx(1.0), pytest.approx(0.0, abs=1e-9))
    logarithmic = np.broadcast_to(np.log(looks), (2, 3, looks.size))
    assert 0.0 < growth_exponent(looks, logarithmic, 100.0)["slope"] < 0.2
    varied = linear * np.array([1.0, 2.0, 4.0])[:, None] ** np.log10(looks)
    assert growth_exponent(looks, varied, 100.0)["error"] > 0.05
    assert growth_exponent(looks, np.zeros_like(linear), 100.0) is None
    assert growth_exponent(looks, linear, 1e9) is None
    kinds = [growth_kind(*x) for x in ((0.0, 0.1), (0.5, 0.1), (1.0, 0.0), (0.5, 0.3))]
    assert kinds == ["flattens", "slows down", "stays linear", "stays linear"]


# -- buffers and possible returns ----------------------------------------------------------------------------------------


def test_buffers_cost_nothing_up_to_margin_and_plateau(found):
    for case in found["buffer"]["cases"]:
        beta = np.array(case["beta"])
        low, high, two = (np.array(case[key]) for key in ("one_sided_low", "one_sided_high", "two_sided"))
        assert np.any(np.isclose(beta, case["margin"]))  # the corner is drawn
        assert np.all(high[beta <= case["margin"]] == 0.0)
        assert np.all(high[beta > case["margin"] * 1.01] > 0.0)
        assert np.all(two[beta <= case["plateau"][0]] == pytest.approx(0.0, abs=1e-12))
        assert np.all(low <= high + 1e-9)
        assert np.all(low <= two + 1e-9)
        for gap in (high, two):
            assert np.all(np.diff(gap) >= -1e-9)
        for schedule in case["clears"].values():
            assert schedule["margin"] <= schedule["plateau"]
    assert found["buffer"]["cases"][0]["clears"]["power 0.5"]["margin"] == 63.0


def test_supports_fit_histories_and_lattice_and_decisions_count(found):
    for one in found["knapsack"]["families"]:
        assert one["counted"] == one["subsets"]
        assert one["decisions"] <= 9
        for support, histories, lattice in zip(one["support"], one["histories"], one["lattice"], strict=True):
            assert support <= min(histories, lattice)
    assert found["knapsack"]["families"][0]["support"] == list(range(2, 10))


# -- sentences, tables and charts ------------------------------------------------------------------------------------------


def test_titles_follow_the_numbers(found):
    coverage = copy.deepcopy(found["coverage"])
    assert "held in every run" in headline("coverage", coverage)
    coverage["cases"][1].update(share=0.8, refuted=True)
    assert headline("coverage", coverage) == "The confidence sets hold in fewer runs than the promised 95 % on selling"
    bounds = copy.deepcopy(found["bounds"])
    assert headline("bounds", bounds).startswith("Regret stays under every bound")
    assert any("vacuous" in line for line in remarks("bounds", bounds))
    bounds["cases"][0]["points"][0]["bounds"]["ours"]["holds"] = False
    assert headline("bounds", bounds) == "Regret exceeds our bound on hard"
    hard = copy.deepcopy(found["hard"])
    hard["learners"][0]["slope"] = {"slope": 1.0, "error": 0.1}
    assert "multiplies the regret of SARSA by 2 " in headline("hard", hard)
    hard["learners"][0]["points"][0]["regret"] = 0.0
    assert headline("hard", hard).endswith("one mean lies below it")
    for name, one in found.items():
        assert all(remarks(name, one))


def test_the_result_can_be_written_read_and_made_again(found, tmp_path, monkeypatch):
    monkeypatch.setattr("bqrl.results.theory.image", lambda spec, kind: b"drawn")
    spec = theory_of(SMALL)
    result, left_out = theory_result(spec, found)
    assert left_out == []
    write(result, tmp_path)
    again = read(tmp_path)
    assert list(again.charts) == [stem for name in found for stem in CHARTS[name]]
    assert list(again.tables) == [stem for name in found for stem in TABLES[name]]
    once_more, _ = theory_result(
        spec, again.details["experiments"]
    )  # what a folder holds serves as well as what runs gave
    assert once_more.sentences == result.sentences
    ratios = [row["largest_ratio"] for row in again.tables["coverage_runs"].rows if row["problem"] == "hard"]
    assert ratios == found["coverage"]["cases"][0]["ratios"]


def test_charts_carry_their_title_and_name_their_axes(found):
    titles = {stem: f"title of {stem}" for name in found for stem in CHARTS[name]}
    for stem, chart in theory_charts(found, titles).items():
        text = json.dumps(chart.to_dict())
        assert f"title of {stem}" in text
        assert '"x": {' in text
        assert '"y": {' in text


def test_infinite_numbers_can_be_said_and_drawn(found):
    bounds, buffer = copy.deepcopy(found["bounds"]), copy.deepcopy(found["buffer"])
    bounds["cases"][0]["informative_from"]["ours"] = math.inf
    buffer["cases"][0]["clears"]["log"]["margin"] = math.inf
    buffer["cases"][0]["two_sided"] = None
    for name, one in (("bounds", bounds), ("buffer", buffer)):
        assert "1e90" in headline(name, one)
        assert theory_charts({name: one}, {name: "title"})[name].to_dict()


# -- settings -----------------------------------------------------------------------------------------------------------


def test_the_papers_settings_are_read_and_a_quick_look_is_smaller():
    full, quick = read_theory(paper_file("theory.toml")), read_theory(paper_file("theory.toml"), quick=True)
    assert full.experiments == list(EXPERIMENTS)
    assert quick.coverage.runs < full.coverage.runs
    assert full.chosen(["knapsack", "coverage"]) == ["coverage", "knapsack"]
    assert {one.learner for one in full.hard.learners} == {
        "ucb-bqrl", "ucbvi", "q-learning", "sarsa", "thompson", "ppo", "trpo",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("place", "value", "told"),
    [
        (("coverage", "runz"), 3, r"\[coverage\] runz is not a setting; did you mean 'runs'"),
        (("coverage", "runs"), 0, r"\[coverage\] runs must be at least 1, got 0"),
        (("coverage", "delta"), 1.0, r"\[coverage\] delta must be below 1, got 1"),
        (("coverage", "cases"), [], r"\[coverage\] cases must be a list"),
        (
            ("coverage", "cases"),
            [{"problem": "hart", "tau": 0.5}],
            r"\[coverage\] problem must be one of .* got 'hart'; did you mean 'hard'",
        ),
        (("hard", "rhos"), [0.2], r"\[hard\] rho must"),
        (
            ("hard", "learners"),
            [{"learner": "sarza", "label": "x"}],
            r"\[hard\] learner must be .* did you mean 'sarsa'",
        ),
        (("bounds", "episodes"), 100, r"\[bounds\] episodes must be a list"),
        (("knapsack",), {}, r"\[knapsack\] weights is missing"),
        (("theory", "seed"), -1, r"\[theory\] seed must be at least 0, got -1"),
        (("problems", "hard"), {"label": "x"}, r"\[problems.hard\] needs one of file, hard, transitions, name"),
        (("knapsak",), {}, r"\[knapsak\] is not a setting; did you mean 'knapsack'"),
    ],
)
def test_wrong_settings_are_named(place, value, told):
    tables = copy.deepcopy(SMALL)
    where = tables
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    with pytest.raises(ValueError, match=told) as fault:
        theory_of(tables)
    assert "\n" not in str(fault.value)


def test_a_problem_that_cannot_be_built_is_named():
    tables = copy.deepcopy(SMALL)
    tables["problems"]["hard"]["hard"]["rho"] = 0.4
    with pytest.raises(ValueError, match=r"^\[problems.hard\] rho must"):
        theory_of(tables)


def test_unknown_experiments_are_refused():
    with pytest.raises(ValueError, match=r"experiment must be one of .* got 'covrage'; did you mean 'coverage'"):
        theory_of(SMALL).chosen(["covrage"])
    with pytest.raises(ValueError, match=r"the settings have no table \[hard\]"):
        theory_of({key: SMALL[key] for key in ("theory", "knapsack")}).chosen(["hard"])
