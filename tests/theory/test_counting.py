import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bqrl import envs
from bqrl.errors import ArgumentError
from bqrl.theory import weighted_counting
from bqrl.theory.counting import visits_before
from bqrl.theory.perturbation import mismatch_weights


@given(st.lists(st.integers(0, 5)))
def test_visits_before(rows):
    assert visits_before(np.array(rows, int)).tolist() == [rows[:i].count(x) for i, x in enumerate(rows)]


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4), st.integers(1, 60), st.integers(0, 10**6))
def test_counting_sum_stays_below_its_bound(S, A, H, T, seed):
    rng = np.random.default_rng(seed)
    skew = rng.dirichlet(np.full(S * A, 0.3))
    rows = rng.choice(S * A, size=(T, H), p=skew)
    found = weighted_counting(rows // A, rows % A, S, A)
    true = 0.0
    seen = np.zeros((H, S * A), int)
    for t in range(T):
        for h in range(H):
            true += (H - h - 1) / np.sqrt(max(1, seen[h, rows[t, h]]))
        seen[np.arange(H), rows[t]] += 1
    assert found.total == pytest.approx(true)
    assert found.by_stage.sum() == pytest.approx(found.by_episode.sum()) == pytest.approx(true)
    assert found.total <= found.bound + 1e-12
    assert found.bound == pytest.approx(H * (H - 1) * np.sqrt(S * A * T))


def test_counting_bound_is_within_a_factor_for_even_visits():
    T, S, A = 4000, 2, 2
    rows = np.tile(np.arange(4), T // 4)[:, None].repeat(2, axis=1)
    found = weighted_counting(rows // A, rows % A, S, A, weights=[1.0, 1.0])
    assert found.total >= 0.97 * found.bound


def test_counting_takes_a_problems_own_weights():
    mdp = envs.make("AssetSelling", offers=4, horizon=3, start=1)
    states, actions = np.ones((5, 4), int), np.zeros((5, 3), int)
    found = weighted_counting(states, actions, mdp.S, mdp.A, mismatch_weights(mdp))
    assert found.by_stage == pytest.approx(np.array([2.0, 1.0, 0.0]) * (2 + 2**-0.5 + 3**-0.5 + 0.5))


def test_the_state_after_the_last_stage_is_not_counted_and_further_ones_are_refused():
    alone, after = weighted_counting([[0, 0]], [[0, 0]], S=1, A=1), weighted_counting([[0, 0, 1]], [[0, 0]], S=1, A=1)
    assert alone.total == after.total
    with pytest.raises(ArgumentError, match="states must have shape") as fault:
        weighted_counting([[0, 0, 0, 0]], [[0, 0]], S=1, A=1)
    assert fault.value.name == "states"
