"""Examples run, and what the README and the pages print is what the library prints today."""

import contextlib
import doctest
import importlib.util
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\[[^\]]*\]\((?!https?:)([^)#\s]+)(?:#[^)]*)?\)")
PROGRAM = [sys.executable, "-c", "from bqrl.cli import main; main()"]


def fences(page: Path) -> list[tuple[str, str, bool]]:
    """Language and text of every fenced block, and whether it stands right below the one before."""
    text, found, end = page.read_text(), [], 0
    for block in FENCE.finditer(text):
        found.append((block[1], block[2], text[end : block.start()].strip() == "" and end > 0))
        end = block.end()
    return found


def same(wanted: str, got: str) -> bool:
    """Equal up to white space and the length of rules; `...` stands for anything, such as a running time."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    wanted, got = (re.sub("─+", "─", text) for text in (wanted, got))
    return doctest.OutputChecker().check_output(wanted, got, options)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder to write in, with the examples' data at the place where the pages name it."""
    (tmp_path / "examples").mkdir()
    for data in (ROOT / "examples").glob("*.csv"):
        shutil.copy(data, tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    quiet = os.environ | {"COLUMNS": "140", "NO_COLOR": "1"}
    return subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=300)


@pytest.mark.slow
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(example, workplace):
    done = run([sys.executable, "-W", "error", str(example), "--quick"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert not done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_python_on_the_page_prints_what_it_says(page, workplace):
    names: dict[str, object] = {"__name__": page.stem}
    printed = None
    for language, block, below in fences(page):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(block, f"{page.name}, a python block", "exec"), names)
            printed = output.getvalue()
        elif language == "text" and below and printed is not None:
            assert same(block, printed), f"{page.name} says\n{block}\nbut the library prints\n{printed}"
        else:
            printed = None


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_commands_on_the_page_print_what_it_says(page, workplace):
    for language, block, _ in fences(page):
        if language != "console":
            continue
        for command, wanted in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            words = shlex.split(command, comments=True)
            if words[0] == "bqrl" and "reproduce" not in words:  # what takes minutes has tests of its own
                done = run(PROGRAM + words[1:])
                assert done.returncode == 0, done.stderr
                if wanted.strip():
                    assert same(wanted, done.stdout), f"{page.name} says\n{wanted}\nbut bqrl prints\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_page_is_in_the_index():
    linked = set(LINK.findall((ROOT / "docs" / "index.md").read_text()))
    assert {page.name for page in PAGES[1:] if page.name != "index.md"} <= linked


def test_list_of_deviations_is_up_to_date():
    spec = importlib.util.spec_from_file_location("list_deviations", ROOT / "docs" / "list_deviations.py")
    assert spec is not None
    assert spec.loader is not None
    lister = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lister)
    page = lister.PAGE.read_text()
    assert lister.updated(page) == page, "run: python docs/list_deviations.py"
