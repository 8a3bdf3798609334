"""Archives: what others write, and sizes that are checked before anything is unpacked."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import assert_same, assert_same_noise, step_models

import bqrl
from bqrl import MDP, load
from bqrl.errors import FileFormatError, ModelError, SizeError
from bqrl.mdp.files import read_arrays
from bqrl.mdp.files.npz import PREFIX, noise_arrays, pack, read_noise, unpack


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


def test_an_archive_is_measured_before_it_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, transitions=np.zeros((200, 100, 200)))
    assert path.stat().st_size < 100_000
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("nothing may be unpacked"))
    limit = r"^bomb\.npz: the unpacked archive must have at most 1000000 bytes, got 32000128; raise the limit"
    with pytest.raises(SizeError, match=limit) as caught:
        load(path, max_bytes=1_000_000)
    assert caught.value.needed > 32_000_000
    assert (caught.value.limit, caught.value.name) == (1_000_000, "BQRL_MAX_FILE_BYTES")
    monkeypatch.setenv("BQRL_MAX_FILE_BYTES", "2000000")
    with pytest.raises(SizeError, match="archive must have at most 2000000 bytes, got 32000128"):
        read_arrays(path)


@pytest.mark.parametrize(("shape", "content"), [((10**13,), b""), ((2,), b"8 bytes."), ((1,), b"8 bytes." * 2)])
def test_a_header_that_disagrees_with_the_content_is_refused(shape, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        header = io.BytesIO()
        np.lib.format.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": shape})
        archive.writestr("mu.npy", header.getvalue() + content)
    with pytest.raises(FileFormatError, match="expected the array 'mu' in a readable form, got damaged bytes"):
        unpack(file.getvalue())


def test_arrays_come_back_as_they_were():
    given = {
        "matrix": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "empty": np.zeros((0, 3)), "number": np.array(4),
        "words": np.array(["a", "größer"]), "flags": np.array([True, False]), "bytes": np.array([b"xy"]),
    }  # fmt: skip
    found = unpack(pack(given))
    assert list(found) == list(given)
    for name, array in given.items():
        assert np.array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape


def test_a_damaged_byte_is_found():
    content = bytearray(pack({"x": np.random.default_rng(0).random(1000)}))
    content[len(content) // 2] ^= 0xFF
    with pytest.raises(FileFormatError, match=r"^expected the array 'x' in a readable form, got damaged bytes"):
        unpack(bytes(content))


def test_a_horizon_of_a_billion_in_a_file_is_refused_at_once(tmp_path):
    np.savez(tmp_path / "m.npz", transitions=np.ones((1, 1, 1)), rewards=np.zeros((1, 1)), horizon=10**9)
    with pytest.raises(SizeError, match=r"m\.npz: horizon must be at most 1000000, got 1000000000") as caught:
        load(tmp_path / "m.npz")
    assert (caught.value.needed, caught.value.limit) == (10**9, 10**6)


# -- shared noise ------------------------------------------------------------------------------------------------------

MODEL = bqrl.envs.make("Inventory", capacity=2, demand={0: 0.25, 1: 0.5, 2: 0.25}, shared=True)


@given(step_models())
def test_the_arrays_describe_the_noise(case):
    mdp = case[0]
    arrays = noise_arrays(mdp.noise)
    assert all(name.startswith(PREFIX) for name in arrays)
    again = read_noise(arrays, mdp.row_start)
    assert_same_noise(mdp, mdp.with_noise(again))
    assert all(isinstance(event, str) for labels in again.events for event in labels)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("noise_pair_outcome", lambda x: x[:-1]),
        ("noise_pair_outcome", lambda x: x + 1000),
        ("noise_row_law", lambda x: x[:, :-1]),
        ("noise_row_law", lambda x: x - 2),
        ("noise_row_law", lambda x: x + 7),
        ("noise_law_start", lambda x: x + 1),
        ("noise_cut", lambda x: np.array(["many"])),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name, change):
    arrays = noise_arrays(MODEL.noise)
    with pytest.raises(
        ModelError,
        match=r"^expected arrays noise_\.\.\. that describe the rows of this model, got others; save it again$",
    ):
        read_noise(arrays | {name: change(arrays[name])}, MODEL.row_start)
    del arrays[name]
    with pytest.raises(ModelError, match="that describe the rows of this model, got others"):
        read_noise(arrays, MODEL.row_start)


def test_laws_that_are_not_known_stay_unknown():
    hidden = MODEL.with_probability(MODEL.probability)
    again = read_noise(noise_arrays(hidden.noise), MODEL.row_start)
    assert not again.known
    assert np.isnan(again.probabilities[0]).all()


def test_names_in_bytes_are_text(tmp_path):
    """Other programs write strings as bytes; they were once refused."""
    P, R = np.eye(2)[:, None, :], np.zeros((2, 1))
    names = np.array(["caf\u00e9".encode(), b"b"])
    np.savez(tmp_path / "m.npz", transitions=P, rewards=R, horizon=2, state_names=names)
    assert load(tmp_path / "m.npz").state_names == ("caf\u00e9", "b")
