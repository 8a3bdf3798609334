"""Files are written whole or not at all."""

import os

import pytest

from bqrl.mdp.files.atomic import replacing, write_whole


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.csv"
    path.write_text("old")

    def half():
        with replacing(path) as file:
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
