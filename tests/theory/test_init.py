import doctest
import importlib
import pkgutil

import pytest

from bqrl import theory

MODULES = [module.name for module in pkgutil.iter_modules(theory.__path__)]


def test_public_names_exist():
    assert sorted(theory.__all__) == sorted(set(theory.__all__))
    assert [name for name in theory.__all__ if not hasattr(theory, name)] == []


@pytest.mark.parametrize("name", theory.__all__)
def test_public_functions_describe_their_parameters_and_result(name):
    thing = getattr(theory, name)
    sections = ("Attributes", "Parameters") if isinstance(thing, type) else ("Parameters",)
    if thing.__module__.startswith("bqrl.theory"):
        assert any(f"{section}\n" in thing.__doc__ for section in sections)
        assert isinstance(thing, type) or ">>> " in thing.__doc__


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name):
    found = doctest.testmod(importlib.import_module(f"bqrl.theory.{name}"))
    assert found.failed == 0
    assert found.attempted > 0 or name == "inputs"
