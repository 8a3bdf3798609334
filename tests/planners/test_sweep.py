"""The backward sweep over (state, remaining need)."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.planners.follow import Follower
from bqrl.planners.sweep import Layout, best_column, sweep
from bqrl.planners.widths import clipped_cost


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


@pytest.mark.parametrize("by_outcome", [False, True])
@pytest.mark.parametrize("half", [None, 0.1, 0.9])
@pytest.mark.parametrize("states", [3, 40])
def test_a_layout_changes_no_bit_of_the_values_and_laws_of_targets(states, half, by_outcome):
    rng, H, A, k = np.random.default_rng(states), 4, 2, 4 if states > 3 else 2
    rows = [
        (s, a, int(t), p, float(r))
        for s, a in np.ndindex(states, A)
        for t, p, r in zip(
            rng.choice(states, k, replace=False), rng.dirichlet(np.ones(k)),
            rng.integers(0, 300, k) if by_outcome else np.full(k, rng.integers(0, 300)), strict=True,
        )
    ]  # fmt: skip
    mdp = bqrl.MDP(rows, horizon=H)
    columns = lattice(mdp)
    layout = Layout(mdp, columns, met_only=True)
    follower, n = Follower(layout), int(columns.size[0])
    ball = None if half is None else np.full((H, states * A), half)
    for d in (1.0, 100.0, n - 1.0):
        cost = clipped_cost(d)
        given_case = {"extra": cost.size - 1, "half": ball, "keep": True}
        plain = sweep(mdp, columns, cost, **given_case)  # stage by stage, all columns
        found = sweep(mdp, columns, cost, layout=layout, **given_case)
        sparse = layout.stages.shared.any() and half is not None  # the shared order rounds differently
        same = np.allclose if sparse else np.array_equal
        assert same(found.root[:n], plain.root[:n])
        assert same(found.mean[:n], plain.mean[:n])
        for target in columns.points(0)[:: n // 7].tolist():
            law = follower.law(found.policy(target))
            assert same(law, follower.law(plain.policy(target)))
            assert law.sum() == pytest.approx(1.0)


def test_the_best_column_is_the_highest_target_that_is_missed_with_less_than_the_level():
    shortfall = np.array([0.0, 0.05, 0.1, 0.3])
    assert best_column(shortfall, np.array([0.01, 0.1, 0.11, 1.0])).tolist() == [0, 1, 2, 3]
    assert best_column(np.array([0.2, 0.4]), 0.1) == -1
    assert best_column(np.array([0.0, 0.2, 0.1]), 0.15) == 0  # decreases are rounding errors
