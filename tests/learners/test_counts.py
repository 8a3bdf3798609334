import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from learner_problems import episodes
from oracles import random_mdp

from bqrl.envs import asset_selling
from bqrl.learners.counts import Counts
from bqrl.learners.protocol import Episode
from bqrl.learners.run import Run
from bqrl.mdp.model import MDP


def by_hand(mdp, counts, played):
    """N(m, s, a, outcome) in a dictionary, matching outcomes by successor and reward."""
    found = {}
    for states, actions, rewards, _ in played:
        for h in range(mdp.H):
            m = h if counts.M > 1 else 0
            successors, _, paid = mdp.outcomes(h, states[h], actions[h])
            misses = np.abs(paid - rewards[h]) + np.where(successors == states[h + 1], 0.0, np.inf)
            key = (m, states[h], actions[h], int(misses.argmin()))
            found[key] = found.get(key, 0) + 1
    return found


@given(st.integers(0, 10_000), st.booleans())
def test_counts_agree_with_counting_by_hand(seed, pooled):
    mdp = random_mdp(np.random.default_rng(seed))
    pooled = pooled and mdp.stationary
    counts = Counts(mdp.structure, pooled, mdp.reward)
    assert counts.M == (1 if pooled or mdp.H == 1 else mdp.H)
    played = episodes(mdp, 7, seed)
    for episode in played:
        counts.observe(episode)
    expected = np.zeros_like(counts.seen)
    for (m, s, a, outcome), n in by_hand(mdp, counts, played).items():
        expected[counts.row_start[(m * mdp.S + s) * mdp.A + a] + outcome] = n
    assert np.array_equal(counts.seen, expected)
    sums = [counts.seen[i:j].sum() for i, j in zip(counts.row_start[:-1], counts.row_start[1:], strict=True)]
    assert np.array_equal(counts.visits.reshape(-1), sums)
    assert counts.visits.sum() == 7 * mdp.H


@given(st.integers(0, 10_000), st.booleans())
def test_the_empirical_kernel_is_a_share_and_a_model_of_the_same_problem(seed, pooled):
    mdp = random_mdp(np.random.default_rng(seed))
    pooled = pooled and mdp.stationary
    counts = Counts(mdp.structure, pooled, mdp.reward)
    for episode in episodes(mdp, 5, seed):
        counts.observe(episode)
    layout = mdp.staged() if counts.M > 1 else mdp
    for q in range(counts.row_start.size - 1):
        here = slice(counts.row_start[q], counts.row_start[q + 1])
        if counts.known.reshape(-1)[q]:
            assert np.array_equal(counts.probability[here], layout.probability[here])
        elif counts.visits.reshape(-1)[q] == 0:
            assert np.array_equal(
                counts.probability[here], np.full(here.stop - here.start, 1 / max(1, here.stop - here.start))
            )
        else:
            assert np.array_equal(counts.probability[here], counts.seen[here] / counts.visits.reshape(-1)[q])
    assert layout.with_probability(counts.probability).H == mdp.H
    assert np.array_equal(layout.row_start, counts.row_start)
    assert np.array_equal(layout.successor, counts.successor)


def test_rows_never_visited_are_uniform_and_known_rows_exact_in_asset_selling():
    mdp = asset_selling(distribution="geometric")
    counts = Counts(mdp.structure)
    assert set(np.unique(counts.probability)) == {1 / 25, 1.0}


def test_pooled_counts_are_the_sum_over_stages():
    mdp = asset_selling()
    apart, pooled = Counts(mdp.structure, stationary=False), Counts(mdp.structure)
    for episode in episodes(mdp, 50):
        apart.observe(episode)
        pooled.observe(episode)
    assert np.array_equal(apart.visits.sum(axis=0, keepdims=True), pooled.visits)
    assert np.array_equal(apart.seen.reshape(mdp.H, -1).sum(axis=0), pooled.seen)


def test_the_empirical_kernel_is_within_its_standard_error():
    mdp = asset_selling(distribution="two-humped", offers=5, start=1)
    counts = Counts(mdp.structure, stationary=True)
    for episode in episodes(mdp, 3000):
        counts.observe(episode)
    n = np.repeat(counts.visits.reshape(-1), np.diff(counts.row_start))
    error = np.sqrt(mdp.probability * (1 - mdp.probability) / np.maximum(n, 1))
    assert np.all(np.abs(counts.probability - mdp.probability) <= 4 * error + 2 / np.maximum(n, 1) * (error > 0))


@given(st.integers(0, 10_000))
def test_restored_counts_continue_bit_for_bit(seed):
    mdp = random_mdp(np.random.default_rng(seed))
    one, other = Counts(mdp.structure, reward=mdp.reward), Counts(mdp.structure, reward=mdp.reward)
    played = episodes(mdp, 6, seed)
    for episode in played[:3]:
        one.observe(episode)
    other.restore(one.state())
    for episode in played[3:]:
        one.observe(episode)
        other.observe(episode)
    for name in ("seen", "visits", "probability"):
        assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_an_impossible_transition_is_named():
    mdp = asset_selling(offers=3, start=1)
    wrong = Episode(np.zeros(mdp.H + 1, int), np.zeros(mdp.H, int), np.zeros(mdp.H))  # selling does not keep the offer
    with pytest.raises(ValueError, match="stage 1: expected a possible successor of action 0 in state 0, got state 0"):
        Counts(mdp.structure).observe(wrong)


def test_random_rewards_need_the_rewards_to_be_told_apart():
    mdp = MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0)], horizon=2)
    with pytest.raises(ValueError, match="reward must be given"):
        Counts(mdp.structure)
    counts = Counts(mdp.structure, reward=mdp.reward)
    counts.observe(Episode(np.zeros(3, int), np.zeros(2, int), np.array([2.0, 2.0])))
    assert counts.seen.tolist() == [0, 2]


def test_stages_that_differ_cannot_be_pooled():
    with pytest.raises(ValueError, match="one kernel per stage"):
        Counts(asset_selling(stop_at_end=True).structure, stationary=True)


@pytest.mark.parametrize("shared", [False, True])
def test_shapes_of_a_posterior_are_prior_and_observations_over_the_divisor(shared):
    mdp = asset_selling(shared=shared)
    counts = Run(mdp, "thompson", 0.5, 5, 0).learner.counts
    for episode in episodes(mdp, 7):
        counts.observe(episode)
    units = counts.units()
    prior = np.linspace(0.1, 0.9, int(units.sizes.sum()))
    assert units.seen().sum() > 0
    assert units.shapes(prior, 0.09).tolist() == ((prior + units.seen()) / 0.09).tolist()
