"""Known rows as tuples, files and frames."""

import pytest

from bqrl.errors import FileFormatError
from bqrl.logs.known_rows import copy_rows, known_rows


def test_a_file_gives_the_tuples_that_it_lists(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("stage,state,action,next_state,probability,reward\n1,a,x,b,0.25,2\n2,a,x,a,0.75,0\n")
    assert known_rows(path) == [(0, "a", "x", "b", 0.25, 2.0), (1, "a", "x", "a", 0.75, 0.0)]
    rows = [("a", "x", "b", 1.0, 0.0)]
    assert known_rows(iter(rows)) == known_rows([list(rows[0])]) == rows
    assert known_rows(None) is None
    assert copy_rows("states") == "states"


def test_a_stage_that_is_not_whole_names_its_line(tmp_path):
    path = tmp_path / "known.csv"
    path.write_text("stage,state,action,next_state,probability,reward\n1.5,a,x,b,1,2\n")
    with pytest.raises(FileFormatError, match=r"known.csv: line 2, column 'stage': expected a whole number, got 1.5"):
        known_rows(path)
