# ruff: noqa: E501  (a bad item and its answer stay on one line)
"""JSON models: what a person would write, what is kept, shared noise, and one line with its place for each fault."""

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import assert_same, assert_same_noise, step_models

from bqrl import MDP, from_step, load, save
from bqrl.errors import FileFormatError, SizeError


def read(tmp_path, text, name="m.json"):
    path = tmp_path / name
    path.write_text(text)
    return load(path)


def test_json_reads_what_a_person_would_write(tmp_path):
    text = """{"horizon": 2, "states": ["low", "high"], "actions": ["wait", "sell"], "start": "high",
      "transitions": [["low", "wait", "high", 0.5, 0], ["low", "wait", "low", 0.5, 0], ["high", "sell", "low", 1, 3]]}"""
    mdp = read(tmp_path, text, "m.json")
    assert mdp.start == 1
    assert mdp.available[0].tolist() == [[True, False], [False, True]]
    assert mdp.outcomes(0, 1, 1)[2].tolist() == [3.0]
    assert mdp.discount == 1.0


def test_json_keeps_zeros_as_possible_and_merges_like_csv(tmp_path):
    text = """{"horizon": 2, "states": 2, "actions": 1, "known": [[0, 0]], "transitions":
      [[0, 0, 0, 0.5, 1], [0, 0, 0, 0.5, 1], [0, 0, 1, 0, 2], [1, 0, 1, 1, [3, 4]]]}"""
    mdp = read(tmp_path, text, "m.json")
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [1.0, 0.0]
    assert mdp.known[0, 0, 0]
    assert mdp.outcomes(1, 1, 0)[2].tolist() == [4.0]


MODEL = {"horizon": 2, "states": ["a", "b"], "actions": 1, "transitions": [["a", 0, "b", 1, 0], ["b", 0, "a", 1, 0]]}


def written(tmp_path, **changes):
    return read(tmp_path, json.dumps(MODEL | changes))


def test_start_may_be_a_law_of_names(tmp_path):
    mdp = written(tmp_path, start={"a": 0.25, "b": 0.75}, units="EUR", comment=["free", "text"])
    assert mdp.mu.tolist() == [0.25, 0.75]
    save(mdp, tmp_path / "again.json")
    assert load(tmp_path / "again.json").units == "EUR"


def test_a_horizon_of_a_billion_in_a_file_is_refused_at_once(tmp_path):
    with pytest.raises(SizeError, match=r"m\.json: horizon must be at most 1000000, got 1000000000"):
        written(tmp_path, horizon=10**9)
    numbered = [[0, 0, 1, 1, 0], [1, 0, 0, 1, 0]]
    with pytest.raises(SizeError, match=r"m\.json: horizon must be at most 50000 with 2000 states, got 60000"):
        written(tmp_path, horizon=60_000, states=2000, transitions=numbered)


@pytest.mark.parametrize("place", ["horizon", "states", "discount"])
def test_integers_of_thousands_of_digits_get_one_short_line(tmp_path, place):
    text = json.dumps(MODEL | {place: 0}).replace(f'"{place}": 0', f'"{place}": ' + "9" * 5000)
    with pytest.raises(FileFormatError, match=r"^m\.json: [^\n]{5,150}$"):
        read(tmp_path, text)
    reward = json.dumps(MODEL).replace("1, 0]]", "1, " + "9" * 5000 + "]]")
    with pytest.raises(FileFormatError, match="reward: expected a finite number, got inf"):
        read(tmp_path, reward)


def test_rewards_near_the_largest_number_are_refused_without_warnings(tmp_path):
    with pytest.raises(FileFormatError, match=r"must be at most 5e\+299 in size over 2 stages, got 1e\+308"):
        written(tmp_path, transitions=[["a", 0, "b", 1, 1e308], ["b", 0, "a", 1, -1e308]])


def test_a_large_text_is_measured_first(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(MODEL))
    with pytest.raises(SizeError, match=r"m\.json: the file must have at most 50 bytes, got 109"):
        load(tmp_path / "m.json", max_bytes=50)


ITEMS = [
    ({"transitions": [["hgh", 0, "a", 1, 0]]}, "transitions[0], state: expected a number from 0 to 1 or a name of the list, got 'hgh'"),
    ({"transitions": [["a", 1, "a", 1, 0]]}, "transitions[0], action: expected a number from 0 to 0, got 1"),
    ({"transitions": [["a", True, "a", 1, 0]]}, "transitions[0], action: expected a number from 0 to 0, got True"),
    ({"transitions": [["a", 0, "a", "1", 0]]}, "transitions[0], probability: expected a finite number, got '1'"),
    ({"transitions": [[-1, "a", 0, "a", 1, 0]]}, "transitions[0], stage: expected a number from 0 to 2147483646, got -1"),
    ({"transitions": [[h, s, 0, "a", 1, 0] for h in (0, 1) for s in "ab"], "known": [[2, "a", 0]]}, "known[0], stage: expected a number from 0 to 1, got 2"),
    ({"known": [["a", 1]]}, "known[0], action: expected a number from 0 to 0, got 1"),
    ({"known": [["a"]]}, "known[0]: expected [state, action], with the stage in front where stages differ, got ['a']"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), ITEMS)
def test_bad_items_get_one_line_with_their_place(tmp_path, changes, message):
    with pytest.raises(FileFormatError) as caught:
        written(tmp_path, **changes)
    assert str(caught.value) == f"m.json: {message}"


# -- shared noise ------------------------------------------------------------------------------------------------------


@given(step_models())
def test_shared_noise_survives_json(tmp_path_factory, case):
    mdp = case[0]
    path = tmp_path_factory.mktemp("files") / "model.json"
    save(mdp, path)
    again = load(path)
    assert_same(mdp, again)
    assert_same_noise(mdp, again)


def test_laws_that_are_not_known_and_hidden_events_survive(tmp_path):
    mdp = from_step(lambda s, a, e: (e, 0.0), ["go"], {0: 0.5, 1: 0.5}, 2, 0, events_observed=False)
    save(mdp.with_probability(mdp.probability), tmp_path / "m.json")
    again = load(tmp_path / "m.json").noise
    assert not again.known
    assert not again.events_observed


SHARED = {
    "horizon": 3,
    "states": ["empty", "full"],
    "actions": ["fill", "rest"],
    "noise": {
        "laws": [{"events": ["rain", "dry"], "probabilities": [0.3, 0.7]}],
        "rows": [["empty", "fill", 0, [0, 1]], ["full", "fill", 0, [1, 0]]],
    },
    "transitions": [
        ["empty", "fill", "full", 0.3, 0],
        ["empty", "fill", "empty", 0.7, 0],
        ["full", "fill", "full", 0.7, 1],
        ["full", "fill", "full", 0.3, 2],
        ["full", "rest", "full", 1, 0],
    ],
}


def test_outcomes_are_counted_in_the_order_of_the_file(tmp_path):
    mdp = read(tmp_path, json.dumps(SHARED))
    assert mdp.noise.events == (("rain", "dry"),)
    assert mdp.noise.outcome_of(0).tolist() == [1, 0]  # the model sorts outcomes: empty before full
    assert mdp.noise.outcome_of(2).tolist() == [1, 0]
    swapped = deepcopy(SHARED)
    swapped["transitions"][:2] = swapped["transitions"][1::-1]
    swapped["noise"]["rows"][0][3] = [1, 0]
    assert_same(mdp, read(tmp_path, json.dumps(swapped)))
    assert np.array_equal(read(tmp_path, json.dumps(swapped)).noise.pair_outcome, mdp.noise.pair_outcome)


def changed(path, value):
    """SHARED["noise"] with one entry replaced."""
    data = deepcopy(SHARED)
    place = data["noise"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


LAW, ROW = ("laws", 0), ("rows", 0)
FAULTS = [
    (SHARED | {"noise": []}, "noise: expected the keys laws, rows and optionally events_observed, got"),
    (SHARED | {"noise": {"laws": []}}, "noise: expected the keys laws, rows and optionally events_observed, got"),
    (changed(("seen",), True), "noise: expected the keys laws, rows and optionally events_observed, got"),
    (changed(("rows",), {}), "expected lists of laws and rows, and events_observed true or false"),
    (changed(("events_observed",), "yes"), "expected lists of laws and rows, and events_observed true or false"),
    (changed(LAW, {"events": ["a"]}), "noise, laws[0]: expected the keys events, probabilities"),
    (changed((*LAW, "events"), ["a", "a"]), "noise, laws[0], events: expected a list of distinct names"),
    (changed((*LAW, "probabilities"), [1.0]), "noise, laws[0], probabilities: expected 2 numbers, got [1.0]"),
    (changed((*LAW, "probabilities"), [0.3, "x"]), "noise, laws[0], probabilities: expected a finite number, got 'x'"),
    (changed((*LAW, "probabilities"), [30, 70]), "sum to 1, got the sum 100: percentages? divide them by 100"),
    (changed((*LAW, "probabilities"), [-0.5, 1.5]), "probabilities: expected numbers of at least 0 that sum to 1"),
    (changed((*LAW, "probabilities"), [0.4, 0.6]), "must be the image of its law of events, got an error of 0.1"),
    (changed((*LAW, "cut"), None), "noise, laws[0], cut: expected a finite number, got None"),
    (changed(ROW, ["empty", "fill", 0]), "m.json: noise, rows[0]: expected [state, action, law, outcomes]"),
    (changed(ROW, ["mpty", "fill", 0, [0, 1]]), "noise, rows[0], state: expected a number from 0 to 1 or a name"),
    (changed((*ROW, 2), 1), "noise, rows[0], law: expected a number from 0 to 0, got 1"),
    (changed((*ROW, 3), [0]), "rows[0]: expected one outcome for each of the 2 events of its law"),
    (changed((*ROW, 3), [0, 2]), "noise, rows[0], outcome: expected a number from 0 to 1, got 2"),
    (changed((*ROW, 0), "full"), "m.json: noise, rows[1]: expected each row once, got it twice"),
]


@pytest.mark.parametrize(("data", "phrase"), FAULTS)
def test_bad_noise_gets_one_line(tmp_path, data, phrase):
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, json.dumps(data))
    assert str(caught.value).startswith("m.json: ")
    assert phrase in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            ["low", "go", "low", 1, 0],
            "transitions[0], action: expected a number from 0 to 0 or a name of the list, got 'go'",
        ),
        (["lwo", "wait", "low", 1, 0], "or a name of the list, got 'lwo'; did you mean 'low'?"),
        (["low", "wait", "low", 0.999, 0], "row (s=low, a=wait) must sum to 1, got 0.999; if they are rounded, divide"),
        (["low", "wait", "low", 100, 0], "row (s=low, a=wait) must sum to 1, got 100: percentages? divide them by 100"),
    ],
)
def test_faults_name_states_as_the_file_does(tmp_path, row, words):
    """The row of a wrong sum was once named by its numbers."""
    data = {"horizon": 2, "states": ["low"], "actions": ["wait"], "transitions": [row]}
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(FileFormatError) as fault:
        load(tmp_path / "m.json")
    assert words in str(fault.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([{"state": 0, "action": 0}], "got a list; pass a list of dicts to bqrl.MDP"),
        ({"0": {"0": [[1.0, 0, 0.0, True]]}}, "got a dict of dicts; pass {state: {action: [[probability, next state, "),
        ({"P": [[[1.0]]], "R": [[0.0]]}, "expected a known key, got 'P'; pass arrays to bqrl.MDP"),
        ({"states": 1, "actions": 1, "gamma": 0.9}, "expected a known key, got 'gamma'; did you mean 'discount'?"),
    ],
)
def test_json_of_other_programs_names_the_call_that_reads_it(tmp_path, data, words):
    (tmp_path / "m.json").write_text(json.dumps(data))
    with pytest.raises(FileFormatError) as fault:
        load(tmp_path / "m.json")
    assert words in str(fault.value)


def test_json_in_utf16(tmp_path):
    mdp = MDP([(0, 0, 0, 1.0, 1.0)], horizon=2, state_names=["Grün"])
    save(mdp, tmp_path / "m.json")
    text = (tmp_path / "m.json").read_text(encoding="utf-8")
    (tmp_path / "m.json").write_text(text, encoding="utf-16")
    assert_same(load(tmp_path / "m.json"), mdp)
