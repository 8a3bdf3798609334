import math

import pytest
from small_theory import SMALL, small_theory, theory_of

from bqrl.results.result import read, write
from bqrl.results.theory import QUICK, RHO, VIEWS, growth_headline, growth_kind, theory_result
from bqrl.study.settings import settings_of
from bqrl.study.theory_spec import EXPERIMENTS, TheorySpec


@pytest.fixture
def found():
    return small_theory()


def headline(name, one):
    return VIEWS[name].headline(one)


def test_every_experiment_has_a_view_of_all_its_tables(found):
    assert tuple(VIEWS) == EXPERIMENTS
    for name, one in found.items():
        assert list(VIEWS[name].captions) == list(one["tables"])
        assert all(VIEWS[name].remarks(one))


def test_the_headline_of_coverage_follows_the_numbers(found):
    coverage = found["coverage"]
    assert "held in every run" in headline("coverage", coverage)
    coverage["tables"]["coverage"][1].update(share=0.96)
    assert "held in at least 96 % of runs" in headline("coverage", coverage)
    coverage["tables"]["coverage"][1].update(share=0.8, refuted=True)
    assert headline("coverage", coverage) == "The confidence sets hold in fewer runs than the promised 95 % on selling"


def test_the_headline_of_the_bounds_follows_the_numbers(found):
    bounds = found["bounds"]
    assert headline("bounds", bounds).startswith("Regret stays under every bound, ")
    assert "times below ours at T = 60; ours is informative from " in headline("bounds", bounds)
    assert any("vacuous" in line for line in VIEWS["bounds"].remarks(bounds))
    rows = bounds["tables"]["bounds"]
    rows[0]["informative"] = True
    assert not any("vacuous" in line for line in VIEWS["bounds"].remarks(bounds))
    next(row for row in rows if row["statement"] == "ours")["holds"] = False
    assert headline("bounds", bounds) == "Regret exceeds our bound on hard, τ = 0.5"


def test_the_headline_of_the_hard_family_follows_the_numbers(found):
    hard = found["hard"]
    hard["tables"]["hard_slopes"][0]["exponent_of_inverse_rho"] = 1.0
    assert "multiplies the regret of SARSA by 2 and the proven lower bound by 4" in headline("hard", hard)
    hard["tables"]["hard"][0]["regret"] = 0.0
    assert headline("hard", hard).endswith("one mean lies below it")
    for row in hard["tables"]["hard_slopes"]:
        row["exponent_of_inverse_rho"] = None
    assert headline("hard", hard) == "Regret on the hard family and its proven lower bound: one mean lies below it"


def test_growth_is_named_by_its_exponent(found):
    kinds = [growth_kind(*x) for x in ((0.0, 0.1), (0.5, 0.1), (1.0, 0.0), (0.5, 0.3))]
    assert kinds == ["flattens", "slows down", "stays linear", "stays linear"]
    slopes = found["hard"]["tables"]["hard_slopes"]
    for row, slope in zip(slopes, (0.0, 1.0, None), strict=True):
        row.update(exponent_of_episodes=slope, exponent_of_episodes_error=0.01)
    expected = f"Beyond A / {RHO}² episodes regret flattens for SARSA and stays linear for again"
    assert growth_headline(found["hard"]) == expected
    assert f"UCB: regret ~ (1/{RHO})^" in VIEWS["hard"].remarks(found["hard"])[3]
    assert "~ T^(not fitted) beyond" in VIEWS["hard"].remarks(found["hard"])[3]


def test_buffers_and_returns_are_put_in_words(found):
    buffer = found["buffer"]
    clears = buffer["tables"]["buffer_clears"]
    assert "the logarithmic schedule reaches the margin after 2979 and " in headline("buffer", buffer)  # ceil(e^8 - e)
    assert (
        VIEWS["buffer"].remarks(buffer)[0].startswith(f"hard, τ = 0.5: {RHO}* = 0.0625, {RHO}τ 0.0625; episodes until")
    )
    clears[0]["plateau_low"] = 0.01
    assert f"{RHO}τ between 0.01 and 0.0625" in VIEWS["buffer"].remarks(buffer)[0]
    knapsack = found["knapsack"]
    assert headline("knapsack", knapsack).startswith("Weights of 8 bits give ")
    assert VIEWS["knapsack"].remarks(knapsack)[0].endswith(": all counts are right.")
    knapsack["families"][0]["counted"] += 1
    assert VIEWS["knapsack"].remarks(knapsack)[0].endswith(": NOT all counts are right.")


def test_numbers_without_a_limit_can_be_said(found):
    for row in found["bounds"]["tables"]["bounds"]:
        row["informative_from"] = None
    for row in found["buffer"]["tables"]["buffer_clears"]:
        row["episodes_until_margin"] = None
    for name in ("bounds", "buffer"):
        assert "1e90" in headline(name, found[name])
    for row in found["knapsack"]["tables"]["knapsack"]:
        row["support"] = None if row["weights"] == "of 8 bits" else row["support"]
    assert "too many returns to list from 256 histories" in headline("knapsack", found["knapsack"])


def test_the_result_can_be_written_read_and_made_again(found, tmp_path, monkeypatch):
    monkeypatch.setattr("bqrl.results.charts.image", lambda spec, kind: b"drawn")
    spec = theory_of(SMALL)
    result, left_out = theory_result(spec, found)
    assert left_out == []
    assert result.details["seconds"] == pytest.approx(math.fsum(one["seconds"] for one in found.values()))
    write(result, tmp_path)
    again = read(tmp_path)
    assert list(again.charts) == [stem for view in VIEWS.values() for stem in view.charts]
    assert list(again.tables) == [stem for view in VIEWS.values() for stem in view.captions]
    once_more, _ = theory_result(spec, again.details["experiments"])  # a folder serves as well as a run
    assert once_more.sentences == result.sentences
    rows = [dict(row) for row in again.tables["coverage_runs"].rows]
    assert rows == found["coverage"]["tables"]["coverage_runs"]


def test_without_altair_the_tables_remain(found, monkeypatch):
    def missing(*_):
        raise ImportError("charts need Altair")

    monkeypatch.setattr("bqrl.results.theory.drawings", missing)
    result, left_out = theory_result(theory_of(SMALL), {"knapsack": found["knapsack"]})
    assert left_out == ["charts need Altair"]
    assert (dict(result.charts), dict(result.files), list(result.tables)) == ({}, {}, ["knapsack"])


def test_a_quick_run_is_marked(found, monkeypatch):
    monkeypatch.setattr("bqrl.results.charts.image", lambda spec, kind: b"drawn")
    spec = settings_of(SMALL, TheorySpec, quick=True)
    result, _ = theory_result(spec, {"knapsack": found["knapsack"]})
    assert result.sentences[0] == QUICK
    assert result.title == "theory (quick run)"
    assert result.settings["experiments"] == ["knapsack"]
