"""The engine: jobs, stored runs, and failures."""

from concurrent.futures import BrokenExecutor, CancelledError, Future

import pytest
from small_study import Heard

from bqrl.study.problems import problem_of
from bqrl.study.runner import Batch, Engine, FailedRunsError
from bqrl.study.runs import RunSpec
from bqrl.study.store import Store
from bqrl.study.time_left import Job
from bqrl.study.watch import Watch
from bqrl.study.workers import LostWorkersError, Workers

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})


def spec(learner, seed, episodes=10):
    return RunSpec(problem=PROBLEM, learner=learner, params={}, tau=0.5, episodes=episodes, delta=0.05, seed=seed)


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

    def submit(self, function, run, *rest):
        return super().submit(fail) if run.seed == 2 else super().submit(function, run, *rest)


def fail():
    raise KeyError("gone")


def test_a_failed_run_ends_its_jobs_only():
    engine = engine_of(job("sarsa", [1, 2], [3]), job("q-learning", [1, 3]), workers=Failing())
    with pytest.raises(FailedRunsError, match=r"First: sarsa\(\) on Asset.*seed 2: KeyError: 'gone'"):
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


@pytest.mark.parametrize("error", [BrokenExecutor(), CancelledError()])
def test_lost_workers_end_everything(error):
    class Lost(Workers):
        lost = "the cluster was lost; finished runs are kept"

        def submit(self, function, *arguments):
            future = Future()
            if isinstance(error, CancelledError):
                future.cancel()
                future.set_running_or_notify_cancel()
            else:
                future.set_exception(error)
            return future

    with pytest.raises(LostWorkersError, match=r"^the cluster was lost; finished runs are kept$"):
        engine_of(job("sarsa", [1, 2]), workers=Lost()).drive()
