"""Facts above the header: known keys, comments, and slips of the pen."""

import pytest

from bqrl.errors import FileFormatError, ModelWarning
from bqrl.mdp.files.facts import parse_start, read_facts


def test_facts_are_read_and_comments_are_not():
    found = read_facts([(1, "# a model of illness"), (2, "# Horizon: 7"), (4, "## start = Well=0,8; Sick=0,2")])
    assert found == {"horizon": 7, "start": {"Well": 0.8, "Sick": 0.2}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("# horizn: 7", "line 3: expected a known key, got 'horizn'; did you mean 'horizon'?"),
        ("# horizon: many", "line 3: horizon must be a whole number, got 'many'"),
        ("# units: EUR", "line 3: expected each key once, got 'units' twice"),
    ],
)
def test_a_bad_fact_names_its_line(text, words):
    with pytest.raises(FileFormatError) as caught:
        read_facts([(1, "# units: EUR"), (3, text)])
    assert (str(caught.value), caught.value.line) == (words, 3)


def test_a_comment_that_may_be_a_fact_is_told_unless_quiet():
    with pytest.warns(ModelWarning, match=r"line 1: '# gamma: 0\.9' is read as a comment; did you mean # discount: "):
        assert read_facts([(1, "# gamma: 0.9")]) == {}
    assert read_facts([(1, "# gamma: 0.9")], quiet=True) == {}  # warnings are errors


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("Well", "Well"),
        ("Well=0.8, Sick=0.2", {"Well": 0.8, "Sick": 0.2}), ("a=b", "a=b"), ("x=50%,y=50 %", {"x": 0.5, "y": 0.5}),
    ],
)  # fmt: skip
def test_a_start_is_a_state_or_a_law(text, start):
    assert parse_start(text) == start
