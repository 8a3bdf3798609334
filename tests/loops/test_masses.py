"""Loops over masses on a grid, against exact fractions; they run compiled and, under NUMBA_DISABLE_JIT=1, as Python."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_oracle import exact_buffered, exact_law, exact_laws, exact_quantile, levels_and_buffers

from bqrl.loops import masses as kernels

TOL = 1e-12


def on_grid(exact):
    """The law as a row on all quarters from -2 to 2, where most atoms have no mass."""
    atoms = np.arange(-8, 9) / 4
    mass = dict(exact)
    return atoms, np.array([float(mass.get(Fraction(x), 0)) for x in atoms])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=60))
def test_compensated_sum_is_within_an_ulp_of_the_exact_sum(terms):
    total = error = 0.0
    for x in terms:
        total, error = kernels.add(total, error, x)
    exact = math.fsum(terms)
    assert abs(total + error - exact) <= math.ulp(exact)


def test_running_mass_is_one_from_the_last_atom_on():
    out = np.empty(5)
    kernels.running_mass(np.array([0.0, 0.1, 0.2, 0.7 - 1e-13, 0.0]), out)
    assert out.tolist() == pytest.approx([0.0, 0.1, 0.3, 1.0, 1.0], abs=1e-15)
    assert out[3] == 1.0


@given(exact_laws(), levels_and_buffers())
def test_quantiles_of_a_row_in_exact_fractions(exact, case):
    tau, beta = case
    atoms, mass = on_grid(exact)
    running = np.empty_like(mass)
    assert kernels.lower_quantile(atoms, mass, float(tau), TOL) == exact_quantile(exact, tau)
    buffered = kernels.buffered_quantile(atoms, mass, float(tau), float(beta), TOL, running)
    assert buffered == pytest.approx(float(exact_buffered(exact, tau, beta)), abs=1e-13)
    for tiny in (0.0, 1e-13, 1e-9):
        assert kernels.buffered_quantile(atoms, mass, float(tau), tiny, TOL, running) == exact_quantile(exact, tau)


def test_level_zero_is_the_first_atom_with_mass():
    atoms, mass, running = np.arange(4.0), np.array([0.0, 0.5, 0.5, 0.0]), np.empty(4)
    assert kernels.lower_quantile(atoms, mass, 0.0, TOL) == 1.0
    assert kernels.buffered_quantile(atoms, mass, 0.0, 0.3, TOL, running) == 1.0
    assert kernels.buffered_quantile(atoms, mass, 1e-13, 1e-13, TOL, running) == 1.0


def test_level_one_is_the_last_atom_with_mass_and_its_integral_the_mean():
    atoms, mass, running = np.arange(4.0), np.array([0.0, 0.25, 0.75, 0.0]), np.empty(4)
    assert kernels.lower_quantile(atoms, mass, 1.0, TOL) == 2.0
    assert kernels.buffered_quantile(atoms, mass, 1.0, 1.0, TOL, running) == 1.75


def test_a_row_without_mass_gives_nan():
    atoms, mass = np.arange(3.0), np.zeros(3)
    assert np.isnan(kernels.lower_quantile(atoms, mass, 0.5, TOL))
    assert np.isnan(kernels.buffered_quantile(atoms, mass, 0.5, 0.1, TOL, np.empty(3)))


def test_eight_weights_of_a_tenth_reach_the_level_of_eight_tenths():
    atoms, mass, running = np.arange(10.0), np.full(10, 0.1), np.empty(10)
    for k in range(1, 11):
        assert kernels.lower_quantile(atoms, mass, k / 10, TOL) == k - 1
        assert kernels.buffered_quantile(atoms, mass, k / 10, 1e-9, TOL, running) == k - 1
        assert kernels.buffered_quantile(atoms, mass, k / 10, 0.1, TOL, running) == k - 1


def test_rows_are_filled_one_by_one():
    laws = [exact_law([-2, 0, 1], counts) for counts in ([1, 2, 1], [0, 0, 4], [3, 0, 1])]
    rows = [on_grid(law) for law in laws]
    atoms, pmf, out = rows[0][0], np.array([mass for _, mass in rows]), np.empty(3)
    kernels.quantile_rows(atoms, pmf, 0.75, TOL, out)
    assert out.tolist() == [float(exact_quantile(law, Fraction(3, 4))) for law in laws]
    kernels.buffered_rows(atoms, pmf, 0.75, 0.625, TOL, np.empty(atoms.size), out)
    assert out.tolist() == [float(exact_buffered(law, Fraction(3, 4), Fraction(5, 8))) for law in laws]
    running = np.empty_like(pmf)
    kernels.running_rows(pmf, running)
    assert running.tolist() == np.cumsum(pmf, axis=1).tolist()
