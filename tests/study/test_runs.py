"""One run: its name, its times, and the episodes that it counts while it is played."""

from dataclasses import replace

import numpy as np
import pytest

import bqrl
from bqrl.study import runs
from bqrl.study.problems import problem_of
from bqrl.study.runs import RunSpec, complete, execute
from bqrl.study.workers import PLAYED

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
RUN = RunSpec(PROBLEM, "q-learning", {}, 0.5, 20, 0.05, 7)


def test_a_run_is_what_learn_makes_and_its_times_are_positive():
    record, timing = complete(RUN.start())
    same = bqrl.learn(PROBLEM.build(), "q-learning", tau=0.5, episodes=20, seed=7)
    np.testing.assert_array_equal(record.returns, same.returns)
    assert 0.0 < timing.episode * 20 <= 3.0 * timing.wall


def test_callbacks_receive_every_episode():
    seen = []
    record, _ = complete(RUN.start(), lambda t, numbers: seen.append((t, numbers["return"])))
    assert seen == list(enumerate(record.returns.tolist()))


def test_episodes_are_counted_while_a_run_is_played(monkeypatch):
    monkeypatch.setattr(runs, "TICK_SECONDS", -1.0)
    counts = []
    complete(RUN.start(), lambda t, numbers: counts.append(PLAYED.count.value))
    assert counts == list(range(20))
    assert PLAYED.count.value == 0  # a finished run is counted by whoever asked for it

    def stop(t, numbers):
        raise KeyError(t)

    with pytest.raises(KeyError):
        complete(RUN.start(), stop)
    assert PLAYED.count.value == 0


def test_other_code_or_format_gives_another_name(monkeypatch):
    before = RUN.name
    assert replace(RUN, code="another").name != before
    monkeypatch.setattr(runs, "FORMAT", 99)
    assert RUN.name != before


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
