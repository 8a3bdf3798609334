"""Tables of learners' runs: one learner seed by seed, or several beside what is best and what chance gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bqrl.reports.learning_words import by_gap
from bqrl.reports.tables import title
from bqrl.reports.words import number

if TYPE_CHECKING:
    from rich.table import Table

DIGITS = 4  # of a mean over seeds
DASH = "\N{EN DASH}"
EXPLAINED = {
    "quantile": "the return that a share of more than 1 \N{MINUS SIGN} τ of all runs reaches under the final policy",
    "best possible": "the largest quantile of any policy, computed exactly",
    "cumulative gap": "how far the policy in force in each episode fell short of the best possible, summed over the episodes",
    "cumulative regret": "the same for the mean return",
    "mean": "mean return of the final policy",
    "settled after": "episodes after which the policy in force kept the best possible quantile to the end, in every seed",
    "return": "mean of the realised returns over all episodes",
    "last tenth": "mean of the realised returns over the last tenth of the episodes",
}


def seed_columns(document: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Heading and cells of every column for one learner: one row a seed, then their mean."""
    (learner,) = document["learners"]
    rows = [*learner["runs"], *([{"seed": "mean"} | learner["mean"]] if len(learner["runs"]) > 1 else [])]
    columns = [("seed", [str(row["seed"]) for row in rows])]
    if document["best"] is None:
        columns.append(("return", [number(row["return"]) for row in rows]))
        columns.append(("last tenth", [number(row["last_return"]) for row in rows]))
        return columns
    columns.append(("quantile", [number(row["quantile"]) for row in rows]))
    columns.append(("best possible", [number(document["best"]["quantile"])] * len(rows)))
    columns.append(("cumulative gap", [_sum(row["gap"]) for row in rows]))
    columns.append(("cumulative regret", [_sum(row["regret"]) for row in rows]))
    columns.append(("mean", [number(row["mean"]) for row in rows]))
    settled = [_settled(row["settled"]) if "settled" in row else "" for row in rows]
    return [*columns, ("settled after", settled)]


def learner_columns(document: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Heading and cells of every column for several learners, the best first; then the best policies and chance."""
    learners = by_gap(document["learners"])
    columns = [("learner", [one["label"] for one in learners])]
    if document["best"] is None:
        columns.append(("return", [_spread(one, "return") for one in learners]))
        columns.append(("last tenth", [_spread(one, "last_return") for one in learners]))
        return columns
    best, chance = document["best"], document["random"]
    columns[0][1].extend(["best possible", "random policy"])
    columns.append(("quantile", [_spread(one, "quantile") for one in learners]))
    columns[1][1].extend([_fixed(best["quantile"]), _fixed(chance["quantile"])])
    for heading, key in (("cumulative gap", "gap"), ("cumulative regret", "regret")):
        cells = [_spread(one, key) for one in learners]
        columns.append((heading, [*cells, "0", _fixed(chance[key])]))
    columns.append(("mean", [_spread(one, "mean") for one in learners]))
    columns[-1][1].extend([_fixed(best["mean"]), _fixed(chance["mean"])])
    settled = [[row["settled"] for row in one["runs"]] for one in learners]
    cells = [_settled(None if None in each else max(each)) for each in settled]
    return [*columns, ("settled after", [*cells, "", ""])]


def _sum(x: float) -> str:
    return number(0.0 if abs(x) < 1e-9 else x, DIGITS)


def _fixed(x: float, size: float = 0.0) -> str:
    """`x` with as many decimals as a number of its size, or of `size` if that is larger, needs for its first digits."""
    if abs(x) < 1e-9 and not size:
        return "0"
    decimals = max(0, DIGITS - 1 - math.floor(math.log10(max(abs(x), size, 10.0 ** (1 - DIGITS)))))
    return f"{x + 0.0:.{decimals}f}"


def _spread(one: Mapping[str, Any], key: str) -> str:
    """Mean and, of several seeds that differ, the sample's standard deviation, with the same decimals."""
    mean, std = one["mean"][key], one["std"][key]
    if std is None or not float(_fixed(std, max(abs(mean), 1e-9))):
        return _fixed(mean)
    return f"{_fixed(mean, std)} ± {_fixed(std, abs(mean))}"


def _settled(episodes: int | None) -> str:
    return DASH if episodes is None else str(episodes)


def run_table(document: Mapping[str, Any]) -> Table:
    """One learner's runs, one row a seed."""
    (learner,) = document["learners"]
    table = _table(f"{title(document)}; {learner['label']}, {asked(document)}", seed_columns(document))
    if len(learner["runs"]) > 1:
        table.rows[-2].end_section = True
    return table


def comparison_table(document: Mapping[str, Any]) -> Table:
    """Learners beside each other, one row each."""
    table = _table(f"{title(document)}; {asked(document)}", learner_columns(document))
    if document["best"] is not None:
        table.rows[-3].end_section = True
    return table


def asked(document: Mapping[str, Any]) -> str:
    """Level, episodes and seeds in a few words."""
    seeds = [row["seed"] for row in document["learners"][0]["runs"]]
    named = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}"
    return f"level {number(document['tau'])}, {document['episodes']} episodes, {named}"


def _table(heading: str, columns: Sequence[tuple[str, list[str]]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title=Text(heading),
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for name, _ in columns:
        words = name in ("seed", "learner")
        table.add_column(
            name,
            justify="left" if words else "right",
            style="bold" if name == "quantile" else None,
            header_style="bold",
        )
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*(Text(cell) for cell in row))
    return table
