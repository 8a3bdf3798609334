"""Only regular files of bounded size are read."""

import gzip
import os
import zipfile

import pytest

from bqrl import load
from bqrl.errors import FileFormatError, SizeError
from bqrl.mdp.files.regular import check_unpacked, read_regular, size_limit


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(OSError, match=r"pipe.csv is not a regular file but a pipe, socket or device"):
        load(tmp_path / "pipe.csv")


def test_a_device_is_not_read_for_ever(tmp_path):
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    with pytest.raises(OSError, match=r"zero.json is not a regular file"):
        load(tmp_path / "zero.json")


def test_a_link_to_itself_is_named_as_such(tmp_path):
    (tmp_path / "loop.npz").symlink_to(tmp_path / "loop.npz")
    with pytest.raises(OSError, match=r"loop.npz is a symbolic link that leads back to itself"):
        load(tmp_path / "loop.npz")
    (tmp_path / "dead.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(FileNotFoundError, match=r"dead.csv is a link to .*gone.csv, which does not exist"):
        load(tmp_path / "dead.csv")


def test_a_compressed_file_is_unpacked_up_to_the_limit(tmp_path):
    path, content = tmp_path / "x.csv.gz", gzip.compress(b"x" * 10_000)
    path.write_bytes(content)
    check_unpacked(path, 10_000)
    words = "the unpacked file must have at most 9999 bytes, got more; unpack it to see its size, and raise"
    with pytest.raises(SizeError, match=words):  # the number at which reading stopped is no size to allow
        check_unpacked(path, 9_999)
    path.write_bytes(content[:-4] + (5).to_bytes(4, "little"))  # the trailer states 5 bytes
    with pytest.raises((FileFormatError, SizeError), match=r"must have at most 9999 bytes|expected CSV text"):
        load(path, max_bytes=9_999)
    path.write_bytes(content[:17])
    with pytest.raises(
        FileFormatError, match=r"x\.csv\.gz: near line 1: expected CSV text in UTF-8, got other content"
    ):
        load(path, max_bytes=10_000)


def test_the_parts_of_a_workbook_are_counted_before_they_are_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.xlsx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("sheet.xml", b" " * 10_000)
    with pytest.raises(SizeError, match="the unpacked file must have at most 9999 bytes, got more"):
        load(tmp_path / "x.xlsx", max_bytes=9_999)


def test_the_limit_comes_from_the_argument_or_the_environment(tmp_path, monkeypatch):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular(tmp_path / "x", 5) == b"12345"
    with pytest.raises(SizeError, match="the file must have at most 4 bytes, got 5; raise the limit with max_bytes=5"):
        read_regular(tmp_path / "x", 4)
    monkeypatch.setenv("BQRL_MAX_FILE_BYTES", "77")
    assert size_limit(None) == 77
    assert size_limit(9) == 9
    for wrong in ("many", "0", "-4"):
        monkeypatch.setenv("BQRL_MAX_FILE_BYTES", wrong)
        with pytest.raises((ValueError, TypeError), match="BQRL_MAX_FILE_BYTES must be a whole number of at least 1"):
            size_limit(None)
