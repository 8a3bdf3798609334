import numpy as np
import pytest
from scipy import stats

from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.mdp.cells import TAIL, cells_of


@pytest.mark.parametrize(
    "law", [stats.norm(1.0, 2.0), stats.uniform(0.0, 3.0), stats.expon(), stats.Normal(mu=1.0, sigma=2.0)]
)
def test_cells_carry_the_mass_of_the_distribution(law):
    (cells,), per_stage = cells_of(law, 5, 40)
    assert not per_stage
    assert cells.probability.size == 40
    assert cells.probability.sum() == pytest.approx(1.0, abs=1e-12)
    assert np.all(cells.low < cells.high)
    assert np.array_equal(cells.low[1:], cells.high[:-1])
    inner = cells.high[:-1]
    assert np.cumsum(cells.probability)[:-1] == pytest.approx(law.cdf(inner), abs=1e-12)
    for end, p in ((cells.low[0], cells.probability[0]), (cells.high[-1], cells.probability[-1])):
        assert np.isfinite(end) or p == pytest.approx(TAIL, rel=1e-6)
    u = np.linspace(0.001, 0.999, 99)
    events = cells.draw(u)
    place = cells.find(events)
    assert np.all((cells.low[place] <= events) & (events <= cells.high[place]))
    assert 0.0 < cells.half_width < np.inf


def test_cells_are_narrow_where_the_events_are():
    (cells,), _ = cells_of(stats.norm(), 1, 64)
    finite = np.isfinite(cells.low) & np.isfinite(cells.high)
    cost = np.sum((cells.probability * (cells.high - cells.low))[finite])
    ends = np.linspace(*stats.norm.ppf([TAIL, 1.0 - TAIL]), 63)
    equal = np.sum(np.diff(stats.norm.cdf(ends)) * np.diff(ends))
    assert cost < 0.7 * equal
    assert cost == pytest.approx(
        2.0 * np.sqrt(2.0 * np.pi) / 62, rel=0.05
    )  # the square of the integral of sqrt(density)


def test_single_events():
    (cells,), _ = cells_of({"up": 0.25, "down": 0.75}, 3, 40)
    assert cells.find(["down", "up"]).tolist() == [1, 0]
    assert cells.half_width == 0.0
    assert cells.draw(np.array([0.1, 0.3, 0.999])).tolist() == ["up", "down", "down"]
    with pytest.raises(ArgumentError, match=r"^event must be an event of the noise, got 'left'$"):
        cells.find(["left"])
    (cells,), _ = cells_of(stats.randint(0, 3), 1, 40)
    assert cells.middle.tolist() == [0, 1, 2]


def test_laws_per_stage_and_bad_laws():
    laws, per_stage = cells_of([stats.norm(), {0.0: 1.0}], 2, 10)
    assert per_stage
    assert len(laws) == 2
    with pytest.raises(ArgumentError, match="noise must be one law or 3 laws, one per stage, got 2"):
        cells_of([stats.norm(), {0.0: 1.0}], 3, 10)
    with pytest.raises(ArgumentTypeError, match=r"noise must be {event: probability} or a frozen SciPy distribution"):
        cells_of(3.0, 1, 10)
