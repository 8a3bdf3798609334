"""A folder is whole or says that it is not, whatever stops the writer, and files of others are never touched."""

import os
import threading
from dataclasses import replace

import pytest
from filelock import FileLock
from helpers import assert_refused
from small_result import make

from bqrl.errors import FileFormatError
from bqrl.results import folder as module
from bqrl.results.result import Result, add_files, check_folder, contents, read, write
from bqrl.study.store import Store


class Killed(BaseException):
    """The process ends here."""


def kill_at(monkeypatch, n: int):
    """Every operation on files counts; the n-th and all later ones do not happen."""
    count = 0

    def counted(operation):
        def run(*args, **kwargs):
            nonlocal count
            count += 1
            if count >= n:
                raise Killed
            return operation(*args, **kwargs)

        return run

    path_open = module.Path.open

    def opened(self, mode="r", *args, **kwargs):
        if not {"w", "x"} & {*mode}:
            return path_open(self, mode, *args, **kwargs)
        file = counted(path_open)(self, mode, *args, **kwargs)
        write_content = file.write

        def write_half(content):
            nonlocal count
            count += 1
            if count >= n:
                write_content(content[: len(content) // 2])
                file.flush()
                raise Killed
            return write_content(content)

        class File:
            __enter__ = lambda self: self  # noqa: E731
            __exit__ = lambda self, *fault: file.close()  # noqa: E731
            write, flush, fileno = staticmethod(write_half), file.flush, file.fileno

        return File()

    monkeypatch.setattr(module.Path, "open", opened)
    monkeypatch.setattr(module.os, "replace", counted(os.replace))
    monkeypatch.setattr(module.Path, "unlink", counted(module.Path.unlink))
    return lambda: count


def same(folder, given: Result) -> bool:
    back = read(folder)
    return back.title == given.title and {*back.tables} == {*given.tables} and back.files == given.files


def state(folder, old: Result, new: Result) -> str:
    try:
        return "old" if same(folder, old) else "new" if same(folder, new) else "mixed"
    except FileFormatError as fault:
        return "interrupted" if str(fault).endswith("interrupted; run the command again") else str(fault)


@pytest.fixture
def no_fsync(monkeypatch):
    """Power failures are not tested, and waiting for the disk takes minutes."""
    monkeypatch.setattr(module.os, "fsync", lambda _: None)


@pytest.mark.usefixtures("no_fsync")
@pytest.mark.parametrize("fewer", [False, True])
def test_a_kill_at_every_operation_leaves_the_old_the_new_or_an_interrupted_folder(tmp_path, monkeypatch, fewer):
    old, new, third = make(1.0, 3, 3), make(2.0, 1 if fewer else 4, 1 if fewer else 4), make(3.0, 2, 2)
    seen = set()
    for n in range(1, 200):
        folder = tmp_path / str(n)
        write(old, folder)
        (folder / "notes.txt").write_text("mine")
        with monkeypatch.context() as patch:
            count = kill_at(patch, n)
            try:
                write(new, folder)
                finished = True
            except Killed:
                finished = False
        seen.add(state(folder, old, new))
        rerun = third if n % 2 else new  # a rerun may differ: timings are part of a result
        write(rerun, folder)
        assert same(folder, rerun)
        assert {*os.listdir(folder)} == {*contents(rerun), module.MANIFEST, "notes.txt", module.LOCK}
        assert (folder / "notes.txt").read_text() == "mine"
        if finished:
            assert count() < n
            break
    assert seen == {"old", "new", "interrupted"}


@pytest.mark.usefixtures("no_fsync")
@pytest.mark.parametrize("page", [b"first", b"second"])  # a new one, and one in place of another
def test_a_kill_while_a_page_is_added_leaves_the_result_whole(tmp_path, monkeypatch, page):
    given = make(1.0, 2)
    for n in range(1, 30):
        folder = tmp_path / str(n)
        write(given, folder)
        if page == b"second":
            add_files(folder, {"report.html": b"first"})
        with monkeypatch.context() as patch:
            count = kill_at(patch, n)
            try:
                add_files(folder, {"report.html": page})
            except Killed:
                pass
        there = read(folder).files
        assert there.pop("report.html", b"first") in (b"first", page)
        assert there == given.files
        add_files(folder, {"report.html": page})
        assert (folder / "report.html").read_bytes() == page
        assert {*os.listdir(folder)} == {*contents(given), "report.html", module.MANIFEST, module.LOCK}
        if count() < n:
            break
    assert count() < n


@pytest.mark.usefixtures("no_fsync")
def test_a_kill_during_the_second_of_two_interrupted_runs_is_completed_by_the_third(tmp_path, monkeypatch):
    for n in range(1, 30):
        folder = tmp_path / str(n)
        write(make(1.0, 3), folder)
        for value, at in ((2.0, n), (3.0, 30 - n)):
            with monkeypatch.context() as patch:
                kill_at(patch, at)
                try:
                    write(make(value, 2), folder)
                except Killed:
                    pass
        write(make(4.0, 1), folder)
        assert same(folder, make(4.0, 1))
        assert {*os.listdir(folder)} == {*contents(make(4.0, 1)), module.MANIFEST, module.LOCK}


def test_files_of_others_are_never_touched_and_refused_before_work(tmp_path):
    (tmp_path / "table_0.csv").write_text("my own")
    with pytest.raises(FileExistsError, match=r"table_0\.csv was not written by bqrl; move it"):
        check_folder(tmp_path, "plan", ["table_0.csv"])
    with pytest.raises(FileExistsError):
        write(make(1.0), tmp_path)
    assert {*os.listdir(tmp_path)} == {"table_0.csv", module.LOCK}
    assert (tmp_path / "table_0.csv").read_text() == "my own"
    (tmp_path / "table_0.csv").unlink()
    write(make(1.0), tmp_path)
    check_folder(tmp_path, "plan", ["table_0.csv"])
    (tmp_path / "table_1.csv").write_text("edited by hand")
    with pytest.raises(FileExistsError, match="was changed after bqrl wrote it"):
        write(make(2.0), tmp_path)
    write(make(2.0, tables=1), tmp_path)  # no longer written: the edited file stays
    assert (tmp_path / "table_1.csv").read_text() == "edited by hand"
    assert same(tmp_path, make(2.0, tables=1))


def test_drafts_are_removed_and_a_link_with_such_a_name_is_not_followed(tmp_path):
    victim, folder = tmp_path / "victim.txt", tmp_path / "folder"
    victim.write_text("mine")
    folder.mkdir()
    (folder / ".bqrl.part").symlink_to(victim)
    (folder / ".manifest.json.0123456789ab.part").write_text("half")
    write(make(1.0), folder)
    assert victim.read_text() == "mine"
    assert (folder / ".bqrl.part").is_symlink()
    assert not (folder / ".manifest.json.0123456789ab.part").exists()


def test_a_manifest_of_another_program_is_refused(tmp_path):
    (tmp_path / "manifest.json").write_text('{"files": {}}')
    with pytest.raises(FileExistsError, match=r"manifest\.json was not written by bqrl"):
        check_folder(tmp_path, "plan")
    with pytest.raises(FileExistsError):
        write(make(1.0), tmp_path)
    with pytest.raises(FileFormatError, match="holds no result of bqrl"):
        read(tmp_path)


def test_a_folder_of_unfinished_runs_says_so(tmp_path):
    with Store(tmp_path):
        pass
    with pytest.raises(FileFormatError, match="not finished; run the command again") as fault:
        read(tmp_path)
    assert fault.value.file == str(tmp_path)


def test_a_link_in_place_of_a_file_is_refused(tmp_path):
    write(make(1.0), tmp_path / "r")
    content = (tmp_path / "r" / "table_0.csv").read_bytes()
    (tmp_path / "elsewhere.csv").write_bytes(content)
    (tmp_path / "r" / "table_0.csv").unlink()
    (tmp_path / "r" / "table_0.csv").symlink_to(tmp_path / "elsewhere.csv")
    with pytest.raises(FileExistsError):
        write(make(2.0), tmp_path / "r")
    assert (tmp_path / "elsewhere.csv").read_bytes() == content


def test_subfolders_are_ours_only_if_they_are_folders(tmp_path):
    inside = Result(kind="plan", title="t", files={"figures/law.png": b"x"})
    write(inside, tmp_path / "r")
    assert read(tmp_path / "r").files == inside.files
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "s").mkdir()
    (tmp_path / "s" / "figures").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileExistsError, match="is not a folder of bqrl"):
        write(inside, tmp_path / "s")
    assert not os.listdir(tmp_path / "elsewhere")


def test_the_check_writes_nothing(tmp_path):
    check_folder(tmp_path / "a" / "b", "plan", ["x.csv", "*/x.csv", "y/*.csv"])
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(OSError, match="cannot write to the folder"):
        check_folder(tmp_path / "file", "plan")
    with pytest.raises(OSError, match="cannot write to the folder"):
        check_folder(tmp_path / "file" / "below", "plan")
    with pytest.raises(OSError, match="cannot write to the folder"):
        check_folder(tmp_path / "a\0b", "plan")
    check_folder(None, "plan", ["x.csv"])


def test_a_pattern_refuses_foreign_files_that_match_it_and_no_others(tmp_path):
    patterns = ["table_*.csv", "figures/*.png", "law.vl.json", "policy_*.npz"]
    write(make(1.0), tmp_path)
    (tmp_path / "figures").mkdir()
    for name in ("data.csv", "mine_table_1.csv", "figures/notes.txt", "deep.png"):
        (tmp_path / name).write_text("mine")
    check_folder(tmp_path, "plan", patterns)
    for name in ("table_7.csv", "figures/a.png", "policy_x.npz"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(FileExistsError, match=f"{name} was not written by bqrl; move it"):
            check_folder(tmp_path, "plan", patterns)
        (tmp_path / name).unlink()
    (tmp_path / "table_9.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError, match=r"table_9\.csv was not written by bqrl"):
        check_folder(tmp_path, "plan", patterns)
    (tmp_path / "table_9.csv").unlink()
    (tmp_path / "table_1.csv").write_text("edited by hand")
    with pytest.raises(FileExistsError, match=r"table_1\.csv was changed after bqrl wrote it"):
        check_folder(tmp_path, "plan", patterns)


def test_a_folder_keeps_the_kind_of_its_result(tmp_path):
    """Once, another command replaced the result without a word."""
    write(make(1.0), tmp_path)
    check_folder(tmp_path, "plan")
    with pytest.raises(FileExistsError, match=r"holds a plan result; give another folder$"):
        check_folder(tmp_path, "learning")
    with pytest.raises(FileExistsError, match=r"holds a plan result; give another folder$"):
        write(replace(make(2.0), kind="learning"), tmp_path)  # a command that began before the plan was written
    assert same(tmp_path, make(1.0))


@pytest.mark.parametrize(
    "command",
    [("learn", "Bandit"), ("compare", "Bandit"), ("solve", "Bandit", "--tau", 0.1), ("fit", "log.csv", "--tau", 0.1),
     ("reproduce", "--quick"), ("theory", "--quick"), ("bench",)],
    ids=lambda command: command[0],
)  # fmt: skip
def test_every_command_refuses_the_folder_of_another(cli, tmp_path, command):
    write(Result(kind="problems", title="t"), tmp_path)
    assert_refused(cli(*command, "--out", tmp_path), f"{tmp_path} holds a problems result; give another folder")
    assert read(tmp_path).kind == "problems"


def test_damaged_folders_say_so_in_one_line(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        read(tmp_path / "nowhere")
    write(make(1.0), tmp_path)
    (tmp_path / "table_0.csv").write_text("x")
    with pytest.raises(FileFormatError, match="not as it was written; move it away and run the command again"):
        read(tmp_path)
    (tmp_path / "table_0.csv").unlink()
    with pytest.raises(FileFormatError, match="missing; run the command again"):
        read(tmp_path)


def test_two_writers_of_one_folder_take_turns(tmp_path, monkeypatch):
    faults = []

    def writer(value):
        try:
            for _ in range(10):
                write(make(value, tables=int(value)), tmp_path)
        except BaseException as fault:
            faults.append(fault)

    threads = [threading.Thread(target=writer, args=(float(i),)) for i in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults
    value = read(tmp_path).details["value"]
    assert same(tmp_path, make(value, tables=int(value)))
    monkeypatch.setattr(module, "LOCK_SECONDS", 0.05)
    with FileLock(tmp_path / module.LOCK), pytest.raises(OSError, match="another process is writing"):
        write(make(1.0), tmp_path)


def test_files_are_added_to_a_whole_result_or_to_a_folder_without_one(tmp_path):
    write(make(1.0), tmp_path)
    add_files(tmp_path, {"index.html": b"page"})
    add_files(tmp_path, {"index.html": b"page 2"})
    assert read(tmp_path).files == {**make(1.0).files, "index.html": b"page 2"}
    write(make(2.0), tmp_path)  # a page of the old result would be wrong
    assert not (tmp_path / "index.html").exists()
    manifest = tmp_path / module.MANIFEST
    manifest.write_text(manifest.read_text().replace('"complete"', '"interrupted"'))
    with pytest.raises(FileFormatError, match="interrupted; run the command again"):
        add_files(tmp_path, {"index.html": b"page"})
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine.txt").write_text("mine")
    add_files(tmp_path / "new", {"index.html": b"page"})
    assert {*os.listdir(tmp_path / "new")} == {"mine.txt", "index.html", module.MANIFEST, module.LOCK}


def test_a_full_disk_leaves_the_old_result_or_says_interrupted(tmp_path, monkeypatch):
    write(make(1.0), tmp_path)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device; make room there"):
        write(make(2.0), tmp_path)
    assert same(tmp_path, make(1.0))


def test_only_a_full_disk_needs_room(tmp_path, monkeypatch):
    """Once "make room there" whatever the reason was."""

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(module.os, "fsync", refuse)
    with pytest.raises(OSError, match=r"Permission denied; choose another folder$"):
        write(make(2.0), tmp_path)


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="needs /proc, in which nobody can make a file")
def test_a_folder_that_cannot_be_made_is_refused_before_any_work():
    with pytest.raises(
        OSError, match=r"^cannot write to the folder /proc/x: no file can be created in /proc \(.*\); choose another"
    ):
        module.Folder("/proc/x").check([])


def test_a_check_leaves_nothing_behind(tmp_path):
    module.Folder(tmp_path / "new").check(["a.csv"])
    assert list(tmp_path.iterdir()) == []
