"""Text on terminals and in pipes."""

import io
import json
import os
import re
import sys
import time

import pytest
from helpers import TINY_CSV
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from small_study import Heard, make

from bqrl.cli import output
from bqrl.cli.output import PIPED_WIDTH, Command, ProgressBar, column_widths, show
from bqrl.learners.run import Run
from bqrl.results.result import Result, ResultTable, read
from bqrl.study.runner import Engine


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
    Command(out=tmp_path / "o").conclude({"n": 1}, result, **shown)
    out, err = capsys.readouterr()
    report = f"Wrote {tmp_path / 'o'}; `bqrl report {tmp_path / 'o'}` creates a page from it."
    assert out.splitlines() == ["Head", "Numbers.", "n", "─", "1", "", "One.", "Two.", report]
    assert err == "bqrl: no charts\n"
    assert read(tmp_path / "o").left_out == ["no charts"]
    Command(out=tmp_path / "o", as_json=True).conclude({"n": float("nan")}, result, **shown)
    assert capsys.readouterr() == ('{\n  "n": null\n}\n', "bqrl: no charts\n")
    Command().conclude({}, result, lines=["Done."])  # without a folder nothing is written
    assert capsys.readouterr() == ("Done.\n", "")


def test_nothing_is_printed_if_the_folder_cannot_be_written(capsys, tmp_path):
    (tmp_path / "result.json").write_text("mine")
    with pytest.raises(FileExistsError, match="was not written by bqrl"):
        Command(out=tmp_path, as_json=True).conclude({}, Result(kind="plan", title="t"))
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


# -- progress ------------------------------------------------------------------------------------------------------------


def test_the_progress_bar_shows_only_at_a_terminal(capsys, monkeypatch):
    with ProgressBar() as watch:  # captured stderr is no terminal
        watch.say("about 40 s")
        watch.phase("planning", 3)
        watch.tick()
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    with ProgressBar() as watch:
        watch.phase("planning", 3)
    assert "planning" not in capsys.readouterr().err  # nothing within the first two seconds
    monkeypatch.setattr("bqrl.cli.output.QUIET_SECONDS", 0.0)
    with ProgressBar() as watch:
        watch.say("about 40 s")
        watch.phase("planning", 3)
        watch.tick()
    err = capsys.readouterr().err
    assert "about 40 s" in err
    assert "planning" in err


def test_warnings_are_shown_without_a_terminal(capsys):
    with ProgressBar() as watch:
        watch.say("runs/x.npz: the file is damaged; the run is repeated", detail=-1)
    assert capsys.readouterr().err == "runs/x.npz: the file is damaged; the run is repeated\n"


def test_json_keeps_stdout_pure_while_stderr_shows_progress(cli, tiny, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("bqrl.cli.output.QUIET_SECONDS", 0.0)
    code, out, err = cli("solve", tiny, "--tau", 0.4, "--json", "--out", os.path.dirname(tiny))
    assert code == 0
    assert json.loads(out)["levels"][0]["value"] == 2.0
    assert " elapsed" in err


def pretend_terminal(monkeypatch):
    """Standard error looks like a terminal, and the display appears at once."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("bqrl.cli.output.QUIET_SECONDS", 0.0)


@pytest.mark.parametrize("more", [[], ["--json"]], ids=["", "json"])
def test_the_bar_of_a_learner_counts_episodes_within_a_run(cli, tiny, monkeypatch, more):
    pretend_terminal(monkeypatch)
    shares, step, episodes = [], Run.step, Engine.episodes

    def slow(run):
        time.sleep(0.002)
        return step(run)

    monkeypatch.setattr(Run, "step", slow)

    def look(engine):
        shares.append(episodes(engine))
        return shares[-1]

    monkeypatch.setattr(Engine, "episodes", look)
    code, _, err = cli("learn", tiny, "--tau", 0.4, "--episodes", 400, "--seeds", 1, *more)
    assert code == 0
    assert {total for _, total in shares} == {400}
    done = [count for count, _ in shares]
    assert done == sorted(done)
    assert any(0 < count < 400 for count in done)  # one run, and the bar moves before its end
    assert "PSRL" in err


def test_a_learner_without_a_terminal_shows_no_progress(cli, tiny):
    for more in ([], ["--json"]):
        assert cli("learn", tiny, "--tau", 0.4, "--episodes", 40, "--seeds", 2, *more)[2] == ""


def display(watch, width=150):
    """The lines of the display."""
    console = Console(file=io.StringIO(), width=width)
    console.print(watch.get_renderable())
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_the_display_of_a_study_shows_jobs_runs_and_time(study_file, tmp_path, monkeypatch):
    monkeypatch.setattr("bqrl.cli.output.QUIET_SECONDS", 0.0)
    seen = []

    class Look(Heard):
        def show(self, state):
            if state.made in (1, 60):
                watch = ProgressBar()
                watch.show(state)
                seen.append(display(watch))
                assert len(display(watch, 70)) == len(seen[-1])  # one line per job on narrow screens, too

    make(study_file, tmp_path, watch=Look())
    assert seen[0][0].endswith(" elapsed")  # nothing about the rest before there is evidence
    assert seen[-1][0].endswith(" left")
    job = next(line for line in seen[-1] if line.startswith("UCB-BQRL, tau 0.2"))
    assert re.search(r"━ +\d+/\d+ runs, \w+.*; best so far: ", job)


def test_the_rest_of_a_phase_follows_from_its_steps(monkeypatch):
    pretend_terminal(monkeypatch)
    clock = [100.0]
    monkeypatch.setattr("bqrl.cli.output.time.monotonic", lambda: clock[0])
    watch = ProgressBar()
    watch.phase("planning", 4)
    clock[0] += 30.0
    watch.tick()
    (line,) = display(watch)
    assert line.startswith("planning  ━")
    assert line.endswith("  30 s elapsed, about 1 min 30 s left")
