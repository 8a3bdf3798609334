import numpy as np
import pytest
from learner_problems import updated_by_hand

from bqrl.envs import asset_selling
from bqrl.learners.run import Run, learn
from bqrl.policies.stochastic import StochasticPolicy


def test_updates_by_hand():
    updated_by_hand("q-learning")


@pytest.mark.parametrize("name", ["q-learning", "sarsa"])
def test_an_optimistic_start_learns_to_wait(name):
    mdp = asset_selling()
    plain = learn(mdp, name, 0.5, 2000, 77).means()[-1]
    hopeful = learn(mdp, name, 0.5, 2000, 77, optimistic_start=1.0).means()[-1]
    assert plain < 0.75 < 0.82 < hopeful


@pytest.mark.parametrize("name", ["q-learning", "sarsa"])
def test_a_fresh_table_takes_the_lowest_action(name):
    assert not Run(asset_selling(), name, 0.5, 10, 0).learner.evaluated().actions.any()


def test_epsilon_falls_in_a_straight_line():
    work = Run(asset_selling(), "q-learning", 0.5, 11, 0)
    seen = []
    for _ in range(11):
        seen.append(work.learner.epsilon)
        chances = work.learner.plan().probabilities
        assert np.allclose(chances.sum(axis=2), 1.0)
        assert chances.min() == pytest.approx(seen[-1] / 2)
        work.step()
    assert np.allclose(seen, np.linspace(1.0, 0.05, 11))


def test_an_exploring_policy_plays_as_its_probabilities_without_computing_all_of_them():
    work = Run(asset_selling(), "q-learning", 0.5, 40, 3)
    for _ in range(20):
        work.step()
    policy, streams = work.learner.plan(), [work.world.state(), work.chance.bit_generator.state]
    found = [work.world.play(policy, work.chance) for _ in range(30)]
    assert "probabilities" not in vars(policy)
    table = StochasticPolicy(policy.probabilities)
    assert all((policy.shares(h, s) == table.shares(h, s)).all() for h in range(policy.H) for s in range(policy.S))
    work.world.restore(streams[0])
    work.chance.bit_generator.state = streams[1]
    for episode in found:
        again = work.world.play(table, work.chance)
        assert all((x == y).all() for x, y in zip(episode, again, strict=True))
