"""Examples run, and what the README and the pages print is what the library prints today."""

import ast
import importlib.util
import json
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = [*PAGES, ROOT / "CONTRIBUTING.md", *sorted((ROOT / "src" / "bqrl" / "papers").glob("*/README.md"))]
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#\s]*)(?:#([^)]*))?\)")
NAME = re.compile(r"(?<![\w/.])bqrl(?:\.[A-Za-z_]\w*)+(?!\w|/)")
REMEDY = "run: python docs/refresh.py"


@pytest.fixture(scope="module")
def refresh():
    spec = importlib.util.spec_from_file_location("refresh", ROOT / "docs" / "refresh.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, tmp_path):
    command = [sys.executable, "-W", "error", str(example), "--quick"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not re.search(r"\b1 (seeds|episodes)\b", done.stdout)
    assert not done.stderr


def run_notebook(notebook):
    """Run the cells of a notebook in order and return what its last expressions show, as a notebook would ask for it."""
    names, shown = {"__name__": notebook["cells"][0]["id"]}, []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, cell["id"], "exec"), names)
            if last is not None:
                value = eval(compile(ast.Expression(last.value), cell["id"], "eval"), names)
                html = getattr(value, "_repr_html_", None) or getattr(value, "to_html", None)
                shown.append(html() if html else repr(value))
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs(notebook, capsys):
    assert all(run_notebook(json.loads(notebook.read_text())))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_stores_no_output(notebook):
    cells = [cell for cell in json.loads(notebook.read_text())["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)


def test_a_broken_notebook_is_noticed():
    with pytest.raises(ZeroDivisionError):
        run_notebook({"cells": [{"cell_type": "code", "id": "a", "source": ["1 / 0"]}]})


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_blocks_of_the_page_print_what_it_says(page, refresh):
    with refresh.workplace():
        assert refresh.refreshed(page.read_text(), page.name) == page.read_text(), REMEDY


def test_list_of_deviations_is_up_to_date(refresh):
    page = ROOT / "docs" / "differences.md"
    assert refresh.BEGIN in page.read_text()
    assert refresh.with_deviations(page.read_text()) == page.read_text(), REMEDY


def test_a_drifted_page_is_noticed(refresh):
    fence = "```"
    page = f"{fence}python\nprint(1 + 1)\n{fence}\n{fence}text\n3\n{fence}\n"
    assert refresh.refreshed(page, "page") == page.replace("3", "2")


def anchors(page):
    """The names by which links address the headings of a page, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_links_lead_somewhere(page):
    for target, anchor in LINK.findall(page.read_text()):
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


@pytest.mark.parametrize("page", TEXTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_names_of_the_library_exist(page):
    for name in set(NAME.findall(page.read_text())):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            pytest.fail(f"{page.name}: there is no {name}")


def test_every_page_is_in_the_index():
    linked = {target for target, _ in LINK.findall((ROOT / "docs" / "index.md").read_text())}
    assert {page.name for page in PAGES[1:] if page.name != "index.md"} <= linked
