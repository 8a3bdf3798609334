"""Files are written whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from bqrl.mdp.files.atomic import replace_file, write_whole


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.csv"
    path.write_text("old")

    def half():
        with replace_file(path) as file:
            file.write(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half()
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.csv"]


def test_a_link_stays_a_link(tmp_path):
    target, link = tmp_path / "target.txt", tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EFBIG])
def test_a_full_disk_names_the_file(tmp_path, code):
    """The message of a full disk once named no file."""
    target = tmp_path / "model.csv"
    target.write_bytes(b"old")
    with pytest.raises(OSError, match=r"model\.csv") as fault, replace_file(target):
        raise OSError(code, os.strerror(code))
    assert (fault.value.errno, fault.value.filename) == (code, str(target))
    assert [file.name for file in tmp_path.iterdir()] == ["model.csv"]
    assert target.read_bytes() == b"old"


def test_a_missing_permission_names_the_file_and_not_its_draft(tmp_path, monkeypatch):
    def refuse(path, mode):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(PermissionError) as fault, replace_file(tmp_path / "model.csv"):
        pass
    assert fault.value.filename == str(tmp_path / "model.csv")
