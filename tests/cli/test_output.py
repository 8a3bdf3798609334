"""Text on terminals and in pipes."""

import re
import sys

import pytest
from helpers import TINY_CSV
from hypothesis import given
from hypothesis import strategies as st

from bqrl.cli import output
from bqrl.cli.output import PIPED_WIDTH, Command, column_widths, show
from bqrl.results.result import Result, ResultTable, Shown, read


def test_a_narrow_terminal_gets_one_line_per_number(cli, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = cli("solve", "AssetSelling", "--tau", 0.1, "--tau", 0.5)
    assert code == 0
    lines = re.sub(r"\x1b\[\d+m", "", out).splitlines()
    assert lines[0] == "AssetSelling: 26 states, 2 actions, 10 stages, start 5"
    assert "…" not in out
    for line in ("level: 0.1", "quantile: 0.791666", "upper bound: 0.958334", "margin below: 0.028"):
        assert line in lines
    assert max(map(len, lines[1:])) <= 40
    monkeypatch.setenv("COLUMNS", "80")  # headings in two lines, numbers whole
    out = re.sub(r"\x1b\[\d+m", "", cli("solve", "AssetSelling", "--tau", 0.1)[1])
    assert "0.1  0.791666" in out
    assert "0.708333" in out


LONG = "a " + "problem with a long name " * 8


def test_lines_end_without_blanks_and_titles_do_not_wrap(cli, tiny, tmp_path):
    path = tmp_path / f"{LONG}.csv"
    path.write_text(TINY_CSV)
    asked = ["--tau", 0.4, "--horizon", 3, "--secondary", "mean"]
    lines = cli("solve", path, *asked)[1].splitlines()
    assert lines[0] == f"{LONG}: 2 states, 2 actions, 3 stages, start 1"
    assert "below the best mean among policies with this guarantee" in "\n".join(lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_one_thing_is_not_called_several(cli, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text(f"{TINY_CSV.splitlines()[0]}\n0,0,0,1,1\n")
    assert cli("solve", path, "--tau", 0.4, "--horizon", 1)[1].startswith("one: 1 state, 1 action, 1 stage, start 0\n")


def test_a_command_ends_with_its_folder_its_text_and_what_was_left_out(capsys, tmp_path):
    result = Result(kind="plan", title="t", left_out=["no charts"])
    shown = {
        "header": "Head",
        "tables": [ResultTable([{"n": 1}], caption="Numbers."), ResultTable([])],
        "lines": ["One.", "Two."],
    }
    Command(out=tmp_path / "o").conclude(Shown({"n": 1}, result, **shown))
    out, err = capsys.readouterr()
    report = f"Wrote {tmp_path / 'o'}; `bqrl report {tmp_path / 'o'}` creates a page from it."
    assert out.splitlines() == ["Head", "Numbers.", "n", "─", "1", "", "One.", "Two.", report]
    assert err == "bqrl: no charts\n"
    assert read(tmp_path / "o").left_out == ["no charts"]
    Command(out=tmp_path / "o", as_json=True).conclude(Shown({"n": float("nan")}, result, **shown))
    assert capsys.readouterr() == ('{\n  "n": null\n}\n', "bqrl: no charts\n")
    Command().conclude(Shown({}, result, lines=["Done."]))  # without a folder nothing is written
    assert capsys.readouterr() == ("Done.\n", "")


def test_nothing_is_printed_if_the_folder_cannot_be_written(capsys, tmp_path):
    (tmp_path / "result.json").write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by bqrl"):
        Command(out=tmp_path, as_json=True).conclude(Shown({}, Result(kind="plan", title="t")))
    assert capsys.readouterr() == ("", "")


def test_a_long_text_is_broken_before_a_table_becomes_a_list(capsys):
    words = "one two three four five six seven eight nine ten " * 4
    show(tables=[ResultTable([{"problem": "A", "about": words}, {"problem": "B", "about": "short"}])])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) == PIPED_WIDTH
    assert [line.split()[0] for line in lines] == ["problem", "─" * PIPED_WIDTH, "A", "eight", "B"]


@given(
    st.lists(st.lists(st.text("ab 12", max_size=12), min_size=2, max_size=2), min_size=1, max_size=5),
    st.integers(1, 60),
)
def test_columns_break_no_word_and_use_the_room(columns, room):
    # Once 6000000000 was printed as 600000000 with a 0 below it.
    widths = column_widths(columns, room)
    words = [max((len(word) for text in column for word in text.split()), default=0) for column in columns]
    lines = [max(map(len, column)) for column in columns]
    assert bool(widths) == (sum(words) <= room)
    if widths:
        assert all(word <= width <= line for word, width, line in zip(words, widths, lines, strict=True))
        assert sum(widths) == min(room, sum(lines))


def test_numbers_stay_whole_at_every_width(capsys, monkeypatch):
    row = {"upper bound (USD)": 6_000_000_000, "mean (USD)": 10_928_687_626, "risk-neutral (USD)": 5_000_000_000}
    for width in range(20, 70):
        monkeypatch.setattr(output, "PIPED_WIDTH", width)
        show(tables=[ResultTable([row])])
        printed = capsys.readouterr().out
        assert all(str(value) in printed for value in row.values()), width
