"""The page of theory experiments: a section for each, the headline first, then the figures, then what to know."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from bqrl.reports.page import figures, html
from bqrl.reports.theory_figures import FIGURES
from bqrl.reports.words import number


def theory_page(document: Mapping[str, Any], folder: Path) -> str:
    """HTML of the experiments that the document holds."""
    parts = [f"<h1>{escape(document['title'])}</h1>"]
    if document["mark"]:
        parts.append(f'<p class="quiet">{escape(document["mark"])}</p>')
    for name, found in document["experiments"].items():
        captions = dict.fromkeys(FIGURES[name], found["headline"])
        tables = ", ".join(file for file in found["files"] if file.endswith(".csv"))
        parts += [
            f"<h2>{escape(found['headline'])}</h2>",
            *figures(folder, captions)[1:],  # without a heading of their own
            f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in found['remarks'])}</ul>",
            f'<p class="quiet">{number(found["seconds"], 2)} s; numbers in {escape(tables)}</p>',
        ]
    made = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    parts.append(f"<footer>Seed {document['seed']:d}. Made with {escape(made)}</footer>")
    return html(document["title"], parts)
