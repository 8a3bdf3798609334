"""Frames of any library are models."""

import pytest
from mdp_strategies import assert_same

from bqrl import MDP
from bqrl.errors import ModelError

TABLE = {
    "state": ["Well", "Well", "Sick"],
    "action": ["wait", "wait", "cure"],
    "next_state": ["Sick", "Well", "Well"],
    "probability": [0.25, 0.75, 1.0],
    "reward": [5, 5, -2],
}


def pandas_frame(table):
    return pytest.importorskip("pandas").DataFrame(table)


def polars_frame(table):
    return pytest.importorskip("polars").DataFrame(table)


FRAMES = [dict, pandas_frame, polars_frame]


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_is_a_model(frame):
    mdp = MDP(frame(TABLE), horizon=8, start={"Well": 0.8, "Sick": 0.2})
    assert mdp.state_names == ("Well", "Sick")
    assert mdp.action_names == ("wait", "cure")
    assert mdp.mu.tolist() == [0.8, 0.2]
    same = MDP([(0, 0, 1, 0.25, 5), (0, 0, 0, 0.75, 5), (1, 1, 0, 1.0, -2)], horizon=8, start=[0.8, 0.2])
    assert_same(mdp, same, but=("state_names", "action_names"))


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("first", [0, 1])
def test_ids_that_are_numbers_count_from_0_or_1(frame, first):
    ids = {name: [TABLE[name].index(x) + first for x in TABLE[name]] for name in ("action",)}
    index = {"Well": first, "Sick": first + 1}
    ids |= {name: [index[x] for x in TABLE[name]] for name in ("state", "next_state")}
    mdp = MDP(frame(TABLE | ids | {"action": [first, first, first + 1]}), horizon=8)
    assert mdp.state_names == (("1", "2") if first else None)
    named = MDP(TABLE, horizon=8)
    assert_same(mdp, named, but=("state_names", "action_names"))


def test_ids_of_a_pandas_frame_with_gaps_in_its_index():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE, index=[7, 3, 9])
    assert_same(MDP(frame, horizon=2), MDP(TABLE, horizon=2))
    text = frame.astype({"state": "string", "action": "category"})
    assert_same(MDP(text, horizon=2), MDP(TABLE, horizon=2))


def test_missing_ids_are_empty():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(TABLE | {"next_state": ["Sick", None, "Well"]})
    for kind in ("object", "string"):
        with pytest.raises(ModelError, match="row 1: the state is empty"):
            MDP(frame.astype({"next_state": kind}), horizon=2)
    whole = pandas.DataFrame(TABLE | {"action": [0, 0, 1]}).astype({"action": "Int64"})
    assert_same(MDP(whole, horizon=2), MDP(TABLE, horizon=2), but=("action_names",))


def test_ids_may_stand_in_a_named_index():
    frame = pandas_frame(TABLE)
    for index in ("state", ["state", "action", "next_state"]):
        assert_same(MDP(frame.set_index(index), horizon=2), MDP(TABLE, horizon=2))


def test_a_lazy_frame_is_collected():
    assert_same(MDP(polars_frame(TABLE).lazy(), horizon=2), MDP(TABLE, horizon=2))


def test_a_list_of_dicts_is_a_table():
    rows = [dict(zip(TABLE, row, strict=True)) for row in zip(*TABLE.values(), strict=True)]
    assert_same(MDP(rows, horizon=2), MDP(TABLE, horizon=2))
    del rows[1]["next_state"]
    with pytest.raises(ModelError, match="row 1: the state is empty"):
        MDP(rows, horizon=2)


@pytest.mark.parametrize("frame", FRAMES)
def test_a_frame_may_have_events(frame):
    table = TABLE | {"event": ["bad", "good", ""]}
    mdp = MDP(frame(table), horizon=2)
    assert mdp.noise.events == (("bad", "good"),)
    assert_same(mdp, MDP(TABLE, horizon=2))
