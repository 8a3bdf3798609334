import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MDP
from bqrl.planners.confidence import (
    candidate_kernels,
    check_schedule,
    confidence_constant,
    constant_buffer,
    log_buffer,
    power_buffer,
    practical_radius,
    radius,
)

sizes = {"S": 26, "A": 2, "T": 2000, "H": 10, "delta": 0.05}


def test_constant_and_radius_of_the_paper():
    S, A, T, H, delta = sizes.values()
    level = math.log(2 * S * A * T * H / delta)
    c = max(2.0, math.sqrt(2 * math.log(S * A * T * H * (2**S - 2) / delta))) / math.sqrt(level)
    assert confidence_constant(**sizes) == pytest.approx(c, rel=1e-14)
    for n in (0, 1, 7, 2000):
        assert radius(n, **sizes) == pytest.approx(c * math.sqrt(level / max(1, n)), rel=1e-14)
        assert practical_radius(n, 0.01, **sizes) == pytest.approx(0.01 * math.sqrt(level / max(1, n)), rel=1e-14)


def test_support_sizes_stand_for_the_number_of_states():
    S, A, T, H, delta = sizes.values()
    k = np.array([[1, 2, 25], [26, 3, 1]])
    c = confidence_constant(**sizes, support=k)
    level = math.log(2 * S * A * T * H / delta)
    for i in range(2):
        for j in range(3):
            wide = math.sqrt(2 * math.log(S * A * T * H * (2.0 ** k[i, j] - 2) / delta)) if k[i, j] > 1 else 0.0
            assert c[i, j] == pytest.approx(max(2.0, wide) / math.sqrt(level), rel=1e-12)
    eps = radius(np.full((2, 3), 4), **sizes, support=k)
    assert np.array_equal(eps == 0.0, k == 1)
    assert eps[1, 0] == radius(4, **sizes)


def test_extreme_sizes_stay_finite():
    assert confidence_constant(1, 1, 1, 1, 0.5) == pytest.approx(2 / math.sqrt(math.log(4)))
    assert np.isfinite(radius(0, 1, 1, 1, 1, 0.5))
    assert radius(0, 1, 1, 1, 1, 0.5, support=1) == 0.0
    large = confidence_constant(100_000, 2, 100, 10, 0.1)
    assert large == pytest.approx(math.sqrt(2 * 1e5 * math.log(2) / math.log(2 * 1e5 * 2 * 100 * 10 / 0.1)), rel=1e-2)


@pytest.mark.parametrize(
    ("change", "message"),
    [({"delta": 0.0}, "delta must be"), ({"T": 0}, "T must be")],
)
def test_bad_sizes_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        radius(1, **(sizes | change))
    with pytest.raises(ValueError, match="support must be at least 1"):
        confidence_constant(**sizes, support=[0, 2])
    with pytest.raises(ValueError, match="c_conf must be at least 0"):
        practical_radius(1, -0.1, **sizes)


def test_buffer_schedules():
    t = np.arange(2000)
    assert log_buffer(0.1)(0) == pytest.approx(0.1)
    assert log_buffer(0.5)(t) == pytest.approx(0.5 / np.log(np.e + t))
    assert power_buffer(0.5, 0.25)(t) == pytest.approx(0.5 * (t + 1.0) ** -0.25)
    assert constant_buffer(0.03)(7) == 0.03
    for schedule in (log_buffer(0.5), power_buffer(0.5, 0.25), constant_buffer(0.5)):
        beta = check_schedule(schedule, 0.5, 2000)
        assert beta.shape == (2000,)
        assert beta == pytest.approx(schedule(t))
        assert pickle.loads(pickle.dumps(schedule)) == schedule
    assert check_schedule([0.5, 0.2, 0.2], 0.5, 3).tolist() == [0.5, 0.2, 0.2]
    assert check_schedule(lambda t: 0.1, 0.5, 3).tolist() == [0.1] * 3


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ([0.1, 0.2], "must not increase, got 0.1 and then 0.2"),
        ([0.6, 0.2], "got 0.6 in episode 0"),
        ([0.1, 0.0], "got 0 in episode 1"),
        ([0.1, np.nan], "got nan in episode 1"),
        ([0.1], "one number per episode"),
    ],
)
def test_bad_schedules_are_refused(schedule, message):
    with pytest.raises(ValueError, match=message):
        check_schedule(schedule, 0.5, 2)


def test_bad_buffers_are_refused():
    with pytest.raises(ValueError, match="a must be a number of at least 0"):
        power_buffer(0.5, -1.0)
    with pytest.raises(ValueError, match="beta must be"):
        constant_buffer(0)


def rows_of(mdp):
    return np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))


@given(small_mdps(actions=3), st.integers(0, 10**6), st.sampled_from([0.0, 0.05, 0.5, 3.0]))
def test_candidates_stay_in_the_ball_and_the_support(mdp, seed, eps):
    rng, rows, count = np.random.default_rng(seed), rows_of(mdp), mdp.row_start.size - 1
    half = 0.5 * eps * rng.random(count)
    retained, uniforms = rng.integers(0, 3, (mdp.H + 1, mdp.S)).astype(float), rng.random((4, count, 2))
    found = candidate_kernels(mdp, mdp.probability, half, retained, uniforms)
    assert found.shape == (6, mdp.probability.size)
    assert np.array_equal(found[0], mdp.probability)
    assert found.min() >= 0.0
    for kernel in found:
        assert np.bincount(rows, kernel)[np.unique(rows)] == pytest.approx(1.0, abs=1e-12)
        assert np.all(np.bincount(rows, np.abs(kernel - mdp.probability), count) <= 2 * half + 1e-12)
        mdp.with_probability(kernel)
    known = mdp.known.reshape(-1)[rows]
    assert np.array_equal(found[:, known], np.tile(mdp.probability[known], (6, 1)))
    assert np.array_equal(found, candidate_kernels(mdp, mdp.probability, half, retained, uniforms)), "same bits again"
    assert mdp.probability.flags.writeable is False


@given(small_mdps(actions=3), st.integers(0, 10**6))
def test_the_directed_candidate_is_the_best_of_the_ball(mdp, seed):
    """Of all kernels in the balls it has the largest mean of reward plus retained value, row by row."""
    mdp = mdp.staged()
    rng, rows, count = np.random.default_rng(seed), rows_of(mdp), mdp.row_start.size - 1
    half = rng.random(count)
    retained = rng.integers(0, 3, (mdp.H + 1, mdp.S)).astype(float)
    found = candidate_kernels(mdp, mdp.probability, half, retained, rng.random((4, count, 2)))
    stage = rows // (mdp.S * mdp.A)
    favour = mdp.reward[0] + retained[stage + 1, mdp.successor]
    means = np.stack([np.bincount(rows, kernel * favour, count) for kernel in found])
    assert np.all(means[1] >= means.max(axis=0) - 1e-12)
    for q in np.flatnonzero(~mdp.known.reshape(-1) & (half >= 1.0)):
        here = slice(mdp.row_start[q], mdp.row_start[q + 1])
        best = here.start + favour[here].argmax()
        assert found[1, best] == pytest.approx(1.0), "a large ball moves everything to the first best outcome"


def test_random_candidates_have_a_random_receiver_and_donor():
    """Two uniforms choose among 3 receivers and, for each, 2 donors that give first."""
    mdp = MDP(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), horizon=1)
    u = np.array([(i / 3 + 0.01, j / 2 + 0.01) for i in range(3) for j in range(2)])
    uniforms = np.repeat(u[:, None, :], 3, axis=1)
    found = candidate_kernels(mdp, mdp.probability, np.full(3, 0.2), np.zeros((2, 3)), uniforms)[2:, :3] * 3 - 1
    moved = [(int(row.argmax()), int(row.argmin())) for row in found]
    assert sorted(moved) == [(i, j) for i in range(3) for j in range(3) if i != j]
    assert np.allclose(np.sort(found, axis=1), [-0.6, 0.0, 0.6])


def test_asset_selling_keeps_its_known_rows():
    mdp = bqrl.envs.make("AssetSelling").staged()
    count = mdp.row_start.size - 1
    retained = np.tile(np.arange(26.0), (11, 1))
    uniforms = np.random.default_rng(0).random((4, count, 2))
    found = candidate_kernels(mdp, mdp.probability, np.full((10, 26, 2), 0.1), retained, uniforms)
    directed = found[1].reshape(10, -1)[0][: 1 + 25]
    assert directed[0] == 1.0, "Stop sells for certain"
    assert directed[-1] == pytest.approx(1 / 25 + 0.1), "Continue favours the highest offer"
    assert directed[1:4] == pytest.approx([0.0, 0.0, 1 / 25 * 3 - 0.1]), "and takes from the lowest ones"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probability": np.ones(3)}, r"probability must have shape \(652,\), got \(3,\)"),
        ({"half_radius": np.ones(3)}, r"half_radius must have shape \(52,\)"),
        ({"retained": np.ones((2, 2))}, r"retained must have shape \(11, 26\)"),
        ({"uniforms": np.ones((4, 3, 2))}, r"uniforms must have shape \(52, 2\)"),
    ],
)
def test_candidate_shapes_are_checked(change, message):
    mdp = bqrl.envs.make("AssetSelling")
    given = {
        "probability": mdp.probability,
        "half_radius": np.zeros(52),
        "retained": np.zeros((11, 26)),
        "uniforms": np.zeros((1, 52, 2)),
    }
    with pytest.raises(ValueError, match=message):
        candidate_kernels(mdp, **(given | change))


@pytest.mark.parametrize("change", [{"delta": "x"}, {"visits": "x"}, {"visits": math.nan}, {"support": "x"}])
def test_arguments_that_are_no_numbers_are_named(change):
    with pytest.raises((ValueError, TypeError)) as caught:
        radius(**({"visits": 1} | sizes | change))
    assert caught.value.name == next(iter(change))
    assert len(str(caught.value).splitlines()) == 1
