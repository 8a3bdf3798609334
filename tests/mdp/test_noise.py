# ruff: noqa: E501  (a row of the table of bad laws is one line)
"""Shared noise: images of laws, what rows reveal, and draws of events, against brute force."""

import copy
import math
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers import assert_one_line
from hypothesis import given, settings
from hypothesis import strategies as st
from mdp_strategies import COIN, inventory, laws, step_models
from scipy import stats

import bqrl
import bqrl.mdp.noise
from bqrl.learners.protocol import blank_model
from bqrl.mdp.noise import event_laws


def event_of(noise, row, outcome):
    """The event as which an outcome of a row counts, -1 if the row does not reveal its law."""
    return int(noise.outcome_event[noise.row_start[row] + outcome])


def brute_row(mdp, table, paid, law, s, a):
    """{(next state, reward): probability} of one row, event by event."""
    state, action = mdp.noise.states[s], mdp.noise.actions[a]
    row = {}
    for e, p in enumerate(law):
        key = (mdp.noise.states.index(int(table[state, action, e])), float(paid[state, action, e]))
        row[key] = row.get(key, 0.0) + p
    return row


@given(step_models(), st.data())
def test_image_is_the_brute_force_image_of_every_row(case, data):
    mdp, table, paid, true_laws = case
    noise = mdp.noise
    assert np.allclose(noise.image(noise.probabilities), mdp.probability, rtol=0, atol=1e-15)
    given_laws = [data.draw(laws(law.size)) for law in true_laws]
    twin = mdp.with_probability(noise.image(given_laws, mdp.probability))
    for model, of in ((mdp, true_laws), (twin, given_laws)):
        for h in range(mdp.H):
            for s, a in np.argwhere(mdp.stage(h).available):
                after, p, reward = model.outcomes(h, s, a)
                brute = brute_row(mdp, table, paid, of[h if len(of) > 1 else 0], s, a)
                found = dict(zip(zip(after.tolist(), reward.tolist(), strict=True), p.tolist(), strict=True))
                assert found == pytest.approx(brute, abs=1e-12)


@given(step_models(), st.data())
def test_the_image_contracts_l1_distances(case, data):
    mdp, _, _, true_laws = case
    noise = mdp.noise
    one, two = ([data.draw(laws(law.size)) for law in true_laws] for _ in range(2))
    difference = np.abs(noise.image(one) - noise.image(two))
    for row, law in enumerate(noise.row_law.reshape(-1)):
        distance = difference[noise.row_start[row] : noise.row_start[row + 1]].sum()
        assert distance <= (np.abs(one[law] - two[law]).sum() if law >= 0 else 0.0) + 1e-12


@given(step_models())
def test_a_row_reveals_its_law_if_it_separates_what_any_row_of_the_law_separates(case):
    noise = case[0].noise
    row_law = noise.row_law.reshape(-1)
    for row, law in enumerate(row_law):
        if law < 0:
            assert not noise.reveals(row)
            assert noise.outcome_of(row).size == 0
            continue
        E = len(noise.events[law])
        maps = [noise.outcome_of(other) for other in np.flatnonzero(row_law == law)]
        needed = {(e, f) for e in range(E) for f in range(E) if any(m[e] != m[f] for m in maps)}
        own = noise.outcome_of(row)
        assert noise.reveals(row) == all(own[e] != own[f] for e, f in needed)
        for outcome in range(noise.row_start[row + 1] - noise.row_start[row]):
            event = event_of(noise, row, outcome)
            if noise.reveals(row):
                assert event == min(e for e in range(E) if own[e] == outcome)
            else:
                assert event == -1


@given(step_models())
def test_a_revealing_row_shows_an_event_with_the_right_image_everywhere(case):
    """Counting the events that revealing rows show gives the laws of all rows in the limit."""
    noise = case[0].noise
    merged = []
    for law, p in enumerate(noise.probabilities):
        merged.append(np.bincount(noise.classes[law], p, minlength=p.size))
    assert np.allclose(noise.image(merged), noise.image(noise.probabilities), rtol=0, atol=1e-12)


def censored(**options):
    """Two units of stock: the demand is seen only if nothing runs out."""

    def step(stock, order, demand):
        sold = min(stock + order, demand)
        return stock + order - sold, float(5 * sold - order)

    law = {0: 0.2, 1: 0.3, 2: 0.4, 3: 0.1}
    return bqrl.from_step(step, lambda stock: range(4 - stock), law, 4, 0, **options)


def test_censored_demand_counts_by_row_and_never_by_what_happened_to_be_visible():
    noise = censored(events_observed=False).noise
    assert not noise.events_observed
    full, half = noise.row(0, 1, 2), noise.row(0, 0, 2)  # three and two units at hand
    assert noise.reveals(full)
    assert [event_of(noise, full, outcome) for outcome in noise.outcome_of(full)] == [0, 1, 2, 3]
    assert not noise.reveals(half)  # demands 2 and 3 look the same
    assert [event_of(noise, half, outcome) for outcome in noise.outcome_of(half)] == [
        -1
    ] * 4  # also the visible 0 and 1


def test_counts_by_row_are_unbiased_where_counts_by_visibility_are_not():
    mdp = censored(events_observed=False)
    noise, n = mdp.noise, 40_000
    rng = np.random.default_rng(5)
    states, actions = rng.integers(0, 2, n), np.full(n, 2)  # two or three units at hand, half of the time each
    rows = (states * mdp.A + actions).tolist()
    drawn = [noise.draw(row, None, u) for row, u in zip(rows, rng.random(n), strict=True)]
    events, outcomes = zip(*drawn, strict=True)
    counted = [event_of(noise, row, int(i)) for row, i in zip(rows, outcomes, strict=True)]
    share = np.bincount([e for e in counted if e >= 0], minlength=4) / sum(e >= 0 for e in counted)
    assert share == pytest.approx(noise.probabilities[0], abs=5 * np.sqrt(0.25 / (n / 2)))
    visible = [
        e for row, e in zip(rows, events, strict=True) if (noise.outcome_of(row) == noise.outcome_of(row)[e]).sum() == 1
    ]
    assert abs(np.mean(np.array(visible) == 3) - 0.1) > 0.02


@settings(max_examples=25)
@given(step_models(), st.integers(0, 2**32 - 1))
def test_events_are_drawn_first_and_outcomes_have_the_rows_law(case, seed):
    mdp = case[0]
    n = 4_000
    u = (np.arange(n) + np.random.default_rng(seed).random(n)) / n  # stratified: shares are off by at most events / n
    for h in range(mdp.H):
        for s, a in np.argwhere(mdp.stage(h).available):
            row, p = mdp.noise.row(h, s, a), mdp.outcomes(h, s, a)[1]
            events, outcomes = np.transpose([mdp.noise.draw(row, p, x) for x in u])
            assert np.abs(np.bincount(outcomes, minlength=p.size) / n - p).max() <= 8 / n
            law = mdp.noise.row_law.reshape(-1)[row]
            assert (events >= 0).all() == (law >= 0)
            if law >= 0:
                assert np.array_equal(mdp.noise.outcome_of(row)[events], outcomes)
                assert (mdp.noise.probabilities[law][events] > 0).all()


def test_an_environment_tells_the_event_unless_it_is_hidden():
    for observed in (True, False):
        env = censored(events_observed=observed).as_env()
        env.reset(seed=1)
        state, _, _, _, info = env.step(3)
        assert ("event" in info) == observed
        if observed:
            assert state == 3 - info["event"]


def test_a_learners_model_and_other_twins_do_not_know_the_law():
    mdp = censored()
    for twin in (blank_model(mdp), mdp.with_probability(mdp.probability)):
        assert not twin.noise.known
        assert np.isnan(twin.noise.probabilities[0]).all()
        assert np.array_equal(twin.noise.pair_outcome, mdp.noise.pair_outcome)
        assert twin.noise is twin.with_probability(mdp.probability).noise  # nothing is computed per episode
    assert mdp.noise.known


def test_staged_and_replaced_models_keep_their_noise():
    mdp = censored()
    staged = mdp.staged()
    assert staged.noise.row_law.shape == (4, mdp.S, mdp.A)
    assert len(staged.noise.events) == 1  # still one law for all stages
    assert np.array_equal(staged.noise.image(mdp.noise.probabilities), staged.probability)
    assert np.array_equal(staged.noise.separates, np.repeat(mdp.noise.separates, 4, axis=0))
    longer = mdp.replace(horizon=9, start=2, discount=0.9)
    assert longer.noise is mdp.noise
    assert mdp.with_noise(None).noise is None


def test_noise_survives_copies_and_pickles():
    mdp = censored(events_observed=False)
    for again in (copy.deepcopy(mdp), pickle.loads(pickle.dumps(mdp))):
        assert not again.noise.events_observed
        assert np.array_equal(again.noise.row_law, mdp.noise.row_law)
        assert np.array_equal(again.noise.pair_outcome, mdp.noise.pair_outcome)
        assert np.array_equal(again.noise.separates, mdp.noise.separates)
        assert np.array_equal(again.noise.probabilities[0], mdp.noise.probabilities[0])


@pytest.mark.parametrize("noise", [censored().noise, pickle.loads(pickle.dumps(censored().noise))])
def test_arrays_are_read_only(noise):
    for array in (noise.row_law, noise.pair_start, noise.pair_outcome, noise.row_start, *noise.probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array.flat[0] = 1


def test_noise_must_fit_the_rows():
    mdp = censored()
    with pytest.raises(ValueError, match=r"must be the image of its law of events, got an error of 0\.1"):
        mdp.with_noise(replace(mdp.noise, probabilities=(np.array([0.1, 0.4, 0.4, 0.1]),)))
    for law in ([0.1, 0.4, 0.4, 0.0], [1e308, 1e308, 0.0, 0.0]):
        with pytest.raises(ValueError, match="law 0 of the noise must hold probabilities that sum to 1, got"):
            mdp.with_noise(replace(mdp.noise, probabilities=(np.array(law),)))
    with pytest.raises(ValueError, match="noise must describe the rows of this model"):
        bqrl.envs.make("Bandit").with_noise(mdp.noise)
    with pytest.raises(ValueError, match=r"laws\[0\] must hold 4 probabilities, got shape \(2,\)"):
        mdp.noise.image([[0.5, 0.5]])
    with pytest.raises(ValueError, match="laws must hold 1 laws, got 0"):
        mdp.noise.image([])


def test_whole_numbers_have_one_name():
    mdp = bqrl.from_step(
        lambda s, a, e: (0, float(e)), ["go"], {0: 0.25, 1.0: 0.25, 2.5: 0.25, np.float64(4): 0.25}, 1, 0
    )
    assert mdp.noise.event_names == (("0", "1", "2.5", "4"),)


# -- laws of events as callers give them -------------------------------------------------------------------------------


def model(noise=COIN, horizon=2, **options):
    return bqrl.from_step(lambda s, a, e: (s, float(e)), ["go"], noise, horizon, 0, **options)


def test_weights_within_rounding_keep_their_bits_and_others_are_rescaled():
    (law,), per_stage = event_laws({"a": 0.1, "b": 0.9}, 5, None)
    assert not per_stage
    assert law.probabilities.tolist() == [0.1, 0.9]
    (law,), _ = event_laws({"a": 0.1, "b": 0.9 + 5e-10}, 5, None)
    assert math.fsum(law.probabilities) == pytest.approx(1.0, abs=1e-15)


def test_a_list_has_one_law_per_stage():
    laws, per_stage = event_laws([COIN, {7: 1.0}], 2, None)
    assert per_stage
    assert [law.events for law in laws] == [(0, 1), (7,)]


def test_a_scipy_distribution_is_cut_where_said_and_never_silently():
    mdp = bqrl.from_step(inventory, range(3), stats.poisson(2), 3, 0, mass=0.99)
    top = int(stats.poisson(2).ppf(0.99))
    assert mdp.noise.events == (tuple(range(top + 1)),)
    assert mdp.noise.cut[0] == pytest.approx(stats.poisson(2).sf(top))
    assert math.fsum(mdp.noise.probabilities[0]) == pytest.approx(1.0, abs=1e-15)
    assert f"at most {mdp.noise.cut[0]:.3g} of a law's mass cut off" in repr(mdp.noise)
    whole = bqrl.from_step(inventory, range(3), stats.binom(4, 0.5), 3, 0)
    assert whole.noise.cut == (0.0,)
    assert whole.noise.probabilities[0] == pytest.approx(np.array([1, 4, 6, 4, 1]) / 16)
    newer = bqrl.from_step(inventory, range(3), stats.Binomial(n=4, p=0.5), 3, 0)
    assert newer.noise.probabilities[0] == pytest.approx(whole.noise.probabilities[0])
    both = bqrl.from_step(lambda s, a, e: (0, float(e)), range(2), stats.skellam(2, 3), 1, 0, mass=0.9)
    assert both.noise.events[0][0] < 0 < both.noise.events[0][-1]
    assert both.noise.cut[0] <= 0.1


BAD = [
    ("noise as percentages", lambda: model(noise={0: 40, 1: 60}), ValueError, "noise must sum to 1, got 100: percentages? divide them by 100"),
    ("noise sums to 0.9", lambda: model(noise={0: 0.4, 1: 0.5}), ValueError, "noise must sum to 1, got 0.9; divide by the sum if it holds weights"),
    ("negative probability", lambda: model(noise={0: -0.5, 1: 1.5}), ValueError, "noise[0] must be a number of at least 0, got -0.5"),
    ("noise is a word", lambda: model(noise="coin"), TypeError, "noise must be {event: probability}, recorded events, or a frozen discrete SciPy distribution, got 'coin'"),
    ("noise has no events", lambda: model(noise={}), ValueError, "noise must have at least one event, got none"),
    ("noise is continuous", lambda: model(noise=stats.norm(), mass=0.9), TypeError, "noise must be {event: probability}, recorded events, or a frozen discrete SciPy distribution"),
    ("noise is not frozen", lambda: model(noise=stats.poisson, mass=0.9), TypeError, "noise must be {event: probability}, recorded events, or a frozen discrete SciPy distribution"),
    ("noise without end", lambda: model(noise=stats.poisson(2)), ValueError, "noise must have finitely many events, got infinitely many; cut it with mass, e.g. mass=0.9999"),
    ("mass for a dict", lambda: model(mass=0.9), ValueError, "mass must not be given if noise lists its events, got 0.9; omit it"),
    ("mass above 1", lambda: model(noise=stats.poisson(2), mass=1.5), ValueError, "mass must be a number in (0, 1), got 1.5"),
    ("laws for other stages", lambda: model(noise=[COIN] * 3), ValueError, "noise must be one law or 2 laws, one per stage, got 3"),
    ("bad law of a stage", lambda: model(noise=[COIN, {0: 0.5}]), ValueError, "noise[1] must sum to 1, got 0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "exception", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_law_gets_one_clear_line(call, exception, message):
    assert_one_line(call, exception, message)


@pytest.mark.parametrize("mass", [None, 0.9])
def test_scipy_laws_off_the_whole_numbers_are_refused(mass):
    """A quarter of the mass lies on 0.5; it must not be spread over the other events."""
    law = stats.rv_discrete(values=([0.5, 1, 2], [0.25, 0.25, 0.5]))
    with pytest.raises(ValueError, match=r"noise must put all its mass on whole numbers, got 0.75; give it as {event"):
        event_laws(law, 3, mass)


def test_events_that_a_scipy_law_excludes_are_not_possible():
    (law,), _ = event_laws(stats.rv_discrete(values=([1, 2, 6], [0.25, 0.25, 0.5])), 3, None)
    assert law.events == (1, 2, 6)
    assert law.probabilities.tolist() == [0.25, 0.25, 0.5]


def test_records_counts_and_series_are_laws_of_events():
    def events(noise):
        found = bqrl.from_step(lambda s, a, e: (s, float(e)), [0], noise, 2, 0).noise
        return dict(zip(found.events[0], found.probabilities[0].tolist(), strict=True))

    expected = {1: 0.25, 3: 0.75}
    for noise in ([3, 1, 3, 3], (3, 3, 3, 1), np.array([1, 3, 3, 3]), Counter({3: 3, 1: 1}), pd.Series([3, 3, 1, 3])):
        assert events(noise) == expected
    assert events(pd.Series([3, 3, 1, 3]).value_counts()) == expected
    assert events(pd.Series([3, 3, 1, 3]).value_counts(normalize=True)) == expected
    assert events(pd.Series({1: 0.25, 3: 0.75})) == expected


def test_a_series_of_records_by_date_is_not_a_law_of_dates():
    days = pd.Series([3, 1, 3, 3], index=pd.date_range("2026-01-01", periods=4), name="demand")
    found = bqrl.from_step(lambda s, a, e: (s, float(e)), [0], days, 2, 0).noise
    assert found.events == ((1, 3),)


def test_a_list_of_lists_has_records_per_stage():
    found = bqrl.from_step(lambda s, a, e: (s, float(e)), [0], [[1, 1, 2, 2], Counter({5: 1})], 2, 0).noise
    assert found.events == ((1, 2), (5,))


def test_records_with_missing_values_are_refused():
    for noise in ([1.0, float("nan")], pd.Series([1.0, None])):
        with pytest.raises(
            ValueError, match="noise must hold recorded events, got a missing value; drop missing values"
        ):
            bqrl.from_step(lambda s, a, e: (s, e), [0], noise, 2, 0)
