"""ICU-Sepsis: known optima, the rewards of its package, and the message where it is absent."""

import numpy as np
import pytest

import bqrl
from bqrl.envs import make
from bqrl.envs.icu_sepsis import _folder as icu_folder


@pytest.fixture(scope="module")
def icu():
    try:
        return make("ICUSepsis")
    except FileNotFoundError as fault:
        pytest.skip(str(fault))


LEVELS = (0.1, 0.2, 0.3, 0.5, 0.9)


@pytest.mark.slow
def test_icu_sepsis_has_the_known_optima(icu):
    assert (icu.S, icu.A, icu.H, icu.successor.size) == (716, 25, 60, 95_045)
    curve = bqrl.guarantee_curve(icu)
    assert [curve(tau) for tau in LEVELS] == [-2.0, 77.0, 86.0, 92.0, 98.0]
    neutral = bqrl.solve(icu, 0.3, planner="expected").law
    assert [neutral.quantile(tau) for tau in LEVELS] == [-3.0, 76.0, 84.0, 91.0, 98.0]
    assert neutral.mean() == pytest.approx(76.647, abs=5e-4)
    assert neutral.cvar(0.3) == pytest.approx(37.355, abs=5e-4)
    assert bqrl.solve(icu, 0.3, beta=0.3).value == pytest.approx(37.748, abs=5e-4)


@pytest.mark.slow
def test_icu_sepsis_pays_survival_where_its_package_does(icu):
    with np.load(icu_folder() / "dynamics.npz") as data:
        paid = data["r_mat"]
    mdp = make("ICUSepsis", cost=0.0, survival=1.0)
    q = np.repeat(np.arange(mdp.S * mdp.A), np.diff(mdp.row_start))
    assert np.array_equal(mdp.reward[0], paid[q // mdp.A, q % mdp.A, mdp.successor])


def test_icu_sepsis_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = (
        "^ICUSepsis requires the files of the package icu-sepsis; install them with: pip install --no-deps icu-sepsis$"
    )
    with pytest.raises(FileNotFoundError, match=message):
        make("ICUSepsis")


def test_icu_sepsis_never_imports_its_package(icu):
    import sys

    assert "icu_sepsis" not in sys.modules
