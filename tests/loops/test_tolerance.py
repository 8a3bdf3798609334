"""One tolerance decides every comparison of a mass with a level."""

import pytest

from bqrl.laws.law import Law, reaches
from bqrl.loops.tolerance import MASS_TOL


@pytest.mark.parametrize(("short", "quantile"), [(0.0, 0.0), (0.5 * MASS_TOL, 0.0), (2.0 * MASS_TOL, 1.0)])
def test_a_mass_within_the_tolerance_of_a_level_reaches_it(short, quantile):
    law = Law([0.0, 1.0], [0.1 - short, 0.9 + short])
    assert law.quantile(0.1) == quantile
    assert bool(reaches(0.1 - short, 0.1)) == (quantile == 1.0)
