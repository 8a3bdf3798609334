import numpy as np
from learner_problems import finished

from bqrl.envs import asset_selling
from bqrl.learners.run import learn


def test_the_shipped_defaults_learn_asset_selling():
    assert learn(asset_selling(), "ppo", 0.5, 2000, 77).means()[-1] > 0.83


def test_one_adam_step_per_minibatch_and_epoch():
    mdp = asset_selling(offers=4, start=1)
    run = finished(mdp, "ppo", 6, batch=3, epochs=4, minibatch=12)
    assert run.learner.steps == 2 * 4 * int(np.ceil(3 * mdp.H / 12))
    assert run.learner.mean.any()
