"""Platelets are used oldest first."""

import pytest

from bqrl.envs import make
from bqrl.envs.demand import poisson


def test_platelets_are_used_oldest_first():
    mdp = make("PerishableInventory")
    s = mdp.state_names.index("2 + 1 packs")
    after, p, paid = mdp.outcomes(0, s, mdp.action_names.index("order 1"))
    law = poisson(2.0)
    expected = {}
    for demand, q in law.items():
        wasted, one, two = max(2 - demand, 0), max(min(3 - demand, 1), 0), max(min(4 - demand, 1), 0)
        key = (f"{one} + {two} packs", -(1.0 + 2.0 * wasted + 10.0 * max(demand - 4, 0)))
        expected[key] = expected.get(key, 0.0) + q
    found = {(mdp.state_names[t], r): q for t, q, r in zip(after, p, paid, strict=True)}
    assert found == pytest.approx(expected)
