"""One run: its name, its times, and the episodes that it counts while it is played."""

from dataclasses import replace

import numpy as np
import pytest

import bqrl
from bqrl.learners.run import Run
from bqrl.study import runs
from bqrl.study.problems import problem_of
from bqrl.study.runs import RunSpec, complete, execute
from bqrl.study.workers import PLAYED

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
RUN = RunSpec(problem=PROBLEM, learner="q-learning", params={}, tau=0.5, episodes=20, delta=0.05, seed=7)


def test_a_run_is_what_learn_makes_and_its_times_are_positive():
    record, timing = complete(RUN.start())
    same = bqrl.learn(PROBLEM.build(), "q-learning", tau=0.5, episodes=20, seed=7)
    np.testing.assert_array_equal(record.returns, same.returns)
    assert 0.0 < timing.episode * 20 <= 3.0 * timing.wall


class Counted(Run):
    """A run that looks at the counter before each episode, and fails at one of them."""

    def __init__(self, fails_at=-1):
        super().__init__(PROBLEM.build(), "q-learning", 0.5, 20, 7)
        self.fails_at, self.counts = fails_at, []

    def step(self, wanted=False):
        self.counts.append(PLAYED.count.value)
        if self.t == self.fails_at:
            raise KeyError(self.t)
        return super().step(wanted)


def test_episodes_are_counted_while_a_run_is_played():
    run = Counted()
    complete(run)
    assert run.counts == list(range(20))
    assert PLAYED.count.value == 0  # a finished run is counted by whoever asked for it
    with pytest.raises(KeyError):
        complete(Counted(fails_at=3))
    assert PLAYED.count.value == 0


def test_other_code_or_format_gives_another_name(monkeypatch):
    before = RUN.name
    assert replace(RUN, code="another").name != before
    monkeypatch.setattr(runs, "FORMAT", 99)
    assert RUN.name != before


@pytest.mark.parametrize(
    ("table", "digest"),
    [
        ({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1}, "4c95c5a3f9bb0e24ee04e4cfeb52790e"),
        ({"file": "m.csv", "discount": 0.9}, "8aa79378dda6cdd5dfadf632530107f2"),
        ({"hard": {"tau": 0.5, "rho": 0.05, "actions": 3, "horizon": 4}}, "67ea9c9f73dee67ca60d807889928294"),
        (
            {"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[1.0], [0.0]], "horizon": 3},
            "d36224fbbdd7e1594380449fbdadcf8b",
        ),
    ],
)
def test_names_of_stored_runs_stay_as_they_are(table, digest, tmp_path):
    """Other names would make the stored runs of every user useless."""
    (tmp_path / "m.csv").write_bytes(b"content")
    problem = problem_of(table, tmp_path)
    run = RunSpec(
        problem=problem,
        learner="ucb-bqrl",
        params={"planner": "greedy"},
        tau=0.5,
        episodes=20,
        delta=0.05,
        seed=7,
        code="code",
    )
    assert run.name == f"ucb-bqrl_20_7_{digest}"


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
