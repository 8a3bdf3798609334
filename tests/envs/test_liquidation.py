"""Liquidation pays the price less the impact."""

import pytest
from zoo_checks import best

from bqrl.envs import make


def test_liquidation_pays_the_price_less_the_impact():
    mdp = make("Liquidation")
    s = mdp.state_names.index("8 lots, price 50")
    after, p, paid = mdp.outcomes(0, s, mdp.action_names.index("sell 3"))
    assert [mdp.state_names[t] for t in after] == ["5 lots, price 48", "5 lots, price 50", "5 lots, price 52"]
    assert p.tolist() == pytest.approx([0.3, 0.4, 0.3])
    assert paid.tolist() == [3 * 47.0] * 3
    calm = make("Liquidation", move_probability=0.0)  # eight lots over six periods: two periods of two, four of one
    assert best(calm, 0.5) == 2 * 2 * 48 + 4 * 49
