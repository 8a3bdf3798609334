"""Staffing counts waiting and lost calls."""

import pytest

from bqrl.envs import make
from bqrl.envs.demand import poisson


def test_staffing_counts_waiting_and_lost_calls():
    mdp = make("Staffing", lines=2)
    after, p, paid = mdp.outcomes(0, 1, 2)  # one call waits, two agents answer eight
    law = poisson(9.0)
    assert paid[after == 0].tolist() == [20.0 - 12.0]
    assert p[after == 0].sum() == pytest.approx(sum(law[k] for k in range(8)))
    assert sorted(paid[after == 2], reverse=True) == [-12.0 - 2.0 - 5.0 * lost for lost in range(max(law) - 8)]
