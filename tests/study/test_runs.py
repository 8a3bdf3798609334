"""One run: its name, its times, and the episodes that it counts while it is played."""

from dataclasses import replace

import numpy as np
import pytest

import bqrl
from bqrl.learners.run import Run
from bqrl.mdp.files.npz import pack, unpack
from bqrl.study import runs
from bqrl.study.problems import problem_of
from bqrl.study.runs import RunSpec, execute, from_bytes, to_bytes
from bqrl.study.workers import PLAYED

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
RUN = RunSpec(problem=PROBLEM, learner="q-learning", params={}, tau=0.5, episodes=20, delta=0.05, seed=7)


def test_a_run_is_what_learn_makes_and_its_times_are_positive():
    record, timing = execute(RUN)
    same = bqrl.learn(PROBLEM.model, "q-learning", tau=0.5, episodes=20, seed=7)
    np.testing.assert_array_equal(record.returns, same.returns)
    assert 0.0 < timing.episode
    assert 0.0 < timing.core


class Counted(Run):
    """A run that looks at the counter before each episode, and fails at one of them."""

    def __init__(self, fails_at=-1):
        super().__init__(PROBLEM.model, "q-learning", 0.5, 20, 7)
        self.fails_at, self.counts = fails_at, []

    def step(self, wanted=False):
        self.counts.append(PLAYED.count.value)
        if self.t == self.fails_at:
            raise KeyError(self.t)
        return super().step(wanted)


def test_episodes_are_counted_while_a_run_is_played(monkeypatch):
    run = Counted()
    monkeypatch.setattr(RunSpec, "start", lambda _: run)
    execute(RUN)
    assert run.counts == list(range(20))
    assert PLAYED.count.value == 0  # a finished run is counted by whoever asked for it
    monkeypatch.setattr(RunSpec, "start", lambda _: Counted(fails_at=3))
    with pytest.raises(KeyError):
        execute(RUN)
    assert PLAYED.count.value == 0


def test_other_code_or_format_gives_another_name(monkeypatch):
    before = RUN.name
    assert replace(RUN, code="another").name != before
    monkeypatch.setattr(runs, "FORMAT", 99)
    assert RUN.name != before


def test_the_name_of_a_stored_run_stays_as_it_is():
    """Another name would make the stored runs of every user useless."""
    problem = problem_of({"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[1.0], [0.0]], "horizon": 3})
    run = replace(RUN, problem=problem, learner="ucb-bqrl", params={"planner": "greedy"}, code="code")
    assert run.name == "ucb-bqrl_20_7_633ee3f3f6d1d05ff6fb3a50cce5aab4"


def test_the_fingerprint_follows_the_code(monkeypatch, tmp_path):
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/law.py").write_text("x = 1\n")
    monkeypatch.setattr(bqrl, "__file__", str(tmp_path / "__init__.py"))
    first = runs.fingerprint.__wrapped__()
    (tmp_path / "kernels/law.py").write_text("x = 2\n")
    assert runs.fingerprint.__wrapped__() != first


def test_a_worker_with_other_code_refuses():
    with pytest.raises(RuntimeError, match=r"the study was started by 0\.0\.0\+other; install the same version"):
        execute(replace(RUN, code="0.0.0+other"))


@pytest.fixture(scope="module")
def content():
    return to_bytes(RUN, execute(RUN)[0])


def same(one, two):
    return one.keys() == two.keys() and all(
        (one[name].dtype, one[name].shape, one[name].tobytes())
        == (two[name].dtype, two[name].shape, two[name].tobytes())
        for name in one
    )


def test_a_flipped_byte_is_noticed_or_changes_nothing(content):
    """The checksums of the archive cover every array; flips in its directory can hide arrays, whose names are stored."""
    whole, noticed = from_bytes(RUN, content).arrays(), 0
    for place in [*range(0, len(content), 97), *range(content.index(b"PK\x01\x02"), len(content), 3)]:
        damaged = bytearray(content)
        damaged[place] ^= 1
        try:
            assert same(from_bytes(RUN, bytes(damaged)).arrays(), whole), place
        except ValueError:
            noticed += 1
    assert noticed > 100


def test_lost_arrays_and_truncation_are_noticed(content):
    arrays = unpack(content)
    for name in arrays:
        with pytest.raises(ValueError, match="does not hold the result of this run"):
            from_bytes(RUN, pack({key: array for key, array in arrays.items() if key != name}))
    for size in range(0, len(content), 97):
        with pytest.raises(ValueError, match="expected"):
            from_bytes(RUN, content[:size])
