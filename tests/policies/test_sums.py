"""Passes over a grid: stages by matrix products, and the sums collected before a stage."""

import numpy as np
import pytest
from hypothesis import given
from oracles import small_mdps

from bqrl import MDP
from bqrl.mdp.find_grid import lattice, return_set, returns_grid
from bqrl.mdp.grid import SMALL_STATES, by_products, row_shift
from bqrl.planners.sweep import sweep
from bqrl.policies.forward import sums_of


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


@pytest.fixture
def dense():
    """The least number of states for which products pay, every row full."""
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(SMALL_STATES), (SMALL_STATES, 2))
    return MDP(P, rng.integers(-2, 5, (SMALL_STATES, 2)).astype(float), horizon=2)


def test_products_need_dense_rows_that_shift_all_columns_alike(dense):
    P, R = dense.dense(0).reshape(SMALL_STATES, 2, -1), dense.stage(0).row_reward.reshape(SMALL_STATES, 2)
    few = MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=2)
    sparse = MDP(np.repeat(np.eye(SMALL_STATES)[:, None], 2, axis=1), R, horizon=2)
    by_outcome = MDP(P, R[..., None] + np.arange(SMALL_STATES), horizon=2)
    assert by_products(dense, lattice(dense), dense.stage(0))
    for mdp in (few, sparse, by_outcome):
        assert not by_products(mdp, lattice(mdp), mdp.stage(0))
    coarse = MDP(P, R, horizon=2, discount=0.3)
    assert not by_products(coarse, returns_grid(coarse), coarse.stage(0))


def test_the_shift_of_a_row_is_that_of_its_outcomes(dense):
    moves = sums_of(dense, lattice(dense)).moves(1)
    assert np.array_equal(np.repeat(row_shift(dense, moves, 1), SMALL_STATES), moves.shift)


@given(small_mdps())
def test_every_sum_of_every_path_is_a_column_and_moves_with_the_rewards(mdp):
    for grid in (lattice(mdp), return_set(mdp)):
        sums = sums_of(mdp, grid)
        reached = {(int(s), 0) for s in np.flatnonzero(mdp.mu)}  # (state, column)
        for h in range(mdp.H):
            values, after = sums.values(h), sums.values(h + 1)
            assert values.size == sums.count(h)
            assert np.all(np.diff(values) > 0.0)
            moves, stage, found = sums.moves(h), mdp.stage(h), set()
            for s, column in reached:
                for i in range(stage.row_start[s * mdp.A], stage.row_start[(s + 1) * mdp.A]):
                    target = column + moves.shift[i] if grid.uniform else moves.jumps[moves.shift[i], column]
                    assert after[target] == pytest.approx(values[column] + mdp.discount**h * stage.reward[i], abs=1e-9)
                    found.add((int(stage.successor[i]), int(target)))
            reached = found


@given(small_mdps())
def test_sums_before_a_stage_are_at_most_twice_as_many_as_those_that_remain(mdp):
    """The limit on a refitted grid counts remaining sums."""
    columns = lattice(mdp)
    before = sums_of(mdp, columns).size
    assert np.all(before <= columns.size[0] + columns.size - 1)
