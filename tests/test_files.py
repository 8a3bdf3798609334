"""`load` and `save`: what a file holds comes back as what it is."""

import csv

import numpy as np
import pytest
from helpers import Corridor
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
    with pytest.raises(
        ArgumentTypeError,
        match=r"thing must be a model, policy, plan, record, experiment, suite, estimate or chart, got 'Law'",
    ):
        bqrl.save(bqrl.solve(MODEL, 0.3).law, tmp_path / "p.npz")


def test_an_experiment_and_a_suite_come_back(tmp_path):
    given = {"tau": 0.3, "episodes": 12, "seeds": [3, 5], "workers": 1}
    suite = bqrl.compare({"first": MODEL, "Safe, or ü": "SafeOrRisky"}, ["sarsa", ("x, y", "psrl", {})], **given)
    for thing, name in ((suite, "suite.npz"), (suite["first"], "one.npz")):
        bqrl.save(thing, tmp_path / name)
        found = bqrl.load(tmp_path / name)
        assert type(found) is type(thing)
        assert found.rows() == thing.rows()
        assert found.curves("mean_regret") == thing.curves("mean_regret")
    assert found.seeds == (3, 5)
    assert (
        found.values("sarsa", "capped").tolist() == suite["first"].values("sarsa", "capped").tolist()
    )  # needs the model
    mine, other = suite["first"].records["x, y"][1], found.records["x, y"][1]
    assert (other.returns.tobytes(), other.pmf.tobytes()) == (mine.returns.tobytes(), mine.pmf.tobytes())
    assert other.settings == mine.settings
    with pytest.raises(ArgumentError, match=r"path must end in \.npz or \.csv, got 'x\.json'"):
        bqrl.save(suite, tmp_path / "x.json")
    content = (tmp_path / "one.npz").read_bytes()
    (tmp_path / "bad.npz").write_bytes(content[: len(content) // 2])
    with pytest.raises(FileFormatError, match=r"bad\.npz"):
        bqrl.load(tmp_path / "bad.npz")


def test_an_experiment_without_a_known_kernel_comes_back(tmp_path):
    thing = bqrl.compare(Corridor(), ["q-learning"], tau=0.3, episodes=5, seeds=2, workers=1, horizon=6)
    bqrl.save(thing, tmp_path / "x.npz")
    found = bqrl.load(tmp_path / "x.npz")
    assert (found.known, found.rows()) == (False, thing.rows())
    bqrl.save(thing, tmp_path / "x.csv")
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert {row["measure"] for row in rows} == {"return"}


def test_curves_are_saved_with_their_band_seeds_and_versions(tmp_path):
    thing = bqrl.compare(MODEL, ["sarsa"], tau=0.3, episodes=5, seeds=[3, 5], workers=1)
    bqrl.save(thing, tmp_path / "x.csv")
    rows = list(csv.DictReader((tmp_path / "x.csv").read_text().splitlines()))
    assert [row["measure"] for row in rows] == ["gap"] * 5 + ["mean_regret"] * 5 + ["return"] * 5
    for row, same in zip(rows, thing.curves("gap"), strict=False):
        assert {key: type(value)(row[key]) for key, value in same.items()} == same
        assert (row["seeds"], row["seed_numbers"], row["objective"]) == ("2", "3 5", "quantile:0.3")
        assert f"bqrl {bqrl.__version__}, code {bqrl.__version__}+" in row["versions"]
        assert "numpy" in row["versions"]


@pytest.mark.parametrize(
    ("name", "start"), [("c.pdf", b"%PDF"), ("c.svg", b"<svg"), ("c.png", b"\x89PNG"), ("c.html", b"<!DOC")]
)
def test_charts_are_saved_by_their_ending(tmp_path, name, start):
    bqrl.save(bqrl.Law([0.0, 1.0], [0.5, 0.5]).chart(), tmp_path / name)
    assert (tmp_path / name).read_bytes().lstrip().startswith(start)
    with pytest.raises(ArgumentError, match=r"path must end in \.pdf, .* got 'c\.gif'"):
        bqrl.save(bqrl.Law([0.0, 1.0], [0.5, 0.5]).chart(), tmp_path / "c.gif")


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
