import numpy as np
from learner_problems import alternating, updated_by_hand

from bqrl.learners.run import Run
from bqrl.learners.sarsa import Sarsa


def test_updates_by_hand():
    updated_by_hand("sarsa")


def test_sarsa_learns_from_the_action_that_was_played():
    assert Sarsa.on_policy
    on, off = (Run(alternating(), name, 0.5, 30, 1).learner for name in ("sarsa", "q-learning"))
    world, chance = Run(alternating(), "sarsa", 0.5, 30, 1).world, np.random.default_rng(0)
    for _ in range(30):  # the same episodes for both, with exploration
        episode = world.play(on.plan(), chance)
        on.observe(episode)
        off.observe(episode)
    assert np.all(on.Q <= off.Q + 1e-12)  # the best next action counts at least as much as the one played
    assert np.any(on.Q < off.Q - 0.01)
