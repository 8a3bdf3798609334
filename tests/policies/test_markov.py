import numpy as np
import pytest
from policy_kinds import decisions

import bqrl
from bqrl import MarkovPolicy
from bqrl.errors import PolicyError

BAD = [
    ("actions below 0", lambda: MarkovPolicy([[-1]]), "actions must be whole numbers from 0 in shape (H, S)"),
    ("actions that are fractions", lambda: MarkovPolicy([[0.5]]), "actions must be whole numbers"),
    ("actions in one row", lambda: MarkovPolicy([0, 1]), "in shape (H, S), got (2,)"),
    ("no actions", lambda: MarkovPolicy(np.zeros((0, 3), int)), "actions must be whole numbers"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_tables_of_actions_get_one_line(call, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


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
