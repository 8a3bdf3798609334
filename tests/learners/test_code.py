"""The digest of a learner's code changes with whatever can change its runs, and with nothing else."""

import os
import subprocess
import sys

import pytest

import bqrl
from bqrl.learners.code import learner_code, load_learner
from bqrl.learners.registry import LEARNERS, find_learner
from bqrl.versions import fingerprint, versions

SOURCE = '''
import functools
import bqrl
import numba
import numpy as np
import near
from near import shift

RATE, TABLE, NAMES = 0.5, np.arange(3.0), {"a", "b", "c"}

@numba.njit
def compiled(x):
    return x + 1

def outer(x):
    return shift(x) + near.LATER

class Base(bqrl.Learner):
    SCALE = 2.0

    @property
    def half(self):
        return 0.5

class Mine(Base):
    """A learner."""

    def __init__(self, task, rng, explore=3):
        super().__init__(task, rng)

    @staticmethod
    def fixed():
        return 11

    @functools.lru_cache
    def kept(self):
        return 12

    def plan(self):
        inner = lambda: RATE  # noqa
        return compiled(1), outer(2), TABLE, inner(), "a" in NAMES

    def observe(self, episode):
        pass

class Unused:
    pass
'''


@pytest.fixture
def digest(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])

    def of(old="", new="", near="LATER = 1\n\ndef shift(x):\n    return x + 7\n"):
        (tmp_path / "near.py").write_text(near)
        (tmp_path / "own.py").write_text(SOURCE.replace(old, new, 1))
        sys.modules.pop("near", None)
        return learner_code(load_learner("own.py:Mine", tmp_path))

    yield of
    sys.modules.pop("near", None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x + 1", "x + 2"), ("shift(x)", "shift(2 * x)"), ("= 0.5, np", "= 0.6, np"), ("np.arange(3.0)", "np.arange(4.0)"),
        ('"c"}', '"d"}'), ("SCALE = 2.0", "SCALE = 3.0"), ("return 0.5", "return 0.25"), ("explore=3", "explore=4"),
        ("return 11", "return 13"), ("return 12", "return 13"), ('"a" in NAMES', '"a" not in NAMES'),
    ],
)  # fmt: skip
def test_a_change_of_the_code_changes_the_digest(digest, old, new):
    assert old in SOURCE
    assert digest() != digest(old, new)


@pytest.mark.parametrize(
    ("old", "new"), [("# noqa", "# why"), ("class Unused", "# c\nclass Other"), ("\n\n", "\n\n\n")]
)
def test_other_changes_of_the_file_do_not_change_it(digest, old, new):
    assert digest() == digest(old, new)


def test_a_module_beside_the_file_counts(digest):
    assert digest() != digest(near="LATER = 1\n\ndef shift(x):\n    return x + 8\n")
    assert digest() != digest(near="LATER = 2\n\ndef shift(x):\n    return x + 7\n")


def test_the_digest_is_the_same_in_every_process(digest, tmp_path):
    """Sets are listed in an order that differs between processes."""
    script = "from bqrl.learners.code import *\nprint(learner_code(load_learner('own.py:Mine')))"
    first = digest()
    for seed in ("1", "2"):
        found = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        )  # fmt: skip
        assert found.stdout.strip() == first


def test_learners_of_the_library_have_its_fingerprint_alone():
    assert {learner_code(learner) for learner in LEARNERS.values()} == {""}
    assert versions()["code"] == fingerprint()
    assert find_learner("bqrl.learners.sarsa:Sarsa") is LEARNERS["sarsa"]


def test_closures_and_functions_are_learners_with_a_digest():
    def maker(rate):
        return lambda task, rng: LEARNERS["sarsa"](task, rng, learning_rate=rate)

    assert learner_code(maker(0.1)) == learner_code(maker(0.1)) != learner_code(maker(0.2))
    assert bqrl.learn("SafeOrRisky", maker(0.1), episodes=2, seed=1).settings["code"] == learner_code(maker(0.1))
