"""Text on terminals and in pipes."""

import re
import sys

from helpers import TINY_CSV


def test_a_narrow_terminal_gets_one_line_per_number(cli, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")
    code, out, _ = cli("solve", "AssetSelling", "--tau", 0.1, "--tau", 0.5)
    assert code == 0
    lines = re.sub(r"\x1b\[\d+m", "", out).splitlines()
    assert lines[0] == "AssetSelling: 26 states, 2 actions, 10 stages, start 5"
    assert "…" not in out
    for line in ("level: 0.1", "quantile: 0.791667", "upper bound: 0.958333", "margin below: 0.028"):
        assert line in lines
    assert max(map(len, lines[1:])) <= 40
    monkeypatch.setenv("COLUMNS", "80")  # headings in two lines, numbers whole
    out = re.sub(r"\x1b\[\d+m", "", cli("solve", "AssetSelling", "--tau", 0.1)[1])
    assert "0.1  0.791667" in out
    assert "0.708333" in out


LONG = "a " + "problem with a long name " * 8


def test_lines_end_without_blanks_and_titles_do_not_wrap(cli, tiny, tmp_path):
    path = tmp_path / f"{LONG}.csv"
    path.write_text(TINY_CSV)
    asked = ["--tau", 0.4, "--horizon", 3, "--secondary", "mean"]
    lines = cli("solve", path, *asked)[1].splitlines()
    assert lines[0] == f"{LONG}: 2 states, 2 actions, 3 stages, start 1"
    assert "  best mean among 0.4-optimal policies" in "\n".join(lines)
    assert not [line for line in lines if line != line.rstrip()]


def test_one_thing_is_not_called_several(cli, tmp_path):
    path = tmp_path / "one.csv"
    path.write_text(f"{TINY_CSV.splitlines()[0]}\n0,0,0,1,1\n")
    assert cli("solve", path, "--tau", 0.4, "--horizon", 1)[1].startswith("one: 1 state, 1 action, 1 stage, start 0\n")
