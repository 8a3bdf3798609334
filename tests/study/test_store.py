import errno
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_study import Heard

import bqrl
from bqrl import Quantile
from bqrl.learners.record import Record
from bqrl.learners.run import Run, learn
from bqrl.mdp.files.npz import pack, unpack
from bqrl.study import store
from bqrl.study.problems import problem_of
from bqrl.study.store import RunSpec, Store, Timing, execute, from_bytes, to_bytes
from bqrl.study.workers import PLAYED

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
RUN = RunSpec(
    problem=PROBLEM, learner="q-learning", params={}, objective=Quantile(0.5), episodes=20, delta=0.05, seed=7
)
OTHERS = [
    replace(RUN, seed=8),
    replace(RUN, objective=Quantile(0.4)),
    replace(RUN, episodes=21),
    replace(RUN, delta=0.1),
    replace(RUN, params=(("learning_rate", 0.2),)),
    replace(RUN, learner="sarsa"),
    replace(RUN, problem=PROBLEM.changed({"start": 2})),
]


@pytest.fixture
def stored(tmp_path):
    heard = Heard()
    with Store(tmp_path, heard.say) as found:
        found.save(RUN, *execute(RUN))
        heard.lines.clear()
        yield found, heard.lines


def test_a_run_is_what_learn_makes(stored):
    record = stored[0].load(RUN)
    same = learn(RUN.problem.model, "q-learning", tau=0.5, episodes=20, seed=7)
    np.testing.assert_array_equal(record.returns, same.returns)
    np.testing.assert_array_equal(record.gap(0.5), same.gap(0.5))
    assert record.final_policy.actions.tobytes() == same.final_policy.actions.tobytes()
    np.testing.assert_array_equal(Record.load(stored[0].path(RUN.name)).returns, same.returns)


def test_the_same_run_gives_the_same_bytes():
    assert to_bytes(RUN, execute(RUN)[0]) == to_bytes(RUN, execute(RUN)[0])


def test_a_changed_run_has_another_name(stored):
    names = {RUN.name, *(run.name for run in OTHERS)}
    assert len(names) == 1 + len(OTHERS)
    assert stored[0].has(RUN)
    assert not any(stored[0].has(run) for run in OTHERS)


def damaged(content):
    yield "cut", content[: len(content) // 2]
    yield "empty", b""
    yield "text", b"not an archive"
    yield "flipped", content[:200] + bytes([content[200] ^ 1]) + content[201:]
    yield "foreign", pack({"returns": unpack(content)["returns"]})


def test_damaged_and_foreign_files_are_reported_and_made_anew(stored):
    found, said = stored
    path = found.path(RUN.name)
    whole = path.read_bytes()
    for count, (_, content) in enumerate(damaged(whole), start=1):
        path.write_bytes(content)
        assert not found.has(RUN)
        assert len(said) == count
        assert said[-1].startswith(f"runs/{path.name}: ")
        assert said[-1].endswith("; the run is repeated")
    path.write_bytes(whole)
    assert found.has(RUN)


def test_the_result_of_another_run_is_not_taken(stored):
    found, said = stored
    found.path(OTHERS[0].name).write_bytes(found.path(RUN.name).read_bytes())
    assert not found.has(OTHERS[0])
    assert "the file does not hold the result of this run" in said[0]


def test_drafts_of_a_killed_process_are_removed(stored, tmp_path):
    draft = tmp_path / "runs/.something.npz.0123456789ab.part"
    draft.write_bytes(b"half")
    stored[0].close()
    with Store(tmp_path):
        assert not draft.exists()


@pytest.mark.parametrize("name", ["runs", "runs/.film.part", "runs/film.npz", "runs/study.log"])
@pytest.mark.parametrize("locked", [False, True])
def test_a_folder_of_runs_that_is_not_ours_is_refused(tmp_path, name, locked):
    """Also where a plan of ours, which leaves a lock, lies beside it."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    if locked:
        (tmp_path / ".bqrl.lock").touch()
    with pytest.raises(FileExistsError, match=r"runs was not written by bqrl; move it or choose another folder$"):
        Store(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {"runs", *([".bqrl.lock"] if locked else [])}


def test_an_empty_folder_of_runs_is_taken(tmp_path):
    """A process that is killed at the wrong moment leaves one."""
    (tmp_path / "runs").mkdir()
    Store(tmp_path).close()
    (tmp_path / "runs/study.log").write_text("")
    Store(tmp_path).close()


def test_files_that_others_put_among_the_runs_stay(stored, tmp_path):
    for name in (".film.part", "film.npz", "times.jsonl", ".q.npz.part"):
        (tmp_path / "runs" / name).write_text("mine")
    stored[0].close()
    with Store(tmp_path) as again:
        again.save(OTHERS[0], *execute(OTHERS[0]))
    for name in (".film.part", "film.npz", "times.jsonl", ".q.npz.part"):
        assert (tmp_path / "runs" / name).read_text() == "mine"


@pytest.mark.parametrize("make", [Path.mkdir, lambda lock: lock.symlink_to("elsewhere")])
def test_a_folder_or_a_link_in_place_of_the_lock_is_refused(tmp_path, make):
    make(tmp_path / ".bqrl.lock")
    with pytest.raises(FileExistsError, match="was not written by bqrl; move it"):
        Store(tmp_path)


def test_a_link_in_place_of_a_file_of_ours_is_refused(tmp_path):
    Store(tmp_path).close()
    log = tmp_path / "runs/study.log"
    log.rename(tmp_path / "mine.txt")
    log.symlink_to(tmp_path / "mine.txt")
    with pytest.raises(FileExistsError, match="was not written by bqrl"):
        Store(tmp_path)
    (tmp_path / "runs").rename(tmp_path / "moved")
    (tmp_path / "runs").symlink_to(tmp_path / "moved")
    with pytest.raises(FileExistsError, match="was not written by bqrl"):
        Store(tmp_path)


def test_a_full_disk_is_one_line_and_leaves_what_was_there(stored, monkeypatch):
    found, _ = stored

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_whole", full)
    with pytest.raises(OSError, match=r"^cannot write to .*: No space left on device; finished runs are kept") as fault:
        found.save(OTHERS[0], execute(OTHERS[0])[0], Timing(0.0, 0.0))
    assert "\n" not in str(fault.value)
    assert found.has(RUN)


def test_only_a_full_disk_needs_room(stored, monkeypatch):
    def refuse(path, content):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(store, "write_whole", refuse)
    with pytest.raises(OSError, match=r"Permission denied; finished runs are kept; run the command again$"):
        stored[0].save(OTHERS[0], execute(OTHERS[0])[0], Timing(0.0, 0.0))


def test_a_removed_folder_keeps_no_runs(tmp_path):
    """Once "finished runs are kept", which was not true there."""
    record = execute(RUN)[0]

    def use(step):
        with Store(tmp_path / "o") as found:
            shutil.rmtree(tmp_path / "o")
            step(found)

    for step in (lambda found: found.save(RUN, record, Timing(0.0, 0.0)), lambda found: found.load(RUN), Store.times):
        with pytest.raises(
            OSError, match=r"runs was removed during the command, and the finished runs with it; run"
        ) as fault:
            use(step)
        assert "are kept" not in str(fault.value)


def test_times_survive_a_cut_line(stored, tmp_path):
    found, _ = stored
    assert found.times()[RUN.name].core > 0.0
    found.close()
    with (tmp_path / "runs/study.log").open("a") as file:
        file.write("2026-01-01 00:00:00 done x core=1")
    with Store(tmp_path) as again:
        assert list(again.times()) == [RUN.name]
        again.save(OTHERS[0], execute(OTHERS[0])[0], Timing(1.25, 1e-6))  # the next entry is not glued to the cut line
        assert list(again.times()) == [RUN.name, OTHERS[0].name]
        assert again.times()[OTHERS[0].name] == (1.25, 1e-6)


def test_two_studies_do_not_share_a_folder(stored, tmp_path):
    draft = tmp_path / "runs/.something.npz.0123456789ab.part"
    draft.write_bytes(b"half")  # the first store is writing it
    with pytest.raises(
        BlockingIOError, match=r"^another command is running in .*; wait for it or give another folder$"
    ):
        Store(tmp_path)
    assert draft.exists()
    stored[0].close()
    Store(tmp_path).close()
    assert (tmp_path / ".bqrl.lock").exists()


WRITER = """
import sys, time
from bqrl import Quantile
from bqrl.study.problems import problem_of
from bqrl.study.store import RunSpec, Timing, execute
from bqrl.study.store import Store

problem = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
common = {"problem": problem, "learner": "q-learning", "params": {}, "objective": Quantile(0.5), "episodes": 3, "delta": 0.05}
runs = [RunSpec(seed=seed, **common) for seed in range(20)]
records = [execute(run)[0] for run in runs]
done = 0
while done < 200:
    try:
        with Store(sys.argv[1]) as store:
            for run, record in zip(runs, records):
                store.save(run, record, Timing(1.0, 1.0))
                done += 1
    except BlockingIOError:
        time.sleep(0.001)
"""


def test_two_writers_of_one_folder_never_fail(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    with Store(tmp_path) as found:
        assert len(list(found.runs.glob("*.npz"))) == 20
        assert not list(found.runs.glob(".*"))
        assert all(found.has(replace(RUN, episodes=3, seed=seed)) for seed in range(20))
        assert (tmp_path / "runs/study.log").read_text().count(" done ") == 400


# -- runs -----------------------------------------------------------------------------------------------------------------


def test_a_run_is_what_learn_makes_and_its_times_are_positive():
    arrays, timing = execute(RUN)
    same = bqrl.learn(PROBLEM.model, "q-learning", tau=0.5, episodes=20, seed=7)
    np.testing.assert_array_equal(arrays["returns"], same.returns)
    assert 0.0 < timing.episode
    assert 0.0 < timing.core


class Counted(Run):
    """A run that looks at the counter before each episode, and fails at one of them."""

    def __init__(self, fails_at=-1):
        super().__init__(PROBLEM.model, "q-learning", 0.5, 20, 7)
        self.fails_at, self.counts = fails_at, []

    def step(self, wanted=False):
        self.counts.append(PLAYED.count.value)
        if self.t == self.fails_at:
            raise KeyError(self.t)
        return super().step(wanted)


def test_episodes_are_counted_while_a_run_is_played(monkeypatch):
    run = Counted()
    monkeypatch.setattr(RunSpec, "start", lambda _: run)
    execute(RUN)
    assert run.counts == list(range(20))
    assert PLAYED.count.value == 0  # a finished run is counted by whoever asked for it
    monkeypatch.setattr(RunSpec, "start", lambda _: Counted(fails_at=3))
    with pytest.raises(KeyError):
        execute(RUN)
    assert PLAYED.count.value == 0


def test_other_code_or_format_gives_another_name(monkeypatch):
    before = RUN.name
    assert replace(RUN, code="another").name != before
    monkeypatch.setattr(store, "FORMAT", 99)
    assert RUN.name != before


def test_the_name_of_a_stored_run_stays_as_it_is():
    """Another name would make the stored runs of every user useless."""
    problem = problem_of({"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[1.0], [0.0]], "horizon": 3})
    run = replace(RUN, problem=problem, learner="ucb-bqrl", params={"planner": "greedy"}, code="code")
    assert run.name == "ucb-bqrl_20_7_e3eb4dc16be819c10aefbb7fcf044143"


@pytest.fixture(scope="module")
def content():
    return to_bytes(RUN, execute(RUN)[0])


def same(one, two):
    return one.keys() == two.keys() and all(
        (one[name].dtype, one[name].shape, one[name].tobytes())
        == (two[name].dtype, two[name].shape, two[name].tobytes())
        for name in one
    )


def test_a_flipped_byte_is_noticed_or_changes_nothing(content):
    """The checksums of the archive cover every array; flips in its directory can hide arrays, whose names are stored."""
    whole, noticed = from_bytes(RUN, content).arrays(), 0
    for place in [*range(0, len(content), 97), *range(content.index(b"PK\x01\x02"), len(content), 3)]:
        damaged = bytearray(content)
        damaged[place] ^= 1
        try:
            assert same(from_bytes(RUN, bytes(damaged)).arrays(), whole), place
        except ValueError:
            noticed += 1
    assert noticed > 100


def test_lost_arrays_and_truncation_are_noticed(content):
    arrays = unpack(content)
    for name in arrays:
        with pytest.raises(ValueError, match="does not hold the result of this run"):
            from_bytes(RUN, pack({key: array for key, array in arrays.items() if key != name}))
    for size in range(0, len(content), 97):
        with pytest.raises(ValueError, match="expected"):
            from_bytes(RUN, content[:size])
