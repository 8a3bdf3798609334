import dataclasses
import inspect
import pkgutil
import re

import pytest

from bqrl import theory

MODULES = [module.name for module in pkgutil.iter_modules(theory.__path__)]
OWN = [name for name in theory.__all__ if getattr(theory, name).__module__.startswith("bqrl.theory")]
FUNCTIONS = [name for name in OWN if inspect.isfunction(getattr(theory, name))]
RECORDS = [name for name in OWN if dataclasses.is_dataclass(getattr(theory, name))]
SHARED = ("tau", "T", "lower", "upper", "by_episode")  # the line above says it


def test_public_names_exist():
    assert sorted(theory.__all__) == sorted(set(theory.__all__))
    assert [name for name in theory.__all__ if not hasattr(theory, name)] == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_public_functions_describe_their_parameters_and_result(name):
    function = getattr(theory, name)
    for part in ("Parameters\n", "Returns\n", ">>> "):
        assert part in function.__doc__
    described = inspect.getdoc(function).split("Parameters\n")[1].split("Returns\n")[0]
    for parameter in inspect.signature(function).parameters:
        assert re.search(rf"^[\w*, ]*\b{parameter}\b[\w, ]*( :|$)", described, re.MULTILINE)


def test_shared_parameters_are_described_once():
    for name in FUNCTIONS:
        for names in re.findall(
            r"^([\w, ]+) : see `bqrl\.theory`", inspect.getdoc(getattr(theory, name)), re.MULTILINE
        ):
            for parameter in names.split(", "):
                assert re.search(rf"^    [\w, ]*\b{parameter}\b", theory.__doc__, re.MULTILINE)


@pytest.mark.parametrize("name", RECORDS)
def test_fields_of_records_are_explained_beside_them(name):
    record = getattr(theory, name)
    lines = inspect.getsource(record).splitlines()
    for field in dataclasses.fields(record):
        line = next(line for line in lines if line.startswith(f"    {field.name}: "))
        assert "  # " in line or field.name in SHARED
