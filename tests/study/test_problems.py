"""Problems of runs: identities that follow the content, and models built once."""

import pickle

import gymnasium as gym
import pytest

import bqrl
from bqrl.mdp.files import save_model
from bqrl.study.problems import canonical_json, problem_of, source_of

SELLING = {"offers": 4, "horizon": 3, "start": 1}


def test_a_model_file_counts_by_its_content(tmp_path):
    save_model(bqrl.envs.make("AssetSelling", **SELLING), tmp_path / "four.npz")
    first = problem_of({"file": "four.npz"}, tmp_path)
    assert first.model.S == 5
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/four.npz").write_bytes((tmp_path / "four.npz").read_bytes())
    assert problem_of({"file": "four.npz"}, tmp_path / "moved").identity == first.identity
    save_model(bqrl.envs.make("AssetSelling", **SELLING | {"horizon": 4}), tmp_path / "four.npz")
    assert problem_of({"file": "four.npz"}, tmp_path).identity != first.identity


def test_a_file_that_changes_while_a_study_runs_changes_nothing(tmp_path):
    save_model(bqrl.envs.make("AssetSelling", **SELLING), tmp_path / "model.npz")
    problem = problem_of({"file": "model.npz"}, tmp_path)
    save_model(bqrl.envs.make("AssetSelling", **SELLING | {"offers": 7}), tmp_path / "model.npz")
    assert pickle.loads(pickle.dumps(problem)).model.S == 5


def test_a_problem_may_be_given_by_arrays_or_as_a_hard_instance():
    table = {"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[1.0], [0.0]], "horizon": 3}
    assert problem_of(table).model.H == 3
    hard = problem_of({"hard": {"tau": 0.5, "rho": 0.05, "actions": 3, "horizon": 4}})
    assert (hard.model.A, hard.model.H) == (3, 4)


def test_a_problem_is_known_by_its_model_and_changes_with_its_parameters():
    problem = problem_of({"name": "AssetSelling", "params": SELLING})
    assert problem.identity == problem_of({"name": "AssetSelling", **SELLING}).identity
    assert problem.identity == source_of(bqrl.envs.make("AssetSelling", **SELLING)).identity
    other = problem.changed({"offers": 5})
    assert (other.model.S, problem.model.S) == (6, 5)
    assert other.identity != problem.identity
    assert str(problem) == "AssetSelling(horizon=3, offers=4, start=1)"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (3, "must be a table, got 3"),
        ({}, "needs one of file, hard, transitions, name, got nothing"),
        ({"file": "x.csv"}, "there is no file x.csv"),
        ({"transitions": [], "horizn": 3}, "horizn is not a setting; did you mean 'horizon'"),
        ({"hard": 1}, "hard must be a table, got 1"),
        ({"hard": {"taw": 1}}, "taw is not a setting; did you mean 'tau'"),
        ({"name": "AssetSelling", "params": 1}, "params must be a table, got 1"),
        ({"name": ""}, "name and label must be strings"),
    ],
)
def test_mistakes_are_named(table, message):
    with pytest.raises(ValueError, match=message):
        problem_of(table)


def test_a_model_has_the_same_key_in_every_process():
    model = bqrl.envs.make("AssetSelling", **SELLING)
    again = bqrl.envs.make("AssetSelling", **SELLING)
    assert source_of(model).identity == source_of(again).identity != ""
    for other in (model.replace(horizon=4), model.replace(discount=0.9), model.replace(start=2)):
        assert source_of(other).identity != source_of(model).identity


def test_shared_noise_is_part_of_the_key():
    """The kernel is the same, but a learner that knows the shared law learns otherwise."""
    apart, shared = (bqrl.envs.make("Inventory", shared=shared) for shared in (False, True))
    assert source_of(apart).identity != source_of(shared).identity


def test_a_worker_process_keeps_one_of_equal_models_and_the_sender_none(monkeypatch):
    """Models that a user compares one after the other must not fill the memory."""
    received = {}
    monkeypatch.setattr("bqrl.study.problems._received", received)
    sent = source_of(bqrl.envs.make("AssetSelling", **SELLING))
    assert not received
    first, second = (pickle.loads(pickle.dumps(sent)).model for _ in range(2))
    assert first is second is not sent.model
    assert list(received) == [sent.identity]


def test_environments_have_keys_if_they_are_registered():
    lake, slippery = (gym.make("FrozenLake-v1", **more) for more in ({}, {"is_slippery": False}))
    assert source_of(lake).identity == source_of("FrozenLake-v1").identity != source_of(slippery).identity != ""
    assert source_of(lake.unwrapped.__class__()).identity == ""
    assert source_of(lake).model is lake


def test_canonical_json_has_one_spelling():
    assert canonical_json({"b": (1, 2.5), "a": None}) == '{"a":null,"b":[1,2.5]}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        canonical_json({"x": float("nan")})
