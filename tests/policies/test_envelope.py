"""The network formula, and policies that act on it without PyTorch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.errors import FileFormatError, PolicyError
from bqrl.policies.envelope import WEIGHTS, EnvelopePolicy, need_grid, scores, values

H, A, M, WIDTH, FEATURES = 3, 2, 5, 8, 2


def weights(seed, size=1.0):
    rng = np.random.default_rng(seed)
    shapes = {
        "input": (FEATURES, WIDTH), "stage": (H, WIDTH), "hidden": (WIDTH, WIDTH), "hidden_bias": (WIDTH,),
        "needs": (A, WIDTH, M), "needs_bias": (A, M), "means": (A, WIDTH, M), "means_bias": (A, M),
    }  # fmt: skip
    return {name: (size * rng.normal(size=shapes[name])).astype(np.float32) for name in WEIGHTS}


def policy(seed=0, target=2.0):
    grid = need_grid(np.zeros(H), 1.0, M)
    return EnvelopePolicy(weights(seed), grid, target, 0.02, np.ones(FEATURES), np.ones(FEATURES), 0.5)


@given(st.integers(0, 10_000), st.floats(0.01, 3.0), st.sampled_from([0.0, 0.1, 1.0]))
def test_costs_rise_with_the_need(seed, size, ratio):
    x = np.random.default_rng(seed).normal(size=(7, FEATURES)).astype(np.float32)
    found, means = values(np, weights(seed, size), x, np.arange(7) % H, ratio)
    assert found.shape == means.shape == (A, 7, M)
    assert np.all(np.diff(found, axis=2) >= 0.0)
    assert found.min() >= 0.0
    if ratio:
        assert np.diff(found, axis=2).max() <= ratio + 1e-5  # a step of the need costs a step at most
    else:
        assert found.max() <= 1.0


def test_a_state_selects_a_row_as_a_one_hot_observation_does():
    every_pair = weights(1) | {"stage": np.repeat(weights(1)["stage"], FEATURES, axis=0)}  # a row per stage and state
    by_row = values(np, every_pair, np.array([1, 0]), np.array([0, 2]), 0.0)
    by_product = values(np, weights(1), np.eye(2, dtype=np.float32)[[1, 0]], np.array([0, 2]), 0.0)
    assert all(np.allclose(one, other) for one, other in zip(by_row, by_product, strict=True))


@pytest.mark.parametrize("ratio", [0.0, 0.2])
def test_numpy_and_pytorch_share_the_formula(ratio):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x, h = np.random.default_rng(3).normal(size=(9, FEATURES)).astype(np.float32), np.arange(9) % H
    tensors = {name: torch.as_tensor(array) for name, array in weights(3).items()}
    there = values(torch, tensors, torch.as_tensor(x), torch.as_tensor(h), ratio)
    here = values(np, weights(3), x, h, ratio)
    for one, other in zip(here, there, strict=True):
        assert np.allclose(one, other.numpy(), atol=1e-4)
    mask = np.random.default_rng(4).random((A, 9, 1)) < 0.7
    mask[0] = True
    by_numpy = scores(np, *(part.swapaxes(0, 1) for part in here), mask.swapaxes(0, 1), 0.02, ratio)
    by_torch = scores(
        torch, *(part.transpose(0, 1) for part in there), torch.as_tensor(mask).transpose(0, 1), 0.02, ratio
    )
    assert np.allclose(by_numpy, by_torch.numpy(), atol=1e-4)


def test_the_mean_decides_where_a_need_is_safe_or_lost_and_nowhere_else():
    """The mean once counted everywhere, so that a decision could give away shortfall for it."""
    means, mask = np.array([[0.0, 1.0]]), np.ones((1, 2), bool)
    for least, best in ((0.0, 1), (1.0, 1), (0.1, 0), (0.5, 0)):
        cost = np.array([[least, min(1.0, least + 0.01)]])
        assert scores(np, cost, means, mask, 0.02, 0.0).argmin() == best
    assert scores(np, np.zeros((1, 2)), means, np.array([[True, False]]), 0.02, 0.0).argmin() == 0


def test_the_memory_is_the_need_and_masks_are_obeyed():
    one = policy()
    need = one.start()
    assert one.next(need, 0, None, 0, 1.5, None) == 0.5
    seen = np.array([0.3, -0.2])
    free = one.act(0, seen, need)
    assert one.act(0, seen, need, np.arange(A) != free) == 1 - free
    many = one.act_many(1, np.tile(seen, (4, 1)), np.array([-1.0, 0.5, 2.0, 99.0]))
    assert many.tolist() == [one.act(1, seen, n) for n in (-1.0, 0.5, 2.0, 99.0)]


def test_a_saved_policy_plays_the_same(tmp_path):
    one = policy(5, 1.5)
    bqrl.save(one, tmp_path / "policy.npz")
    other = bqrl.load(tmp_path / "policy.npz")
    assert isinstance(other, EnvelopePolicy)
    assert (other.H, other.A, other.M, other.target, other.ratio) == (H, A, M, 1.5, 0.5)
    rng = np.random.default_rng(0)
    for h in range(H):
        seen, need = rng.normal(size=(50, FEATURES)), rng.normal(size=50)
        assert one.act_many(h, seen, need).tolist() == other.act_many(h, seen, need).tolist()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weights_hidden", np.zeros((WIDTH, WIDTH - 1))),
        ("weights_stage", np.zeros((H + 1, WIDTH))),
        ("weights_needs_bias", np.zeros((A, M + 1))),
        ("weights_input", np.full((FEATURES, WIDTH), np.nan)),
        ("spread", np.zeros(FEATURES)),
        ("size", np.array([M, M - 1, M, 1])),
        ("numbers_policy", np.array([0.02, -1.0])),
        ("kind", np.array("set")),
    ],
)
def test_damaged_networks_are_refused(tmp_path, name, value):
    arrays = policy().file_arrays() | {name: value}
    np.savez(tmp_path / "policy.npz", **arrays)
    with pytest.raises(FileFormatError) as caught:
        bqrl.load(tmp_path / "policy.npz")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("h", "seen"), [(0, [1.0]), (H, [1.0, 2.0]), (-1, [1.0, 2.0])])
def test_other_sizes_are_refused_in_one_line(h, seen):
    with pytest.raises(PolicyError, match="expected an observation of 2 numbers at a stage from 0 to 2, got "):
        policy().act(h, seen, 1.0)
