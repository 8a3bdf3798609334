"""Recompute the table of docs/truth.md: `python docs/truth_table.py` rewrites it (minutes), `--print` prints it.

One row per entry of `bqrl.envs.published`. With `--quick` the rows that take minutes stay as they are on the page, and
so do those of domains whose files are not in shared/domains beside the checkout.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bqrl.envs.published import ENTRIES, Published
from bqrl.study.truth import TITLES, compare_published, spell_out

PAGE = Path(__file__).parent / "truth.md"
FOLDER = Path(__file__).parents[2] / "shared" / "domains"
BEGIN, END = "<!-- truth: begin -->\n\n", "\n<!-- truth: end -->"
HEAD = f"| {' | '.join(TITLES.values())} |\n|{' -- |' * len(TITLES)}\n"


def line(entry: Published) -> str:
    """The line of one entry."""
    return f"| {' | '.join(spell_out(compare_published(entry, str(FOLDER))).values())} |\n"


def on_page(text: str) -> list[str]:
    """The lines of the page's table, one per entry."""
    return text.split(BEGIN)[1].split(END)[0].removeprefix(HEAD).splitlines(keepends=True)


if __name__ == "__main__":
    before, rest = PAGE.read_text().split(BEGIN)
    old, quick, there = on_page(BEGIN + rest), "--quick" in sys.argv, FOLDER.is_dir()
    lines = [
        old[i] if len(old) == len(ENTRIES) and ((entry.slow and quick) or (entry.files and not there)) else line(entry)
        for i, entry in enumerate(ENTRIES)
    ]
    table = HEAD + "".join(lines)
    if "--print" in sys.argv:
        print(table, end="")
    else:
        PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1])
