"""`bqrl.report`: every kind of result as a page, from Python."""

import json
import re

import numpy as np
import pytest
from logged_problems import coin

import bqrl
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.results.report import PAGES
from bqrl.results.result import read
from bqrl.results.solved import SLIDER

SAFE = bqrl.envs.make("SafeOrRisky")
PLAN = bqrl.solve(SAFE, tau=0.1)


def data_of(page):
    """The data of a page: its controls, sentences and charts."""
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)[1])


def test_a_plan_becomes_a_page_without_further_arguments(tmp_path):
    page = bqrl.report(PLAN, tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert [one.name for one in tmp_path.iterdir()] == ["page.html"]  # no draft stays behind
    data = data_of(page)
    tau, policy = data["choices"]
    assert set(SLIDER) <= set(tau["values"])
    assert tau["values"][tau["start"]] == 0.1
    assert (policy["values"][0], policy["values"][-1]) == (
        "best",
        "risk-neutral",
    )  # between them the steps of the trade-off
    said = [line["text"] for line in data["sentences"] if line["when"].get("tau") == 0.1]
    assert any(text.startswith("In 9 of 10 runs you get at least 12") for text in said)
    assert len(data["charts"]) == 5


def test_a_folder_holds_what_the_command_writes(cli, tmp_path):
    assert cli("solve", "SafeOrRisky", "--tau", 0.1, "--out", tmp_path / "cli")[0] == 0
    known = bqrl.envs.about("SafeOrRisky")
    words = {"title": "SafeOrRisky", "unit": known.unit, "stage_name": known.stage}
    page = bqrl.report(bqrl.solve("SafeOrRisky", tau=0.1), tmp_path / "own", **words)
    assert page == tmp_path / "own" / "report.html"
    mine, theirs = read(tmp_path / "own"), read(tmp_path / "cli")
    assert (mine.kind, mine.title, mine.charts) == (theirs.kind, theirs.title, theirs.charts)
    assert {key: table.rows for key, table in mine.tables.items() if "policy" not in key} == {
        key: table.rows for key, table in theirs.tables.items() if "policy" not in key
    }
    texts = [[(line.text, line.when, line.aside) for line in one.lines] for one in (mine, theirs)]
    named = [(text.replace("margin=", "--margin "), *rest) for text, *rest in texts[0]]
    assert texts[0] != named == texts[1]  # each names options as its reader writes them


@pytest.mark.parametrize("goal", [bqrl.Mean(), bqrl.Chance(12.0), bqrl.Entropic(0.5), bqrl.CVaR(0.1)])
def test_every_objective_has_a_page(goal, tmp_path):
    data = data_of(bqrl.report(bqrl.solve(SAFE, goal), tmp_path / "page.html"))
    by_level = isinstance(goal, bqrl.Buffered)  # only then there is a level to choose
    assert ("tau" in [choice["name"] for choice in data["choices"]]) == by_level
    assert data["sentences"]
    values = [param["value"] for chart in data["charts"] for param in chart.get("params", ()) if param["name"] == "tau"]
    assert all(value in (0.0, 0.1) for value in values)


def test_plans_at_several_levels_share_a_page(tmp_path):
    two = [bqrl.solve("SafeOrRisky", tau=tau) for tau in (0.5, 0.1)]  # two equal models
    data = data_of(bqrl.report(two, tmp_path / "page.html"))
    assert {0.1, 0.5} <= set(data["choices"][0]["values"])
    other = bqrl.solve("RiverSwim", tau=0.1)
    with pytest.raises(ArgumentError, match=r"^expected plans of one problem, got others; make them with solve$"):
        bqrl.report([PLAN, other], tmp_path / "other.html")
    with pytest.raises(ArgumentError, match=r"^expected plans at different levels, got 0.1-quantile, CVaR at 0.1;"):
        bqrl.report([PLAN, bqrl.solve(SAFE, bqrl.CVaR(0.1))], tmp_path / "other.html")
    assert not (tmp_path / "other.html").exists()


def test_an_estimate_and_its_plan_have_the_same_page(tmp_path):
    estimate = bqrl.fit(coin(500, 400), reward_range=(0, 1))
    first = bqrl.report(estimate, tmp_path / "first", tau=0.3)
    second = bqrl.report(estimate.solve(0.3), tmp_path / "second")
    assert first.read_bytes() == second.read_bytes()
    headline, full = read(tmp_path / "first").lines[:2]  # the assumptions are folded away
    assert (headline.aside, full.aside, full.text) == (False, True, estimate.solve(0.3).remarks[0])
    with pytest.raises(ArgumentError, match=r"^tau must be given for the report of an Estimate"):
        bqrl.report(estimate, tmp_path / "page.html")


def test_runs_have_pages(tmp_path):
    experiment = bqrl.compare(SAFE, ["sarsa", "q-learning"], tau=0.1, episodes=20, seeds=2, workers=1)
    bqrl.report(experiment, tmp_path / "both")
    assert read(tmp_path / "both").kind == "comparison"
    record = bqrl.learn(SAFE, "sarsa", tau=0.1, episodes=20, seed=1)
    bqrl.report(record, tmp_path / "one", title="One run")
    result = read(tmp_path / "one")
    assert (result.kind, result.title) == ("learning", "One run")
    assert "policy_tau0p1" in result.tables
    bqrl.save(record, tmp_path / "record.npz")  # a record from a file has no model
    bqrl.report(bqrl.load(tmp_path / "record.npz"), tmp_path / "loaded.html")
    assert "mean return" in (tmp_path / "loaded.html").read_text(encoding="utf-8")


def test_a_folder_becomes_a_page_elsewhere(tmp_path):
    bqrl.report(PLAN, tmp_path / "out")
    page = bqrl.report(str(tmp_path / "out"), tmp_path / "page.html", title="Another title")
    assert "<h1>Another title</h1>" in page.read_text(encoding="utf-8")
    with pytest.raises(ArgumentError, match=r"^unit must not be given for a finished result"):
        bqrl.report(tmp_path / "out", tmp_path / "page.html", unit="EUR")


def test_bad_arguments_are_named_before_the_work(tmp_path):
    with pytest.raises(ArgumentTypeError, match=r"^thing must be a Plan, a list of plans, .* got ndarray"):
        bqrl.report(np.zeros(3), tmp_path / "page.html")
    with pytest.raises(ArgumentTypeError, match="beta"):
        bqrl.report(PLAN, tmp_path / "page.html", beta=0.1)
    with pytest.raises(ArgumentTypeError, match=r"^thing must hold plans only"):
        bqrl.report([SAFE], tmp_path / "page.html")
    with pytest.raises(ArgumentError, match="stage_name"):
        bqrl.report(PLAN, tmp_path / "page.html", stage_name="state")
    with pytest.raises(ArgumentTypeError, match=r"^path must be"):
        bqrl.report(PLAN, 3)
    with pytest.raises(FileNotFoundError, match="does not exist; create it first"):
        bqrl.report(PLAN, tmp_path / "nowhere" / "page.html")
    assert list(tmp_path.iterdir()) == []
    assert all(callable(make) for make in PAGES.values())


def test_the_page_of_a_stress_test(tmp_path):
    held = bqrl.stress("Inventory", bqrl.solve("Inventory", tau=0.1), off=[0.0, 0.02, 0.05])
    page = bqrl.report(held, tmp_path / "page.html", title="Does it hold?", run_name="week").read_text(encoding="utf-8")
    assert "If probabilities are off by up to 2 %: 55; by 5 %: 41; from 2 % the risk-neutral" in page
    assert "return reached in 9 of 10 weeks" in page
