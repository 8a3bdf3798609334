"""Which laws a frontier keeps, against comparisons of all pairs."""

import numpy as np
import pytest

from bqrl.loops.frontier import mark_distinct, mark_undominated


@pytest.mark.parametrize("seed", range(10))
def test_the_first_row_of_every_law_is_kept(seed):
    rng = np.random.default_rng(seed)
    pmf = rng.integers(0, 2, (12, 3)) / 4.0
    keys = pmf @ np.array([1.0, 2.0, 4.0])
    keep = np.empty(12, bool)
    worst = mark_distinct(pmf, np.argsort(keys, kind="stable"), keys, 1e-9, 1e-12, keep)
    assert worst == 0.0
    rows = [tuple(row) for row in pmf]
    assert keep.tolist() == [rows.index(row) == i for i, row in enumerate(rows)]


@pytest.mark.parametrize("seed", range(10))
def test_undominated_laws_are_kept_and_all_others_dropped(seed):
    rng = np.random.default_rng(seed)
    cdf = np.unique(np.cumsum(rng.dirichlet(np.ones(4), 15).round(1), axis=1), axis=0)
    keep = np.empty(len(cdf), bool)
    worst = mark_undominated(cdf, np.argsort(cdf.sum(axis=1), kind="stable"), 1e-12, keep)
    assert worst <= 1e-12
    wanted = [
        not any(j != i and np.all(other <= row + 1e-12) for j, other in enumerate(cdf)) for i, row in enumerate(cdf)
    ]
    assert keep.tolist() == wanted
