"""Parameters of learners as NAME=VALUE."""

import pytest

from bqrl.cli.params import column_names, read_params, read_value
from bqrl.learners.run import Run


def test_values_are_numbers_words_pairs_or_text():
    assert read_params(["c-conf=theory", "buffer=0.05", "stationary=false", "replan_factor=2"]) == {
        "c_conf": "theory", "buffer": 0.05, "stationary": False, "replan_factor": 2.0,
    }  # fmt: skip
    assert read_params(["batch=5", "discount=none"]) == {"batch": 5, "discount": None}
    assert read_params(["epsilon=1,0.1"]) == {"epsilon": (1.0, 0.1)}
    with pytest.raises(ValueError, match="c_conf is given twice, the second time as '2'; drop one of them"):
        read_params(["c-conf=1", "c_conf=2"])
    found = [
        read_value(text) for text in ("3", "3.0", "-2", "1e-3", "Yes", "power:0.5", "", "None", "(" * 9999, "9" * 9999)
    ]
    assert found == [3, 3.0, -2, 0.001, True, "power:0.5", "", None, "(" * 9999, "9" * 9999]
    assert [type(value) for value in found[:3]] == [int, float, int]


@pytest.mark.parametrize(
    ("learner", "given", "message"),
    [
        ("sarsa", "epsilon=much", "epsilon must be a pair (first, last), got 'much'"),
        ("psrl", "stationary=maybe", "stationary must be True, False or None, got 'maybe'"),
        ("ucbvi", "monotone=1", "monotone must be True or False, got 1"),
        ("thompson", "prior=true", "prior must be a number above 0, got True"),
        ("ppo", "batch=2.0", "batch must be a whole number of at least 1, got 2.0"),
    ],
)
def test_the_learner_refuses_a_value_of_the_wrong_kind(learner, given, message):
    with pytest.raises(TypeError) as fault:
        Run("AssetSelling", learner, 0.1, 10, 1, **read_params([given]))
    assert str(fault.value) == message


def test_column_names_are_pairs():
    assert column_names(None) is None
    assert column_names("state=from, next_state=to") == {"state": "from", "next_state": "to"}
    for wrong, part in (("state", "state"), ("state=", "state="), ("=x", "=x"), ("state=a,,", "")):
        with pytest.raises(
            ValueError, match=f"^--columns must hold ROLE=HEADER pairs, got {part!r}; write e.g. state="
        ):
            column_names(wrong)
