"""Progress: a line for a person who waits, and nothing for a file."""

import io

import pytest

import bqrl.mdp.progress
from bqrl import from_step
from bqrl.mdp.progress import Progress


class Terminal(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self):
        return True


@pytest.mark.parametrize(("stream", "shown"), [(Terminal(), True), (io.StringIO(), False)])
def test_a_long_search_for_states_is_shown_to_a_person(monkeypatch, stream, shown):
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(bqrl.mdp.progress, "PATIENCE", 0.0)
    from_step(lambda s, a, e: (min(s + a * e, 9), 0.0), [0, 1, 2], {0: 0.5, 1: 0.5}, 6, 0)
    assert ("states" in stream.getvalue()) == shown
    assert stream.getvalue().endswith("\r\x1b[K") == shown  # the line is removed at the end


def test_nothing_is_said_before_two_seconds_and_then_twice_per_second(monkeypatch):
    now = [10.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with Progress("counting") as progress:
        for now[0] in (10.1, 11.9, 12.0, 12.1, 12.4, 12.6):
            progress.say(f"at {now[0]}")
    assert stream.getvalue() == "\r\x1b[Kcounting: at 12.0\r\x1b[Kcounting: at 12.6\r\x1b[K"
