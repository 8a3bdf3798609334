"""What several test files share: a line on standard error, strict JSON, a page that closes its tags, a small environment,
the data of a chart, and rows for the loops."""

import csv
import io
import json
from fnmatch import fnmatchcase
from html.parser import HTMLParser

import gymnasium as gym
import numpy as np
import pytest

from bqrl.loops.layout import Rows
from bqrl.mdp.arrays import read_only

SHORT = ("--episodes", 25, "--seeds", 2)  # of learn and compare
VOID = {"meta", "img", "br", "input"}

# Safe pays 1; risky pays 3 or nothing. Two rounds: at tau = 0.4 two safe rounds (2) are beaten by a coin at the end.
TINY = {
    "horizon": 2,
    "start": "<in>",
    "states": ["<in>", "out"],
    "actions": ["safe", "risky"],
    "transitions": [
        ["<in>", "safe", "<in>", 1.0, 1.0],
        ["<in>", "risky", "<in>", 0.5, 3.0],
        ["<in>", "risky", "out", 0.5, 0.0],
        ["out", "safe", "out", 1.0, 1.0],
    ],
}

# The same problem by ids from 1, as other tools write it.
TINY_CSV = """idstatefrom,idaction,idstateto,probability,reward
1,1,1,1.0,1.0
1,2,1,0.5,3.0
1,2,2,0.5,0.0
2,1,2,1.0,1.0
"""


def one_line(err):
    return err.startswith("bqrl: ") and err.count("\n") == 1 and "Traceback" not in err


def assert_refused(answer, phrase):
    """A command ended with exit code 2 and one line on standard error that holds the phrase."""
    code, out, err = answer
    assert (code, out) == (2, "")
    assert one_line(err), err
    assert phrase in err


def strict(text):
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def not_announced(names, patterns):
    """The names of files that match none of the patterns."""
    return {name for name in names if not any(fnmatchcase(name, pattern) for pattern in patterns)}


class Checked(HTMLParser):
    """Fails where tags do not close in order; collects tags, links and text."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.links, self.words = [], [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


class Corridor(gym.Env):
    """Three places in a row, no table: each step forward is by chance, the end pays."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return 0, {}

    def step(self, action):
        self.place += int(self.np_random.random() < (0.9 if action else 0.2))
        return min(self.place, 2), float(self.place >= 2), self.place >= 2, False, {}


def assert_one_line(call, exception, message, column=...):
    """The call raises the exception with a message of one line that holds the phrase; `column` is that of the error."""
    with pytest.raises(exception) as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert column is ... or caught.value.column == column


def chart_values(spec, layer=None):
    """Rows of the data of a chart, or of one of its layers."""
    part = spec if layer is None else spec["layer"][layer]
    data = part.get("data", spec.get("data"))  # layers with the same data share it
    kinds = data["format"]["parse"]
    return [
        {key: float(text) if kinds[key] == "number" else text for key, text in row.items()}
        for row in csv.DictReader(io.StringIO(spec["datasets"][data["name"]]))
    ]


def colours_of(spec):
    """The colour of every label of a chart, of all its layers."""
    found = {}
    for part in spec.get("layer", [spec]):
        scale = part.get("encoding", {}).get("color", {}).get("scale") or {}
        found |= dict(zip(scale.get("domain", ()), scale.get("range", ()), strict=False))
    return found


# A learner in a file of its own, which plays one action.
OWN = """
import numpy as np

import bqrl


class Mine(bqrl.Learner):
    name = "mine"

    def __init__(self, task, rng, action=0):
        super().__init__(task, rng)
        self.action = action

    def plan(self):
        return np.full((self.task.H, self.task.S), self.action)

    def observe(self, episode):
        pass
"""


def stage_rows(start, successor, probability):
    """Rows in the form in which the planners pass them, so that no loop is compiled for tests alone."""
    return Rows(read_only(start), read_only(successor.astype(np.int32)), read_only(probability))
