import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps
from policy_kinds import decisions

import bqrl
from bqrl import LabelPolicy, MixturePolicy, evaluate
from bqrl.errors import PolicyError, SizeError
from bqrl.planners.curve import guarantee_curve
from bqrl.policies import pairs as unrolled


def test_labels_follow_random_rewards():
    mdp = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0), (0, 1, 0, 1.0, 0.5)], horizon=2)
    labels = guarantee_curve(mdp).policy(0.5).to_labels(mdp)
    assert isinstance(labels, LabelPolicy)
    assert evaluate(mdp, labels).equals(evaluate(mdp, guarantee_curve(mdp).policy(0.5)))


@given(small_mdps(), st.sampled_from([0.1, 0.5, 0.9]))
def test_labels_decide_as_the_policy_in_every_history(mdp, tau):
    policy = bqrl.solve(mdp, tau).policy
    assert decisions(mdp, policy.to_labels(mdp)) == decisions(mdp, policy)


def test_mixtures_and_graphs_that_are_too_large_are_refused(monkeypatch):
    mdp = bqrl.envs.make("SafeOrRisky", horizon=4)
    policy = bqrl.solve(mdp, 0.3).policy
    with pytest.raises(PolicyError, match="got a mixture; convert its parts instead"):
        MixturePolicy([policy, policy], [0.5, 0.5]).to_labels(mdp)
    monkeypatch.setattr(unrolled, "MAX_LABELS", 2)
    with pytest.raises(SizeError, match=r"at most 2 labels .*, got \d+ by stage"):
        policy.to_labels(mdp)
