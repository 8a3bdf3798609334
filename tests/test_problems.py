import gymnasium as gym

from bqrl import envs
from bqrl.problems import PROBLEMS


def test_one_entry_names_the_module_the_builder_and_the_gymnasium_id():
    for name, module in PROBLEMS.items():
        assert envs.about(name).build.__name__ == module
        assert envs.about(name).build.__module__ == f"bqrl.envs.{module}"
        assert gym.spec(f"bqrl/{name}-v0").kwargs == {"name": name}
