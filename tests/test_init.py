"""The public names of the package."""

import ast
import inspect
from pathlib import Path

import pytest

import bqrl
from bqrl.planners.solve import KINDS


def test_dir_shows_the_public_names_only():
    assert dir(bqrl) == sorted(bqrl.__all__)
    for name in ("Policy", "GuaranteeCurve", "log_buffer", "power_buffer", "constant_buffer"):
        assert name in dir(bqrl)


def test_every_line_of_the_stub_names_a_public_object_of_its_module():
    lines = ast.parse(Path(bqrl.__file__).with_suffix(".pyi").read_text()).body
    for line in lines:
        if isinstance(line, ast.ImportFrom):
            for one in line.names:
                assert one.name == one.asname  # a type checker takes other forms for private names
                found = getattr(bqrl, one.name)
                assert line.module in (getattr(found, "__module__", None), "bqrl")


def test_every_objective_of_the_table_of_planners_is_public():
    for kind in KINDS:
        assert getattr(bqrl, kind.__name__) is kind


@pytest.mark.parametrize("name", sorted(bqrl._HOME))
def test_help_of_every_public_name_shows_an_example_and_describes_arguments_or_attributes(name):
    text = inspect.getdoc(getattr(bqrl, name)) or ""
    assert "Examples\n--------\n>>> " in text
    assert "Parameters\n" in text or "Attributes\n" in text
