"""Compiled loops that inlined an older version of another file must not be used again."""

import os
import subprocess
import sys
from pathlib import Path

from bqrl.loops import drop_stale


def write(path, when):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (when, when))


def test_loops_compiled_before_the_newest_change_are_dropped(tmp_path):
    made = tmp_path / "__pycache__"
    files = {"old.f-1.nbi": 10, "old.f-1.1.nbc": 10, "new.f-1.nbi": 30, "new.f-1.1.nbc": 30, "a.cpython-311.pyc": 10}
    for name, when in files.items():
        write(made / name, when)
    write(tmp_path / "a.py", 5)
    write(tmp_path / "b.py", 20)
    drop_stale(tmp_path)
    assert sorted(path.name for path in made.iterdir()) == ["a.cpython-311.pyc", "new.f-1.1.nbc", "new.f-1.nbi"]
    drop_stale(tmp_path / "nowhere")  # nothing there, nothing to do


def test_a_folder_without_sources_is_left_alone(tmp_path):
    write(tmp_path / "__pycache__/x.nbi", 10)
    drop_stale(tmp_path)
    assert (tmp_path / "__pycache__/x.nbi").exists()


def test_compiled_loops_go_to_a_temporary_folder_where_no_other_can_be_written_to():
    script = (
        "import os\n"
        "from numba.core.caching import CacheImpl\n"
        "del CacheImpl._locator_classes[1:]\n"  # as if the package and the home could not be written to
        "os.access = lambda *_: False\n"
        "import bqrl, bqrl.loops\n"
        "print(bqrl.solve(bqrl.MDP([[[1.0]]], [[2.0]], horizon=3), 0.5).value, bqrl.loops.TEMPORARY_CACHE.name)\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.startswith("NUMBA_")}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    value, folder = done.stdout.split()
    assert value == "6.0"
    assert not Path(folder).exists()
