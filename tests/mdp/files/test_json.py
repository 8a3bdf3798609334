"""JSON models: what a person would write, and what is kept."""

from bqrl import load


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
