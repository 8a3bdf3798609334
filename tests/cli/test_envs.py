"""What `bqrl envs` says of a problem."""

import pytest

import bqrl
from bqrl.cli import envs
from bqrl.cli.envs import describe


def test_a_description_has_sizes_units_and_certified_optima():
    found = describe("Gambler")
    mdp = bqrl.envs.make("Gambler")
    assert (found["states"], found["actions"], found["horizon"], found["transitions"]) == (mdp.S, mdp.A, mdp.H, 61)
    assert (found["unit"], found["stage"], found["missing"]) == ("dollars", "round", None)
    for level in found["optimum"]:
        plan = bqrl.solve(mdp, level["tau"])
        assert (level["value"], level["upper"], level["certain"]) == (plan.value, plan.upper, plan.certain)


def test_optima_of_large_problems_are_computed_on_request(monkeypatch):
    monkeypatch.setattr(envs, "LARGE", 100)
    found = describe("Gambler", large=False)
    assert found["states"] == 11
    assert found["optimum"] == []
    assert found["missing"] == "large problem; bqrl envs Gambler computes its optima"
    assert len(describe("Gambler", large=True)["optimum"]) == 3


def test_a_problem_without_its_data_is_listed_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = describe("ICUSepsis")
    assert found["states"] is None
    assert found["missing"].endswith("pip install --no-deps icu-sepsis")


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ({"value": 3.0, "upper": 3.0, "certain": True}, "3"),
        ({"value": 3.0, "upper": 3.5, "certain": True}, ">= 3"),
        ({"value": 3.0, "upper": 3.0, "certain": False}, "3 ?"),
    ],
)
def test_brackets_and_ties_are_marked(level, shown):
    assert envs._value(level) == shown
