"""Objects show themselves through one module, which imports what draws them only when it is asked for."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import bqrl
from bqrl.display import Charted, Displayed, Tabular, in_words, views

SOURCE = Path(bqrl.__file__).parent
CHARTED = [bqrl.Law, bqrl.GuaranteeCurve, bqrl.Plan, bqrl.Record, bqrl.Experiment, bqrl.Estimate, bqrl.Strategies]
TABULAR = [*CHARTED, bqrl.MDP]


def test_classes_offer_what_they_can_show():
    assert all(issubclass(each, Charted) for each in CHARTED)
    assert all(issubclass(each, Tabular) for each in TABULAR)
    assert issubclass(bqrl.Policy, Displayed)
    assert not any(hasattr(each, "chart") for each in (bqrl.MDP, bqrl.Policy))


@pytest.mark.parametrize("each", [*TABULAR, bqrl.Policy])
def test_every_class_has_a_function_that_draws_it(each):
    assert each in views().VIEWS


def test_an_object_without_a_chart_is_named():
    with pytest.raises(NotImplementedError, match="VIEWS has no entry for int"):
        views().draw_chart(1)


def test_a_class_without_a_chart_is_shown_by_its_table(monkeypatch):
    class Numbers(Tabular):
        def rows(self):
            return [{"x": 1.5}]

    monkeypatch.setitem(views().VIEWS, Numbers, (lambda numbers: None, Numbers.rows))
    html = Numbers()._repr_html_()
    assert "<td>1.5</td>" in html
    assert "<img" not in html


def test_no_object_loses_its_slots():
    law = bqrl.Law([0.0], [1.0])
    assert not hasattr(law, "__dict__")


def test_models_and_plans_do_not_load_the_code_that_shows_them():
    code = (
        "import bqrl, sys; bqrl.solve(bqrl.envs.make('Bandit'), 0.1); "
        "print([name for name in sys.modules if name.startswith('bqrl.results')])"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found == "[]\n"


def test_one_module_below_the_results_imports_them():
    """The only import of `bqrl.results` outside of results and the layers above is the one in display."""
    found = set()
    for path in SOURCE.rglob("*.py"):
        place = path.relative_to(SOURCE)
        if place.parts[0] in ("results", "papers", "cli", "files.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bqrl.results"):
                found.add(str(place))
    assert found == {"display.py"}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "1 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (75, "1 min 15 s"),
        (3599.4, "59 min 59 s"),
        (4000, "1 h 7 min"),
    ],
)
def test_durations(seconds, words):
    assert in_words(seconds) == words
