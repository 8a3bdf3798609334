"""The set of achievable laws and the labels behind them."""

from fractions import Fraction

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import (
    LEVELS,
    achievable_laws,
    exact_outcomes,
    random_mdp,
    small_mdps,
)

from bqrl import MDP, evaluate
from bqrl.mdp.find_grid import return_set
from bqrl.planners.frontier import frontier, plan_frontier

levels = st.sampled_from(LEVELS)
shares = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])


def as_rows(laws, points):
    """Exact laws as rows of masses on the grid's points."""
    rows = np.zeros((len(laws), points.size))
    for i, law in enumerate(laws):
        for x, p in law:
            j = np.abs(points - float(x)).argmin()
            assert abs(points[j] - float(x)) < 1e-9
            rows[i, j] += float(p)
    return rows


def assert_same_set(found, laws):
    """Every law of one set is in the other, and both have the same number."""
    wanted = as_rows(laws, found.points)
    assert len(found) == len(wanted)
    gaps = np.abs(found.pmf[:, None, :] - wanted[None]).max(axis=2)
    assert gaps.min(axis=0).max() < 1e-12
    assert gaps.min(axis=1).max() < 1e-12


@given(small_mdps())
def test_frontier_is_the_set_of_achievable_laws(mdp):
    laws = achievable_laws(mdp, cap=300)
    assume(laws is not None)
    assert_same_set(frontier(mdp), laws)


def test_frontier_is_the_set_of_achievable_laws_of_many_random_problems():
    rng, checked = np.random.default_rng(1), 0
    while checked < 1000:
        mdp = random_mdp(rng, horizon=3)
        laws = achievable_laws(mdp, cap=300)
        if laws is not None:
            assert_same_set(frontier(mdp), laws)
            checked += 1


def test_the_frontier_does_not_depend_on_the_kind_of_grid():
    rng = np.random.default_rng(2)
    for _ in range(100):
        mdp = random_mdp(rng, horizon=3)
        if rng.integers(2):
            mdp = mdp.replace(discount=0.5)
        laws = achievable_laws(mdp, cap=100)
        if laws is not None:
            assert_same_set(frontier(mdp, columns=return_set(mdp)), laws)


@given(small_mdps(), st.integers(0, 10**6))
def test_labels_executed_reproduce_their_law(mdp, pick):
    found = frontier(mdp, dominance=True)
    i = pick % len(found)
    assert evaluate(mdp, found.policy(i)).equals(found.law(i))


def test_labels_are_shared():
    mdp = MDP(np.full((2, 2, 2), 0.5), [[0, 1], [2, 0]], horizon=6)
    found = frontier(mdp, dominance=True)
    nodes = found.policy(found.best(0.3)).action.size
    assert nodes < 2**6 - 1, "a tree of copies would have a node for every history"


def test_random_rewards_continue_independently():
    """Outcomes with the same successor and different rewards are different histories."""
    listed = [(0, 0, 0, 1, 0.5, 0.0), (0, 0, 0, 1, 0.5, 1.0)]
    listed += [(1, s, a, s, 1.0, float(a)) for s in (0, 1) for a in (0, 1)]
    mdp = MDP(listed)
    assert len(exact_outcomes(mdp, 0, 0, 0)) == 2
    reached = {tuple(law) for law in achievable_laws(mdp)}
    one, half = Fraction(1), Fraction(1, 2)
    assert ((one, one),) in reached, "after the low reward take the bonus, after the high one not"
    assert reached == {
        ((one, one),),
        ((0, half), (one, half)),
        ((one, half), (2 * one, half)),
        ((0, half), (2 * one, half)),
    }
    assert_same_set(frontier(mdp), sorted(reached))


def test_impossible_outcomes_offer_no_choice_but_have_a_label():
    """A successor of probability zero in the known support multiplies nothing, and the policy still knows what to do."""
    P = np.zeros((2, 2, 2))
    P[..., 0] = 1.0
    mdp = MDP(P, [[0, 1], [0, 3]], horizon=3, support=np.ones((2, 2, 2), bool))
    plain = MDP(P, [[0, 1], [0, 3]], horizon=3)
    assert len(frontier(mdp)) == len(frontier(plain)) == 4
    policy = frontier(mdp).policy(0)
    memory = policy.next(policy.start(), 0, 0, policy.act(0, 0, policy.start()), 0.0, 1)
    assert policy.act(1, 1, memory) == 1, "the law of the largest mean"


def test_a_start_law_combines_the_first_states():
    mdp = MDP(np.tile(np.eye(2)[:, None, :], (1, 2, 1)), [[0, 1], [0, 2]], start=[0.25, 0.75], horizon=1)
    assert_same_set(frontier(mdp), achievable_laws(mdp))
    assert len(frontier(mdp)) == 4
    plan = plan_frontier(mdp, 0.5)
    assert plan.value == 2.0
    assert evaluate(mdp, plan.policy).equals(plan.law)
