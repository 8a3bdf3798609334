"""Estimates of time and memory before a plan."""

import bqrl
from bqrl.cli.forecast import forecast, forecast_text


def test_forecast_grows_with_what_is_asked():
    plain = {
        "tau": [0.1],
        "beta": 0.0,
        "planner": "target",
        "points": None,
        "max_bytes": None,
        "arithmetic": "float",
        "radius": None,
        "secondary": None,
    }
    mdp = bqrl.envs.make("AssetSelling")
    seconds, size = forecast(mdp, plain)
    assert 0 < seconds < 0.1
    assert 0 < size < 10**6
    for more in (
        {"points": 10_000},
        {"beta": 0.05},
        {"radius": 0.1},
        {"secondary": "mean"},
        {"arithmetic": "rational"},
    ):
        assert forecast(mdp, plain | more)[0] > seconds
    assert forecast(mdp, plain | {"planner": "frontier"}) is None
    assert forecast_text(41.3, 1_300_000_000) == "about 40 s, 1.2 GiB"
    assert forecast_text(413.0, 2_000_000) == "about 6 min 40 s, 2 MiB"
