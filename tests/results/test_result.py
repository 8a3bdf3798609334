"""The files of a result hold all of it, and their names stay inside the folder."""

import csv
import os
from types import MappingProxyType

import numpy as np
import pytest
from small_result import make

import bqrl
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.results.folder import Folder
from bqrl.results.result import Result, ResultTable, Sentence, contents, read, to_json, write


def test_a_result_survives_the_folder(tmp_path):
    given = make(1.5)
    write(given, tmp_path / "new" / "folder")
    back = read(tmp_path / "new" / "folder")
    assert back.tables["table_0"].rows == given.tables["table_0"].rows
    assert back.tables["table_1"].titles["value"] == "Value (€)"
    assert (back.charts, back.files, back.choices) == (given.charts, given.files, given.choices)
    assert back.settings == {"tau": 0.1, "gap": None, "start": 3}
    assert back.sentences == [Sentence("always"), Sentence("at 0.1", when={"tau": 0.1})]
    written = {name for name in os.listdir(tmp_path / "new" / "folder") if name[0] != "."}
    assert {*contents(given), "manifest.json"} == written


def test_json_holds_plain_values():
    class Thing:
        def __str__(self):
            return "a thing"

    given = {"inf": np.inf, "array": np.array([1.5, np.nan]), "flag": np.bool_(True), 1: (Thing(), Sentence("a"))}
    text = '{"inf": null, "array": [1.5, null], "flag": true, "1": ["a thing", {"text": "a", "when": {"x": 1}, "aside": false}]}'
    given[1][1].when["x"] = np.int64(1)
    assert to_json(MappingProxyType(given), indent=None) == text


@pytest.mark.parametrize("name", ["../x", "a/../../b", "/a", "a//b", "manifest.json", "RESULT.json", ".hidden", ""])
def test_names_of_files_stay_inside_the_folder(tmp_path, name):
    with pytest.raises(
        ArgumentError, match=r"^the name of a file must be a new relative path of letters, .*; choose another$"
    ):
        write(Result(kind="plan", title="t", files={name: b""}), tmp_path)


def test_columns_keep_their_types(tmp_path):
    rows = [{"flag": True, "count": 3, "share": 1.0, "code": "1.0"}, {"flag": None, "count": 4, "share": 2, "code": ""}]
    write(Result(kind="plan", title="t", tables={"all": ResultTable(rows)}), tmp_path)
    back = read(tmp_path).tables["all"].rows
    assert back == [rows[0], rows[1] | {"code": None}]  # an empty text is an empty field
    assert [type(value) for value in back[0].values()] == [bool, int, float, str]


NAMES = [
    "=1+1",
    "+49",
    "-5",
    "-1e3",
    "-x",
    "@SUM(A1)",
    "\t=1",
    "'=1",
    "''@",
    "'plain",
    "it's",
    "a=b",
    "\N{MINUS SIGN}5",
    "-",
]


def test_names_that_look_like_formulas_do_not_run_in_a_spreadsheet_and_read_back(tmp_path):
    """Once a state called =HYPERLINK(...) became a formula of the exported table."""
    table = ResultTable([{"=stage": name, "value": -2.5, "share": None} for name in NAMES])
    write(Result(kind="plan", title="t", tables={"all": table}), tmp_path)
    with open(tmp_path / "all.csv", newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    assert header[0] == "'=stage"
    assert {row[1] for row in rows} == {"-2.5"}
    for name, (cell, *_) in zip(NAMES, rows, strict=True):
        assert cell[0] not in "=+-@\t\r" or cell in ("+49", "-5", "-1e3"), name
    assert read(tmp_path).tables["all"].rows == table.rows


def test_a_model_keeps_names_that_look_like_formulas(tmp_path):
    """Models are read back by bqrl and other tools: their names stay as they are."""
    names = ["=1+1", "@x", "'=1", "-x"]
    lines = [(name, "+go", names[0], 1.0, -1.0) for name in names]
    columns = ("state", "action", "next_state", "probability", "reward")
    model = bqrl.MDP([dict(zip(columns, line, strict=True)) for line in lines], horizon=2, start="@x")
    model.save(tmp_path / "m.csv")
    back = bqrl.load(tmp_path / "m.csv")
    assert (back.state_names, back.action_names) == (model.state_names, model.action_names)


def test_a_result_of_another_version_is_one_line(tmp_path):
    write(make(1.0), tmp_path)
    contents = Folder(tmp_path).read()
    contents["result.json"] = contents["result.json"].replace(b'"version": 1', b'"version": 2')
    Folder(tmp_path).replace(contents)
    with pytest.raises(
        FileFormatError, match=r"result\.json cannot be read: version 2 is not 1; run the command again$"
    ):
        read(tmp_path)
