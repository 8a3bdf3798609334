from inspect import signature
from itertools import combinations

import numpy as np
import pytest
from learner_problems import bits, episodes

import bqrl
from bqrl.envs import asset_selling, make
from bqrl.errors import ArgumentError, EpisodeError
from bqrl.learners.counts import Counts
from bqrl.learners.protocol import Task, blank_model, with_events
from bqrl.learners.run import Run, learn
from bqrl.learners.shared_counts import SharedCounts, counts_of
from bqrl.mdp.arrays import digest
from bqrl.planners.confidence import radius

MODEL_BASED = ("psrl", "ucb-bqrl", "ucbvi", "thompson")
SMALL = {
    "AmericanPut": {"steps": 5},
    "AssetSelling": {"offers": 6, "start": 1},
    "BettingGame": {"bets": 3, "start": 4, "cap": 16},
    "DeepSea": {"size": 4},
    "Gambler": {},
    "GuardedMaze": {"horizon": 6, "step": 30.0},
    "Inventory": {"capacity": 3, "horizon": 4, "demand": 1.5},
    "Liquidation": {"lots": 3, "horizon": 3},
    "MachineReplacement": {},
    "PerishableInventory": {"life": 2, "largest_order": 2, "horizon": 3},
    "Portfolio": {"horizon": 3},
    "SafeOrRisky": {},
    "SlipperyCliff": {"columns": 4, "horizon": 8},
    "Staffing": {"agents": 2, "horizon": 3, "calls": 2.0, "lines": 4},
}


def shared(name, **changed):
    return make(name, shared=True, **SMALL[name] | changed)


def censored(observed=False):
    """Demand of 0 to 4, at most three units in stock: only a full stock shows which demand below 3 there was."""
    demand = {0: 0.2, 1: 0.15, 2: 0.15, 3: 0.2, 4: 0.3}
    return with_events(make("Inventory", shared=True, capacity=3, horizon=4, demand=demand), observed)


def by_stage():
    """A coin and a die in turn: one law of events per stage, and a row that no law drives."""

    def step(state, action, event):
        return (state + event if action else state), float(event * action)

    return bqrl.from_step(step, [0, 1], [{0: 0.5, 1: 0.5}, {0: 0.2, 1: 0.3, 2: 0.5}], 2, 0)


def task_of(mdp, T=50):
    return Task(
        structure=mdp.structure,
        model=blank_model(mdp),
        discount=1.0,
        objective=bqrl.Quantile(0.3),
        episodes=T,
        delta=0.05,
    )


def counted(mdp, n, seed=0, stationary=None):
    counts = counts_of(task_of(mdp), stationary)
    played = episodes(mdp, n, seed)
    for episode in played:
        counts.observe(episode)
    return counts, played


def needed(noise, law):
    """Pairs of events that some row of the law sends to different outcomes."""
    rows = np.flatnonzero(noise.row_law.reshape(-1) == law)
    pairs = combinations(range(len(noise.events[law])), 2)
    return {(i, j) for i, j in pairs if any(noise.outcome_of(q)[i] != noise.outcome_of(q)[j] for q in rows)}


def event_counts(mdp, played, observed):
    """Counts of the events of every law, event by event, straight from the definition."""
    noise, found = mdp.noise, [np.zeros(len(labels), int) for labels in mdp.noise.events]
    for episode in played:
        for h in range(mdp.H):
            s, a = int(episode.states[h]), int(episode.actions[h])
            q = noise.row(h, s, a)
            law = int(noise.row_law.reshape(-1)[q])
            if law < 0:
                continue
            to = noise.outcome_of(q)
            if observed:
                found[law][episode.events[h]] += 1
            elif all(to[i] != to[j] for i, j in needed(noise, law)):
                successors, _, rewards = mdp.outcomes(h, s, a)
                hits = [
                    e for e in range(to.size)
                    if successors[to[e]] == episode.states[h + 1] and rewards[to[e]] == episode.rewards[h]
                ]  # fmt: skip
                found[law][hits[0]] += 1
    return found


def per_class(counts, found):
    return np.bincount(counts.event_class, np.concatenate(found), minlength=counts.class_seen.size)


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("name", [*SMALL, "by stage"])
def test_event_counts_agree_with_counting_by_hand(name, observed):
    mdp = by_stage() if name == "by stage" else shared(name)
    if not observed:
        mdp = with_events(mdp, False)
    counts, played = counted(mdp, 15)
    assert isinstance(counts, SharedCounts)
    assert all(episode.events.size == (mdp.H if observed else 0) for episode in played)
    found = event_counts(mdp, played, observed)
    assert np.array_equal(counts.class_seen, per_class(counts, found))
    assert np.array_equal(counts.law_visits(), [n.sum() for n in found])


@pytest.mark.parametrize("stationary", [None, False])
@pytest.mark.parametrize("name", [*SMALL, "by stage"])
def test_the_empirical_kernel_is_the_image_of_the_empirical_event_law(name, stationary):
    mdp = by_stage() if name == "by stage" else shared(name)
    counts, played = counted(mdp, 15, stationary=stationary)
    layout = mdp.staged() if counts.M > 1 else mdp
    found = event_counts(mdp, played, True)
    laws = [n / n.sum() if n.any() else np.full(n.size, 1.0 / n.size) for n in found]
    own = Counts(mdp.structure, stationary, mdp.reward)
    for episode in played:
        own.observe(episode)
    assert counts.probability == pytest.approx(layout.noise.image(laws, own.probability), abs=1e-14)
    row_law = layout.noise.row_law
    assert np.array_equal(counts.visits, np.where(row_law >= 0, np.append(counts.law_visits(), 0)[row_law], own.visits))
    driven = np.repeat(row_law.reshape(-1) >= 0, np.diff(counts.row_start))
    assert np.array_equal(counts.seen[~driven], own.seen[~driven])
    sums = np.add.reduceat(counts.seen, counts.row_start[:-1][counts.support_size.reshape(-1) > 0])
    assert np.array_equal(sums, counts.visits.reshape(-1)[counts.support_size.reshape(-1) > 0])


def test_before_the_first_event_rows_are_images_of_the_uniform_law():
    mdp = censored(True)
    counts = counts_of(task_of(mdp))
    assert np.diff(counts.class_start).tolist() == [4]  # demands of 3 and 4 cannot be separated
    q = mdp.noise.row(0, 0, 1)  # one unit in stock: sold out unless the demand is 0
    assert sorted(counts.probability[counts.row_start[q] : counts.row_start[q + 1]]) == pytest.approx([0.25, 0.75])


def test_unobserved_events_are_counted_without_bias():
    """A count of the events that happen to be visible would miss stock-outs, and so large demands."""
    mdp = censored()
    counts, played = counted(mdp, 3000)
    truth = np.bincount(counts.event_class, mdp.noise.probabilities[0])
    n = int(counts.law_visits()[0])
    error = np.sqrt(truth * (1 - truth) / n)
    assert n > 1000
    assert np.all(np.abs(counts.class_law() - truth) < 4 * error)
    visible = np.zeros(4)
    for episode in played:
        for h in range(mdp.H):
            q = mdp.noise.row(h, int(episode.states[h]), int(episode.actions[h]))
            if mdp.noise.row_law.reshape(-1)[q] < 0:
                continue
            to, successors = mdp.noise.outcome_of(q), mdp.outcomes(h, episode.states[h], episode.actions[h])[0]
            classes = {int(c) for e, c in enumerate(counts.event_class) if successors[to[e]] == episode.states[h + 1]}
            if len(classes) == 1:
                visible[classes.pop()] += 1
    assert np.max(np.abs(visible / visible.sum() - truth) / error) > 20


def test_a_row_visited_more_often_than_its_law_was_revealed_uses_its_own_counts():
    mdp = censored()
    counts, _ = counted(mdp, 1)
    low = next(q for q in range(counts.row_law.size) if counts.row_law[q] == 0 and not mdp.noise.reveals(q))
    counts._own.visits.reshape(-1)[low] = 10**6
    counts._write_rows()
    assert counts.visits.reshape(-1)[low] == 10**6
    here = slice(counts.row_start[low], counts.row_start[low + 1])
    assert np.array_equal(counts.probability[here], counts._own.probability[here])
    kernel = counts.units().spread(np.full(counts.units().sizes.sum(), 0.5), np.zeros(counts.successor.size))
    assert np.array_equal(kernel[here], np.full(here.stop - here.start, 0.5))  # the row's own draw


def test_laws_of_the_whole_model_are_counted_over_all_stages_even_if_rows_are_not():
    mdp = shared("AssetSelling")
    pooled, apart = counted(mdp, 20)[0], counted(mdp, 20, stationary=False)[0]
    assert apart.M == mdp.H
    assert np.array_equal(pooled.class_seen, apart.class_seen)
    assert np.array_equal(np.tile(pooled.probability, mdp.H), apart.probability)


def test_draws_of_rows_are_images_of_one_drawn_law():
    mdp = shared("AssetSelling", distribution="geometric")
    run = Run(mdp, "psrl", 0.3, 20, 1)
    for _ in range(6):
        kernel = run.learner.draw()
        rows = kernel[mdp.noise.pair_outcome].reshape(-1, 6)
        assert np.array_equal(rows, np.broadcast_to(rows[0], rows.shape))
        run.step()


def test_the_drawn_law_has_the_moments_of_its_posterior():
    run = Run(shared("AssetSelling"), "psrl", 0.3, 20, 1)
    run.learner.counts.class_seen[:] = [5, 0, 1, 9, 2, 3]
    run.learner.counts._write_rows()
    draws = np.array([run.learner.draw()[run.learner.counts.pair_outcome[:6]] for _ in range(8000)])
    shapes = 1 / 6 + 20 / 30 * np.array([5, 0, 1, 9, 2, 3])  # twenty events, early counts are doubted
    mean, total = shapes / shapes.sum(), shapes.sum()
    assert draws.mean(axis=0) == pytest.approx(mean, abs=5e-3)
    assert draws.var(axis=0) == pytest.approx(mean * (1 - mean) / (total + 1), rel=0.1)


def test_every_row_of_a_law_has_the_radius_of_the_law():
    mdp = censored(True)
    run = Run(mdp, "ucb-bqrl", 0.3, 30, 1, c_conf="theory")
    for _ in range(10):
        run.step()
    counts, task = run.learner.counts, run.learner.task
    n = counts.law_visits()
    expected = radius(n, task.S, task.A, 30, task.H, 0.05, np.array([4]))[0]
    half = run.learner.half_radius()[0].reshape(task.S, task.A)
    driven = (mdp.noise.row_law[0] >= 0) & ~mdp.known[0]
    assert n[0] > 0
    assert np.all(half[driven] == pytest.approx(min(expected, 2.0) / 2))
    assert not half[~driven].any()


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_all_model_based_learners_run_on_every_problem_that_offers_sharing(name, observed):
    mdp = shared(name)
    for learner in MODEL_BASED:
        record = learn(mdp, learner, 0.3, 4, 1, events_observed=observed)
        assert np.all(record.gap() >= -1e-9)


def test_every_problem_that_offers_sharing_is_covered():
    offered = {name for name in bqrl.envs.names() if "shared" in signature(bqrl.envs.about(name).build).parameters}
    assert offered == set(SMALL)


@pytest.mark.parametrize("observed", [True, False])
@pytest.mark.parametrize("name", MODEL_BASED)
def test_a_restored_run_continues_bit_for_bit(name, observed):
    one, other = (Run(censored(observed), name, 0.3, 12, 3) for _ in range(2))
    for _ in range(6):
        one.step()
    other.restore(one.state())
    for _ in range(6):
        one.step()
        other.step()
    assert bits(one) == bits(other)
    assert "learner_class_seen" in one.state()


def test_sharing_estimates_every_row_from_all_transitions():
    together = asset_selling(distribution="geometric", shared=True)
    errors = []
    for mdp in (together, together.with_noise(None)):
        counts, _ = counted(mdp, 40)
        errors.append(np.add.reduceat(np.abs(counts.probability - mdp.probability), mdp.row_start[:-1]))
    driven = together.noise.row_law.reshape(-1) >= 0
    assert np.ptp(errors[0][driven]) < 1e-12  # all rows share one estimate
    assert errors[0].max() < 0.5 * errors[1][driven].mean()


def test_an_event_that_contradicts_the_transition_is_named():
    mdp = shared("AssetSelling")
    counts = counts_of(task_of(mdp))
    waits = next(e for e in episodes(mdp, 20) if e.events[0] >= 0)
    for wrong in ((waits.events[0] + 1) % 6, -1, 6):
        events = np.r_[wrong, waits.events[1:]]
        with pytest.raises(EpisodeError, match=rf"stage 1: expected an event that leads from action 1 .* got {wrong}$"):
            counts.observe(waits._replace(events=events))


def test_events_observed_needs_shared_noise():
    with pytest.raises(ArgumentError, match=r"events_observed must be None for .* without shared noise, got False"):
        learn("AssetSelling", "psrl", 0.3, 2, 1, events_observed=False)
    with pytest.raises(ArgumentError, match="FrozenLakeEnv, which does not expose shared noise, got True"):
        learn("FrozenLake-v1", "psrl", 0.3, 2, 1, events_observed=True)


def test_an_environment_of_a_shared_problem_learns_as_the_problem_does():
    mdp = censored(True)
    for observed in (None, False):
        one, other = (Run(p, "psrl", 0.3, 5, 1, events_observed=observed) for p in (mdp, mdp.as_env()))
        for _ in range(5):
            one.step()
            other.step()
        assert bits(one) == bits(other)


def test_twins_whose_laws_are_not_known_count_rows():
    """Rows of such a twin need not be images of any law."""
    mdp = shared("AssetSelling")
    twin = mdp.with_probability(mdp.probability)
    assert type(Run(twin, "psrl", 0.3, 2, 1).learner.counts) is Counts
    assert type(Run(mdp, "psrl", 0.3, 2, 1).learner.counts) is SharedCounts


def test_problems_that_differ_in_what_is_shared_have_different_digests():
    mdp = shared("AssetSelling")
    twins = (mdp, mdp.with_noise(None), with_events(mdp, False), mdp.with_probability(mdp.probability))
    assert len({digest(twin) for twin in twins}) == 4
    assert digest(mdp.with_noise(None)) == digest(asset_selling(offers=6, start=1))
