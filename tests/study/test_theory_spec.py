import copy

import pytest
from small_theory import SMALL, theory_of

from bqrl.errors import ArgumentError
from bqrl.study.papers import paper_file
from bqrl.study.settings import read_settings, settings_of
from bqrl.study.theory_spec import EXPERIMENTS, TheorySpec, run_seed


def test_the_papers_settings_are_read_and_a_quick_run_is_smaller():
    full, quick = (read_settings(paper_file("theory.toml"), TheorySpec, quick=quick) for quick in (False, True))
    assert full.experiments == list(EXPERIMENTS)
    assert (full.quick, quick.quick) == (False, True)
    assert quick.coverage.runs < full.coverage.runs
    assert full.chosen(["knapsack", "coverage"]) == ["coverage", "knapsack"]
    assert {one.learner for one in full.hard.learners} == {
        "ucb-bqrl", "ucbvi", "q-learning", "sarsa", "thompson", "ppo", "trpo",
    }  # fmt: skip


def test_a_quick_run_replaces_single_keys():
    assert theory_of(SMALL).knapsack.weights == 8
    assert settings_of(SMALL, TheorySpec, quick=True).knapsack.weights == 4
    assert settings_of(SMALL, TheorySpec, quick=True).coverage == theory_of(SMALL).coverage


@pytest.mark.parametrize(
    ("place", "value", "phrase"),
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
def test_wrong_settings_are_named(place, value, phrase):
    tables = copy.deepcopy(SMALL)
    where = tables
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    with pytest.raises(ValueError, match=phrase) as fault:
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
    with pytest.raises(
        ArgumentError, match=r"the settings have no table \[hard\]; add it, or choose from knapsack"
    ) as error:
        theory_of({key: SMALL[key] for key in ("theory", "knapsack")}).chosen(["hard"])
    assert (error.value.name, error.value.value) == ("experiment", "hard")
    with pytest.raises(ValueError, match="no experiment is set; add one of the tables coverage"):
        theory_of({"theory": {"seed": 1}})


def test_seeds_of_all_places_differ():
    places = [(1, i, j) for i in range(20) for j in range(20)] + [
        (2, i, j, k) for i in range(5) for j in range(5) for k in (0, 1)
    ]
    assert len({run_seed(3, *place) for place in places}) == len(places)
