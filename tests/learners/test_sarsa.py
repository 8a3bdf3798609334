from learner_problems import alternating, updated_by_hand

from bqrl.learners.run import learn
from bqrl.learners.sarsa import Sarsa


def test_updates_by_hand():
    updated_by_hand("sarsa")


def test_sarsa_learns_from_the_action_that_was_played():
    assert Sarsa.on_policy
    on, off = (learn(alternating(), name, 0.5, 30, 1) for name in ("sarsa", "q-learning"))
    assert on.returns[0] == off.returns[0]  # the same chance, the same first table
