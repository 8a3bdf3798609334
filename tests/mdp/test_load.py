"""Options override what a file states."""

import numpy as np
import pytest
from mdp_strategies import assert_same

from bqrl import MDP, load, save


def test_the_caller_overrides_what_a_file_states(tmp_path):
    mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=4, state_names=["low", "high"], discount=0.5)
    for ending in ("npz", "json"):
        save(mdp, tmp_path / f"model.{ending}")
        other = load(tmp_path / f"model.{ending}", horizon=9, start="high", discount=1.0)
        assert (other.H, other.start, other.discount) == (9, 1, 1.0)
        assert load(tmp_path / f"model.{ending}", start=0).H == 4


def test_a_fixed_horizon_cannot_be_overridden(tmp_path):
    rewards = np.arange(3.0).reshape(3, 1, 1)
    for mdp in (MDP(np.ones((3, 1, 1, 1)), rewards), MDP(np.ones((1, 1, 1)), rewards, horizon=3)):
        for ending in ("npz", "json"):
            save(mdp, tmp_path / f"model.{ending}")
            assert_same(mdp, load(tmp_path / f"model.{ending}", horizon=3))
            with pytest.raises(ValueError, match=f"^model.{ending}: horizon must be 3"):
                load(tmp_path / f"model.{ending}", horizon=4)
