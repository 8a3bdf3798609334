"""Parameters of learners as NAME=VALUE."""

import pytest

from bqrl.cli.params import read_params, read_value


def test_values_are_read_as_the_learner_declares_them():
    assert read_params("ucb-bqrl", ["c-conf=theory", "buffer=0.05", "stationary=false", "replan_factor=2"]) == {
        "c_conf": "theory", "buffer": 0.05, "stationary": False, "replan_factor": 2.0,
    }  # fmt: skip
    assert read_params("ppo", ["batch=5", "discount=none"]) == {"batch": 5, "discount": None}
    assert read_params("sarsa", ["epsilon=1,0.1"]) == {"epsilon": (1.0, 0.1)}
    assert [read_value("x", text, "int | float") for text in ("3", "3.0", "-2")] == [3, 3.0, -2]
    with pytest.raises(ValueError, match=r"^epsilon must be numbers such as 0\.5,0\.05, got 'much'$"):
        read_params("sarsa", ["epsilon=much"])
