"""The one reader of tables: columns by role, numbers in any locale, labels, extra columns, and one form of message."""

import numpy as np
import pytest

import bqrl
from bqrl.errors import FileFormatError, ModelError, ModelWarning
from bqrl.mdp.columns import LOG, MODEL, Kind
from bqrl.mdp.files.tables import read_table

STRATEGY = Kind(name="strategy", required=("state", "action"), optional=("stage",), numbers=("stage",))
TABLE = {"state": ["x", "y"], "action": [0, 0], "next_state": ["y", "x"], "probability": [1, 1], "reward": [2, 3]}


def written(tmp_path, text, name="table.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_new_kind_of_table_is_one_record(tmp_path):
    path = written(tmp_path, "Stage;State;Action\n1;Well;wait\n1;Sick;cure\n2;Well;cure\n")
    rows = [{"stage": 1, "state": "Well", "action": "wait"}, {"stage": 1, "state": "Sick", "action": "cure"}]
    rows += [{"stage": 2, "state": "Well", "action": "cure"}]
    for table in (path, rows):
        found = read_table(table, STRATEGY)
        assert found.codes["action"].code.tolist() == [0, 1, 1]
        assert found.numbers["stage"].tolist() == [1, 1, 2]
        assert len(found) == 3
    assert (found.where(2), read_table(path, STRATEGY).where(2)) == ("row 2", "line 4")
    assert str(read_table(path, STRATEGY).error(2, "no", "state")) == "table.csv: line 4, column 'State': no"
    with pytest.raises(ModelError, match="expected columns for the state and the action, got 'sate', 'acton'"):
        read_table({"stage": [1], "sate": [1], "acton": [2]}, STRATEGY, {"stage": "stage"})


def test_all_missing_columns_are_told_at_once():
    """Each was once told alone, after the one before it was corrected."""
    words = "columns for the probability and the reward, got 'porb', 'rewrd'; map probability to 'porb' and reward to 'rewrd'"
    with pytest.raises(ModelError, match=words) as caught:
        read_table({"state": [], "action": [], "next_state": [], "porb": [], "rewrd": []}, MODEL)
    assert (caught.value.column, caught.value.name) == ("probability", "columns")
    with pytest.raises(FileFormatError, match="expected columns for the action and the reward, got none; add them"):
        read_table({"episode": [1], "state": ["a"]}, LOG)


def test_outcomes_are_extra_columns(tmp_path):
    text = "state;action;next_state;probability;reward;outcome:cost;Outcome:Life years\nx;0;x;1;1,500;2,5;3\n"
    found = read_table(written(tmp_path, text), MODEL)
    assert {name: column.tolist() for name, column in found.extra.items()} == {
        "outcome:cost": [2.5],
        "Outcome:Life years": [3.0],
    }
    assert found.numbers["reward"].tolist() == [1.5]  # the outcome shows the decimal sign
    extra = TABLE | {"outcome:cost": [1, "two"]}
    with pytest.raises(ModelError, match="row 1, column 'outcome:cost': expected a number, got 'two'"):
        read_table(extra, MODEL)
    assert bqrl.MDP(TABLE | {"outcome:cost": [1, 2]}, horizon=2).outcome_names == ("cost",)


def test_the_decimal_sign_may_show_in_a_later_block(tmp_path, monkeypatch):
    """Once the first block alone decided, so that a long file was refused for numbers that a later line makes clear."""
    monkeypatch.setattr("bqrl.mdp.files.sources.BLOCK", 2)
    head, steps = "episode;state;action;reward\n", "1;a;x;1,500\n1;a;x;2,250\n2;a;x;7\n"
    assert read_table(written(tmp_path, head + steps + "2;a;x;0,5\n"), LOG).numbers["reward"].tolist() == [
        1.5,
        2.25,
        7,
        0.5,
    ]
    with pytest.raises(
        FileFormatError, match="line 2, column 'reward': expected a number without thousands separators"
    ):
        read_table(written(tmp_path, head + steps), LOG)
    with pytest.raises(
        FileFormatError, match=r"line 5, column 'reward': expected the decimal sign ',' as above, got '0\.5'"
    ):
        read_table(written(tmp_path, head + steps + "2;a;x;0.5\n"), LOG)


def test_a_line_break_in_a_column_that_is_not_read_is_no_fault(tmp_path):
    """Remarks of a spreadsheet may have several lines; such a model was once refused."""
    text = 'state,action,next_state,probability,reward,remark\nx,0,x,0.5,1,"first\nsecond"\nx,0,x,0.5,2,\n'
    with pytest.warns(ModelWarning, match="columns ignored: 'remark'"):
        found = read_table(written(tmp_path, text), MODEL)
    assert found.lines.tolist() == [2, 4]


def test_truth_values_are_rewards_of_logs_and_no_probabilities():
    log = {"episode": [1, 2], "state": ["a", "a"], "action": [0, 0], "reward": [True, False]}
    assert read_table(log, LOG).numbers["reward"].tolist() == [1.0, 0.0]
    with pytest.raises(ModelError, match="row 0, column 'probability': expected a number, got True"):
        read_table(TABLE | {"probability": np.array([True, True])}, MODEL)


def test_comments_above_a_log_are_not_ignored_in_silence(tmp_path):
    path = written(tmp_path, "# discount: 0.9\nepisode,state,action,reward\n1,a,x,1\n2,a,x,1\n")
    with pytest.raises(
        FileFormatError, match=r"table\.csv: line 1: expected the header, got '# discount: 0\.9'; remove comments"
    ):
        bqrl.fit(path)
