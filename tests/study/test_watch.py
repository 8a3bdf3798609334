"""Durations in words, and a watch that does nothing."""

import pytest

from bqrl.study.watch import Watch, in_words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (75, "1 min 15 s"),
        (3599.4, "59 min 59 s"),
        (4000, "1 h 7 min"),
    ],
)
def test_durations(seconds, words):
    assert in_words(seconds) == words


def test_the_plain_watch_takes_everything_and_says_nothing(capsys):
    watch = Watch()
    watch.say("a")
    watch.say("b", detail=2)
    watch.phase("d", 3)
    watch.tick()
    watch.show(None)
    assert capsys.readouterr() == ("", "")


def test_tracked_items_are_steps_of_a_phase():
    seen = []

    class Look(Watch):
        def phase(self, text, total=None):
            seen.append((text, total))

        def tick(self):
            seen.append("tick")

    assert list(Look().track([3, 4], "planning")) == [3, 4]
    assert list(Look().track([5], "planning")) == [5]
    assert seen == [("planning", 2), "tick", "tick", ("planning", None), "tick"]
