import errno
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from small_study import Heard

from bqrl.learners.record import Record
from bqrl.learners.run import learn
from bqrl.mdp.files.npz import pack, unpack
from bqrl.study import store
from bqrl.study.problems import problem_of
from bqrl.study.runs import RunSpec, Timing, execute
from bqrl.study.store import Store

PROBLEM = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
RUN = RunSpec(problem=PROBLEM, learner="q-learning", params={}, tau=0.5, episodes=20, delta=0.05, seed=7)
OTHERS = [
    replace(RUN, seed=8),
    replace(RUN, tau=0.4),
    replace(RUN, episodes=21),
    replace(RUN, delta=0.1),
    replace(RUN, params=(("learning_rate", 0.2),)),
    replace(RUN, learner="sarsa"),
    replace(RUN, problem=PROBLEM.changed({"start": 2})),
]


@pytest.fixture
def stored(tmp_path):
    heard = Heard()
    with Store(tmp_path, heard) as found:
        found.save(RUN, *execute(RUN))
        yield found, heard.lines


def test_a_run_is_what_learn_makes(stored):
    record = stored[0].load(RUN)
    same = learn(RUN.problem.build(), "q-learning", tau=0.5, episodes=20, seed=7)
    np.testing.assert_array_equal(record.returns, same.returns)
    np.testing.assert_array_equal(record.gap(0.5), same.gap(0.5))
    assert record.final_policy.actions.tobytes() == same.final_policy.actions.tobytes()
    np.testing.assert_array_equal(Record.load(stored[0].path(RUN.name)).returns, same.returns)


def test_the_same_run_gives_the_same_bytes():
    assert execute(RUN)[0] == execute(RUN)[0]


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
    arrays = unpack(content)
    yield "altered", pack(arrays | {"returns": arrays["returns"] + 1.0})
    yield "foreign", pack({"returns": arrays["returns"]})


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
    assert "the file holds the result of another run" in said[0]


def test_drafts_of_a_killed_process_are_removed(stored, tmp_path):
    draft = tmp_path / "runs/.something.npz.0123456789ab.part"
    draft.write_bytes(b"half")
    stored[0].close()
    with Store(tmp_path):
        assert not draft.exists()


@pytest.mark.parametrize("name", ["times.jsonl", "study.log", "runs", "runs/.film.part"])
@pytest.mark.parametrize("locked", [False, True])
def test_files_of_others_with_the_names_of_ours_are_refused(tmp_path, name, locked):
    """Also where a plan of ours, which leaves a lock, lies beside them."""
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("mine")
    if locked:
        (tmp_path / ".bqrl.lock").touch()
    if locked and name == "runs/.film.part":
        Store(tmp_path).close()  # a folder that might be ours; the file in it stays
    else:
        with pytest.raises(FileExistsError, match="was not written by bqrl; move it"):
            Store(tmp_path)
    assert (tmp_path / name).read_text() == "mine"
    assert {path.name for path in tmp_path.iterdir()} == {name.split("/")[0], *([".bqrl.lock"] if locked else [])}


def test_a_folder_in_place_of_the_lock_is_refused(tmp_path):
    (tmp_path / ".bqrl.lock").mkdir()
    with pytest.raises(FileExistsError, match="was not written by bqrl; move it"):
        Store(tmp_path)


def test_a_link_in_place_of_a_file_of_ours_is_refused(tmp_path):
    Store(tmp_path).close()
    (tmp_path / "mine.txt").write_text("mine")
    (tmp_path / "study.log").symlink_to(tmp_path / "mine.txt")
    with pytest.raises(FileExistsError, match="was not written by bqrl"):
        Store(tmp_path)


def test_a_full_disk_is_one_line_and_leaves_what_was_there(stored, monkeypatch):
    found, _ = stored

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "write_whole", full)
    with pytest.raises(OSError, match=r"^cannot write to .*: No space left on device; finished runs are kept") as fault:
        found.save(OTHERS[0], b"", Timing(0.0, 0.0, 0.0))
    assert "\n" not in str(fault.value)
    assert found.has(RUN)


def test_times_survive_a_cut_line(stored, tmp_path):
    found, _ = stored
    with (tmp_path / "times.jsonl").open("a") as file:
        file.write('{"run": "x", "sec')
    assert list(found.times()) == [RUN.name]
    assert found.times()[RUN.name].wall > 0.0
    found.save(OTHERS[0], b"", Timing(1.0, 1.0, 0.1))  # the next line is not glued to the cut one
    assert list(found.times()) == [RUN.name, OTHERS[0].name]


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
from bqrl.study.problems import problem_of
from bqrl.study.runs import RunSpec, Timing, complete, to_bytes
from bqrl.study.store import Store

problem = problem_of({"name": "AssetSelling", "horizon": 3, "offers": 4, "start": 1})
common = {"problem": problem, "learner": "q-learning", "params": {}, "tau": 0.5, "episodes": 3, "delta": 0.05}
runs = [RunSpec(seed=seed, **common) for seed in range(20)]
contents = [to_bytes(run, complete(run.start())[0]) for run in runs]
done = 0
while done < 200:
    try:
        with Store(sys.argv[1]) as store:
            for run, content in zip(runs, contents):
                store.save(run, content, Timing(1.0, 1.0, 1.0))
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
        assert len((tmp_path / "times.jsonl").read_text().splitlines()) == 400
