"""One policy under the kernels of a ball: without a ball its expectation, with all mass free its worst outcome."""

import numpy as np
import pytest
from hypothesis import given, settings
from oracles import small_mdps
from policy_kinds import six_kinds

from bqrl import MDP, evaluate, solve
from bqrl.planners.worst_case import fixed_policy
from bqrl.policies.mixture import MixturePolicy


@given(small_mdps(horizon=3))
@settings(max_examples=40)
def test_without_a_ball_costs_are_those_of_the_law_for_every_kind_of_policy(mdp):
    none = np.zeros((mdp.H, mdp.S * mdp.A))
    targets = np.array([-1.05, 0.05, 1.05])
    for policy in [*six_kinds(mdp), solve(mdp, 0.3, pairs=True).policy]:
        if isinstance(policy, MixturePolicy) or (policy.kind == "label" and not mdp.probability.all()):
            continue
        fixed, law = fixed_policy(mdp, policy), evaluate(mdp, policy)
        found = fixed.worst_costs(none, lambda g: (g[..., None] < targets).astype(float))
        assert found == pytest.approx([law.shortfall(x) for x in targets.tolist()], abs=1e-12)
        assert fixed.worst_costs(none, lambda g: g[..., None])[0] == pytest.approx(law.mean())
        assert np.all(np.diff(fixed.returns) > 0.0)


def test_free_mass_goes_to_the_worst_listed_outcome():
    P, R = np.tile([0.5, 0.5, 0.0], (3, 1, 1)), np.tile([1.0, 2.0, -5.0], (3, 1, 1))
    for support, worst in ((None, -1.0), (np.ones((3, 1, 3), bool), 5.0)):
        mdp = MDP(P, R, horizon=1, support=support)
        fixed = fixed_policy(mdp, solve(mdp, 0.5).policy)
        assert fixed.worst_costs(np.ones((1, 3)), lambda g: -g[..., None])[0] == worst
