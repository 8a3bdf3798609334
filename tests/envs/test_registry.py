"""Problems by name: both spellings, parameters of the builder, and one line for an unknown name."""

import gymnasium as gym
import pytest
from mdp_strategies import assert_same

import bqrl
from bqrl.envs import about, make, make_env, names


def test_a_name_and_its_gymnasium_id_build_the_same_problem():
    assert_same(make("Gambler", goal=6), make("bqrl/Gambler-v0", goal=6))
    assert about("bqrl/Gambler-v0") == about("Gambler")


def test_gymnasium_passes_parameters_to_the_builder():
    env = gym.make("bqrl/Gambler-v0", goal=6, render_mode="ansi").unwrapped
    assert_same(env.mdp, make("Gambler", goal=6))
    assert make_env("Gambler", goal=6).mdp.S == 7


@pytest.mark.parametrize(
    ("call", "exception", "message"),
    [
        (lambda: make("Gamblr"), ValueError, "name must be a known problem, got 'Gamblr'; did you mean 'Gambler'?"),
        (lambda: make(3), TypeError, "name must be a string such as 'AssetSelling', got int"),
        (lambda: make("Gambler", gaol=6), TypeError, "a parameter of Gambler, got 'gaol'; did you mean 'goal'?"),
        (lambda: make("Gambler", goal=1), ValueError, "goal must be a whole number of at least 2, got 1"),
        (lambda: make("Garnet", shared=True), TypeError, "expected a parameter of Garnet, got 'shared'"),
    ],
)
def test_bad_names_and_parameters_get_one_line(call, exception, message):
    with pytest.raises(exception) as caught:
        call()
    assert message in str(caught.value)


def test_the_list_is_a_copy():
    names().clear()
    assert "AssetSelling" in names()
    assert bqrl.envs.names() == names()
