"""Loops over threads after a fork and from several Python threads; in processes of their own, since faults end or hang them."""

import multiprocessing
import os
import subprocess
import sys

import numpy as np
import pytest

from bqrl.loops import threads
from bqrl.loops.l1 import l1_dense_rows, l1_dense_rows_threads
from bqrl.loops.layout import Ball

SECONDS = 300  # a hang fails the test

PLANS = """
import multiprocessing
import threading

import numpy as np

from bqrl import MDP, solve
from bqrl.loops import threads

threads.THREADS_FROM = 0
rng = np.random.default_rng(0)
DENSE = MDP(rng.dirichlet(np.ones(30), (30, 2)), rng.integers(0, 5, (30, 2)), horizon=3)
SPARSE = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[[0.0, 1.0]], [[1.0, 1.0]]], horizon=3)


def plan(tau):
    robust = [solve(mdp, tau, radius=0.05, attitude="robust").value for mdp in (DENSE, SPARSE)]
    return [*robust, solve(SPARSE, tau, beta=tau, radius=0.05, attitude="robust").value]


TAUS = [0.1, 0.3, 0.5, 0.7]
expected = [plan(tau) for tau in TAUS]
"""
POOL = """
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(plan, TAUS) == expected
print("done")
"""
THREADS = """
found = {}
def work(i):
    found[i] = [plan(tau) for tau in TAUS]
started = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for one in started:
    one.start()
for one in started:
    one.join()
assert list(found.values()) == [expected] * 8
print("done")
"""


def output_of(program: str, **environment: str) -> str:
    """What a program prints, with its errors."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False,
        env=os.environ | environment,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="this system does not fork")
@pytest.mark.parametrize("layer", ["default", "workqueue"])
def test_forked_processes_plan_after_a_threaded_plan(layer):
    assert output_of(PLANS + POOL, NUMBA_THREADING_LAYER=layer) == "done\n"


@pytest.mark.parametrize("layer", ["default", "workqueue"])
def test_python_threads_plan_at_the_same_time(layer):
    assert output_of(PLANS + THREADS, NUMBA_THREADING_LAYER=layer) == "done\n"


def test_small_loops_and_loops_after_a_fork_are_serial(monkeypatch):
    def chosen(work):
        calls = []
        threads.run_loop(work, lambda x: calls.append(f"serial {x}"), lambda x: calls.append(f"threads {x}"), 1)
        return calls

    many = threads.THREADS_FROM + 1
    assert chosen(many - 1) == ["serial 1"]
    assert chosen(many) == ["threads 1"]
    monkeypatch.setattr(threads, "_lost_by_fork", True)
    assert chosen(many) == ["serial 1"]


def test_dense_balls_over_threads_have_the_same_bits():
    rng = np.random.default_rng(3)
    S, rows, columns = 12, 30, 7
    kernel, values = rng.dirichlet(np.ones(S), rows), rng.random((columns, S))
    ball = Ball(rng.random(rows) * 0.2, 1.0, np.argsort(values, axis=1, kind="stable"), values, np.zeros(0))
    first, second = (kernel @ values.T for _ in range(2))
    l1_dense_rows(kernel, ball, first)
    l1_dense_rows_threads(kernel, ball, second)
    assert first.tobytes() == second.tobytes()
    assert np.any(first != kernel @ values.T)
