# ruff: noqa: E501  (a bad policy and its message stay on one line)

import numpy as np
import pytest

import bqrl
from bqrl import MarkovPolicy, MixturePolicy
from bqrl.errors import ArgumentError

MODEL = bqrl.envs.make("AssetSelling")


def test_a_mixture_draws_once_by_the_given_uniform():
    always, never = MarkovPolicy(np.ones((10, 26), int)), MarkovPolicy(np.zeros((10, 26), int))
    mix = MixturePolicy([always, never], [0.25, 0.75])
    assert [mix.start(u)[0] for u in (0.0, 0.2499, 0.25, 0.999999)] == [0, 0, 1, 1]
    first = [MixturePolicy([always, never], [0.5, 0.5], seed=4).start()[0] for _ in range(3)]
    assert len(set(first)) == 1  # the same seed, the same coin
    fresh = [MixturePolicy([always, never], [0.5, 0.5], seed=None) for _ in range(2)]
    assert len({tuple(mix.start()[0] for _ in range(64)) for mix in fresh}) == 2
    with pytest.raises(ArgumentError, match="seed must be a whole number of at least 0, got -1"):
        MixturePolicy([always, never], [0.5, 0.5], seed=-1)
    with pytest.raises(ValueError, match="convert its parts"):
        mix.to_labels(MODEL)


def test_a_mixture_without_a_uniform_tosses_its_own_coin():
    mix = MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[1]])], [0.25, 0.75], seed=3)
    drawn = np.array([mix.start()[0] for _ in range(4000)])
    assert drawn.mean() == pytest.approx(0.75, abs=5 * np.sqrt(0.75 * 0.25 / 4000))
    u = np.random.default_rng(3).random(4000)
    assert drawn.tolist() == [mix.start(x)[0] for x in u]


@pytest.mark.parametrize(("weights", "part"), [([1 - 5e-10, 0.0], 0), ([0.0, 1 - 5e-10], 1)])
def test_a_mixture_never_draws_a_policy_of_weight_0(weights, part):
    mix = MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[1]])], weights)
    assert [mix.start(u)[0] for u in (0.0, 0.5, 1 - 1e-12, 1 - 2**-53)] == [part] * 4


def test_a_mixture_within_a_mixture_draws_by_the_same_uniform_number():
    inner = MixturePolicy([MarkovPolicy([[1]]), MarkovPolicy([[2]])], [0.25, 0.75])
    outer = MixturePolicy([MarkovPolicy([[0]]), inner], [0.5, 0.5])
    played = [outer.act(0, 0, outer.start(u)) for u in (0.0, 0.49, 0.5, 0.62, 0.63, 0.999)]
    assert played == [0, 0, 1, 1, 2, 2]


BAD = [
    ("weights for other policies", lambda: MixturePolicy([MarkovPolicy([[0]])], [0.5, 0.5]), "one number per policy (1)"),
    ("weights that sum to 0.9", lambda: MixturePolicy([MarkovPolicy([[0]])] * 2, [0.5, 0.4]), "probabilities that sum to 1"),
    ("negative weights", lambda: MixturePolicy([MarkovPolicy([[0]])] * 2, [1.5, -0.5]), "probabilities that sum to 1"),
    ("NaN weights", lambda: MixturePolicy([MarkovPolicy([[0]])] * 2, [np.nan, 1.0]), "probabilities that sum to 1"),
    ("no policies", lambda: MixturePolicy([], []), "one number per policy (0)"),
    ("policies of two sizes", lambda: MixturePolicy([MarkovPolicy([[0]]), MarkovPolicy([[0, 0]])], [0.5, 0.5]), "the policies of a mixture must have the same (H, S), got (1, 1) and (1, 2)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_mixtures_get_one_line(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
