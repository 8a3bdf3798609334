import numpy as np
from learner_problems import episodes, finished

from bqrl.envs import asset_selling
from bqrl.learners.run import Run, learn


def test_the_shipped_defaults_learn_asset_selling():
    assert learn(asset_selling(), "ppo", 0.5, 2000, 77).means()[-1] > 0.83


def test_one_adam_step_per_minibatch_and_epoch():
    mdp = asset_selling(offers=4, start=1)
    run = finished(mdp, "ppo", 6, batch=3, epochs=4, minibatch=12)
    assert run.learner.steps == 2 * 4 * int(np.ceil(3 * mdp.H / 12))
    assert run.learner.mean.any()


def test_a_restored_learner_moves_the_rows_that_were_visited_before():
    mdp = asset_selling(offers=30, start=1)
    run = finished(mdp, "ppo", 6, batch=3)
    again = Run(mdp, "ppo", 0.5, 6, 1, batch=3).learner
    again.restore(run.learner.state())
    for learner in (run.learner, again):
        learner.rng = np.random.default_rng(5)
        for episode in episodes(mdp, 3):
            learner.observe(episode)
    before, after = run.learner.state(), again.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)
