"""The named arrays that a problem is laid out in."""

import numpy as np
import pytest
from hypothesis import given
from oracles import small_mdps

from bqrl.mdp.find_grid import lattice
from bqrl.planners.sweep import Layout


@given(small_mdps())
def test_an_episode_that_just_meets_its_target_ends_at_column_zero(mdp):
    grid = lattice(mdp)
    stages = Layout(mdp, grid).stages
    rng = np.random.default_rng(0)
    s, collected, moved, total = int(np.argmax(mdp.mu)), 0, 0, 0.0
    for h in range(mdp.H):
        base = 0 if mdp.stationary else h * mdp.S * mdp.A
        q = base + s * mdp.A + int(rng.choice(np.flatnonzero(mdp.stage(h).available[s])))
        i = int(rng.integers(stages.start[q], stages.start[q + 1]))
        place = i - stages.start[base]
        moved += stages.shift[h, place]
        collected += stages.gain[h, place]
        total += mdp.discount**h * mdp.stage(h).reward[place]
        s = int(stages.successor[i])
    column = collected - stages.lowest[0]  # of the return that was collected
    assert grid.points(0)[column] == pytest.approx(total)
    assert column + moved == 0
