import numpy as np
import pytest
from learner_problems import chain, episodes, optimal_values

from bqrl.envs import asset_selling
from bqrl.errors import FileFormatError
from bqrl.learners.run import Run

LEARNERS = ["ucbvi", "thompson"]


@pytest.mark.parametrize("name", LEARNERS)
def test_observing_counts_and_leaves_the_plan(name):
    learner = Run(chain(), name, 0.5, 20, 0).learner
    before = learner.plan().actions.copy()
    for episode in episodes(chain(), 5):
        learner.observe(episode)
    assert learner.counts.visits.sum() == 5 * chain().H
    assert np.array_equal(learner.evaluated().actions, before)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("stationary", [None, False])
def test_floor_and_ceiling_hold_the_true_values(name, stationary):
    mdp = chain()
    learner, V = Run(mdp, name, 0.5, 20, 0, stationary=stationary).learner, optimal_values(mdp)
    for h in range(mdp.H):
        for s in range(mdp.S):
            for a in range(mdp.A):
                after, p, r = mdp.outcomes(h, s, a)
                value = p @ (r + V[h + 1, after])
                assert learner.floor[h, s, a] - 1e-12 <= value <= learner.ceiling[h, s, a] + 1e-12


@pytest.mark.parametrize("name", LEARNERS)
def test_a_plan_keeps_its_policy_until_an_action_changes(name):
    run = Run(asset_selling(), name, 0.5, 40, 0)
    learner, last, changes = run.learner, run.learner.evaluated(), 0
    for _ in range(40):
        policy = learner.plan()
        assert np.array_equal(policy.actions, learner.actions)
        assert (policy is last) == np.array_equal(policy.actions, last.actions)
        changes += policy is not last
        last = policy
        run.step()
        last = learner.evaluated()
    assert changes > 0


def test_the_note_is_the_value_of_the_plan_at_the_start():
    mdp = asset_selling(offers=4, start=2)
    learner = Run(mdp, "ucbvi", 0.5, 20, 0).learner
    learner.plan()
    assert learner.notes() == {"planned_value": pytest.approx(learner.V[0, 2])}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_restored_learner_plans_the_same(name):
    one, other = (Run(chain(), name, 0.5, 20, 0).learner for _ in range(2))
    for episode in episodes(chain(), 5):
        one.observe(episode)
    one.plan()
    other.restore(one.state())
    assert np.array_equal(one.evaluated().actions, other.evaluated().actions)
    other.rng.bit_generator.state = one.rng.bit_generator.state
    assert np.array_equal(one.plan().actions, other.plan().actions)
    assert one.V.tobytes() == other.V.tobytes()


def test_a_checkpoint_of_another_shape_is_refused():
    state = Run(chain(), "ucbvi", 0.5, 20, 0).learner.state()
    with pytest.raises(FileFormatError, match="seen must have shape"):
        Run(asset_selling(), "ucbvi", 0.5, 20, 0).learner.restore(state)
