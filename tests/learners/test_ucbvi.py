import numpy as np
import pytest
from learner_problems import chain, optimal_values
from oracles import random_mdp

from bqrl.envs import asset_selling, make
from bqrl.learners.run import Run, learn
from bqrl.planners.expected import best_mean


def test_the_shipped_defaults_learn_asset_selling():
    assert learn(asset_selling(), "ucbvi", 0.5, 2000, 77).means()[-1] > 0.86


@pytest.mark.parametrize(
    "params", [{"bonus": "hoeffding"}, {"stationary": False, "scale": 0.01}, {"monotone": True, "scale": 0.01}]
)
def test_every_form_of_ucbvi_learns(params):
    assert learn(chain(), "ucbvi", 0.5, 500, 1, **params).means()[-1] == pytest.approx(best_mean(chain())[0])


def test_ucbvi_is_optimistic_whenever_the_kernel_lies_within_the_bonus():
    inside = outside = 0
    for seed in range(30):
        mdp = random_mdp(np.random.default_rng(seed))
        work = Run(mdp, "ucbvi", 0.5, 25, seed, scale=0.004, bonus="hoeffding", stationary=False)
        learner, V = work.learner, optimal_values(mdp)
        for _ in range(25):
            learner.plan()
            counts, within = learner.counts, True
            for h, s, a in np.argwhere(counts.available & ~counts.known & (counts.visits > 0)):
                q = (h * mdp.S + s) * mdp.A + a
                after, p, r = mdp.outcomes(h, s, a)
                p_hat = counts.probability[counts.row_start[q] : counts.row_start[q + 1]]
                width = learner.ceiling[h, s, a] - learner.floor[h, s, a]
                bonus = 0.004 * 7 * width * learner.L / np.sqrt(counts.visits[h, s, a])
                within &= bool((p - p_hat) @ (r + mdp.discount * V[h + 1, after]) <= bonus)
            if within:
                assert np.all(learner.V >= V - 1e-9)
            inside, outside = inside + within, outside + (not within)
            work.step()
    assert inside > 100
    assert outside > 20


@pytest.mark.parametrize("bonus", ["hoeffding", "bernstein"])
def test_ucbvi_with_the_constants_of_its_source_is_always_optimistic(bonus):
    for seed in range(15):
        mdp = random_mdp(np.random.default_rng(seed))
        record = learn(mdp, "ucbvi", 0.5, 40, seed, scale=1.0, bonus=bonus, stationary=False)
        assert np.all(record.notes["planned_value"] >= best_mean(mdp)[0] - 1e-9)


@pytest.mark.parametrize("params", [{}, {"stationary": False}, {"monotone": True}, {"bonus": "hoeffding"}])
@pytest.mark.parametrize("mdp", [asset_selling(offers=6, start=2), make("GuardedMaze")], ids=["selling", "maze"])
def test_rows_without_news_keep_their_values(mdp, params):
    """Planning all rows anew before every episode gives the same bits."""
    quick, thorough = (Run(mdp, "ucbvi", 0.5, 60, 4, **params) for _ in range(2))
    for run in (quick, thorough):  # so small that the visits of successors matter
        run.learner._bonus = run.learner._bonus._replace(log_term=1e-4, scale=1.0)
    for _ in range(60):
        thorough.learner._planned.fill(-1)
        for run in (quick, thorough):
            run.step()
        for name in ("Q", "V", "actions"):
            assert np.array_equal(getattr(quick.learner, name), getattr(thorough.learner, name))
