"""Row forms on a shared grid give what Law gives, bit for bit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bqrl.errors import ArgumentError
from bqrl.laws.law import Law
from bqrl.laws.rows import buffered_rows, cdf_rows, mean_rows, quantile_rows

unit = st.one_of(st.integers(0, 24).map(lambda k: k / 24), st.floats(0, 1))


@st.composite
def grids(draw):
    """(atoms, pmf): counts over their sum, many of them zero, so that levels hit running masses."""
    m = draw(st.integers(1, 8))
    counts = draw(st.lists(st.lists(st.integers(0, 3), min_size=m, max_size=m), min_size=1, max_size=4))
    rows = np.array([row if sum(row) else [1] * m for row in counts], dtype=float)
    return np.arange(m) / 4 - 1, rows / rows.sum(axis=1, keepdims=True)


@given(grids(), unit, unit)
def test_rows_equal_the_methods_of_law(grid, tau, beta):
    atoms, pmf = grid
    laws = [Law(atoms, row) for row in pmf]
    assert quantile_rows(atoms, pmf, tau).tolist() == [law.quantile(tau) for law in laws]
    assert buffered_rows(atoms, pmf, tau, beta).tolist() == [law.buffered_quantile(tau, beta) for law in laws]
    assert cdf_rows(atoms, pmf).tolist() == [law.cdf(atoms).tolist() for law in laws]
    np.testing.assert_allclose(mean_rows(atoms, pmf), [law.mean() for law in laws], rtol=0, atol=1e-14)


def test_rows_of_a_larger_grid_equal_the_methods_of_law():
    rng = np.random.default_rng(3)
    atoms, pmf = np.linspace(-5, 5, 200), rng.dirichlet(np.full(200, 0.1), size=50)
    laws = [Law(atoms, row) for row in pmf]
    for tau in (0.0, 0.05, 0.5, 0.9, 1.0):
        assert quantile_rows(atoms, pmf, tau).tolist() == [law.quantile(tau) for law in laws]
        for beta in (0.0, 1e-6, 0.03, 1.0):
            expected = [law.buffered_quantile(tau, beta) for law in laws]
            np.testing.assert_allclose(buffered_rows(atoms, pmf, tau, beta), expected, rtol=0, atol=1e-9)


def test_a_rare_return_counts_in_the_mean_of_a_row():
    assert buffered_rows([0, 1e15, 2e15], [[1 - 1e-13, 1e-13, 0.0]], 1.0, 1.0) == pytest.approx(100.0)


def test_rows_may_be_lists_strided_or_read_only():
    atoms, pmf = np.arange(3.0), np.array([[0.5, 0.25, 0.25], [0.0, 0.0, 1.0]])
    pmf.flags.writeable = False
    for form in (pmf, pmf.tolist(), np.asfortranarray(pmf), np.repeat(pmf, 2, axis=1)[:, ::2]):
        assert quantile_rows(atoms, form, 0.5).tolist() == [0.0, 2.0]
        assert buffered_rows(atoms, form, 0.75, 0.5).tolist() == [0.5, 2.0]
    assert quantile_rows(atoms, np.empty((0, 3)), 0.5).shape == (0,)


@pytest.mark.parametrize(
    ("call", "name", "phrase"),
    [
        (lambda: quantile_rows([0, 1], [[0.5, 0.25, 0.25]], 0.5), "pmf", "got (1, 3) and (2,)"),
        (lambda: buffered_rows([0, 1], [0.5, 0.5], 0.5, 0.1), "pmf", "got (2,) and (2,)"),
        (lambda: mean_rows([], [[]]), "pmf", "got (1, 0) and (0,)"),
        (lambda: quantile_rows([0, 1], [[0.5, 0.5]], 1.5), "tau", "got 1.5"),
        (lambda: buffered_rows([0, 1], [[0.5, 0.5]], 0.5, -0.1), "beta", "got -0.1"),
    ],
)
def test_bad_rows_get_one_line(call, name, phrase):
    with pytest.raises(ArgumentError) as caught:
        call()
    assert caught.value.name == name
    assert phrase in str(caught.value)
    assert "\n" not in str(caught.value)
