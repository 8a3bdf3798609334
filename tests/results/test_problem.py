"""Problems by their text; tests/cli/test_problem.py reads files and options."""

import gymnasium as gym
import pytest

import bqrl
from bqrl.mdp.as_env import MDPEnv
from bqrl.results.problem import read_problem


def test_gymnasium_ids_take_the_problem_s_options():
    lake = read_problem("FrozenLake-v1", {}, start="14", discount=0.9)
    assert (lake.mdp.H, lake.mdp.start, lake.mdp.discount, lake.notices) == (100, 14, 0.9, ())
    ours = read_problem("bqrl/AssetSelling-v0", {}, horizon=4, start="sold")
    assert (ours.words.title, ours.mdp.H, ours.mdp.start) == ("AssetSelling", 4, 25)
    with pytest.raises(ValueError, match="start must name a state, got '16'; states run from '0' to '15'"):
        read_problem("FrozenLake-v1", {}, start="16")


def test_an_environment_of_a_model_has_the_unit_of_the_model():
    model = bqrl.MDP([(0, 0, 0, 1.0, 2.0)], horizon=2, units="QALY")
    gym.register("bqrl-test/Units-v0", lambda **_: MDPEnv(model))
    try:
        assert read_problem("bqrl-test/Units-v0", {}).words.unit == "QALY"
    finally:
        del gym.registry["bqrl-test/Units-v0"]


def test_the_words_of_the_user_win():
    problem = read_problem("AssetSelling", {"title": "My house", "unit": None}, discount=0.25)
    assert problem.words.title == "My house"
    assert problem.words.unit == read_problem("AssetSelling", {}).words.unit
    assert problem.notices == ("the discount factor 0.25 is small; for a discount rate of 25 % use 0.8",)
