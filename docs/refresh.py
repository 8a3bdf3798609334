"""Rerun the examples of the README and the pages, and write their current output: `python docs/refresh.py [--check] [PAGE ...]`.

- A `python` block runs in the namespace of its page; a `text` block right below it is what it prints.
- In a `console` block every `$ bqrl ...` runs in the same folder, and the lines below it are what it prints; other commands
  are left alone.
- docs/differences.md lists the passages of the source that begin with `Deviation:` (the code differs from the paper) or
  `Corrected:` (a statement of the paper in a form that holds). A passage ends at a blank line, at the end of its docstring or
  where the next one begins.

`...` stands for anything, such as a running time. If the rest of such a block no longer matches, the whole block is rewritten,
and the dots have to be put back. The tests fail if a page would change; `--check` writes nothing and exits with status 1 then.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.M)
MARK = re.compile(r"\b(Deviation|Corrected): (.+?)(?=\n\s*\n|\"\"\"|\n\s*(?:# )?(?:Deviation|Corrected): |\Z)", re.S)
BEGIN, END = "<!-- deviations: begin -->\n\n", "\n<!-- deviations: end -->"


def same(wanted: str, got: str) -> bool:
    """Equal up to white space and the length of rules; `...` stands for anything."""
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    wanted, got = (re.sub("─+", "─", text) for text in (wanted, got))
    return doctest.OutputChecker().check_output(wanted, got, options)


def refreshed(text: str, name: str) -> str:
    """The page with the current output of its blocks; call it in a folder from `workplace`."""
    names: dict[str, object] = {"__name__": name}
    printed, end, pieces = None, 0, []
    for block in FENCE.finditer(text):
        language, body, below = block[1], block[2], not text[end : block.start()].strip()
        fresh = body
        if language == "text" and below and printed is not None:
            fresh = body if same(body, printed) else printed
        elif language == "console":
            fresh = COMMAND.sub(_rerun, body)
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(body, f"{name}, a python block", "exec"), names)
            printed = output.getvalue()
        else:
            printed = None
        pieces += [text[end : block.start()], f"```{language}\n{fresh}```"]
        end = block.end()
    return "".join([*pieces, text[end:]])


def _rerun(command: re.Match[str]) -> str:
    words, wanted = shlex.split(command[1], comments=True), command[2]
    if words[0] != "bqrl" or not wanted.strip():
        return command[0]
    program = [sys.executable, "-c", "from bqrl.cli import main; main()", *words[1:]]
    quiet = os.environ | {"COLUMNS": "140", "NO_COLOR": "1"}
    done = subprocess.run(program, capture_output=True, text=True, env=quiet, check=True, timeout=300)
    if same(wanted, done.stdout):
        return command[0]
    return f"$ {command[1]}\n" + "".join(f"{line.rstrip()}\n" for line in done.stdout.splitlines())


@contextlib.contextmanager
def workplace() -> Iterator[None]:
    """A temporary folder to work in, with the data of the examples where the pages expect it."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        os.mkdir("examples")
        for data in [*(ROOT / "examples").glob("*.csv"), *(ROOT / "examples").glob("*.umb")]:
            shutil.copy(data, "examples")
        yield


def deviations() -> str:
    """The marks of the source as a Markdown list, one item per module."""
    from mdformat import text  # the other pages are checked without it, too

    lines, source = [], ROOT / "src"
    for path in sorted(source.rglob("*.py")):
        marks = MARK.findall(path.read_text())
        if marks:
            lines.append(f"- `{'.'.join(path.relative_to(source).with_suffix('').parts)}`")
            lines += [f"  - {mark}: {' '.join(words.split())}" for mark, words in marks]
    return text("\n".join(lines), extensions={"gfm"})


def with_deviations(text: str) -> str:
    """The page with the current list of deviations, if it has such a list."""
    if BEGIN not in text:
        return text
    before, rest = text.split(BEGIN)
    return before + BEGIN + deviations() + END + rest.split(END)[1]


def main(given: list[str]) -> int:
    """Refresh or, with `--check`, compare the given pages, all of them by default; return the exit status."""
    check, changed = "--check" in given, 0
    for page in [Path(name).resolve() for name in given if name != "--check"] or PAGES:
        old = page.read_text()
        with workplace():
            new = with_deviations(refreshed(old, page.name))
        if not check:
            page.write_text(new)
        changed += new != old
        print(f"{page.relative_to(ROOT)}: {'as it was' if new == old else 'differs' if check else 'rewritten'}")
    return int(check and changed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
