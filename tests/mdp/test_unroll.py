"""Conversions between kinds of policy: the same decisions in every history, or one line."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MarkovPolicy, MixturePolicy
from bqrl.errors import PolicyError, SizeError
from bqrl.mdp import unroll


def decisions(mdp, policy):
    """(stage, history of outcomes) -> action, over all histories of positive probability."""
    found = {}
    open_ = [((int(s),), int(s), policy.start()) for s in np.flatnonzero(mdp.mu)]
    for h in range(mdp.H):
        after = []
        for history, s, memory in open_:
            a = found[h, history] = policy.act(h, s, memory)
            for t, p, r in zip(*mdp.outcomes(h, s, a), strict=True):
                if p > 0.0:
                    after.append(
                        ((*history, a, float(r), int(t)), int(t), policy.next(memory, h, s, a, float(r), int(t)))
                    )
        open_ = after
    return found


@given(small_mdps(), st.sampled_from([0.1, 0.5, 0.9]))
def test_labels_decide_as_the_policy_in_every_history(mdp, tau):
    policy = bqrl.solve(mdp, tau).policy
    assert decisions(mdp, policy.to_labels(mdp)) == decisions(mdp, policy)


def test_a_policy_that_never_uses_its_memory_becomes_markov():
    mdp = bqrl.envs.make("AssetSelling", offers=5, start=1, horizon=4)
    policy = bqrl.solve(mdp, 0.3).policy
    markov = policy.to_markov(mdp)
    assert isinstance(markov, MarkovPolicy)
    assert decisions(mdp, markov) == decisions(mdp, policy)
    assert markov.to_markov(mdp) is markov
    labels = policy.to_labels(mdp)
    assert labels.to_labels(mdp) is labels


def test_a_policy_that_uses_its_memory_cannot_become_markov():
    mdp = bqrl.envs.make("SafeOrRisky", horizon=3)
    with pytest.raises(
        PolicyError,
        match=r"one action in state playing at stage \d, got \d and \d: it depends on its memory; use to_labels",
    ) as caught:
        bqrl.solve(mdp, 0.3).policy.to_markov(mdp)
    assert caught.value.state == 0


def test_mixtures_and_graphs_that_are_too_large_are_refused(monkeypatch):
    mdp = bqrl.envs.make("SafeOrRisky", horizon=4)
    policy = bqrl.solve(mdp, 0.3).policy
    with pytest.raises(PolicyError, match="got a mixture; convert its parts instead"):
        MixturePolicy([policy, policy], [0.5, 0.5]).to_labels(mdp)
    monkeypatch.setattr(unroll, "MAX_LABELS", 2)
    with pytest.raises(SizeError, match=r"at most 2 labels, got \d+ by stage"):
        policy.to_labels(mdp)
