"""Compiled kernels that took in an older version of another file must not be used again."""

import os

from bqrl.kernels import drop_stale


def test_kernels_compiled_before_the_newest_change_are_dropped(tmp_path):
    made = tmp_path / "__pycache__"
    made.mkdir()
    files = {"old.f-1.nbi": 10, "old.f-1.1.nbc": 10, "new.f-1.nbi": 30, "new.f-1.1.nbc": 30, "a.cpython-311.pyc": 10}
    for name, when in files.items():
        (made / name).touch()
        os.utime(made / name, (when, when))
    for name, when in (("a.py", 5), ("b.py", 20)):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (when, when))
    drop_stale(tmp_path)
    assert sorted(path.name for path in made.iterdir()) == ["a.cpython-311.pyc", "new.f-1.1.nbc", "new.f-1.nbi"]
    drop_stale(tmp_path / "nowhere")  # nothing there, nothing to do


def test_a_folder_without_sources_is_left_alone(tmp_path):
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.nbi").touch()
    drop_stale(tmp_path)
    assert (tmp_path / "__pycache__" / "x.nbi").exists()
