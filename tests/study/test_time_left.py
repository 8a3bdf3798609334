"""Progress of jobs, and the time left."""

import pytest
from small_study import RUNS, Heard, make

from bqrl.study.problems import problem_of
from bqrl.study.runs import RunSpec, Timing
from bqrl.study.time_left import Job, Progress
from bqrl.study.workers import Workers

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})


def spec(learner, seed):
    return RunSpec(PROBLEM, learner, {}, 0.5, 10, 0.05, seed)


def job(learner, seeds):
    return Job(label=learner, steps=iter(()), total_runs=len(seeds), total_episodes=10 * len(seeds))


class Playing(Workers):
    """Two workers that have played some episodes of unfinished runs."""

    size, episodes = 2, 0

    def played(self):
        return self.episodes


def test_the_time_left_knows_the_cost_of_each_learner():
    cheap, dear = job("sarsa", range(4)), job("psrl", range(2))
    progress = Progress([cheap, dear], Playing())
    assert progress.seconds_left() is None  # no evidence yet
    cheap.count(spec("sarsa", 0), Timing(9.0, 9.0, 0.1))
    assert progress.seconds_left() is None  # nothing is known about the other learner
    dear.count(spec("psrl", 0), Timing(9.0, 9.0, 2.0))
    assert progress.seconds_left() == pytest.approx((30 * 0.1 + 10 * 2.0) / 2)
    progress.workers.episodes = 5
    assert progress.seconds_left() == pytest.approx((30 * 0.1 + 10 * 2.0 - 5 * 0.1) / 2)
    dear.over = True
    assert progress.seconds_left() == pytest.approx((30 - 5) * 0.1 / 2)


def test_a_single_learner_is_forecast_from_its_unfinished_run(monkeypatch):
    progress = Progress([job("sarsa", range(2))], Playing())
    monkeypatch.setattr(Progress, "seconds", 8.0)
    assert progress.seconds_left() is None
    progress.workers.episodes = 4
    assert progress.seconds_left() == pytest.approx(8.0 * (20 - 4) / 4)
    assert progress.episodes() == (4, 20)
    monkeypatch.setattr(Progress, "seconds", 1.0)
    assert progress.seconds_left() is None  # too early to say


def test_the_first_estimate_of_the_time_left_is_near_the_truth(study_file, tmp_path):
    estimates = []

    class Look(Heard):
        def show(self, state):
            left = state.seconds_left()
            if left is not None and state.made < RUNS:
                estimates.append((state.seconds, left))

    study = make(study_file, tmp_path, watch=Look())
    begun, first = estimates[0]
    rest = study.session["seconds"] - begun
    assert begun < study.session["seconds"]
    assert first < 3.0 * rest + 1.0  # compilation does not enter, so the first estimate is not far too long
