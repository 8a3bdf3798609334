import json
import sys
import types

import numpy as np
import pytest

import bqrl
from bqrl.learners.callbacks import JsonLines, TensorBoard
from bqrl.learners.run import Run

MODEL = bqrl.envs.make("AssetSelling", offers=4, start=1)


def lines(path):
    return [
        json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        for line in path.read_text().splitlines()
    ]


def test_one_json_object_an_episode(tmp_path):
    path = tmp_path / "episodes.jsonl"
    with JsonLines(path) as log:
        record = bqrl.learn(MODEL, "ucb-bqrl", 0.3, 12, 5, callback=log)
    found = lines(path)
    assert [line["episode"] for line in found] == list(range(12))
    assert [line["return"] for line in found] == record.returns.tolist()
    assert [line["beta"] for line in found] == record.notes["beta"].tolist()
    assert [line["gap"] for line in found] == record.gap().tolist()
    assert [line["value"] for line in found] == record.quantile(0.3).tolist()
    assert [line["mean"] for line in found] == record.means().tolist()


@pytest.mark.parametrize("learner", ["ucb-bqrl", "q-learning"])
def test_a_record_that_is_replayed_leaves_the_log_of_its_run(tmp_path, learner):
    with JsonLines(tmp_path / "run.jsonl") as log:
        record = bqrl.learn(MODEL, learner, 0.3, 12, 5, callback=log)
    with JsonLines(tmp_path / "replayed.jsonl") as log:
        log.replay(record)
    assert lines(tmp_path / "replayed.jsonl") == lines(tmp_path / "run.jsonl")


def test_a_callback_does_not_change_the_run(tmp_path):
    with JsonLines(tmp_path / "log.jsonl") as log:
        watched = bqrl.learn(MODEL, "ppo", 0.3, 60, 5, callback=log)
    alone = bqrl.learn(MODEL, "ppo", 0.3, 60, 5)
    assert np.array_equal(watched.returns, alone.returns)
    assert np.array_equal(watched.law_of, alone.law_of)


def test_each_line_is_in_the_file_at_once(tmp_path):
    log = JsonLines(tmp_path / "log.jsonl")
    for t in range(3):
        log(t, {"return": float(t)})
        assert len(lines(tmp_path / "log.jsonl")) == t + 1
    log.close()


def test_numbers_that_json_cannot_hold_are_null(tmp_path):
    with JsonLines(tmp_path / "log.jsonl") as log:
        log(0, {"a": float("nan"), "b": np.float64("inf"), "c": np.int64(3), "d": True, "e": np.float32(0.5)})
    assert lines(tmp_path / "log.jsonl") == [{"episode": 0, "a": None, "b": None, "c": 3, "d": True, "e": 0.5}]


def test_a_new_run_starts_the_file_anew(tmp_path):
    for length in (5, 2):
        with JsonLines(tmp_path / "log.jsonl") as log:
            for t in range(length):
                log(t, {"length": length})
    assert lines(tmp_path / "log.jsonl") == [{"episode": t, "length": 2} for t in range(2)]


def test_a_continued_run_leaves_the_log_of_an_uninterrupted_one(tmp_path):
    whole, parts, saved = tmp_path / "whole.jsonl", tmp_path / "parts.jsonl", tmp_path / "saved.npz"
    arguments = dict(learner="q-learning", tau=0.3, episodes=20, seed=3)
    with JsonLines(whole) as log:
        bqrl.learn(MODEL, **arguments, callback=log)

    def stop(episode, numbers):
        log(episode, numbers)
        if episode == 13:
            raise KeyboardInterrupt

    with JsonLines(parts) as log, pytest.raises(KeyboardInterrupt):
        bqrl.learn(MODEL, **arguments, callback=stop, checkpoint=saved, checkpoint_every=6)
    with parts.open("a") as file:
        file.write('{"episode": 14, "ret')  # a line cut off by a crash
    assert lines_begun(parts) == 15
    with JsonLines(parts) as log:
        bqrl.learn(MODEL, **arguments, callback=log, checkpoint=saved)
    assert parts.read_bytes() == whole.read_bytes()


def lines_begun(path):
    return len(path.read_text().splitlines())


def test_a_damaged_log_is_kept_up_to_the_damage(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"episode": 0}\nnonsense\n{"episode": 2}\n')
    with JsonLines(path) as log:
        log(3, {})
    assert lines(path) == [{"episode": 0}, {"episode": 3}]


def test_a_refused_file_is_one_line(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^the folder .* does not exist; create it first$"):
        JsonLines(tmp_path / "nowhere" / "log.jsonl")
    with pytest.raises(IsADirectoryError, match=r"is a folder; give the name of a file$"):
        JsonLines(tmp_path)


def test_numbers_are_collected_only_where_somebody_wants_them():
    run = Run(MODEL, "ucb-bqrl", 0.3, 2, 0)
    assert run.step() == {}
    assert "return" in run.step(wanted=True)


# -- TensorBoard --------------------------------------------------------------------------------------------------------


class FakeWriter:
    def __init__(self, folder):
        self.folder, self.scalars, self.flushes, self.closed = folder, [], 0, False

    def add_scalar(self, tag, data, step):
        self.scalars.append((tag, data, step))

    def flush(self):
        self.flushes += 1

    def close(self):
        self.closed = True


def test_tensorboard_gets_every_finite_number(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    summary = types.ModuleType("tensorboard.summary")
    summary.Writer = FakeWriter
    monkeypatch.setitem(sys.modules, "tensorboard.summary", summary)
    with TensorBoard(tmp_path / "board") as log:
        record = bqrl.learn(MODEL, "ucb-bqrl", 0.3, 100, 5, callback=log)
        log(100, {"lost": float("nan")})
    written = log._writer
    assert [data for tag, data, _ in written.scalars if tag == "return"] == record.returns.tolist()
    assert [step for tag, _, step in written.scalars if tag == "beta"] == list(range(100))
    assert "lost" not in {tag for tag, _, _ in written.scalars}
    assert (written.folder, written.flushes, written.closed) == (str(tmp_path / "board"), 1, True)


def test_without_tensorboard_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    with pytest.raises(ImportError, match=r'install it with: pip install "bqrl\[tensorboard\]"$'):
        TensorBoard(tmp_path)


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    with TensorBoard(tmp_path) as log:
        for t in range(3):
            log(t, {"return": 0.5 * t})
    (file,) = tmp_path.iterdir()
    found = [(event.step, value.tag) for event in EventFileLoader(str(file)).Load() for value in event.summary.value]
    assert found == [(t, "return") for t in range(3)]
