"""Sums collected before a stage: all of them, moved by every outcome as the rewards say."""

import numpy as np
import pytest
from hypothesis import given
from oracles import small_mdps

from bqrl.mdp.find_grid import lattice, return_set
from bqrl.mdp.passes import sums_of


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
