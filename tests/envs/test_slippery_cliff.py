"""The cliff: slips, falls and the shortest way."""

import pytest
from zoo_checks import best

from bqrl.envs import make


def test_cliff_walker_falls_back_to_the_start():
    mdp = make("SlipperyCliff")
    place = mdp.state_names.index("row 2, column 2")
    after, p, paid = mdp.outcomes(0, place, mdp.action_names.index("Right"))
    found = {(mdp.state_names[t], r): q for t, q, r in zip(after, p, paid, strict=True)}
    assert found == pytest.approx(
        {("row 1, column 2", -1.0): 0.1, ("row 2, column 3", -1.0): 0.8, ("row 3, column 0", -20.0): 0.1}
    )
    assert best(make("SlipperyCliff", slip=0.0), 0.01) == -7.0  # up, five to the right, down
