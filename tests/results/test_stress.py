"""The page of a stress test: what still holds, in the words of the problem."""

import numpy as np
import pytest
from helpers import chart_values

import bqrl
from bqrl.planners.stress import Stress, beside_others
from bqrl.results.stress import stress_chart, stress_result
from bqrl.results.words import Words


@pytest.fixture(scope="module")
def held():
    return bqrl.stress("Inventory", bqrl.solve("Inventory", tau=0.1), off=[0.0, 0.02, 0.05])


def test_table_and_sentence_hold_the_proven_guarantees(held):
    result = stress_result(held, Words(title="Shop", unit="EUR"))
    shown = result.tables["stress"]
    assert [row["off"] for row in shown.rows] == ["0 %", "2 %", "5 %"]
    assert [row["value"] for row in shown.rows] == held.value.tolist()
    assert [row["risk_neutral"] for row in shown.rows] == held.risk_neutral.tolist()
    assert shown.titles["value"] == "guaranteed (EUR)"
    (said,) = result.sentences
    assert f"by 5 %: {held.value[-1]:g}" in said


def test_other_policies_have_a_column_under_their_name_and_drawn_actions_none(held):
    others = {"value": "always:order 0", "dice": "random"}
    beside = beside_others(held, others, seconds=5.0)
    known = bqrl.stress("Inventory", others["value"], tau=0.1, off=held.off)
    assert [row["policy_value"] for row in beside.rows()] == known.value.tolist()
    assert beside_others(held, others, seconds=0.0).rows() == held.rows()
    result = stress_result(beside, Words(title="Shop"))
    assert result.tables["stress"].titles["policy_value"] == "value"
    assert f"(value {known.value[-1]:g})" in result.sentences[0]
    assert beside.others.keys() == {"value"}


def test_the_chart_has_one_curve_per_policy_in_per_cent(held):
    pytest.importorskip("altair")
    rows = chart_values(stress_chart(held).to_dict(), 0)
    for k, values in enumerate((held.value, held.risk_neutral)):  # the policy, then the risk-neutral one
        drawn = [(row["x"], row["y"]) for row in rows if row["k"] == k]
        assert drawn == list(zip([0.0, 2.0, 5.0], values.tolist(), strict=True))


def test_policies_named_like_columns_have_columns_of_their_own():
    """Policies named off and policy_off once shared a column, and `bqrl solve --policy` failed."""
    held = Stress(
        objective=bqrl.Quantile(0.1), off=np.zeros(1), value=np.zeros(1), risk_neutral=np.zeros(1),
        others={"off": np.ones(1), "policy_off": np.full(1, 2.0)},
    )  # fmt: skip
    assert list(held.rows()[0].values()) == [0.0, 0.0, 0.0, 1.0, 2.0]
