"""One stage of a model against its rows, and the structure that learners may know."""

import numpy as np
from hypothesis import given
from mdp_strategies import P, R, models

from bqrl import MDP


@given(models())
def test_outcomes_of_rows_are_those_that_can_happen(mdp):
    for h in range(mdp.H):
        stage = mdp.stage(h)
        rows = np.flatnonzero(stage.available.reshape(-1))[::-1]
        whose, i = stage.outcomes_of(rows)
        found = [(int(rows[w]), int(stage.successor[j]), float(stage.reward[j])) for w, j in zip(whose, i, strict=True)]
        brute = []
        for row in rows.tolist():
            outcomes = zip(*mdp.outcomes(h, row // mdp.A, row % mdp.A), strict=True)
            brute += [(row, int(t), float(r)) for t, p, r in outcomes if p > 0.0]
        assert found == brute


def test_known_structure_hides_the_rest():
    support = np.zeros((3, 2, 3), bool)
    support[0, 0, 2] = True
    known = np.zeros((3, 2), bool)
    known[1, 1] = True
    structure = MDP(P, R, horizon=2, support=support, known=known).structure
    assert structure.support_size[0].tolist() == [[3, 2], [1, 3], [1, 1]]
    shown = ~np.isnan(structure.probability)
    rows = np.repeat(np.arange(6), np.diff(structure.row_start))
    assert set(rows[shown]) == {2, 3, 4, 5}  # the row marked as known, and rows with a single outcome
    assert set(rows[~shown]) == {0, 1}
