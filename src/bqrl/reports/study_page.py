"""The page of a study: what was found, the paper's numbers beside ours, figures to play with, how it was made.

One HTML file that needs no other place: data, script and style are inside it, and every name is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from importlib.resources import files
from pathlib import Path

from bqrl.experiments.reproduce import RESULTS
from bqrl.mdp.atomic import write_whole
from bqrl.reports.page import LOOK, PAGE
from bqrl.reports.study_charts import charts
from bqrl.reports.study_data import StudyResults
from bqrl.reports.study_more import study_figures
from bqrl.reports.study_tables import (
    comparison_table,
    luck_tables,
    made_list,
    ordering_table,
    references_table,
    settings_list,
    tuning_table,
)
from bqrl.reports.study_words import summary
from bqrl.reports.style import MissingPlots, encode

FIGURES = "figures"
__all__ = ["RESULTS", "study_page", "write_study"]


def write_study(folder: Path, out: Path | None = None) -> tuple[Path, list[str]]:
    """Draw the figures of a study's folder and write its page; returns the page and a line for each thing left out."""
    study = StudyResults(folder)
    place = out or folder
    left_out: list[str] = []
    try:
        drawn = study_figures(study)
        page = study_page(study)
    except MissingPlots as fault:
        drawn, page = {}, study_page(study)
        left_out.append(str(fault))
    except (KeyError, TypeError, IndexError, AttributeError) as fault:
        raise ValueError(f"the results in {folder} are damaged: {fault!r} is missing or of the wrong kind") from None
    if drawn:
        (place / FIGURES).mkdir(parents=True, exist_ok=True)
    for name, figure in drawn.items():
        for kind in ("png", "pdf"):
            write_whole(place / FIGURES / f"{name}.{kind}", encode(figure, kind))
    write_whole(place / PAGE, page.encode())
    return place / PAGE, left_out


def study_page(study: StudyResults) -> str:
    """HTML of a study."""
    found, drawn = study.found, charts(study)
    title = str(found["title"])
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="quiet">{escape(_about(study))}</p>']
    if study.quick:
        parts.append(
            f'<p class="warn"><b>Quick look.</b> {escape(str(found["mark"]).split(": ", 1)[-1].capitalize())}.</p>'
        )
    parts += [f'<ul class="lead">{"".join(f"<li>{escape(line)}</li>" for line in summary(study))}</ul>']
    if found["comparison"]:
        parts += [_head(study, "Printed numbers and ours"), comparison_table(study)]
    parts += [
        _head(study, "The curves as the paper draws them"),
        _figure("main"),
        *([_head(study, "Final policies"), _figure("policies")] if "policies" in drawn else []),
        _head(study, "Every measure"),
        "<p>The paper measures quantile gaps against a capped search and cuts negative ones off. The exact optimum is known"
        " here, and gaps against it are never negative.</p>",
        _figure("curves"),
        references_table(study),
        _head(study, "How much is luck"),
        f"<p>{escape(_luck(study))}</p>",
        _figure("luck"),
        luck_tables(study),
        "<h3>Orderings</h3>",
        ordering_table(study),
        _head(study, "What the final policies promise"),
        _figure("promises"),
        _figure("laws"),
    ]
    if "variants" in drawn:
        parts += [
            _head(study, "Other offers"),
            "<p>Uniform offers are what every learner assumes before it has seen any. Here the same final configurations run on"
            " offers that are not uniform, without new tuning.</p>",
            _figure("variants"),
            *(luck_tables(study, variant) for variant in study.variants),
        ]
    if "tuning" in drawn:
        parts += [_head(study, "Tuning"), _figure("tuning"), tuning_table(study)]
    parts += [
        _head(study, "Settings"),
        settings_list(study),
        _head(study, "How it was made"),
        made_list(study),
        f"<footer>The folder {FIGURES}/ beside this page holds the figures as PDF and PNG, with the paper's appendix"
        " figure of quantile jumps; the tables behind them are CSV files.</footer>",
        f'<script type="application/json" id="data">{_data(drawn)}</script>',
        f"<script>{_text('study.js')}</script>",
    ]
    name = f"{title} (quick look)" if study.quick else title
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>{LOOK}{_text('study.css')}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def _head(study: StudyResults, text: str) -> str:
    mark = ' <span class="quiet">(quick look)</span>' if study.quick else ""
    return f"<h2>{escape(text)}{mark}</h2>"


def _figure(name: str) -> str:
    note = f"<noscript>This figure needs a script; {FIGURES}/ holds it as PDF and PNG.</noscript>"
    return f'<div class="plot" data-figure="{name}">{note}</div>'


def _about(study: StudyResults) -> str:
    levels = ", ".join(f"{tau:g}" for tau in study.levels)
    parts = [
        f"{len(study.learners)} learners", f"levels τ = {levels}", f"{study.episodes} episodes a run",
        f"{len(study.seeds())} held-out seeds",
    ]  # fmt: skip
    if study.settings["luck_seeds"]:
        parts.append(f"{len(study.further())} further seeds")
    return (
        f"{study.name}: {', '.join(parts)}. A quantile gap says how far the τ-quantile of the return under the policy in force"
        " lies below a reference, summed over episodes."
    )


def _luck(study: StudyResults) -> str:
    if not study.settings["luck_seeds"]:
        return f"There were no further seeds: all of this comes from the {len(study.seeds())} held-out ones."
    return (
        f"The same final configurations on {len(study.further())} seeds that nothing was chosen on. A mean of"
        f" {len(study.seeds())} seeds decides little where these dots lie far apart; orderings come from here."
    )


def _data(drawn: Mapping[str, object]) -> str:
    """JSON that may stand inside a script element."""
    text = json.dumps(drawn, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _text(name: str) -> str:
    return files("bqrl.reports").joinpath(name).read_text(encoding="utf-8")
