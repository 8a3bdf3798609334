"""The page of learners' runs."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from bqrl.reports.learning_tables import EXPLAINED, asked, learner_columns, seed_columns
from bqrl.reports.learning_words import by_gap
from bqrl.reports.page import figures, heading, html, making, numbers, policy_part
from bqrl.reports.words import number

FIGURES = {"learning": "What the policy in force promises by episode, and its shortfall from the best possible so far"}


def learning_page(document: Mapping[str, Any], folder: Path) -> str:
    """HTML of one learner or of several: what came out, the curves, the table, the policy, how it was made."""
    alone = document["format"].startswith("bqrl learn")
    columns = seed_columns(document) if alone else learner_columns(document)
    parts = [
        *heading(document, f"; {asked(document)}"),
        f'<div class="cards">{_card(document)}</div>',
        *figures(folder, FIGURES, "wide"),
        "<h2>The numbers</h2>",
        numbers(columns, EXPLAINED, "words"),
    ]
    if document.get("policy"):
        kept = document["policy"]
        told = {"files": kept["files"], "objective": f"Seed {kept['seed']}, the best", "policy": kept["kind"]}
        parts += ["<h2>The policy</h2>", policy_part(told, folder)]
    what = document["learners"][0]["label"] if alone else "learners compared"
    return html(f"{document['model']['name']}: {what}", [*parts, *making(document)])


def _card(document: Mapping[str, Any]) -> str:
    """The learner that did best, its number, and what it means."""
    first = by_gap(document["learners"])[0]
    scored = document["best"] is not None
    value = first["mean"]["quantile" if scored else "last_return"]
    what = f"{number(document['tau'])}-quantile" if scored else "mean return of the last tenth"
    return (
        f'<div class="card"><span class="quiet">{escape(first["label"])}: {what}</span><b>{number(value, 4)}</b>'
        f"<p>{escape(document['meaning'])}</p></div>"
    )
