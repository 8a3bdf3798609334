from fractions import Fraction

import numpy as np
from hypothesis import given
from oracles import small_mdps

import bqrl
from bqrl.planners.uniform import averaged, uniform_law


def by_hand(mdp):
    """Law of the return under fair choices, in fractions, one outcome after the other."""
    now = {(s, 0): Fraction(p) for s, p in enumerate(mdp.mu.tolist()) if p > 0}
    for h in range(mdp.H):
        after = {}
        for (s, g), mass in now.items():
            actions = np.flatnonzero(mdp.stage(h).available[s])
            for a in actions.tolist():
                for t, p, r in zip(*(part.tolist() for part in mdp.outcomes(h, s, a)), strict=True):
                    key = t, g + Fraction(r)
                    after[key] = after.get(key, Fraction(0)) + mass * Fraction(p) / len(actions)
        now = after
    law = {}
    for (_, g), mass in now.items():
        law[g] = law.get(g, Fraction(0)) + mass
    values = sorted(g for g, p in law.items() if p > 0)
    return [float(g) for g in values], [float(law[g]) for g in values]


@given(small_mdps())
def test_uniform_law_equals_the_sum_over_every_choice(mdp):
    law = uniform_law(mdp)
    assert isinstance(law, bqrl.Law)
    assert law.equals(bqrl.Law(*by_hand(mdp)))


@given(small_mdps(actions=1))
def test_with_one_action_there_is_nothing_to_average(mdp):
    assert averaged(mdp).successor.tolist() == mdp.successor.tolist()
    assert uniform_law(mdp).equals(bqrl.evaluate(mdp, bqrl.MarkovPolicy(np.zeros((mdp.H, mdp.S), int))))


def test_asset_selling_at_random():
    # The first offer, 5, is taken with chance 1/2; a later one with (1/2 - 1/2**10) in all, each of 25 equally often.
    law = uniform_law(bqrl.envs.make("AssetSelling"))
    later = (0.5 - 0.5**10) / 25
    taken = np.full(25, later)
    taken[5] += 0.5
    taken[0] += 0.5**10  # never taken
    np.testing.assert_allclose(law.values, np.arange(25) / 24)
    np.testing.assert_allclose(law.probabilities, taken)
