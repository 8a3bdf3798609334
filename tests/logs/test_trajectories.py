"""Minari datasets, lists of trajectories, and ids beside a model with names."""

from types import SimpleNamespace

import numpy as np
import pytest

import bqrl
from bqrl import fit
from bqrl.logs.trajectories import is_trajectories, trajectory_columns


def played(mdp, episodes, seed=0):
    """Episodes of `as_env` as lists of steps."""
    env, rng, found = mdp.as_env(), np.random.default_rng(seed), []
    for episode in range(episodes):
        state, _ = env.reset(seed=episode)
        steps, over = [], False
        while not over:
            action = int(rng.integers(mdp.A))
            after, reward, terminated, truncated, _ = env.step(action)
            steps.append((state, action, reward, after, terminated, truncated))
            state, over = after, terminated or truncated
        found.append(steps)
    return found


def as_data(steps):
    """The same episode with the fields of Minari's EpisodeData."""
    states, actions, rewards, after, terminations, truncations = zip(*steps, strict=True)
    return SimpleNamespace(
        id=0, observations=np.array([*states, after[-1]]), actions=np.array(actions), rewards=np.array(rewards),
        terminations=np.array(terminations), truncations=np.array(truncations), infos={},
    )  # fmt: skip


class Dataset:
    """Stands in for a MinariDataset."""

    def __init__(self, episodes):
        self.episodes = episodes

    def iterate_episodes(self):
        return iter(self.episodes)


def test_a_minari_dataset_a_list_and_a_table_give_the_same_estimate():
    steps = played(bqrl.envs.make("MachineReplacement"), 40)
    data = [as_data(each) for each in steps]
    dicts = [vars(each) for each in data]
    rows = [(i, h, *step) for i, each in enumerate(steps) for h, step in enumerate(each)]
    names = ("episode", "stage", "state", "action", "reward", "next_state", "terminated")
    table = {name: [row[j] for row in rows] for j, name in enumerate(names)}
    options = {"reward_range": (-100, 100), "stationary": True}
    expected = fit(table, **options)
    for log in (steps, data, dicts, Dataset(data)):
        assert is_trajectories(log)
        found = fit(log, **options)
        assert found.mdp.rows() == expected.mdp.rows()
        assert np.array_equal(found.radii, expected.radii)


def test_observations_are_indices_of_a_model_with_names():
    mdp = bqrl.envs.make("MachineReplacement")
    assert mdp.state_names is not None
    estimate = fit(played(mdp, 30), model=mdp)
    assert estimate.mdp.state_names == mdp.state_names
    ids = numbered(["1.0", "2.0"])  # 1 is an index here, not the name 1.0
    steps = [
        [(0, 0, 1.0, 1, False, False), (1, 0, 0.0, 1, False, True)],
        [(0, 0, 1.0, 0, False, False), (0, 0, 1.0, 1, False, True)],
    ]
    assert fit(steps, model=ids).mdp.outcomes(0, 0, 0)[1].tolist() == [1 / 3, 2 / 3]


def test_arrays_are_labels_and_single_entries_are_numbers():
    steps = [(np.array([1, 2]), np.array([0]), 1, np.array([1.0, 3.0]), False, True)]
    columns = trajectory_columns([steps])
    assert (columns["state"], columns["action"], columns["next_state"], columns["end"]) == (
        ["1,2"], ["0"], ["1,3"], ["truncated"],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            [[(0.5, 0, 1.0, 1, False, False)]],
            r"log\[0\] must hold discrete observations and actions, got 0.5; discretise",
        ),
        ([[(0, 0, 1.0)]], r"log\[0\]\[0\] must be a step \(observation, action"),
        (
            [{"observations": [0, 1], "actions": [0, 0], "rewards": [1.0, 1.0]}],
            r"log\[0\].observations must have 3 entries for 2 rewards, got 2",
        ),
        (
            [SimpleNamespace(observations={"x": [0, 1]}, actions=[0], rewards=[1.0])],
            "observations must be a list .* got dict; dis",
        ),
        ([[(0, 0, 1.0, 1, True, False)], 5], r"log\[1\] must be an episode with observations"),
    ],
)
def test_bad_episodes_are_one_line(log, words):
    with pytest.raises((ValueError, TypeError), match=words):
        trajectory_columns(log)


def numbered(names):
    """A model with two states whose names are numbers."""
    rows = {
        "state": [0, 0, 1],
        "action": [0] * 3,
        "next_state": [0, 1, 1],
        "probability": [0.5, 0.5, 1.0],
        "reward": [1, 1, 0],
    }
    mdp = bqrl.MDP(rows, horizon=2)
    return bqrl.MDP(
        mdp.dense(0).reshape(2, 1, 2), [[1.0], [0.0]], horizon=2, state_names=names
    )  # fmt: skip


def test_ids_beside_a_model_whose_names_are_numbers():
    """Ids 0 and 1 were refused, or 1 was read as the name '1.0' of another state."""
    log = {"episode": [0, 0, 1, 1], "state": [0, 1, 0, 0], "action": [0] * 4, "reward": [1.0, 0.0, 1.0, 1.0]}
    estimate = fit(log, model=numbered(["10", "20"]))
    assert estimate.mdp.outcomes(0, 0, 0)[1].tolist() == [0.5, 0.5]
    with pytest.raises(
        ValueError, match="expected names of the model's states, got '0', which only fits if all labels are ind"
    ):
        fit(log, model=numbered(["1.0", "2.0"]))
