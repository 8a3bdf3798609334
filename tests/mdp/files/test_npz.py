"""Archives: what others write, and sizes that are checked before anything is unpacked."""

import numpy as np
from mdp_strategies import assert_same

from bqrl import MDP, load


def test_anyone_can_write_an_archive_of_dense_arrays(tmp_path):
    P, R = np.array([[[0.5, 0.5]], [[0.0, 1.0]]]), np.array([[0.0], [1.0]])
    np.savez(
        tmp_path / "m.npz", transitions=P, rewards=R, horizon=4, start="high", state_names=np.array(["low", "high"])
    )
    mdp = MDP(P, R, horizon=4, start="high", state_names=["low", "high"])
    assert_same(mdp, load(tmp_path / "m.npz"))
    assert load(tmp_path / "m.npz", horizon=7).H == 7
    np.savez(tmp_path / "l.npz", transitions=np.array([[0, 0, 0, 1.0, 2.0]]))
    assert load(tmp_path / "l.npz", horizon=2).reward.tolist() == [[2.0]]
