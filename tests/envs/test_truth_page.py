"""The table of docs/truth.md is what the library computes today."""

import importlib.util
from pathlib import Path

import pytest

from bqrl.envs.published import ENTRIES

ROOT = Path(__file__).parents[2]


def load_script():
    spec = importlib.util.spec_from_file_location("truth_table", ROOT / "docs" / "truth_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PAGE = load_script()


def marks(entry):
    """Rows that take a second or more."""
    if entry.slow:
        return pytest.mark.nightly
    long = entry.files or "points" in entry.options or entry.problem in ("AmericanPut", "BettingGame", "QuantileDomain")
    return pytest.mark.slow if long else ()


def test_the_table_has_a_line_per_entry():
    lines = PAGE.on_page(PAGE.PAGE.read_text())
    assert [line.split("|")[1].strip() for line in lines] == [entry.problem for entry in ENTRIES]
    assert [line.split("|")[3].strip() for line in lines] == [entry.objective.label for entry in ENTRIES]


@pytest.mark.parametrize("i", [pytest.param(i, marks=marks(entry)) for i, entry in enumerate(ENTRIES)])
def test_the_table_is_recomputed(i):
    if ENTRIES[i].files and not PAGE.FOLDER.is_dir():
        pytest.skip("the domain files are not beside this checkout")
    assert PAGE.on_page(PAGE.PAGE.read_text())[i] == PAGE.line(ENTRIES[i]), "run: python docs/truth_table.py"
