"""The backward sweep over (state, remaining need)."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps

from bqrl.mdp.find_grid import lattice
from bqrl.planners.sweep import Layout, best_column, sweep


@given(small_mdps(), st.integers(1, 3), st.integers(0, 2))
def test_a_second_cost_breaks_ties_towards_its_extremes(mdp, width, k):
    columns, laws = lattice(mdp), achievable_laws(mdp, 200)
    assume(columns is not None)
    assume(laws is not None)
    steps = np.arange(max(width, k + 1) + 1.0)
    least, most = (
        sweep(mdp, columns, np.minimum(steps, width), extra=steps.size - 1, second=sign * (steps > k), keep=True)
        for sign in (1.0, -1.0)
    )
    assert np.array_equal(least.root, most.root)
    for i, z in enumerate(columns.points(0)):
        costs = []
        for law in laws:
            short = [(round((z - float(x)) / columns.step), p) for x, p in law]
            costs.append((sum(p * min(max(n, 0), width) for n, p in short), sum(p for n, p in short if n > k)))
        best = min(cost for cost, _ in costs)
        beyond = [float(often) for cost, often in costs if cost == best]
        assert least.root[i] == pytest.approx(float(best), abs=1e-12)
        assert -least.mean[i] == pytest.approx(min(beyond), abs=1e-12)
        assert most.mean[i] == pytest.approx(max(beyond), abs=1e-12)


@given(small_mdps(), st.floats(0.0, 0.4))
def test_states_that_cannot_be_met_may_be_left_out(mdp, half):
    columns = lattice(mdp)
    assume(columns is not None)
    ball = np.full((mdp.H, mdp.S * mdp.A), half)
    every, met = (sweep(mdp, columns, half=ball, layout=Layout(mdp, columns, met_only=only)) for only in (False, True))
    assert np.allclose(every.root, met.root, atol=1e-14)
    for h in range(mdp.H):
        reached = mdp.reachable[h]
        assert np.array_equal(every.actions[h][reached], met.actions[h][reached])
        assert not met.actions[h][~reached].any()


def test_the_best_column_is_the_highest_target_that_is_missed_with_less_than_the_level():
    shortfall = np.array([0.0, 0.05, 0.1, 0.3])
    assert best_column(shortfall, np.array([0.01, 0.1, 0.11, 1.0])).tolist() == [0, 1, 2, 3]
    assert best_column(np.array([0.2, 0.4]), 0.1) == -1
    assert best_column(np.array([0.0, 0.2, 0.1]), 0.15) == 0  # decreases are rounding errors
