"""When the first work of a process is left to NumPy; test_backward.py and test_rollout.py compare the bits."""

import os
import subprocess
import sys

from bqrl.loops import plain, threads

PROGRAM = "import bqrl; print(bqrl.solve('SafeOrRisky', tau=0.1).value, bqrl.solve('AssetSelling', tau=0.1).certain)"


def test_the_first_work_of_a_process_is_left_to_numpy(monkeypatch):
    monkeypatch.setattr(plain, "_left_to_numpy", 100 + 2 * plain.CALL_WORK)
    assert [plain.by_numpy(work) for work in (90, 20, 10, 0)] == [True, False, True, False]


def test_work_for_threads_is_not_left_to_numpy(monkeypatch):
    monkeypatch.setattr(plain, "_left_to_numpy", 10 * threads.THREADS_FROM)
    assert [plain.by_numpy(threads.THREADS_FROM + more) for more in (0, 1)] == [True, False]


def test_a_first_plan_compiles_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=600, check=True,
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
    )  # fmt: skip
    assert done.stdout == "12.0 True\n"
    assert list(tmp_path.rglob("*.nbc")) == []
