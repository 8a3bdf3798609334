"""The forecast of the time left."""

import pytest
from small_study import RUNS, Heard, make

from bqrl.study.problems import problem_of
from bqrl.study.runner import Engine
from bqrl.study.runs import RunSpec, Timing
from bqrl.study.time_left import Job, seconds_left
from bqrl.study.watch import Watch
from bqrl.study.workers import Workers

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
RUN = RunSpec(problem=PROBLEM, learner="sarsa", params={}, tau=0.5, episodes=10, delta=0.05, seed=0)


def job(runs):
    return Job(label="job", steps=iter(()), total_runs=runs, total_episodes=10 * runs)


def test_the_time_left_knows_the_cost_of_each_learner():
    cheap, dear = jobs = job(4), job(2)
    assert seconds_left(jobs, 0, 9.0, 2) is None  # no evidence yet
    cheap.count(RUN, Timing(9.0, 0.1))
    assert seconds_left(jobs, 0, 9.0, 2) is None  # nothing is known about the other learner
    dear.count(RUN, Timing(9.0, 2.0))
    assert seconds_left(jobs, 0, 9.0, 2) == pytest.approx((30 * 0.1 + 10 * 2.0) / 2)
    assert seconds_left(jobs, 5, 9.0, 2) == pytest.approx((30 * 0.1 + 10 * 2.0 - 5 * 0.1) / 2)
    dear.over = True
    assert seconds_left(jobs, 5, 9.0, 2) == pytest.approx((30 - 5) * 0.1 / 2)


def test_a_single_learner_is_forecast_from_its_unfinished_run():
    assert seconds_left([job(2)], 0, 8.0, 2) is None
    assert seconds_left([job(2)], 4, 8.0, 2) == pytest.approx(8.0 * (20 - 4) / 4)
    assert seconds_left([job(2)], 4, 1.0, 2) is None  # too early to say


def test_the_engine_knows_the_episodes_of_unfinished_runs(monkeypatch):
    class Playing(Workers):
        def played(self):
            return 4

    engine = Engine([job(2)], None, Playing(), Watch())
    monkeypatch.setattr(Engine, "seconds", 8.0)
    assert engine.episodes() == (4, 20)
    assert engine.seconds_left() == pytest.approx(8.0 * (20 - 4) / 4)


def test_the_first_estimate_of_the_time_left_is_near_the_truth(study_file, tmp_path):
    estimates = []

    class Look(Heard):
        def show(self, engine):
            left = engine.seconds_left()
            if left is not None and engine.made < RUNS:
                estimates.append((engine.seconds, left))

    study = make(study_file, tmp_path, watch=Look())
    begun, first = estimates[0]
    rest = study.session["seconds"] - begun
    assert begun < study.session["seconds"]
    assert first < 3.0 * rest + 1.0  # compilation does not enter, so the first estimate is not far too long
