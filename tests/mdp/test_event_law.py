# ruff: noqa: E501  (a row of the table of bad inputs is one line)
"""Laws of events: dicts, SciPy distributions cut at a mass, one law per stage, and one line for every fault."""

import math

import numpy as np
import pytest
from scipy import stats

from bqrl import from_step
from bqrl.mdp.event_law import event_laws

COIN = {0: 0.5, 1: 0.5}


def inventory(stock, order, demand):
    sold = min(stock + order, demand)
    return stock + order - sold, 5 * sold - 2 * order


def model(noise=COIN, horizon=2, **options):
    return from_step(lambda s, a, e: (s, float(e)), ["go"], noise, horizon, 0, **options)


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
    mdp = from_step(inventory, range(3), stats.poisson(2), 3, 0, mass=0.99)
    top = int(stats.poisson(2).ppf(0.99))
    assert mdp.noise.events == (tuple(range(top + 1)),)
    assert mdp.noise.cut[0] == pytest.approx(stats.poisson(2).sf(top))
    assert math.fsum(mdp.noise.probabilities[0]) == pytest.approx(1.0, abs=1e-15)
    assert f"at most {mdp.noise.cut[0]:.3g} of a law's mass cut off" in repr(mdp.noise)
    whole = from_step(inventory, range(3), stats.binom(4, 0.5), 3, 0)
    assert whole.noise.cut == (0.0,)
    assert whole.noise.probabilities[0] == pytest.approx(np.array([1, 4, 6, 4, 1]) / 16)
    newer = from_step(inventory, range(3), stats.Binomial(n=4, p=0.5), 3, 0)
    assert newer.noise.probabilities[0] == pytest.approx(whole.noise.probabilities[0])
    both = from_step(lambda s, a, e: (0, float(e)), range(2), stats.skellam(2, 3), 1, 0, mass=0.9)
    assert both.noise.events[0][0] < 0 < both.noise.events[0][-1]
    assert both.noise.cut[0] <= 0.1


BAD = [
    ("noise as percentages", lambda: model(noise={0: 40, 1: 60}), ValueError, "noise must sum to 1, got 100: percentages? divide them by 100"),
    ("noise sums to 0.9", lambda: model(noise={0: 0.4, 1: 0.5}), ValueError, "noise must sum to 1, got 0.9; divide by the sum if it holds weights"),
    ("negative probability", lambda: model(noise={0: -0.5, 1: 1.5}), ValueError, "noise[0] must be a number of at least 0, got -0.5"),
    ("noise is a word", lambda: model(noise="coin"), TypeError, "noise must be {event: probability} or a frozen discrete SciPy distribution, got 'coin'"),
    ("noise has no events", lambda: model(noise={}), ValueError, "noise must have at least one event, got none"),
    ("noise is continuous", lambda: model(noise=stats.norm(), mass=0.9), TypeError, "noise must be {event: probability} or a frozen discrete SciPy distribution"),
    ("noise is not frozen", lambda: model(noise=stats.poisson, mass=0.9), TypeError, "noise must be {event: probability} or a frozen discrete SciPy distribution"),
    ("noise without end", lambda: model(noise=stats.poisson(2)), ValueError, "noise has infinitely many events and must be cut; give mass, e.g. mass=0.9999"),
    ("mass for a dict", lambda: model(mass=0.9), ValueError, "mass cuts a SciPy distribution; leave it out where noise lists its events"),
    ("mass above 1", lambda: model(noise=stats.poisson(2), mass=1.5), ValueError, "mass must be a number in (0, 1), got 1.5"),
    ("laws for other stages", lambda: model(noise=[COIN] * 3), ValueError, "noise must be one law or 2 laws, one per stage, got 3"),
    ("bad law of a stage", lambda: model(noise=[COIN, {0: 0.5}]), ValueError, "noise[1] must sum to 1, got 0.5"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "exception", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_gets_one_clear_line(call, exception, message):
    with pytest.raises(exception) as caught:
        call()
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
