"""Tables for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bqrl.planners.plan import GAP_TOL
from bqrl.reports.words import number

if TYPE_CHECKING:
    from rich.table import Table


def level_columns(document: Mapping[str, Any]) -> list[tuple[str, list[str]]]:
    """Heading and cells of every column that the document's levels need, in the problem's own units."""
    levels: Sequence[Mapping[str, Any]] = document["levels"]
    tau = [number(level["tau"]) for level in levels]
    columns = [("level", tau), (value_name(levels), [number(level["value"]) for level in levels])]
    if any(level["attitude"] == "robust" for level in levels):
        columns.append(("in the model", [number(level["nominal"]) for level in levels]))
    if any(level["upper"] is not None for level in levels):
        columns.append(("upper bound", [number(level["upper"]) for level in levels]))
        columns.append(("gap", [_gap(level) for level in levels]))
    if all(level["beta"] == 0.0 and level["attitude"] == "nominal" and level["exact"] for level in levels):
        # How firm a quantile of the model as given is: a mean over levels, a ball of kernels, a bracket have none.
        columns.append(("margin", [_margin(level["margin"]) for level in levels]))
    columns.append(("certain", ["yes" if level["certain"] else "no" for level in levels]))
    proven = all(level["exact"] for level in levels)
    columns.append(("mean" if proven else "mean at least", [number(level["mean"]) for level in levels]))
    if any(level["risk_neutral"] is not None for level in levels):
        columns.append(("risk-neutral", [_neutral(level["risk_neutral"]) for level in levels]))
    return columns


def value_name(levels: Sequence[Mapping[str, Any]]) -> str:
    """What the value column holds."""
    names = {_value_name(level) for level in levels}
    return names.pop() if len(names) == 1 else "value"


def _value_name(level: Mapping[str, Any]) -> str:
    if level["attitude"] == "robust":
        return "guaranteed"
    if not level["exact"]:
        return "at least"
    if level["beta"] == 0.0:
        return "quantile"
    return "CVaR" if level["beta"] == level["tau"] else "buffered quantile"


def _gap(level: Mapping[str, Any]) -> str:
    gap = level["gap"]
    return "0" if gap is not None and gap <= GAP_TOL * max(1.0, abs(level["value"])) else number(gap, 3)


def _margin(margin: Mapping[str, float]) -> str:
    return f"{number(margin['below'], 2)} / {number(margin['above'], 2)}"


def _neutral(neutral: Mapping[str, float] | None) -> str:
    if neutral is None:
        return "\N{EN DASH}"
    low, high = number(neutral["value"]), number(neutral["upper"])
    return low if low == high else f"{low} … {high}"


def level_table(document: Mapping[str, Any]) -> Table:
    """The plans of a document, one row a level."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        title=Text(title(document)),
        title_justify="left",
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    columns = level_columns(document)
    for heading, _ in columns:
        strong = heading == columns[1][0]
        table.add_column(heading, justify="right", style="bold" if strong else None, header_style="bold")
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    return table


def title(document: Mapping[str, Any]) -> str:
    """The problem in one line."""
    model = document["model"]
    parts = [
        f"{model['states']} states",
        f"{model['actions']} actions",
        f"{model['horizon']} stages",
        f"start {model['start']}",
    ]
    if model["discount"] != 1.0:
        parts.append(f"discount {number(model['discount'])}")
    return f"{model['name']}: {', '.join(parts)}"


def problem_table(problems: Sequence[Mapping[str, Any]]) -> Table:
    """Named problems with their sizes, one row each."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("problem", style="bold", no_wrap=True)
    for heading in ("states", "actions", "stages"):
        table.add_column(heading, justify="right")
    table.add_column("what it is about")
    table.add_column("Gymnasium id", no_wrap=True)
    for row in problems:
        sizes = (str(row[key]) for key in ("states", "actions", "horizon"))
        table.add_row(row["name"], *sizes, row["description"], row["id"])
    return table
