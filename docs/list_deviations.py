"""Write the list of deviations from the paper into docs/differences.md: `python docs/list_deviations.py`.

The source marks each with a line that begins `Deviation:` (we do something else) or `Corrected:` (a statement of the
paper in a form that holds); what follows up to a blank line, the end of the docstring or the next mark belongs to it.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "differences.md"
BEGIN, END = "<!-- deviations: begin -->\n", "<!-- deviations: end -->"
MARK = re.compile(r"\b(Deviation|Corrected): (.+?)(?=\n\s*\n|\"\"\"|\n\s*(?:# )?(?:Deviation|Corrected): |\Z)", re.S)


def deviations() -> list[tuple[str, str, str]]:
    """Module, mark and text of every deviation, in the order of the tree."""
    source = ROOT / "src"
    found = []
    for path in sorted(source.rglob("*.py")):
        module = ".".join(path.relative_to(source).with_suffix("").parts)
        found += [(module, mark, " ".join(text.split())) for mark, text in MARK.findall(path.read_text())]
    return found


def listed() -> str:
    """The list as Markdown, one item a module."""
    lines, last = [], ""
    for module, mark, text in deviations():
        if module != last:
            lines.append(f"- `{module}`")
            last = module
        lines.append(f"  - {mark}: {text}")
    return "\n".join(lines) + "\n"


def updated(page: str) -> str:
    """The page with the present list in it."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + listed() + END + rest.split(END)[1]


if __name__ == "__main__":
    PAGE.write_text(updated(PAGE.read_text()))
    print(f"{len(deviations())} marks in {PAGE.relative_to(ROOT)}")
