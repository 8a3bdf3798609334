"""The public names of the package."""

import ast
import inspect
from pathlib import Path

import pytest

import bqrl


def test_dir_shows_the_public_names_only():
    assert dir(bqrl) == sorted(bqrl.__all__)
    for name in ("Policy", "GuaranteeCurve", "log_buffer", "power_buffer", "constant_buffer"):
        assert name in dir(bqrl)


def test_the_stub_imports_every_public_name_from_its_module():
    tree = ast.parse(Path(bqrl.__file__).with_suffix(".pyi").read_text())
    lines = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    stub = {alias.asname: (line.module, alias.name) for line in lines for alias in line.names}
    modules = {name: ("bqrl", name) for name in bqrl._MODULES}
    assert stub == {name: (module, name) for name, module in bqrl._HOME.items()} | modules


@pytest.mark.parametrize("name", sorted(bqrl._HOME))
def test_help_of_every_public_name_shows_an_example_and_describes_arguments_or_attributes(name):
    text = inspect.getdoc(getattr(bqrl, name)) or ""
    assert "Examples\n--------\n>>> " in text
    assert "Parameters\n" in text or "Attributes\n" in text
