"""Training: one step at a time against closed forms, and a whole fit against an exact answer."""

import importlib

import numpy as np
import pytest

from bqrl.errors import ArgumentError
from bqrl.learners.network import Batch, Network, check_device, import_torch, interpolate

M = 6


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


def network(seed=0, polyak=0.05):
    return Network(np.random.default_rng(seed), 2, 0, 2, 2, M, width=32, weight=0.0, polyak=polyak, device="cpu")


def two_stage_batch(rng, size=128):
    """Stage 0 leads to state 0 or 1 with reward 0; stage 1 pays action + state, or 0 with probability 1/4. Needs are 0 .. 5."""
    h, x, a = rng.integers(0, 2, size), rng.integers(0, 2, size), rng.integers(0, 2, size)
    x_next, lost = rng.integers(0, 2, size), rng.random(size) < 0.25
    reward = np.where(h == 1, np.where(lost, 0, a + x), 0).astype(float)
    same = np.zeros(size)  # both stages have the grid 0 .. 5, and nothing is known beyond it
    return Batch(
        x=x, h=h, action=a, reward=reward, ended=h == 1, x_next=x_next, h_next=np.ones_like(h),
        mask=np.ones((size, 2), bool), left=-reward, low=same, high=same + M - 1, least=same, most=same + M,
    )  # fmt: skip


def test_the_fit_finds_the_exact_shortfalls_and_the_best_action(torch):
    net, rng = network(), np.random.default_rng(1)
    for step in range(700):
        net.update(two_stage_batch(rng, 256), 5e-3 * (1.0 - step / 700))
    x, h = np.array([0, 1, 0]), np.array([1, 1, 0])
    action, cost = net.greedy(x, h, np.ones((3, 2), bool))
    # The best action pays 1 in state 0 and 2 in state 1, each with probability 3/4; from stage 0 both states are equally likely.
    exact = [[0, 1 / 4, 1, 1, 1, 1], [0, 1 / 4, 1 / 4, 1, 1, 1], [0, 1 / 4, 5 / 8, 1, 1, 1]]
    assert np.abs(cost - exact).max() < 0.08
    assert action[0, 1] == 1
    assert action[1, 2] == 1
    masked = net.greedy(x, h, np.array([[True, False]] * 3))
    assert not masked[0].any()
    assert masked[1][1, 2] > 0.9  # the other action pays 1 at most


def test_interpolation_is_linear_and_stays_on_the_grid(torch):
    values = torch.tensor([[0.0, 1.0, 4.0]])
    found = interpolate(values, torch.tensor([[0.0, 0.5, 2.0]]))
    assert found.tolist() == [[0.0, 0.5, 4.0]]


def test_the_bits_do_not_depend_on_the_number_of_threads(torch):
    found, threads = [], torch.get_num_threads()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            net, rng = network(), np.random.default_rng(1)
            for _ in range(3):
                net.update(two_stage_batch(rng, 512), 1e-3)
            assert torch.get_num_threads() == number
            found.append({name: array.tobytes() for name, array in net.arrays("averaged").items()})
    finally:
        torch.set_num_threads(threads)
    assert found[0] == found[1]


def test_a_restored_network_continues_with_the_same_bits(torch):
    one, rng = network(), np.random.default_rng(2)
    batches = [two_stage_batch(rng) for _ in range(6)]
    for batch in batches[:3]:
        one.update(batch, 1e-3)
    other = network(seed=9)
    other.restore({name: np.asarray(value) for name, value in one.state().items()})
    for batch in batches[3:]:
        one.update(batch, 1e-3)
        other.update(batch, 1e-3)
    assert all(np.array_equal(value, other.state()[name]) for name, value in one.state().items())


def test_needs_added_above_leave_those_below_as_they_are(torch):
    net, rng = network(), np.random.default_rng(3)
    net.update(two_stage_batch(rng), 1e-3)
    given = np.array([0, 1]), np.array([1, 0]), np.ones((2, 2), bool)
    before = net.greedy(*given)[1]
    net.grow(M + 3)
    after = net.greedy(*given)[1]
    assert after.shape == (2, M + 3)
    assert np.allclose(after[:, :M], before)
    assert np.all(np.diff(after, axis=1) >= 0.0)


def test_a_device_that_is_not_there_is_refused_in_one_line(torch):
    device = "cuda:99" if torch.cuda.is_available() else "cuda"
    for given in (device, "abacus"):
        with pytest.raises(
            ArgumentError, match=f"device must be a device of PyTorch on this machine, got '{given}'"
        ) as caught:
            check_device(torch, given)
        assert "\n" not in str(caught.value)
        assert str(caught.value).endswith("use device='cpu'")


def test_without_pytorch_the_message_names_the_extra(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", absent)
    with pytest.raises(ImportError, match=r'pip install "bqrl\[deep\]"'):
        import_torch()
