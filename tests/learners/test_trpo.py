import numpy as np
from learner_problems import finished

from bqrl.envs import asset_selling
from bqrl.learners.run import learn


def test_the_shipped_defaults_learn_asset_selling():
    assert learn(asset_selling(), "trpo", 0.5, 2000, 77).means()[-1] > 0.82


def test_a_smaller_radius_moves_the_policy_less():
    mdp = asset_selling(offers=4, start=1)
    moved = [
        np.abs(finished(mdp, "trpo", 5, batch=5, radius=radius).learner.chances - 0.5).max() for radius in (1e-4, 0.1)
    ]
    assert 0.0 < moved[0] < 0.2 * moved[1]
