"""JSON models: what a person would write, and what is kept."""

import json

import pytest

from bqrl import load, save
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
    with pytest.raises(SizeError, match=r"m.json: horizon=1000000000 is too long: at most 1000000 stages fit"):
        written(tmp_path, horizon=10**9)
    numbered = [[0, 0, 1, 1, 0], [1, 0, 0, 1, 0]]
    with pytest.raises(SizeError, match="at most 50000 stages fit with 2000 states"):
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
    with pytest.raises(FileFormatError, match=r"is 1e\+308; rewards must be at most 5e\+299 in size over 2 stages"):
        written(tmp_path, transitions=[["a", 0, "b", 1, 1e308], ["b", 0, "a", 1, -1e308]])


def test_a_large_text_is_measured_first(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(MODEL))
    with pytest.raises(FileFormatError, match=r"m.json: the file has \d+ bytes, above the limit of 50"):
        load(tmp_path / "m.json", max_bytes=50)
