"""Rows of a table from any source: lines, separators, encodings, sheets and frames."""

import datetime
import gzip
import importlib

import pytest
from mdp_strategies import assert_same

import bqrl
from bqrl.errors import FileFormatError
from bqrl.mdp.columns import LOG, MODEL
from bqrl.mdp.files import sources
from bqrl.mdp.files.sources import is_frame, open_source

HEAD = "# horizon: 4\nstate,action,next_state,probability,reward\n"
TEXT = HEAD + "Well,wait,Well,0.75,5\nWell,wait,Sick,0.25,5\nSick,cure,Well,1,-2.5\n"
CELLS = [["# horizon: 4"], ["state", "action", "next_state", "probability", "reward"], ["Well", "wait", "Well", 0.75, 5], [],
         ["Well", "wait", "Sick", 0.25, 5], ["Sick", "cure", "Well", 1, -2.5], [None, ""]]  # fmt: skip
STEPS = [["episode", "state", "action", "reward"], [1, "a", "x", 0.5], [1, "b", "x", 1], [2, "a", "y", 2]]


def workbook(path, rows):
    """Write rows to the first sheet of an .xlsx file."""
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.create_sheet("notes").append(["not a table"])
    book.save(path)
    return path


@pytest.fixture(params=["python_calamine", "openpyxl"])
def reader(request, monkeypatch):
    """Read .xlsx files with one library."""
    pytest.importorskip(request.param)
    monkeypatch.setitem(sources.READERS, ".xlsx", (request.param,))


def rows_of(source):
    return [row for cells, _ in source.blocks for row in zip(*cells, strict=True)]


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_text_in_the_encodings_of_spreadsheets(tmp_path, encoding, ending):
    path = tmp_path / f"log.{ending}"
    with (gzip.open if ending.endswith("gz") else open)(path, "wb") as file:
        file.write(
            "sep=;\r\n# Gr\u00fc\u00dfe\r\n\r\nepisode;state\r\n1;Gr\u00fcn \u20ac\r\n;\r\n2;\u00c4rger\r\n".encode(
                encoding
            )
        )
    source = open_source(path, LOG)
    assert (source.header, source.line, source.sign) == (["episode", "state"], 4, ";")
    assert source.comments == [(2, "# Gr\u00fc\u00dfe")]
    (cells, lines) = next(source.blocks)
    assert ([cell.strip() for cell in cells[1]], lines.tolist()) == (["Gr\u00fcn \u20ac", "\u00c4rger"], [5, 7])


def test_blocks_keep_the_lines_of_quoted_cells(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "BLOCK", 2)
    (tmp_path / "log.csv").write_text('state,note\na,"one\ntwo"\n\nb,x\nc, "y, z"\n')
    blocks = list(open_source(tmp_path / "log.csv", LOG).blocks)
    assert [lines.tolist() for _, lines in blocks] == [[2, 5], [6]]
    assert blocks[1][0][1] == ("y, z",)


def test_a_model_in_a_sheet_is_the_model_of_the_text(tmp_path, reader):
    (tmp_path / "m.csv").write_text(TEXT)
    found = bqrl.load(workbook(tmp_path / "m.xlsx", CELLS))
    assert_same(found, bqrl.load(tmp_path / "m.csv"))
    assert found.H == 4
    assert_same(bqrl.load(tmp_path / "m.xlsx", horizon=7), bqrl.load(tmp_path / "m.csv", horizon=7))


def test_a_model_in_parquet_is_the_model_of_the_text(tmp_path):
    polars = pytest.importorskip("polars")
    (tmp_path / "m.csv").write_text(TEXT)
    polars.read_csv(tmp_path / "m.csv", skip_rows=1).write_parquet(tmp_path / "m.parquet")
    assert_same(bqrl.load(tmp_path / "m.parquet", horizon=4), bqrl.load(tmp_path / "m.csv"))


def test_a_log_in_a_sheet(tmp_path, reader):
    found = bqrl.fit(workbook(tmp_path / "log.xlsx", STEPS), reward_range=(0, 2))
    columns = dict(zip(STEPS[0], zip(*STEPS[1:], strict=True), strict=True))
    assert_same(found.mdp, bqrl.fit(columns, reward_range=(0, 2)).mdp)


def test_faults_in_a_sheet_have_the_row_of_the_sheet(tmp_path, reader):
    for cell, words in (
        ("much", "expected a number, got 'much'"),
        (None, "expected a number, got ''"),
        (
            datetime.datetime(2026, 5, 1),
            r"got datetime.date\(2026, 5, 1\); the cell holds a date, format it as a number",
        ),
    ):
        rows = [*CELLS[:5], [*CELLS[5][:4], cell]]
        with pytest.raises(FileFormatError, match=f"^m.xlsx: line 6, column 'reward': .*{words}") as caught:
            bqrl.load(workbook(tmp_path / "m.xlsx", rows))
        assert caught.value.line == 6


def test_dates_are_labels_and_formulas_their_stored_values(tmp_path, reader):
    """A formula that no program has computed yet has no value; it is not read as text."""
    day = datetime.datetime(2026, 5, 1)
    rows = [["episode", "state", "action", "reward"], [1, day, "x", 1], [2, datetime.datetime(2026, 5, 2, 12), "x", 2]]
    path = workbook(tmp_path / "log.xlsx", rows)
    assert [str(row[1]) for row in rows_of(open_source(path, LOG))] == ["2026-05-01", "2026-05-02 12:00:00"]
    with pytest.raises(FileFormatError, match=r"log.xlsx: line 4, column 'reward': expected a number, got ''"):
        bqrl.fit(workbook(path, [*rows, [3, day, "x", "=1+1"]]))


def test_a_file_of_another_kind_is_one_line(tmp_path, reader):
    (tmp_path / "m.xlsx").write_bytes(b"state,action")
    with pytest.raises(FileFormatError, match=r"^m.xlsx: expected an .xlsx file, got other content \(") as caught:
        bqrl.load(tmp_path / "m.xlsx")
    assert "\n" not in str(caught.value)
    with pytest.raises(FileFormatError, match=r"^m.xlsx: expected a header such as state.*, got an empty file$"):
        bqrl.load(workbook(tmp_path / "m.xlsx", []))


@pytest.mark.parametrize(("ending", "library"), [(".xlsx", "openpyxl"), (".parquet", "polars")])
def test_without_a_library_the_message_names_one(tmp_path, monkeypatch, ending, library):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    (tmp_path / f"m{ending}").write_bytes(b"x")
    words = f"^m{ending}: no reader of {ending} files is installed; pip install {library}, or save the table as .csv$"
    for read in (bqrl.load, bqrl.fit):
        with pytest.raises(ImportError, match=words):
            read(tmp_path / f"m{ending}")


@pytest.mark.parametrize(("thing", "answer"), [({}, True), ([{}], True), ([], False), ([1], False), ("m.csv", False)])
def test_what_a_frame_is(thing, answer):
    assert is_frame(thing) is answer


def test_messages_of_damaged_tables_stay_short():
    message = str(open_source({"state": []}, MODEL).error("x " * 1000, 17, column="p"))
    assert message.startswith("line 17, column 'p': x x")
    assert len(message) < 350
