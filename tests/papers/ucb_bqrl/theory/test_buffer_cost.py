import json

import numpy as np
import pytest
from small_theory import datasets, small_theory, with_second_level

from bqrl.papers.ucb_bqrl.theory.buffer_cost import BUFFER
from bqrl.papers.ucb_bqrl.theory.experiment import RHO


@pytest.fixture
def found():
    return small_theory("buffer")


def test_buffers_cost_nothing_up_to_margin_and_plateau(found):
    tables = found["tables"]
    for key in ("hard", "selling"):
        rows = [row for row in tables["buffer"] if row["problem"] == key]
        clears = [row for row in tables["buffer_clears"] if row["problem"] == key]
        margin, plateau = clears[0]["margin"], clears[0]["plateau_low"]
        columns = ("beta", "one_sided_low", "one_sided_high", "two_sided")
        beta, low, high, two = (np.array([row[name] for row in rows]) for name in columns)
        assert np.any(np.isclose(beta, margin))  # the corner is drawn
        assert np.all(high[beta <= margin] == 0.0)
        assert np.all(high[beta > margin * 1.01] > 0.0)
        assert np.all(two[beta <= plateau] == pytest.approx(0.0, abs=1e-12))
        assert np.all(low <= high + 1e-9)
        assert np.all(low <= two + 1e-9)
        for gap in (high, two):
            assert np.all(np.diff(gap) >= -1e-9)
        for row in clears:
            assert row["episodes_until_margin"] <= row["episodes_until_plateau_high"]
    by_schedule = {(row["problem"], row["schedule"]): row for row in tables["buffer_clears"]}
    assert by_schedule["hard", "power 0.5"]["episodes_until_margin"] == 63.0


def test_buffers_are_put_in_words(found):
    assert "the logarithmic schedule reaches the margin after 2,979 and " in BUFFER.headline(found)  # ceil(e^8 - e)
    assert f"Up to the margin {RHO}*, at least 1 " in BUFFER.headline(found)
    for row in found["tables"]["buffer_clears"]:
        row["plateau_high"] = row["margin"] / 8.0
    assert f"at least 8 times the plateau {RHO}τ" in BUFFER.headline(found)


def test_buffers_without_the_two_sided_gap_are_drawn(found):
    table = found["tables"]["buffer"]
    both = datasets(BUFFER.charts(found, "title")["buffer"])[0]
    for k, columns in (("0", ("one_sided_high", "one_sided_low", "one_sided_high")), ("1", ["two_sided"] * 3)):
        for axis, name in zip(("y", "low", "high"), columns, strict=True):
            drawn = [float(row[axis]) for row in both if row["k"] == k]
            assert drawn == pytest.approx([row[name] for row in table], rel=1e-5)
    for row in table:
        row["two_sided"] = None
    assert {row["k"] for row in datasets(BUFFER.charts(found, "title")["buffer"])[0]} == {"0"}


def test_one_problem_at_two_levels_is_two_cases(found):
    chart = BUFFER.charts(with_second_level(found), "title")["buffer"]
    assert {row["which"] for row in datasets(chart)[0]} == {"0", "1", "2"}
    assert "hard, τ = 0.25" in json.dumps(chart.to_dict(), ensure_ascii=False)


def test_a_margin_that_is_never_reached_can_be_said(found):
    for row in found["tables"]["buffer_clears"]:
        row["episodes_until_margin"] = None
    assert "1e90" in BUFFER.headline(found)
