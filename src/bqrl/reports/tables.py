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
    known = all(level.get("law_exact", level["exact"]) for level in levels)
    columns.append(("mean" if known else "mean at least", [number(level["mean"]) for level in levels]))
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


def level_table(document: Mapping[str, Any], room: int = 140) -> Table | None:
    """The plans of a document, one row a level; None where `room` screen columns do not hold its numbers."""
    from rich import box
    from rich.table import Table

    columns = level_columns(document)
    widths = [max(map(len, [heading, *cells])) for heading, cells in columns]
    if _across(widths) > room:  # headings over several lines
        widths = [max(map(len, [*heading.split(), *cells])) for heading, cells in columns]
    if _across(widths) > room:
        return None
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for (heading, _), width in zip(columns, widths, strict=True):
        style = "bold" if heading == columns[1][0] else None
        table.add_column(heading, justify="right", style=style, header_style="bold", width=width)
    for row in zip(*(cells for _, cells in columns), strict=True):
        table.add_row(*row)
    return table


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def level_lines(document: Mapping[str, Any]) -> list[list[str]]:
    """What the table holds, for screens too narrow for it: "name: value", one list a level."""
    columns = level_columns(document)
    rows = zip(*(cells for _, cells in columns), strict=True)
    return [[f"{heading}: {cell}" for (heading, _), cell in zip(columns, row, strict=True)] for row in rows]


def title(document: Mapping[str, Any]) -> str:
    """The problem in one line."""
    model = document["model"]
    parts = [
        counted(model[key], noun) for key, noun in (("states", "state"), ("actions", "action"), ("horizon", "stage"))
    ]
    parts.append(f"start {model['start']}")
    if model["discount"] != 1.0:
        parts.append(f"discount {number(model['discount'])}")
    return f"{model['name']}: {', '.join(parts)}"


def counted(count: int | None, noun: str) -> str:
    """A number of things.

    >>> counted(1, "state"), counted(3, "state")
    ('1 state', '3 states')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
