"""The backward sweep over (state, remaining need)."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps

from bqrl import MDP
from bqrl.mdp.find_grid import lattice
from bqrl.planners.sweep import Layout, sweep


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


def test_dense_and_sparse_sweeps_agree():
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(40, 0.3), size=(3, 40, 2))
    P[P < 0.002] = 0
    P /= P.sum(axis=-1, keepdims=True)
    R = rng.integers(-2, 5, (3, 40, 2))
    dense = MDP(P, R)
    rows = [(h, s, a, t, P[h, s, a, t], float(R[h, s, a])) for h, s, a, t in zip(*np.nonzero(P), strict=True)]
    listed = MDP(
        [*rows[:-1], (*rows[-1][:4], rows[-1][4] / 2, rows[-1][5]), (*rows[-1][:4], rows[-1][4] / 2, rows[-1][5])]
    )
    by_outcome = MDP(P, np.broadcast_to(R[..., None], P.shape) + np.where(P > 0, 0.0, 0.5))
    roots = [sweep(mdp, lattice(mdp)).root for mdp in (dense, listed, by_outcome)]
    assert np.allclose(roots[0], roots[1], atol=1e-13)
    assert np.allclose(roots[0], roots[2], atol=1e-13)
    assert np.allclose(sweep(dense, lattice(dense), policy=False).root, roots[0], atol=1e-13)
