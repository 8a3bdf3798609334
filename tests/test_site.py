"""The site: staged pages, the reference, and what the build refuses. `make docs` builds it."""

import importlib
import re
import runpy
from pathlib import Path

import pytest

import bqrl

pytest.importorskip("altair")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs"))
        yield importlib.import_module("make_site")


def test_reference_lists_every_public_name(site):
    listed = set(re.findall(r"bqrl\.(\w+)", site.reference().split("##", 1)[1]))
    assert listed == set(bqrl.__all__)


def test_every_public_name_has_a_docstring(site):
    assert site.undocumented() == []


def test_a_public_name_without_a_docstring_is_noticed(site, monkeypatch):
    class Silent:
        def run(self): ...

    monkeypatch.setattr(bqrl, "Law", Silent)
    assert site.undocumented() == ["Law", "Law.run"]


def test_help_of_every_command_is_on_the_site(site):
    page = site.commands()
    for name in ("solve", "fit", "learn", "compare", "reproduce", "report", "envs", "evaluate"):
        assert f"## bqrl {name}\n" in page
    assert "--tau" in page
    assert "Traceback" not in page


def test_every_page_is_in_a_section(site, tmp_path):
    index = site.with_links((ROOT / "docs" / "index.md").read_text(), ROOT / "docs" / "index.md", tmp_path)
    listed = set(re.findall(r"^(\w+)$", "".join(site.sections(index).values()), re.M))
    assert {name.removesuffix(".md") for name in site.pages().values()} - {"index"} <= listed


def test_links_lead_to_pages_and_files_of_the_site(site, tmp_path):
    page = ROOT / "docs" / "index.md"
    text = "[a](../CONTRIBUTING.md#x) [b](../examples/pump.csv) [c](https://example.org) [d](#e)\n```text\n[f](gone.md)\n```\n"
    new = site.with_links(text, page, tmp_path)
    assert new == text.replace("../CONTRIBUTING.md", "contributing.md").replace("../examples", "files/examples")
    assert (tmp_path / "files" / "examples" / "pump.csv").exists()


def test_a_link_to_nothing_is_refused(site, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"docs/index\.md links to gone\.md"):
        site.with_links("[a](gone.md)", ROOT / "docs" / "index.md", tmp_path)


def test_pictures_become_charts_and_other_images_stay(site, monkeypatch):
    class Chart:
        def to_dict(self):
            return {"title": "</script>"}

    monkeypatch.setitem(site.PICTURES, "window", Chart)
    page = site.with_charts("![A window](images/window.png)\n![Runs](images/learning.png)\n")
    assert '<div class="bqrl-chart" role="img" aria-label="A window"></div>' in page
    assert "![Runs](images/learning.png)" in page
    assert page.count("</script>") == 3


def test_pages_of_the_reference_differ_in_more_than_case():
    named = runpy.run_path(str(ROOT / "docs" / "site" / "conf.py"))["autosummary_filename_map"]
    pages = [named.get(f"bqrl.{name}", f"bqrl.{name}").lower() for name in bqrl.__all__]
    assert len(set(pages)) == len(pages)


def test_a_page_that_loads_from_the_internet_is_noticed(site, tmp_path):
    (tmp_path / "a.html").write_text(
        '<a href="https://example.org">fine</a><script defer src="//example.org/x.js"></script>'
    )
    assert len(site.remote(tmp_path)) == 1
