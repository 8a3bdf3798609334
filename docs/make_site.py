"""Build the site: `python docs/make_site.py [FOLDER]`, into build/site without a folder. It needs the extra `docs`.

The Markdown pages stay as they are read in the repository. This script copies them into one folder, follows their links, and adds
what only a site has:

- the sections: each heading of docs/index.md is one, and its table lists the pages;
- the reference: one page per public name, and the help of every command;
- the charts: a picture that docs/make_images.py draws is shown as the chart that it was drawn from.

Sphinx then builds the pages. Warnings are errors, and so is a page that would load something from the internet.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType
from typing import Any

from make_images import PICTURES
from typer.testing import CliRunner

import bqrl
from bqrl.cli.commands import COMMANDS, app
from bqrl.results.charts import styled
from bqrl.results.page import library

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAPER = ROOT / "src" / "bqrl" / "papers" / "ucb_bqrl" / "README.md"
OTHERS = {PAPER: "paper.md"} | {
    ROOT / f"{name}.md": f"{name.lower()}.md" for name in ("CONTRIBUTING", "CHANGELOG", "CODE_OF_CONDUCT", "SECURITY")
}
GENERATED = {"Reference": ["api", "commands"]}  # pages that only the site has, by section
STILL = ("learning",)  # a picture of runs that take a minute
LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#)([^)#\s]+)(#[^)]*)?\)")
REMOTE = re.compile(r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
MODULES = [name for name in bqrl.__all__ if isinstance(getattr(bqrl, name), ModuleType)]
ROOMS = {
    "mdp": "Models", "planners": "Plans and decisions", "laws": "Laws and objectives", "policies": "Policies", "logs": "Logs",
    "learners": "Learning", "study": "Experiments", "results": "Pages of results", "files": "Files",
}  # fmt: skip


def pages() -> dict[Path, str]:
    """Every page of the site that is a file of the repository, with its name on the site."""
    return {page: page.name for page in sorted(DOCS.glob("*.md"))} | OTHERS


def with_links(text: str, page: Path, stage: Path) -> str:
    """The text with links to pages of the site; other files are copied and can be downloaded."""

    def link(found: re.Match[str]) -> str:
        label, target, anchor = found[1], (page.parent / found[2]).resolve(), found[3] or ""
        if target in pages():
            return f"{label}({pages()[target]}{anchor})"
        if not target.is_file():
            raise FileNotFoundError(
                f"{page.relative_to(ROOT)} links to {found[2]}, which is no file; link to a file or a page"
            )
        place = stage / "files" / target.relative_to(ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target, place)
        return f"{label}({place.relative_to(stage)})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.M | re.S)  # links inside of code stay
    return "".join(part if part.startswith("```") else LINK.sub(link, part) for part in parts)


def with_charts(text: str) -> str:
    """The text with charts in place of the pictures that were drawn from them."""

    def chart(found: re.Match[str]) -> str:
        name = found[2]
        if name not in PICTURES or name in STILL:
            return found[0]
        spec = json.dumps(styled(PICTURES[name]())).replace("<", "\\u003c")
        place = f'<div class="bqrl-chart" role="img" aria-label="{found[1]}"></div>'
        return f'{place}\n<script type="application/json">{spec}</script>\n'

    new = re.sub(r"^!\[([^\]]*)\]\([^)]*?images/(\w+)\.png\)$", chart, text, flags=re.M)
    scripts = "".join(f'<script src="_static/{name}.js"></script>\n' for name in ("vega", "charts"))
    return new if new == text else f"{new}\n{scripts}"


def toctree(names: list[str]) -> str:
    """The directive that puts pages into the navigation."""
    return "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


def sections(index: str) -> dict[str, str]:
    """The pages that stand for the headings of the index, by name."""
    found = {}
    for part in re.split(r"^## ", index, flags=re.M)[1:]:
        title, body = part.split("\n", 1)
        linked = [name[:-3] for _, name, _ in LINK.findall(body) if name.endswith(".md") and "/" not in name]
        name = f"section_{re.sub(r'[^a-z]+', '_', title.lower())}"
        found[name] = f"# {title}\n{body}{toctree([*GENERATED.get(title, []), *linked])}"
    return found


def undocumented() -> list[str]:
    """The public names, and the public methods of public classes, that have no docstring."""
    found = []
    for name in bqrl.__all__:
        thing = getattr(bqrl, name)
        found += [] if inspect.getdoc(thing) else [name]
        if inspect.isclass(thing):
            own = {key: each for key, each in vars(thing).items() if not key.startswith("_") and callable(each)}
            found += [f"{name}.{key}" for key, each in own.items() if not inspect.getdoc(each)]
    return found


def reference() -> str:
    """The page that lists every public name by its part of the library."""
    parts = [
        "# Functions and classes",
        "Everything below is imported from `bqrl`: `from bqrl import solve`, or `bqrl.solve`.",
    ]
    rooms: dict[str, list[str]] = {title: [] for title in ROOMS.values()}
    for name, module in bqrl._HOME.items():
        rooms[ROOMS[module.split(".")[1]]].append(f"bqrl.{name}")
    for title, names in rooms.items():
        listed = "\n".join(f"   {name}" for name in sorted(names, key=str.lower))
        parts += [
            f"## {title}",
            f"```{{eval-rst}}\n.. autosummary::\n   :toctree: api\n   :nosignatures:\n\n{listed}\n```",
        ]
    linked = [f"- [bqrl.{name}](module_{name}.md)" for name in MODULES]
    return "\n\n".join([*parts, "## Modules", "\n".join(linked)]) + toctree([f"module_{name}" for name in MODULES])


def module(name: str) -> str:
    """The page of a public module: its docstring and everything that it exports."""
    exported = "\n   :imported-members:" if hasattr(getattr(bqrl, name), "__all__") else ""
    return f"# bqrl.{name}\n\n```{{eval-rst}}\n.. automodule:: bqrl.{name}\n   :members:{exported}\n```\n"


def commands() -> str:
    """The page with the help of every command."""
    parts = ["# Commands"]
    for name in ("", *COMMANDS):
        done = CliRunner().invoke(
            app, [*name.split(), "--help"], env={"COLUMNS": "76", "NO_COLOR": "1", "TERM": "dumb"}
        )
        help_text = "\n".join(line.rstrip() for line in done.output.strip("\n").splitlines())
        parts += [f"## bqrl {name}".rstrip(), f"```text\n{help_text}\n```"]
    return "\n\n".join(parts) + "\n"


def stage_pages(stage: Path) -> None:
    """Write everything that Sphinx reads into the folder `stage`."""
    shutil.copytree(DOCS / "site", stage, dirs_exist_ok=True)
    static = stage / "static"
    static.mkdir()
    for name in ("site.css", "charts.js"):
        shutil.move(stage / name, static / name)
    own = f"(() => {{\n{library()}\n}})();\n"  # its names must not meet those of the theme
    (static / "vega.js").write_text(own, encoding="utf-8")
    texts = {name: with_links(page.read_text(encoding="utf-8"), page, stage) for page, name in pages().items()}
    made = sections(texts["index.md"])
    texts |= {f"{name}.md": text for name, text in made.items()}
    texts |= {"api.md": reference(), "commands.md": commands()} | {
        f"module_{name}.md": module(name) for name in MODULES
    }
    texts["index.md"] = with_charts(texts["index.md"]) + toctree(list(made))
    for name, text in texts.items():
        (stage / name).write_text(text if name == "index.md" else with_charts(text), encoding="utf-8")


def remote(site: Path) -> list[str]:
    """What the pages would load from the internet."""
    return [
        f"{page.name}: {found}" for page in site.rglob("*.html") for found in REMOTE.findall(page.read_text("utf-8"))
    ]


def main(folder: Any = ROOT / "build" / "site") -> int:
    """Build the site and return the exit status."""
    from sphinx.cmd.build import build_main  # the tests of the other functions do not need it

    if missing := undocumented():
        print(f"without a docstring: {', '.join(missing)}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as stage:
        stage_pages(Path(stage))
        status = build_main(["-W", "--keep-going", "-q", "-b", "html", "-d", f"{stage}/.doctrees", stage, str(folder)])
    if status == 0 and (found := remote(Path(folder))):
        print("\n".join(["the site must not load anything from the internet:", *found]), file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
