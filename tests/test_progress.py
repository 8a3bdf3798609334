"""The progress display: at a terminal only, after two seconds, the same for commands and for Python callers."""

import io
import json
import os
import re
import sys
import time

import pytest
from rich.console import Console
from small_study import Heard, make

import bqrl
from bqrl.errors import ArgumentTypeError
from bqrl.learners.run import Run
from bqrl.progress import ProgressBar
from bqrl.study.runner import Engine


def pretend_terminal(monkeypatch):
    """Standard error looks like a terminal, and the display appears at once."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr("bqrl.progress.QUIET_SECONDS", 0.0)


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
    monkeypatch.setattr("bqrl.progress.QUIET_SECONDS", 0.0)
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
    pretend_terminal(monkeypatch)
    code, out, err = cli("solve", tiny, "--tau", 0.4, "--json", "--out", os.path.dirname(tiny))
    assert code == 0
    assert json.loads(out)["levels"][0]["value"] == 2.0
    assert " elapsed" in err


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
    monkeypatch.setattr("bqrl.progress.QUIET_SECONDS", 0.0)
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
    monkeypatch.setattr("bqrl.progress.time.monotonic", lambda: clock[0])
    watch = ProgressBar()
    watch.phase("planning", 4)
    clock[0] += 30.0
    watch.tick()
    (line,) = display(watch)
    assert line.startswith("planning  ━")
    assert line.endswith("  30 s elapsed, about 1 min 30 s left")


def test_learn_shows_its_episodes(monkeypatch, capsys):
    pretend_terminal(monkeypatch)
    bqrl.learn("SafeOrRisky", "sarsa", tau=0.5, episodes=5, seed=1, progress=True)
    assert "sarsa, 0.5-quantile" in capsys.readouterr().err
    bqrl.learn("SafeOrRisky", "sarsa", tau=0.5, episodes=5, seed=1, progress=False)
    assert capsys.readouterr().err == ""
    with pytest.raises(ArgumentTypeError, match="progress must be True or False, got 'yes'"):
        bqrl.learn("SafeOrRisky", "sarsa", tau=0.5, episodes=5, seed=1, progress="yes")
