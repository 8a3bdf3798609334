"""Functionals of distribution functions in the greedy recursion, against `Law`."""

import numpy as np
import pytest

from bqrl.laws.law import MASS_TOL, Law
from bqrl.loops.greedy import add_shifted, mean, objective, shift_to


@pytest.mark.parametrize("n", [1, 5, 150])
@pytest.mark.parametrize(("tau", "beta"), [(0.1, 0.1), (0.5, 0.2), (0.9, 0.05), (1.0, 1.0)])
def test_objective_and_mean_are_those_of_the_law(n, tau, beta):
    rng = np.random.default_rng(n)
    mass, x = rng.dirichlet(np.ones(n)), np.cumsum(rng.random(n))
    F = np.cumsum(mass)[None]
    F[0, -1] = 1.0
    assert objective(F, 0, x, n, tau, beta, MASS_TOL) == pytest.approx(Law(x, mass).buffered_quantile(tau, beta))
    assert mean(F, 0, x, n) == pytest.approx(Law(x, mass).mean())


@pytest.mark.parametrize("beta", [0.0, 1.0])
@pytest.mark.parametrize("tau", [1e-13, 1e-12, 1e-11, 0.25, 0.5])
@pytest.mark.parametrize("before", [0, 3, 100])
def test_columns_without_mass_are_never_the_quantile(before, tau, beta):
    mass, x = np.r_[np.zeros(before), 0.25, 0.0, 0.25, 0.5, 0.0], np.arange(before + 5.0)
    found = objective(np.cumsum(mass)[None], 0, x, x.size, tau, beta * tau, MASS_TOL)
    assert found == pytest.approx(Law(x, mass).buffered_quantile(tau, beta * tau))


@pytest.mark.parametrize("shift", [-4, -1, 0, 2, 6])
def test_a_shifted_law_is_0_below_its_columns_and_1_above(shift):
    F, out = np.array([[0.25, 0.5, 1.0]]), np.full((1, 5), np.nan)
    shift_to(F, 0, 3, shift, 5, out, 0)
    at = np.arange(5) + shift
    wanted = np.where(at < 0, 0.0, F[0, np.clip(at, 0, 2)])
    assert out[0].tolist() == wanted.tolist()
    add_shifted(F, 0, 3, shift, 5, 0.5, out, 0)
    assert out[0].tolist() == (1.5 * wanted).tolist()
