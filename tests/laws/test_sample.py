import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from bqrl import Law, Sample
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.laws.sample import Promise

UPWARDS = Sample(np.arange(1000.0))


def test_a_sample_is_array_like():
    assert len(UPWARDS) == UPWARDS.size == 1000
    assert UPWARDS[3] == 3.0
    assert UPWARDS[-2:].tolist() == [998.0, 999.0]
    assert np.asarray(UPWARDS).dtype == np.float64
    assert np.array_equal(np.sort(UPWARDS), np.arange(1000.0))
    assert (UPWARDS.min(), UPWARDS.max(), UPWARDS.mean(), UPWARDS.std(ddof=1)) == (
        0.0,
        999.0,
        499.5,
        np.arange(1000).std(ddof=1),
    )
    assert (UPWARDS >= 100.0).mean() == 0.9
    assert (1.0 - UPWARDS)[1] == 0.0
    assert np.maximum(UPWARDS, 990.0).min() == 990.0
    assert sum(UPWARDS) == 499_500.0
    for twin in (copy.copy(UPWARDS), pickle.loads(pickle.dumps(UPWARDS))):
        assert np.array_equal(twin, UPWARDS)
    with pytest.raises(ValueError, match="read-only"):
        UPWARDS.returns[0] = 1.0
    with pytest.raises(ArgumentTypeError, match="out must not be given for a Sample"):
        np.add(np.ones(1000), 1.0, out=UPWARDS)
    with pytest.raises(AttributeError, match="no_such"):
        UPWARDS.no_such  # noqa: B018
    assert repr(Sample([1.0, 2.0], cut=1)) == "Sample(2 episodes, mean 1.5, 0.1-quantile 1, 1 episode cut off)"
    assert UPWARDS.to_frame().shape == (4, 5)


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [3, 29, 59, 200])
def test_promise_is_the_best_order_statistic_of_its_confidence(tau, n):
    """Against the binomial law: the largest k with P(Bin(n, tau) <= k - 1) <= 0.05."""
    found = Sample(np.arange(1.0, n + 1.0)).promise(tau)
    best = max((k for k in range(1, n + 1) if binom.cdf(k - 1, n, tau) <= 0.05), default=-np.inf)
    assert found == best
    assert isinstance(found, float)


@pytest.mark.parametrize("p", [0.02, 0.1, 0.3])
def test_promises_and_intervals_cover_with_their_confidence_by_exact_binomials(p):
    """Returns are 0 with probability p, else 1: the number of zeros is binomial, so coverage is a finite sum."""
    n, tau = 60, 0.1
    truth = 0.0 if p >= tau else 1.0
    samples = [Sample(np.repeat([0.0, 1.0], [zeros, n - zeros])) for zeros in range(n + 1)]
    weights = binom.pmf(np.arange(n + 1), n, p)
    kept = np.array([each.promise(tau) <= truth for each in samples])
    inside = np.array([each.interval(tau)[0] <= truth <= each.interval(tau)[1] for each in samples])
    cvar = max(0.0, 1.0 - p / 0.5)
    ends = [each.cvar_interval(0.5, lowest=0.0) for each in samples]
    covers = np.array([low - 1e-12 <= cvar <= high + 1e-12 for low, high in ends])
    assert weights[kept].sum() >= 0.95
    assert weights[inside].sum() >= 0.95
    assert weights[covers].sum() >= 0.95
    assert not covers.all()  # the interval can miss, so that the check can fail


def test_a_promise_reads_as_a_sentence_and_is_rounded_down():
    sample = Sample(np.full(100, 2 / 3))
    assert str(sample.promise(0.1)) == "with 95 % confidence, in 9 of 10 episodes at least 0.666666"
    assert f"{sample.promise(0.5, 0.99):.2f}" == "0.67"
    few = Sample([1.0, 2.0]).promise(0.1)
    assert few == -np.inf
    assert str(few) == "no promise at 95 % confidence from 2 episodes; a promise for 9 of 10 episodes needs at least 29"
    twin = pickle.loads(pickle.dumps(few))
    assert isinstance(twin, Promise)
    assert str(twin) == str(few)


@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=30), st.sampled_from([0.05, 0.3, 0.5, 1.0]), st.floats(0.5, 0.999)
)
def test_cvar_interval_is_the_extreme_of_the_dkw_band(values, tau, confidence):
    """Against the band itself: quantile functions shifted by eps, integrated on a fine grid."""
    sample, n = Sample(np.array(values, float)), len(values)
    eps = np.sqrt(np.log(2.0 / (1.0 - confidence)) / (2 * n))
    low, high = sample.cvar_interval(tau, confidence, lowest=-3.0, highest=3.0)
    u = (np.arange(200_000) + 0.5) / 200_000 * tau
    ordered = np.sort(values).astype(float)

    def shifted(level):
        place = np.clip(np.ceil(level * n - 1e-12).astype(int) - 1, 0, n - 1)
        return np.where(level <= 0.0, -3.0, np.where(level > 1.0, 3.0, ordered[place]))

    assert low == pytest.approx(shifted(u - eps).mean(), abs=1e-3)
    assert high == pytest.approx(shifted(u + eps).mean(), abs=1e-3)
    assert low - 1e-12 <= sample.cvar(tau) <= high + 1e-12
    assert sample.cvar(tau) == Law(values, np.full(n, 1 / n)).cvar(tau)


def test_a_lower_end_of_cvar_needs_the_lowest_return():
    low, high = UPWARDS.cvar_interval(0.1)
    assert low == -np.inf
    assert high < 200.0
    assert UPWARDS.cvar_interval(1.0, lowest=0.0)[1] == np.inf  # a mean has no upper end without the highest return


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: UPWARDS.cvar_interval(0.1, lowest=5.0),
            "lowest must be at most 0, the smallest return of the sample, got 5.0",
        ),
        (
            lambda: UPWARDS.cvar_interval(0.1, highest=5.0),
            "highest must be at least 999, the largest return .*, got 5.0",
        ),
        (lambda: UPWARDS.promise(0.0), r"tau must be a number in \(0, 1\), got 0"),
        (lambda: UPWARDS.interval(0.1, 1.0), r"confidence must be a number in \(0, 1\), got 1"),
        (lambda: Sample([]), "returns must be one-dimensional with at least one entry"),
        (lambda: Sample([1.0, np.nan]), "returns must be finite"),
    ],
)
def test_bad_arguments_get_one_line(call, message):
    with pytest.raises(ArgumentError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_numpy_takes_the_mean_of_a_sample():
    """Once numpy.mean passed `axis` to a method without it."""
    assert np.mean(UPWARDS) == UPWARDS.mean() == 499.5


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
def test_cvar_intervals_cover_the_truth_as_often_as_they_say(tau):
    """400 samples of 60 uniform draws, whose CVaR is tau / 2: 90 % of the intervals hold it, up to 4 standard errors."""
    draws = np.random.default_rng(7).random((400, 60))
    held = [
        low <= tau / 2 <= high
        for low, high in (Sample(x).cvar_interval(tau, 0.9, lowest=0.0, highest=1.0) for x in draws)
    ]
    assert np.mean(held) >= 0.9 - 4 * np.sqrt(0.09 / 400)
