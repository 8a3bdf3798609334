import copy
import json
import math
from dataclasses import replace

import pytest
from small_theory import SMALL, small_theory, theory_of

from bqrl.display import Watch
from bqrl.errors import ArgumentError
from bqrl.papers import paper_file
from bqrl.papers.ucb_bqrl.theory.experiment import RHO
from bqrl.papers.ucb_bqrl.theory.possible_returns import KNAPSACK
from bqrl.papers.ucb_bqrl.theory.suite import EXPERIMENTS, FILE, QUICK, run_theory, stored_experiments, theory_result
from bqrl.results.result import read, write
from bqrl.study.settings import read_settings, settings_of

CHARTS = ["coverage", "bounds", "hard", "hard_growth", "buffer", "knapsack"]


@pytest.fixture
def found():
    return small_theory()


def test_the_papers_settings_are_read_and_a_quick_run_is_smaller():
    full, quick = (read_settings(paper_file("theory.toml"), FILE, quick=quick) for quick in (False, True))
    assert list(full.experiments) == list(EXPERIMENTS)
    assert (full.quick, quick.quick) == (False, True)
    assert quick.coverage.runs < full.coverage.runs
    assert full.chosen(["knapsack", "coverage"]) == ["coverage", "knapsack"]
    assert {one.learner for one in full.hard.learners} == {
        "ucb-bqrl", "ucbvi", "q-learning", "sarsa", "thompson", "ppo", "trpo",
    }  # fmt: skip


def test_a_quick_run_replaces_single_keys():
    assert theory_of(SMALL).knapsack.weights == 8
    assert settings_of(SMALL, FILE, quick=True).knapsack.weights == 4
    assert settings_of(SMALL, FILE, quick=True).coverage == theory_of(SMALL).coverage


@pytest.mark.parametrize(
    ("place", "value", "phrase"),
    [
        (("coverage", "runz"), 3, r"^coverage.runz is not a setting; did you mean 'runs'"),
        (("coverage", "runs"), 0, r"^coverage.runs: Input should be greater than or equal to 1, got 0"),
        (("coverage", "delta"), 1.0, r"^coverage.delta: Input should be less than 1, got 1"),
        (("coverage", "cases"), [], r"^coverage.cases: Tuple should have at least 1 item"),
        (
            ("coverage", "cases"),
            [{"problem": "hart", "tau": 0.5}],
            r"^coverage.cases: problem must be one of .* got 'hart'; did you mean 'hard'",
        ),
        (("hard", "rhos"), [0.2], r"^hard: rho must"),
        (
            ("hard", "learners"),
            [{"learner": "sarza", "label": "x"}],
            r"^hard: learners\[0\]: learner must be .* did you mean 'sarsa'",
        ),
        (("hard", "learners"), 2 * [{"learner": "sarsa", "label": "x"}], r"^hard: entries must differ, got x, x"),
        (
            ("bounds", "cases"),
            2 * [{"problem": "hard", "tau": 0.5}],
            r"^bounds.cases: entries must differ, got problem=",
        ),
        (("bounds", "episodes"), 100, r"^bounds.episodes: Input should be a valid array"),
        (("knapsack",), {}, r"^knapsack.weights is missing"),
        (("theory", "seed"), -1, r"^theory.seed: Input should be greater than or equal to 0, got -1"),
        (("problems", "hard"), {"label": "x"}, r"^problems.hard: needs one of file, hard, transitions, name"),
        (("knapsak",), {}, r"^knapsak is not a setting; did you mean 'knapsack'"),
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
    with pytest.raises(ValueError, match=r"^problems.hard: rho must"):
        theory_of(tables)


def test_unknown_experiments_are_refused():
    with pytest.raises(ValueError, match=r"experiment must be one of .*, got 'covrage'; did you mean 'coverage'"):
        theory_of(SMALL).chosen(["covrage"])
    with pytest.raises(ArgumentError, match="experiment must be one of 'knapsack', got 'hard'") as error:
        theory_of({key: SMALL[key] for key in ("theory", "knapsack")}).chosen(["hard"])
    assert (error.value.name, error.value.value) == ("experiment", "hard")
    with pytest.raises(ValueError, match="no experiment is set; add one of the tables coverage"):
        theory_of({"theory": {"seed": 1}})


def test_all_experiments_run_in_the_order_of_reading(found):
    assert theory_of(SMALL).chosen(None) == list(found) == list(EXPERIMENTS)


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


def test_every_table_has_a_caption_and_every_experiment_sentences(found):
    for name, one in found.items():
        assert list(EXPERIMENTS[name].captions) == list(one["tables"])
        assert not EXPERIMENTS[name].headline(one).endswith(".")
        assert all(line.endswith(".") for line in EXPERIMENTS[name].notes)


def test_the_interval_of_a_coverage_has_a_level_and_a_method(found, monkeypatch):
    monkeypatch.setattr("bqrl.results.charts.image", lambda spec, kind: b"drawn")
    result = theory_result(theory_of(SMALL), {"coverage": {**found["coverage"], "confidence": 0.9}})
    caption = result.tables["coverage"].caption
    assert caption.endswith("low and high: exact binomial (Clopper-Pearson) interval at confidence 0.9.")
    assert any("90 % confidence interval of the share" in line.text for line in result.lines)
    assert "90 % confidence interval at each factor" in " ".join(result.charts["coverage"]["title"]["subtitle"])


def test_what_is_found_is_plain_data(found):
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_the_result_can_be_written_read_and_made_again(found, tmp_path, monkeypatch):
    monkeypatch.setattr("bqrl.results.charts.image", lambda spec, kind: b"drawn")
    spec = theory_of(SMALL)
    result = theory_result(spec, found)
    assert result.left_out == ()
    assert result.details["seconds"] == pytest.approx(math.fsum(one["seconds"] for one in found.values()))
    write(result, tmp_path)
    again = read(tmp_path)
    assert list(again.charts) == CHARTS
    assert list(again.tables) == [stem for one in EXPERIMENTS.values() for stem in one.captions]
    once_more = theory_result(spec, stored_experiments(tmp_path, quick=False))  # a folder serves as well as a run
    assert once_more.sentences == result.sentences
    rows = [dict(row) for row in again.tables["coverage_runs"].rows]
    assert rows == found["coverage"]["tables"]["coverage_runs"]


def test_without_altair_the_tables_remain(found, monkeypatch):
    def missing(*_):
        raise ImportError("charts need Altair")

    monkeypatch.setitem(EXPERIMENTS, "knapsack", replace(KNAPSACK, charts=missing))
    result = theory_result(theory_of(SMALL), {"knapsack": found["knapsack"]})
    assert result.left_out == ["charts need Altair"]
    assert (dict(result.charts), dict(result.files), list(result.tables)) == ({}, {}, ["knapsack"])


def test_a_quick_run_is_marked(found, monkeypatch):
    monkeypatch.setattr("bqrl.results.charts.image", lambda spec, kind: b"drawn")
    spec = settings_of(SMALL, FILE, quick=True)
    result = theory_result(spec, {"knapsack": found["knapsack"]})
    assert result.sentences[0] == QUICK
    assert result.title == "theory (quick run)"
    assert result.settings["experiments"] == ["knapsack"]


def test_charts_carry_their_title_and_name_their_axes(found):
    drawn = {}
    for name, one in found.items():
        drawn |= EXPERIMENTS[name].charts(one, f"title of {name}")
    assert list(drawn) == CHARTS
    parts = {"hard": f"From T = A / {RHO}² on", "hard_growth": "In long runs, mean regret grows"}  # of one headline
    for stem, chart in drawn.items():
        text = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert parts.get(stem, f"title of {stem}") in text
        assert '"x": {' in text
        assert '"y": {' in text
