"""The public names of the package."""

import pytest

import bqrl


def test_dir_shows_the_public_names_only():
    assert dir(bqrl) == sorted(bqrl.__all__)
    for name in ("Policy", "GuaranteeCurve", "log_buffer", "power_buffer", "constant_buffer"):
        assert name in dir(bqrl)


def test_old_names_warn_and_give_the_new_object(monkeypatch):
    monkeypatch.setitem(bqrl._DEPRECATED, "best_policy", "solve")
    with pytest.warns(DeprecationWarning, match=r"bqrl\.best_policy is deprecated; use bqrl\.solve"):
        assert bqrl.best_policy is bqrl.solve
