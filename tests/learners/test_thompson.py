import numpy as np
import pytest
from learner_problems import chain

from bqrl.envs import asset_selling
from bqrl.learners.run import Run, learn
from bqrl.planners.expected import best_mean


def test_the_shipped_defaults_learn_asset_selling():
    assert learn(asset_selling(), "thompson", 0.5, 2000, 77).means()[-1] > 0.855


@pytest.mark.parametrize("stationary", [None, True, False])
def test_every_way_of_counting_learns(stationary):
    record = learn(chain(), "thompson", 0.5, 400, 1, stationary=stationary)
    assert record.means()[-1] == pytest.approx(best_mean(chain())[0], rel=0.05)


def test_a_tiny_scale_plans_on_the_posterior_mean():
    mdp = chain()
    run = Run(mdp, "thompson", 0.5, 60, 1, scale=1e-4, prior=1.0)
    for _ in range(60):
        run.step()
    learner = run.learner
    sizes = np.diff(learner.counts.row_start)
    visits = np.repeat(learner.counts.visits.reshape(-1), sizes)
    mean = (1.0 / np.repeat(sizes, sizes) + learner.counts.seen) / (1.0 + visits)
    kernel = np.where(np.repeat(learner.counts.known.reshape(-1), sizes), mdp.probability, mean)
    learner.plan()
    assert learner.V[0, 0] == pytest.approx(best_mean(mdp.with_probability(kernel))[0], abs=1e-3)
