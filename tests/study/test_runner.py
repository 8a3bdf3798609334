"""The engine: jobs, stored runs, and failures."""

from concurrent.futures import Future

import pytest
from small_study import RUNS, Heard, make

from bqrl import Quantile
from bqrl.display import Watch
from bqrl.planners.cluster import LostWorkersError
from bqrl.study.problems import problem_of
from bqrl.study.runner import Batch, Engine, FailedRunsError, Job, seconds_left
from bqrl.study.store import RunSpec, Store, Timing
from bqrl.study.workers import Workers

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})


def spec(learner, seed, episodes=10):
    return RunSpec(
        problem=PROBLEM, learner=learner, params={}, objective=Quantile(0.5), episodes=episodes, delta=0.05, seed=seed
    )


def job(learner, *batches):
    """A job that asks for one batch after the other; batches are lists of seeds."""

    def steps():
        for seeds in batches:
            yield Batch("learning", [spec(learner, seed) for seed in seeds])
        return f"{learner} is over"

    runs = sum(map(len, batches))
    return Job(label=learner, steps=steps(), total_runs=runs, total_episodes=10 * runs)


def engine_of(*jobs, store=None, workers=None, watch=None, **options):
    return Engine(jobs, store, workers or Workers(), watch or Watch(), **options)


def test_jobs_proceed_batch_by_batch_and_share_runs():
    heard = Heard()
    engine = engine_of(job("sarsa", [1, 2], [3]), job("sarsa", [2, 3]), watch=heard)
    engine.drive()
    assert [one.outcome for one in engine.jobs] == ["sarsa is over"] * 2
    assert (engine.made, len(engine.used), engine.episodes()) == (3, 3, (50, 50))
    assert any(line.startswith("sarsa: finished") for line in heard.lines)


def test_stored_runs_are_skipped(tmp_path):
    with Store(tmp_path) as store:
        engine_of(job("sarsa", [1, 2]), store=store).drive()
        again = engine_of(job("sarsa", [1, 2, 3]), store=store)
        again.drive()
    assert (again.made, again.skipped) == (1, 2)


class Failing(Workers):
    """Fails on seed 2."""

    def __init__(self, error=KeyError):
        self.error = error

    def submit(self, function, run, *rest):
        return super().submit(self.fail) if run.seed == 2 else super().submit(function, run, *rest)

    def fail(self):
        raise self.error("gone")


def test_a_failed_run_ends_its_jobs_only():
    engine = engine_of(job("sarsa", [1, 2], [3]), job("q-learning", [1, 3]), workers=Failing())
    with pytest.raises(FailedRunsError, match=r"First: sarsa\(\) on Asset.*seed 2: KeyError: 'gone'"):
        engine.drive()
    assert [(one.failed, one.over) for one in engine.jobs] == [(True, False), (False, True)]


def test_a_run_that_lacks_a_package_fails_alone():
    """Once it ended the study with advice on other machines."""
    engine = engine_of(job("sarsa", [1, 2], [3]), job("q-learning", [1, 3]), workers=Failing(ImportError))
    with pytest.raises(FailedRunsError, match=r"seed 2: ImportError: gone$"):
        engine.drive()
    assert [(one.failed, one.over) for one in engine.jobs] == [(True, False), (False, True)]


def test_a_strict_engine_raises_the_first_error_itself():
    with pytest.raises(KeyError, match="gone"):
        engine_of(job("sarsa", [1, 2, 3]), workers=Failing(), strict=True).drive()


def test_one_run_of_each_learner_comes_first():
    order = []

    class Look(Workers):
        def submit(self, function, run, *rest):
            order.append(run.learner)
            return super().submit(function, run, *rest)

    engine_of(job("sarsa", [1, 2, 3]), job("q-learning", [1, 2]), workers=Look()).drive()
    assert set(order[:2]) == {"sarsa", "q-learning"}


def test_lost_workers_end_everything():
    class Lost(Workers):
        lost = "the cluster was lost; finished runs are kept"

        def submit(self, function, *arguments):
            future = Future()
            future.cancel()
            future.set_running_or_notify_cancel()
            return future

    with pytest.raises(LostWorkersError, match=r"^the cluster was lost; finished runs are kept$"):
        engine_of(job("sarsa", [1, 2]), workers=Lost()).drive()


# -- time left ------------------------------------------------------------------------------------------------------------

DONE = RunSpec(problem=PROBLEM, learner="sarsa", params={}, objective=Quantile(0.5), episodes=10, delta=0.05, seed=0)


def idle_job(runs):
    return Job(label="job", steps=iter(()), total_runs=runs, total_episodes=10 * runs)


def test_the_time_left_knows_the_cost_of_each_learner():
    cheap, dear = jobs = idle_job(4), idle_job(2)
    assert seconds_left(jobs, 0, 9.0, 2) is None  # no evidence yet
    cheap.count(DONE, Timing(9.0, 0.1))
    assert seconds_left(jobs, 0, 9.0, 2) is None  # nothing is known about the other learner
    dear.count(DONE, Timing(9.0, 2.0))
    assert seconds_left(jobs, 0, 9.0, 2) == pytest.approx((30 * 0.1 + 10 * 2.0) / 2)
    assert seconds_left(jobs, 5, 9.0, 2) == pytest.approx((30 * 0.1 + 10 * 2.0 - 5 * 0.1) / 2)
    dear.over = True
    assert seconds_left(jobs, 5, 9.0, 2) == pytest.approx((30 - 5) * 0.1 / 2)


def test_a_single_learner_is_forecast_from_its_unfinished_run():
    assert seconds_left([idle_job(2)], 0, 8.0, 2) is None
    assert seconds_left([idle_job(2)], 4, 8.0, 2) == pytest.approx(8.0 * (20 - 4) / 4)
    assert seconds_left([idle_job(2)], 4, 1.0, 2) is None  # too early to say


def test_the_engine_knows_the_episodes_of_unfinished_runs(monkeypatch):
    class Playing(Workers):
        def played(self):
            return 4

    engine = Engine([idle_job(2)], None, Playing(), Watch())
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


# -- watch ----------------------------------------------------------------------------------------------------------------


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
