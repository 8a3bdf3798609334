r"""The page of a result: one HTML file that opens offline and makes no requests; all kinds of results share the template.

Names from files are shown as text: the template escapes HTML, and "<" inside JSON is written as \u003c, so that no name can
end a script element.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from bqrl.results.charts import import_extra
from bqrl.results.result import Result, ResultTable, is_shown, to_csv, to_plain
from bqrl.results.words import cell, display_table

PAGE = "report.html"
SHOWN_ROWS = 200  # rows of a table on the page; its CSV file has all rows
MAX_CSV = 1_000_000  # bytes; larger tables are not embedded for download


def page(result: Result) -> str:
    """The page of a result as HTML: one file with code, data and style inside."""
    jinja2 = import_extra("jinja2", "the page needs Jinja2")
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    template = environment.from_string((Path(__file__).parent / "page.html.j2").read_text(encoding="utf-8"))
    choices = [choice for choice in result.choices if len(choice.values) > 1]
    chosen = {choice.name: choice.values[choice.start] for choice in choices}
    lines = [line for line in result.lines if is_shown(line.when, chosen)]
    sections = {name.rpartition("/")[0]: list[dict[str, Any]]() for name in ("", *result.charts)}  # folders with charts
    tables = []
    for name, table in result.tables.items():
        place, _, short = name.rpartition("/")
        shown = _table(name, short if place in sections else name, table, result.decimal)
        tables.append(shown | {"hidden": not is_shown(table.when, chosen)})
        sections.get(place, sections[""]).append(tables[-1])
    charts = {
        place: [i for i, name in enumerate(result.charts) if name.rpartition("/")[0] == place] for place in sections
    }
    files = {table["name"]: table["csv"] for table in tables}
    data = {
        "choices": choices, "sentences": result.lines, "charts": list(result.charts.values()), "tables": files,
        "when": [table.when for table in result.tables.values()],
    }  # fmt: skip
    html: str = template.render(
        result=result, shown=[line.text for line in lines if not line.aside],
        asides=[line.text for line in lines if line.aside], choices=choices, sections=sections, charts=charts,
        settings={key.replace("_", " "): cell(x) for key, x in result.settings.items() if x is not None},
        data=json.dumps(to_plain(data), allow_nan=False).replace("<", "\\u003c"),
        library=library() if result.charts else "",
    )  # fmt: skip
    return html


@lru_cache(maxsize=1)
def library() -> str:
    """Vega, Vega-Lite and Vega-Embed as one script."""
    bundle = import_extra("vl_convert").javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return str(bundle).replace("</script", "<\\/script")


def _table(name: str, short: str, table: ResultTable, decimal: str) -> dict[str, Any]:
    """A table for the template; its title is made from the `short` name."""
    csv, count = to_csv(table, decimal), len(table.rows)
    title = re.sub(r"_step(\d+)$", r", step \1", re.sub(r"_tau(\d+)p(\d+)(?=$|_)", r" at level \1.\2", short))
    title = title.replace("_", " ").replace("tradeoff", "trade-off").capitalize()
    titles, cells = display_table(replace(table, rows=table.rows[:SHOWN_ROWS]))
    return {
        "name": name, "title": f"{title}: the decisions to follow" if re.match("policy(_tau|_step|$)", name) else title,
        "caption": table.caption,
        "columns": [{"title": title, "text": is_text(row[i] for row in cells)} for i, title in enumerate(titles)],
        "cells": cells, "more": count if count > SHOWN_ROWS else 0, "csv": csv.decode() if len(csv) <= MAX_CSV else "",
    }  # fmt: skip


def is_text(column: Iterable[str]) -> bool:
    """Whether a column holds words (aligned on the left) rather than numbers."""
    return any(cell[:1].isalpha() and cell not in ("yes", "no") for cell in column)
