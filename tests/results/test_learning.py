"""Runs as a result: its numbers are those of the records, and its files those that were announced."""

from dataclasses import replace

import numpy as np
import pytest
from helpers import not_announced
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.results.learning import (
    Learned,
    file_stem,
    learner_tables,
    learning_charts,
    learning_document,
    learning_files,
    learning_result,
    optimal_after,
)
from bqrl.results.result import contents
from bqrl.results.words import Words
from bqrl.study.scores import Contender, band_name, beats

MODEL = bqrl.envs.make("AssetSelling", offers=5, horizon=3, start=2)
WORDS = Words(title="Sale", unit="EUR")


@pytest.fixture(scope="module")
def found():
    experiment = bqrl.compare(MODEL, ["q-learning", "ucbvi"], tau=0.3, episodes=40, seeds=range(3), workers=1)
    sizes = {"states": MODEL.S, "actions": MODEL.A, "horizon": MODEL.H, "start": "2", "discount": 1.0}
    return Learned(experiment=experiment, words=WORDS, model=sizes)


@pytest.fixture(scope="module")
def document(found):
    return learning_document(found)


def alone(found):
    """The first learner of an experiment as if it were the only one."""
    return replace(found, experiment=found.experiment.part((0, 1, 2), {"q-learning": "q-learning"}), alone=True)


@given(st.lists(st.sampled_from([0.0, 0.5]), min_size=1, max_size=8))
def test_optimal_after_is_the_first_episode_of_the_last_stretch_without_a_gap(gaps):
    found = optimal_after(np.array(gaps), 1.0)
    candidates = [k for k in range(len(gaps)) if not any(gaps[k:])]
    assert found == (candidates[0] if candidates else None)


def test_policies_that_lose_little_of_little_are_not_optimal(found):
    model = bqrl.MDP(np.ones((1, 2, 1)), np.array([[0.0, 1e-10]]), horizon=2)
    experiment = bqrl.compare(model, ["q-learning"], tau=0.3, episodes=2, seeds=8, workers=1)
    runs = learning_document(replace(found, experiment=experiment))["learners"][0]["runs"]
    worse = [run["settled"] for run in runs if run["value"] < 2e-10]
    assert worse
    assert set(worse) == {None}


def test_the_document_holds_the_numbers_of_the_records(found, document):
    for one in document["learners"]:
        records = found.experiment.records[one["label"]]
        assert [row["gap"] for row in one["runs"]] == [pytest.approx(record.gap(0.3).sum()) for record in records]
        finals = [bqrl.evaluate(MODEL, record.final_policy).quantile(0.3) for record in records]
        assert [row["value"] for row in one["runs"]] == finals
        assert one["std"]["gap"] == pytest.approx(np.std([row["gap"] for row in one["runs"]], ddof=1))
    assert document["best"]["value"] == bqrl.guarantee_curve(MODEL)(0.3)
    assert document["random"]["gap"] == pytest.approx(40 * (document["best"]["value"] - document["random"]["value"]))
    pair = document["beats"][0]
    gaps = {one["label"]: np.array([row["gap"] for row in one["runs"]]) for one in document["learners"]}
    assert pair["probability"] == beats(gaps[pair["learner"]], gaps[pair["other"]])


def test_one_seed_has_no_standard_deviation(found):
    one = replace(found, experiment=found.experiment.part((0,)))
    assert learner_tables(one, learning_document(one))["learners"].caption == "One seed."


def test_tables_begin_with_the_best_learner_and_say_what_follows_the_sign(found, document):
    table, seeds = learner_tables(found, document).values()
    assert table.caption == "Mean ± standard deviation over 3 seeds."
    gaps = [row["gap"] for row in table.rows]
    assert gaps[0] <= gaps[1]
    assert [row["learner"] for row in table.rows[2:]] == ["best possible", "random play"]
    assert [row["seed"] for row in seeds.rows] == [0, 1, 2, 0, 1, 2]
    for row in table.rows[:2]:
        mine = [run["gap"] for run in seeds.rows if run["learner"] == row["learner"]]
        assert (row["gap"], row["gap_std"]) == pytest.approx((np.mean(mine), np.std(mine, ddof=1)))


def test_a_learner_is_optimal_only_where_all_of_its_runs_are(found, document):
    def settled(*runs):
        learners = [one | {"runs": [run | {"settled": x} for run, x in zip(one["runs"], runs, strict=True)]}
                    for one in document["learners"]]  # fmt: skip
        return learner_tables(found, document | {"learners": learners})["learners"].rows[0]["settled"]

    assert (settled(0, 9, 4), settled(40, None, 0)) == (9, None)


def test_every_amount_of_a_run_has_its_unit(found, document):
    for table in learner_tables(found, document).values():
        titles = dict(zip(table.columns, [table.titles.get(key, key) for key in table.columns], strict=True))
        assert (titles["value"], titles["gap"]) == ("quantile (EUR)", "cumulative quantile gap (EUR)")
        assert (titles["mean"], titles["settled"]) == ("mean (EUR)", "optimal after (episodes)")
    result = learning_result(found, document, {})
    assert result.tables["curves"].titles["gap_low"] == "cumulative quantile gap, low (EUR)"
    for name, spec in result.charts.items():
        assert any(str(layer["encoding"]["y"].get("title")).endswith("(EUR)") for layer in spec["layer"]), name
    assert document["meaning"].count(" EUR") >= 3


def test_a_bracketed_optimum_is_said_in_tables_and_charts(found, document):
    records = {
        label: tuple(replace(one, optimum=replace(one.optimum, error=0.01)) for one in some)
        for label, some in found.experiment.records.items()
    }
    wide = replace(found, experiment=replace(found.experiment, records=records, _cumulative={}))
    document = learning_document(wide)
    said = "The proven lower value of the optimum is at most 0.01 EUR below the optimum."
    assert document["best"]["error"] == 0.01
    assert document["meaning"].endswith(said)
    assert "exact optimum" not in document["meaning"]
    assert learner_tables(wide, document)["learners"].rows[2]["learner"] == "best possible, at least"
    for name, chart in learning_charts(wide, document).items():
        spec = chart.to_dict()
        assert " ".join(spec["title"]["subtitle"]).endswith(said), name
        assert "exact optimum" not in str(spec)


def test_a_result_writes_only_files_that_were_announced(found, document):
    result = learning_result(found, document, {})
    assert result.left_out == []
    single = learning_result(alone(found), learning_document(alone(found)), {"episodes_seed0.jsonl": b""})
    stems = [file_stem(one, seed, alone=False) for one in found.experiment.learners for seed in range(3)]
    assert not_announced(contents(result), learning_files(bqrl.Quantile(0.3), stems)) == {"result.json"}
    assert not_announced(contents(single), learning_files(bqrl.Quantile(0.3), ["seed0", "seed1", "seed2"])) == {
        "result.json"
    }
    said = {name: " ".join(spec["title"]["subtitle"]) for name, spec in result.charts.items()}
    assert said["promises"] == f"Band: {band_name(3)}."
    assert said["gaps"].startswith("Q-learning has the smallest mean cumulative gap")  # the finding, then the band
    assert said["gaps"].endswith(f" Band: {band_name(3)}.")
    last = [row for row in result.tables["curves"].rows if row["episode"] == 40]
    means = {one["label"]: one["mean"]["gap"] for one in document["learners"]}
    assert {row["learner"]: row["gap_mean"] for row in last} == pytest.approx(means)
    assert result.tables["curves"].caption == f"Low and high: {found.experiment.band}."


def test_names_of_files_hold_no_separator():
    def stem(learner, params, seed, alone=False):
        return file_stem(Contender(label=f"my {learner}", learner=learner, params=params), seed, alone=alone)

    assert stem("ucb-bqrl", {"planner": "greedy"}, 3) == "ucb-bqrl_planner-greedy_seed3"
    assert stem("../x", {"a": "b/c"}, 1).count("/") == 0
    assert stem("ucbvi", {}, 7, alone=True) == "seed7"
    assert stem("a/b.py:Mine", {}, 1) != stem("a.b.py:Mine", {}, 1)
    long = [stem("q-learning", {"a" * 90: x}, 1) for x in (0.951, 0.952)]
    assert long[0] != long[1]
    assert max(map(len, long)) < 100


def test_what_was_found_is_said_once_and_the_charts_show_it(found, document):
    """Once, the titles of the charts repeated the sentences above them."""
    ends = {one["label"]: one["mean"]["value"] for one in document["learners"]}
    assert f"-quantile of the final policies of {max(ends, key=ends.get)} " in document["meaning"]
    assert "smallest mean cumulative gap" in document["meaning"]
    promises, gaps = (" ".join(one.to_dict()["title"]["text"]) for one in learning_charts(found, document).values())
    assert promises not in document["meaning"]
    assert gaps not in document["meaning"]


def test_equal_runs_deviate_by_exactly_zero():
    mdp = bqrl.MDP([(0, 0, 0, 1.0, 5.9)], horizon=1)  # three times 5.9 has a sum that rounds
    experiment = bqrl.compare(mdp, ["sarsa"], tau=0.3, episodes=2, seeds=3, workers=1)
    sizes = {"states": 1, "actions": 1, "horizon": 1, "start": "0", "discount": 1.0}
    (learner,) = learning_document(Learned(experiment=experiment, words=WORDS, model=sizes))["learners"]
    assert set(learner["std"].values()) == {0.0}
