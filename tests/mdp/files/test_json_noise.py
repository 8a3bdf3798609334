"""The noise in a JSON file: it comes back bit for bit, and each fault gets one line with its place."""

import json
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import assert_same, assert_same_noise, step_models

from bqrl import from_step, load, save
from bqrl.errors import FileFormatError


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


MODEL = {
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


def read(tmp_path, data):
    (tmp_path / "m.json").write_text(json.dumps(data))
    return load(tmp_path / "m.json")


def test_outcomes_are_counted_in_the_order_of_the_file(tmp_path):
    mdp = read(tmp_path, MODEL)
    assert mdp.noise.events == (("rain", "dry"),)
    assert mdp.noise.outcome_of(0).tolist() == [1, 0]  # the model sorts outcomes: empty before full
    assert mdp.noise.outcome_of(2).tolist() == [1, 0]
    swapped = deepcopy(MODEL)
    swapped["transitions"][:2] = swapped["transitions"][1::-1]
    swapped["noise"]["rows"][0][3] = [1, 0]
    assert_same(mdp, read(tmp_path, swapped))
    assert np.array_equal(read(tmp_path, swapped).noise.pair_outcome, mdp.noise.pair_outcome)


def changed(path, value):
    """MODEL["noise"] with one entry replaced."""
    data = deepcopy(MODEL)
    place = data["noise"]
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return data


LAW, ROW = ("laws", 0), ("rows", 0)
FAULTS = [
    (MODEL | {"noise": []}, "noise must have the keys laws, rows and optionally events_observed"),
    (MODEL | {"noise": {"laws": []}}, "noise must have the keys laws, rows and optionally events_observed"),
    (changed(("seen",), True), "noise must have the keys laws, rows and optionally events_observed"),
    (changed(("rows",), {}), "noise: laws and rows must be lists, events_observed true or false"),
    (changed(("events_observed",), "yes"), "noise: laws and rows must be lists, events_observed true or false"),
    (changed(LAW, {"events": ["a"]}), "noise, laws[0] must have the keys events, probabilities and optionally cut"),
    (changed((*LAW, "events"), ["a", "a"]), "noise, laws[0], events must be a list of distinct names"),
    (changed((*LAW, "probabilities"), [1.0]), "noise, laws[0], probabilities must hold 2 numbers, got [1.0]"),
    (changed((*LAW, "probabilities"), [0.3, "x"]), "noise, laws[0], probabilities: expected a finite number, got 'x'"),
    (changed((*LAW, "probabilities"), [30, 70]), "sum to 1, got the sum 100: percentages? divide them by 100"),
    (changed((*LAW, "probabilities"), [-0.5, 1.5]), "probabilities must be at least 0 and sum to 1"),
    (changed((*LAW, "probabilities"), [0.4, 0.6]), "must be the image of its law of events, is off by 0.1"),
    (changed((*LAW, "cut"), None), "noise, laws[0], cut: expected a finite number, got None"),
    (changed(ROW, ["empty", "fill", 0]), "noise, rows[0] must be [state, action, law, outcomes]"),
    (changed(ROW, ["mpty", "fill", 0, [0, 1]]), "noise, rows[0], state: expected a number from 0 to 1 or a name"),
    (changed((*ROW, 2), 1), "noise, rows[0], law: expected a number from 0 to 0, got 1"),
    (changed((*ROW, 3), [0]), "noise, rows[0] must hold one outcome for each of the 2 events of its law"),
    (changed((*ROW, 3), [0, 2]), "noise, rows[0], outcome: expected a number from 0 to 1, got 2"),
    (changed((*ROW, 0), "full"), "noise, rows[1]: the row is listed twice"),
]


@pytest.mark.parametrize(("data", "phrase"), FAULTS)
def test_bad_noise_gets_one_line(tmp_path, data, phrase):
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, data)
    assert str(caught.value).startswith("m.json: ")
    assert phrase in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
