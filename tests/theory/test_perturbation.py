import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import random_mdp, small_mdps

from bqrl import MDP, MarkovPolicy, MixturePolicy, envs, evaluate, guarantee_curve
from bqrl.theory import return_law_perturbation
from bqrl.theory.perturbation import mismatch_weights, sharp_weights
from bqrl.theory.total_variation import total_variation


def moved(mdp, rng, share):
    """The problem with every row moved towards a random law on its own support."""
    p = mdp.probability.copy()
    for begin, end in zip(mdp.row_start[:-1], mdp.row_start[1:], strict=True):
        if end > begin:
            p[begin:end] = (1 - share) * p[begin:end] + share * rng.dirichlet(np.full(end - begin, 0.3))
    return mdp.with_probability(p)


@given(small_mdps(), st.integers(0, 10**6), st.sampled_from([0.01, 0.3, 1.0]))
def test_bound_holds_for_every_kind_of_policy(mdp, seed, share):
    rng = np.random.default_rng(seed)
    other, tau = moved(mdp, rng, share), float(rng.choice([0.1, 0.5, 0.9]))
    target = guarantee_curve(mdp).policy(tau)
    first = np.array([mdp.stage(h).available.argmax(axis=1) for h in range(mdp.H)])
    kinds = [target, MarkovPolicy(first), MixturePolicy([target, MarkovPolicy(first)], [0.3, 0.7])]
    if all((mdp.stage(h).probability > 0.0).all() for h in range(mdp.H)):  # labels know the possible successors only
        kinds.append(target.to_labels(mdp))
    for policy in kinds:
        there, back = return_law_perturbation(mdp, other, policy), return_law_perturbation(other, mdp, policy)
        true = evaluate(mdp, policy).wasserstein(evaluate(other, policy))
        for found in (there, back):
            assert found.distance == pytest.approx(true, abs=1e-12)
            assert found.distance <= found.bound + 1e-12
            assert sharp_weights(mdp) @ found.variation >= true - 1e-12  # the sharper weights hold, too


def test_weight_h_on_outcomes_is_attained():
    # A coin at every stage pays 1 for heads: moving only stage h's coin moves the mean by exactly TV, the weight of the
    # parting transition itself, which rewards on (s, a) would not count.
    H = 4
    reward = np.zeros((H, 2, 1, 2))
    reward[..., 1] = 1.0
    fair = np.full((H, 2, 1, 2), 0.5)
    policy = MarkovPolicy(np.zeros((H, 2), int))
    for h in range(H):
        bent = fair.copy()
        bent[h, :, 0] = [0.4, 0.6]
        found = return_law_perturbation(MDP(fair, reward), MDP(bent, reward), policy)
        assert found.variation == pytest.approx(np.where(np.arange(H) == h, 0.1, 0.0))
        assert found.distance == pytest.approx(0.1)
        assert found.bound == pytest.approx((H - h) * 0.1)
    assert found.bound == pytest.approx(found.distance)  # the last stage: H - h = 1, where H - h - 1 would claim 0


def test_papers_weight_is_attained_on_states():
    # State 1 pays at every later stage: a first step moved by TV moves the return by H - 1.
    H = 5
    P = np.zeros((H, 2, 1, 2))
    P[:, 0, 0, 0] = P[:, 1, 0, 1] = 1.0
    P[0, 0, 0] = [0.5, 0.5]
    Q = P.copy()
    Q[0, 0, 0] = [0.3, 0.7]
    reward = np.zeros((H, 2, 1))
    reward[:, 1] = 1.0
    reward[0] = 0.0
    found = return_law_perturbation(MDP(P, reward), MDP(Q, reward), MarkovPolicy(np.zeros((H, 2), int)))
    assert found.weights == pytest.approx([4, 3, 2, 1, 0])
    assert found.bound == pytest.approx(found.distance) == pytest.approx(4 * 0.2)


def test_other_may_list_its_outcomes_differently():
    rng = np.random.default_rng(2)
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    Q = P.copy()
    Q[0, 0], Q[1, 1] = [0.0, 1.0, 0.0], [0.5, 0.0, 0.5]  # outcomes that are not listed then
    R = np.arange(6.0).reshape(3, 2) / 5
    one, two = MDP(P, R, horizon=4), MDP(Q, R, horizon=4)
    twin = MDP(Q, R, horizon=4, support=np.ones((3, 2, 3), bool))
    assert two.successor.size < one.successor.size == twin.successor.size
    policy = guarantee_curve(one).policy(0.4)
    found, same = return_law_perturbation(one, two, policy), return_law_perturbation(one, twin, policy)
    assert found.bound == pytest.approx(same.bound)
    assert found.distance == pytest.approx(same.distance)
    assert total_variation(one, two)[0] == pytest.approx(np.abs(P - Q).sum(axis=2) / 2)


def test_random_rewards_are_outcomes():
    fair = MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=2)
    bent = MDP([(0, 0, 0, 0.25, 0.0), (0, 0, 0, 0.75, 1.0)], horizon=2)
    assert total_variation(fair, bent).ravel() == pytest.approx([0.25, 0.25])  # the states alone would not differ
    found = return_law_perturbation(fair, bent, MarkovPolicy([[0], [0]]))
    assert found.bound == pytest.approx(0.75)
    assert found.distance == pytest.approx(0.5)


def test_discounted_weights():
    mdp = envs.make("AssetSelling", offers=3, horizon=3, start=1).replace(discount=0.5)
    assert mismatch_weights(mdp) == pytest.approx([0.75, 0.25, 0.0])


def test_equal_kernels_are_at_distance_zero():
    mdp = random_mdp(np.random.default_rng(0))
    found = return_law_perturbation(mdp, mdp, guarantee_curve(mdp).policy(0.5))
    assert (found.bound, found.distance) == (0.0, 0.0)


def test_weights_in_closed_form():
    mdp = envs.make("AssetSelling")
    assert mismatch_weights(mdp) == pytest.approx([9, 8, 7, 6, 5, 4, 3, 2, 1, 0])
    assert sharp_weights(mdp) == pytest.approx([1] * 9 + [0])  # one sale
    paid = MDP(np.full((2, 1, 2), 0.5), [[[0.0, 1.0]], [[0.0, 1.0]]], horizon=4)  # rewards on (s, a, s')
    assert mismatch_weights(paid) == pytest.approx([4, 3, 2, 1])
    assert sharp_weights(paid) == pytest.approx([4, 3, 2, 1])


@given(small_mdps())
def test_sharp_weights_are_never_above_the_spans(mdp):
    assert np.all(sharp_weights(mdp) <= mismatch_weights(mdp) + 1e-12)


def test_the_bound_counts_rewards_that_differ_between_the_problems():
    low, high = (MDP([(0, 0, 0, 0.5, x), (0, 0, 0, 0.5, x + 1.0)], horizon=1) for x in (0.0, 10.0))
    found = return_law_perturbation(low, high, MarkovPolicy([[0]]))
    assert (found.bound, found.distance) == (11.0, 10.0)  # the bound was 1: the span of either problem


@pytest.mark.parametrize("changed", [{"start": 1}, {"discount": 0.5}])
def test_problems_with_another_start_or_discount_are_refused(changed):
    mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    with pytest.raises(ValueError, match="other must have the start and the discount of mdp, got MDP"):
        return_law_perturbation(mdp, mdp.replace(**changed), MarkovPolicy([[0, 0]] * 3))
