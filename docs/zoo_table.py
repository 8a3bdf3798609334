"""Recompute the table of docs/zoo.md: `python docs/zoo_table.py` rewrites it, `--print` prints it.

One row per problem and level: the certified optimum of the tau-quantile, its proven upper bound, what the policy with the best
mean guarantees, and the best CVaR.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import bqrl

PAGE = Path(__file__).parent / "zoo.md"
LEVELS = (0.05, 0.1, 0.5)
BEGIN, END = "<!-- zoo: begin -->\n\n", "\n<!-- zoo: end -->"
HEAD = "| problem | tau | optimum | upper | risk-neutral | CVaR |\n| -- | -- | -- | -- | -- | -- |\n"


def rows(name: str) -> Iterator[str]:
    """The lines of one problem."""
    mdp = bqrl.envs.make(name)
    neutral = bqrl.solve(mdp, LEVELS[0], planner="expected").law
    for tau in LEVELS:
        plan, cvar = bqrl.solve(mdp, tau), bqrl.solve(mdp, tau, beta=tau)
        assert plan.upper is not None
        assert isinstance(neutral, bqrl.Law)
        cells = (plan.value, plan.upper, neutral.quantile(tau), cvar.value)
        note = "" if plan.certain else " (tie)"
        yield f"| {name} | {tau:g} | {' | '.join(f'{cell:.6g}' for cell in cells)}{note} |\n"


def on_page(text: str) -> dict[str, list[str]]:
    """The lines of the page's table by problem."""
    found: dict[str, list[str]] = {}
    for line in text.split(BEGIN)[1].split(END)[0].removeprefix(HEAD).splitlines(keepends=True):
        found.setdefault(line.split("|")[1].strip(), []).append(line)
    return found


if __name__ == "__main__":
    table = HEAD + "".join(line for name in bqrl.envs.names() for line in rows(name))
    if "--print" in sys.argv:
        print(table, end="")
    else:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + table + END + rest.split(END)[1])
