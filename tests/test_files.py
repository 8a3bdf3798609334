"""`load` and `save`: what a file holds comes back as what it is."""

import numpy as np
import pytest
from mdp_strategies import assert_same, assert_same_noise

import bqrl
from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError

MODEL = bqrl.envs.make("AssetSelling", offers=4, start=1, horizon=3)


def test_a_model_a_policy_and_a_record_come_back(tmp_path):
    bqrl.save(MODEL, tmp_path / "a.npz")
    assert_same(MODEL, bqrl.load(tmp_path / "a.npz"))
    plan = bqrl.solve(MODEL, 0.3)
    bqrl.save(plan.policy, tmp_path / "b.npz")
    policy = bqrl.load(tmp_path / "b.npz")
    assert isinstance(policy, bqrl.TargetPolicy)
    assert [policy.act(0, s, policy.start()) for s in range(4)] == [
        plan.policy.act(0, s, policy.start()) for s in range(4)
    ]
    record = bqrl.learn(MODEL, "ucbvi", tau=0.3, episodes=10, seed=7)
    bqrl.save(record, tmp_path / "c.npz")
    again = bqrl.load(tmp_path / "c.npz")
    assert isinstance(again, bqrl.Record)
    assert np.array_equal(again.returns, record.returns)


def test_options_of_a_model_do_not_go_with_a_policy(tmp_path):
    bqrl.save(bqrl.MarkovPolicy([[0]]), tmp_path / "p.npz")
    for option in ({"horizon": 3}, {"start": 0}, {"discount": 0.5}, {"columns": {"state": "s"}}):
        message = rf"^{next(iter(option))} must not be given for p.npz, which holds a policy, got"
        with pytest.raises(ArgumentError, match=message) as caught:
            bqrl.load(tmp_path / "p.npz", **option)
        assert caught.value.name in option


def test_a_checkpoint_is_named_as_such(tmp_path):
    bqrl.learn(MODEL, "ucbvi", tau=0.3, episodes=10, seed=7, checkpoint=tmp_path / "run.npz")
    with pytest.raises(FileFormatError, match=r"run\.npz: .*, got a checkpoint; continue it with learn"):
        bqrl.load(tmp_path / "run.npz")


def test_save_says_what_it_takes(tmp_path):
    with pytest.raises(ArgumentTypeError, match=r"thing must be a model, policy, plan, record or estimate, got 'Law'"):
        bqrl.save(bqrl.solve(MODEL, 0.3).law, tmp_path / "p.npz")


def test_mdp_save_and_policy_save_are_the_same_writers(tmp_path):
    MODEL.save(tmp_path / "a.json")
    bqrl.save(MODEL, tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


def test_load_takes_a_file_and_mdp_takes_a_table():
    with pytest.raises(ArgumentTypeError, match=r"^path must be a file name, got dict; pass a table to bqrl\.MDP$"):
        bqrl.load({"state": [0]})
    with pytest.raises(ArgumentTypeError, match=r"^path must be a file name, got int$"):
        bqrl.load(3)
    with pytest.raises(ArgumentTypeError, match=r"got 'model\.csv'; read a file with bqrl\.load$"):
        bqrl.MDP("model.csv", horizon=3)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".json", ".npz"])
@pytest.mark.parametrize("name", ["AssetSelling", "Inventory", "Liquidation", "AmericanPut"])
def test_named_problems_survive_every_format_with_their_noise(tmp_path, name, ending):
    mdp = bqrl.envs.make(name, shared=True)
    bqrl.save(mdp, tmp_path / f"m{ending}")
    again = bqrl.load(tmp_path / f"m{ending}")
    assert_same(mdp, again)
    assert_same_noise(mdp, again)
