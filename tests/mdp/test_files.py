"""Files: numbers come back bit for bit, and what cannot be read says where."""

import io
import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mdp_strategies import assert_same, dense_models, listed_models, models

from bqrl import MDP, load, save
from bqrl.mdp.atomic import replacing, write_whole

HEADER = "idstatefrom,idaction,idstateto,probability,reward"
DOMAINS = Path(__file__).parents[2].parent / "shared" / "domains"
TABLE = [  # domain, states, actions, rows, start (from 1), smallest and largest reward
    ("riverswim", 20, 2, 78, 9, 0.0, 86.2971),
    ("machine", 10, 2, 45, 1, -20.0, 0.0),
    ("population", 51, 5, 5583, 44, -2420.0, 1000.0),
    ("cliff", 39, 4, 446, 37, -100.0, 0.0),
    ("inventory2", 101, 51, 23203, 20, -498.8, 480.0),
]


def read(tmp_path, text, name="model.csv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path, **({"horizon": 3} | options if name.endswith(".csv") else options))


def refusal(call, *arguments, **options):
    """The message of the ValueError that a call raises, or nothing; any other exception goes through."""
    try:
        call(*arguments, **options)
    except ValueError as error:
        return str(error)
    return ""


# -- there and back ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".npz", ".json"])
@given(mdp=models())
def test_npz_and_json_hold_everything(tmp_path_factory, ending, mdp):
    path = tmp_path_factory.mktemp("files") / f"model{ending}"
    save(mdp, path)
    assert_same(mdp, load(path))


@given(listed_models())
def test_csv_holds_the_kernel_and_the_rewards(tmp_path_factory, mdp):
    path = tmp_path_factory.mktemp("files") / "model.csv"
    refused = refusal(mdp.save, path)
    if refused:
        assert "cannot hold a first or last" in refused
        return
    again = load(path, horizon=mdp.H, start=mdp.start, discount=mdp.discount)
    assert_same(mdp, again)


@given(dense_models(zeros=False))
def test_csv_of_dense_models_holds_the_kernel_or_refuses(tmp_path_factory, arguments):
    mdp = MDP(**arguments)
    path = tmp_path_factory.mktemp("files") / "model.csv"
    refused = refusal(mdp.save, path)
    if refused:
        assert "; save to .npz instead" in refused
        assert not path.exists()
        return
    again = load(path, horizon=mdp.H, start=mdp.mu, discount=mdp.discount)
    assert_same(mdp, again, but=("state_names", "action_names"))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rewards": np.zeros((4, 2, 1)) + np.arange(4)[:, None, None]}, "rewards that differ by stage"),
        ({"support": np.ones((2, 1, 2), bool)}, "possible successors of probability zero"),
        ({"known": np.ones((2, 1), bool)}, "rows known to learners"),
    ],
)
def test_csv_refuses_what_it_cannot_hold(tmp_path, options, what):
    arguments = {"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[0.0], [1.0]], "horizon": 4} | options
    with pytest.raises(ValueError, match=rf"a .csv file cannot hold {what}.*; save to .npz instead"):
        MDP(**arguments).save(tmp_path / "model.csv")
    assert list(tmp_path.iterdir()) == []


def test_files_override_what_the_caller_says(tmp_path):
    mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=4, state_names=["low", "high"], discount=0.5)
    for ending in ("npz", "json"):
        save(mdp, tmp_path / f"model.{ending}")
        other = load(tmp_path / f"model.{ending}", horizon=9, start="high", discount=1.0)
        assert (other.H, other.start, other.discount) == (9, 1, 1.0)
        assert load(tmp_path / f"model.{ending}", start=0).H == 4


def test_a_fixed_horizon_cannot_be_overridden(tmp_path):
    rewards = np.arange(3.0).reshape(3, 1, 1)
    for mdp in (MDP(np.ones((3, 1, 1, 1)), rewards), MDP(np.ones((1, 1, 1)), rewards, horizon=3)):
        for ending in ("npz", "json"):
            save(mdp, tmp_path / f"model.{ending}")
            assert_same(mdp, load(tmp_path / f"model.{ending}", horizon=3))
            with pytest.raises(ValueError, match=f"^model.{ending}: horizon is fixed at 3"):
                load(tmp_path / f"model.{ending}", horizon=4)


def test_anyone_can_write_an_archive_of_dense_arrays(tmp_path):
    P, R = np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.array([[0.0], [1.0]])
    np.savez(
        tmp_path / "m.npz", transitions=P, rewards=R, horizon=4, start="high", state_names=np.array(["low", "high"])
    )
    mdp = MDP(P, R, horizon=4, start="high", state_names=["low", "high"])
    assert_same(mdp, load(tmp_path / "m.npz"))
    assert load(tmp_path / "m.npz", horizon=7).H == 7
    np.savez(tmp_path / "l.npz", transitions=np.array([[0, 0, 0, 1.0, 2.0]]))
    assert load(tmp_path / "l.npz", horizon=2).reward.tolist() == [[2.0]]


def test_json_reads_what_a_person_would_write(tmp_path):
    text = """{"horizon": 2, "states": ["low", "high"], "actions": ["wait", "sell"], "start": "high",
      "transitions": [["low", "wait", "high", 0.5, 0], ["low", "wait", "low", 0.5, 0], ["high", "sell", "low", 1, 3]]}"""
    mdp = read(tmp_path, text, "m.json")
    assert mdp.start == 1
    assert mdp.available[0].tolist() == [[True, False], [False, True]]
    assert mdp.outcomes(0, 1, 1)[2].tolist() == [3.0]
    assert mdp.discount == 1.0


def test_json_keeps_zeros_as_possible_and_merges_like_csv(tmp_path):
    text = """{"horizon": 2, "states": 2, "actions": 1, "known": [[0, 0]], "transitions":
      [[0, 0, 0, 0.5, 1], [0, 0, 0, 0.5, 1], [0, 0, 1, 0, 2], [1, 0, 1, 1, [3, 4]]]}"""
    mdp = read(tmp_path, text, "m.json")
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [1.0, 0.0]
    assert mdp.known[0, 0, 0]
    assert mdp.outcomes(1, 1, 0)[2].tolist() == [4.0]


# -- csv -----------------------------------------------------------------------------------------------------------------


def test_ids_from_one_become_the_labels(tmp_path):
    mdp = read(tmp_path, f"{HEADER}\n1,1,2,1.0,0.5\n2,1,1,1.0,0.25\n", start="2")
    assert mdp.start == 1
    assert mdp.state_names == ("1", "2")
    assert mdp.action_label(0) == "1"
    save(mdp, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == f"{HEADER}\n1,1,2,1.0,0.5\n2,1,1,1.0,0.25\n"


def test_states_and_actions_are_counted_each_for_themselves(tmp_path):
    mdp = read(tmp_path, f"{HEADER}\n0,1,1,1.0,0.5\n1,2,0,1.0,0.25\n")
    assert mdp.state_names is None
    assert mdp.action_names == ("1", "2")
    assert mdp.available[0].tolist() == [[True, False], [False, True]]


def test_rows_with_the_same_successor_merge(tmp_path):
    mdp = read(tmp_path, f"{HEADER}\n0,0,0,0.25,1\n0,0,0,0.25,1\n0,0,0,0.5,-1\n")
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [0.5, 0.5]
    assert mdp.outcomes(0, 0, 0)[2].tolist() == [-1.0, 1.0]


def test_a_true_duplicate_names_both_lines(tmp_path):
    text = f"{HEADER}\n1,1,1,1,0\n1,2,3,0.3,0.5\n\n1,2,1,0.7,0.5\n1,2,3,0.3,0.5\n2,1,1,1,0\n3,1,1,1,0\n"
    message = r"^model.csv: lines 3 and 6 both give \(s=1, a=2, s'=3\) with reward 0.5; the row sums to 1.3$"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_stages_in_a_column_of_their_own(tmp_path):
    text = f"stage,{HEADER}\n1,1,1,1,1,5\n2,1,1,1,1,6\n"
    mdp = read(tmp_path, text, horizon=None)
    assert (mdp.H, mdp.stationary) == (2, False)
    assert mdp.reward.tolist() == [[5.0, 6.0]]
    with pytest.raises(ValueError, match="horizon is 3 but transitions have 2 stages"):
        read(tmp_path, text, horizon=3)


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{HEADER}\n1,1,1,0.5,2\n1,1,1,0.5,3\n",
        f"{HEADER}\r\n1,1,1,0.5,2\r\n1,1,1,0.5,3\r\n",
        f"{HEADER}\r1,1,1,0.5,2\r1,1,1,0.5,3",
        f"\n{HEADER}\n\n1,1,1,0.5,2\n   \n1,1,1,0.5,3\n\n\n \n",
        " IdStateFrom, idaction ,idstateto,\tprobability,reward\n1, 1,1.0 ,5e-1,2\n1,1,1,.5,+3",
        "reward,probability,idstateto,idaction,idstatefrom\n2,0.5,1,1,1\n3,0.5,1,1,1\n",
    ],
    ids=["bom", "crlf", "cr", "blank lines", "spaces", "another order"],
)
def test_csv_from_any_editor(tmp_path, text):
    mdp = read(tmp_path, text)
    assert mdp.outcomes(0, 0, 0)[2].tolist() == [2.0, 3.0]


@pytest.mark.parametrize(("name", "S", "A", "rows", "start", "low", "high"), TABLE, ids=[row[0] for row in TABLE])
def test_benchmark_domains_load(tmp_path, name, S, A, rows, start, low, high):
    path = DOMAINS / f"{name}.csv"
    if not path.exists():
        pytest.skip("the benchmark domains are not beside the repository")
    mdp = load(path, horizon=100, start=str(start), discount=0.9)
    assert (mdp.H, mdp.S, mdp.A, mdp.start, mdp.discount) == (100, S, A, start - 1, 0.9)
    assert mdp.stationary
    assert mdp.successor.size == rows
    assert (mdp.reward.min(), mdp.reward.max()) == pytest.approx((low, high), rel=1e-6)
    assert mdp.state_label(mdp.start) == str(start)
    for ending in ("csv", "npz", "json"):
        save(mdp, tmp_path / f"again.{ending}")
        again = load(tmp_path / f"again.{ending}", horizon=100, start=mdp.start, discount=0.9)
        assert_same(mdp, again)


def test_two_hundred_thousand_rows_load(tmp_path):
    S, n = 20_000, 200_000
    rng = np.random.default_rng(0)
    listed = np.c_[
        np.repeat(np.arange(S), 10), np.zeros(n), rng.integers(0, S, n), np.full(n, 0.1), rng.integers(0, 9, n)
    ]
    mdp = MDP(listed, horizon=5)
    for ending in ("csv", "npz"):
        save(mdp, tmp_path / f"big.{ending}")
        assert_same(mdp, load(tmp_path / f"big.{ending}", horizon=5))
    text = (tmp_path / "big.csv").read_text()
    with pytest.raises(
        ValueError, match=r"^cut.csv: line \d+: 4 columns where the header has 5; is the file truncated\?$"
    ):
        read(tmp_path, text[: text.rindex(",")], "cut.csv")


# -- whole or not at all -------------------------------------------------------------------------------------------------


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


# -- fuzz: a model, or one line that says why not ------------------------------------------------------------------------


def example():
    mdp = MDP(
        [[[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]], [[0.0, 1.0, 0.0], [0.1, 0.2, 0.7]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]],
        [[0.0, 1.0], [-2.0, 0.5], [1 / 3, 0.0]],
        horizon=3,
    )
    return MDP(
        np.tile(np.array([mdp.dense(0).reshape(3, 2, 3)]), (3, 1, 1, 1)),
        np.arange(18.0).reshape(3, 3, 2),
        state_names=["a", "b", "c"],
        start="b",
    )


def files(tmp_path):
    mdp = example()
    contents = {}
    for name in ("model.csv", "model.npz", "model.json"):
        mdp.save(tmp_path / name)
        contents[name] = (tmp_path / name).read_bytes()
    plain = f"{HEADER}\n1,1,1,0.9,-1.0\n1,1,2,0.1,-1\n1,2,2,1,0\n2,1,1,0.5,7\n2,1,2,0.5,1e3\n".encode()
    return {**contents, "plain.csv": plain}


def check_outcome(path, content):
    """Loading makes a model or raises a ValueError of one line."""
    path.write_bytes(content)
    refused = refusal(load, path, horizon=3)
    if refused:
        assert refused.startswith(f"{path.name}: ")
        assert len(refused.splitlines()) == 1
        return
    mdp = load(path, horizon=3)
    assert abs(mdp.dense(0).sum(axis=1)[mdp.available[0].reshape(-1)] - 1).max() < 1e-9


@pytest.mark.parametrize("name", ["plain.csv", "model.csv", "model.npz", "model.json"])
@settings(max_examples=300)
@given(data=st.data())
def test_mutated_bytes_make_a_model_or_a_clear_error(tmp_path_factory, name, data):
    tmp_path = tmp_path_factory.mktemp("fuzz")
    content = bytearray(files(tmp_path)[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        kind = data.draw(st.sampled_from(["change", "insert", "delete", "cut", "repeat"]))
        if kind == "change":
            content[at] = data.draw(st.integers(0, 255))
        elif kind == "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=4))
        elif kind == "delete":
            del content[at : at + data.draw(st.integers(1, 20))]
        elif kind == "cut":
            del content[max(at, 1) :]
        else:
            content[at:at] = content[at : at + data.draw(st.integers(1, 40))]
        if not content:
            content = bytearray(b"\0")
    check_outcome(tmp_path / name, bytes(content))


CELLS = st.sampled_from(
    ["", " ", "0", "1", "2", "-1", "0.5", "1.5", "nan", "inf", "-inf", "1e400", "1e12", "99999999999999999999", "x", "1_0",
     "0x1", "1,1", '"1"', "\x00", "é", "1;1", "idaction", "2147483647", "1e-300", "null", "[", "true"]
)  # fmt: skip


@pytest.mark.parametrize("name", ["plain.csv", "model.csv"])
@settings(max_examples=300)
@given(data=st.data())
def test_mutated_cells_make_a_model_or_a_clear_error(tmp_path_factory, name, data):
    tmp_path = tmp_path_factory.mktemp("fuzz")
    lines = [line.split(",") for line in files(tmp_path)[name].decode().splitlines()]
    for _ in range(data.draw(st.integers(1, 3))):
        line = data.draw(st.sampled_from(lines))
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(CELLS)
    order = data.draw(st.permutations(range(1, len(lines))))
    text = "\n".join(",".join(line) for line in [lines[0], *(lines[i] for i in order)])
    check_outcome(tmp_path / name, text.encode())


values = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 5),
    st.sampled_from([10**12, 10**400, 0.5, 1e308, "a", "b", "", "x", [], {}, [1], [[]]]),
)  # fmt: skip


@settings(max_examples=300)
@given(data=st.data())
def test_mutated_json_values_make_a_model_or_a_clear_error(tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("fuzz")
    model = json.loads(files(tmp_path)["model.json"])
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(model)))
        place, at = model, key
        while isinstance(place[at], list) and place[at] and data.draw(st.booleans()):
            place, at = place[at], data.draw(st.integers(0, len(place[at]) - 1))
        place[at] = data.draw(values)
    check_outcome(tmp_path / "model.json", json.dumps(model).encode())


@settings(max_examples=300)
@given(data=st.data())
def test_mutated_arrays_make_a_model_or_a_clear_error(tmp_path_factory, data):
    tmp_path = tmp_path_factory.mktemp("fuzz")
    with np.load(io.BytesIO(files(tmp_path)["model.npz"])) as archive:
        arrays = {name: archive[name].copy() for name in archive.files}
    name = data.draw(st.sampled_from(sorted(arrays)))
    kind = data.draw(st.sampled_from(["drop", "entry", "type", "shape", "object", "rename"]))
    if kind == "drop":
        del arrays[name]
    elif kind == "entry" and arrays[name].dtype.kind in "fiub":
        flat = arrays[name].reshape(-1)
        number = data.draw(
            st.sampled_from([0, 1, -1, 2, 100, 2**30] + ([np.nan, np.inf, 1e308] if flat.dtype.kind == "f" else []))
        )
        flat[data.draw(st.integers(0, flat.size - 1))] = number
    elif kind == "type":
        arrays[name] = (
            arrays[name].astype(data.draw(st.sampled_from([np.str_, np.complex128, np.float32, np.int8, np.bool_])))
            if arrays[name].dtype.kind != "U"
            else np.arange(arrays[name].size)
        )
    elif kind == "shape":
        arrays[name] = arrays[name].reshape(-1)[: data.draw(st.integers(0, 3))]
    elif kind == "object":
        arrays[name] = np.array([{}], dtype=object)
    else:
        arrays[data.draw(st.sampled_from(["x", "transitions", "reward"]))] = arrays.pop(name)
    file = io.BytesIO()
    np.savez(file, **arrays)
    check_outcome(tmp_path / "model.npz", file.getvalue())


def test_an_array_that_claims_to_be_huge_is_refused(tmp_path):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (10**13,)})
        archive.writestr("mu.npy", header.getvalue())
    check_outcome(tmp_path / "model.npz", file.getvalue())
