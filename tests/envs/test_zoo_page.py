"""The table of certified answers on docs/zoo.md is what the library computes today."""

import importlib.util
from pathlib import Path

import pytest

from bqrl.envs import names

ROOT = Path(__file__).parents[2]
MARKS = {
    **dict.fromkeys(("ICUSepsis", "MeanReversion", "QuantileDomain"), pytest.mark.nightly),
    **dict.fromkeys(("BettingGame", "AmericanPut"), pytest.mark.slow),
}


@pytest.fixture(scope="module")
def page():
    spec = importlib.util.spec_from_file_location("zoo_table", ROOT / "docs" / "zoo_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_every_problem_at_every_level_once(page):
    lines = page.on_page(page.PAGE.read_text())
    assert list(lines) == names()
    assert {tuple(line.split("|")[2].strip() for line in rows) for rows in lines.values()} == {("0.05", "0.1", "0.5")}


@pytest.mark.parametrize("name", [pytest.param(name, marks=MARKS.get(name, ())) for name in names()])
def test_the_table_is_recomputed(page, name):
    try:
        computed = list(page.rows(name))
    except FileNotFoundError as fault:
        pytest.skip(str(fault))
    assert page.on_page(page.PAGE.read_text())[name] == computed, "run: python docs/zoo_table.py"
