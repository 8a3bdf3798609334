"""A self-contained page from a result folder: looks first, words second, numbers last.

The page is one HTML file without scripts or links to other places; figures are inside it, and every name is escaped.
"""

from __future__ import annotations

import base64
import csv
import json
from collections.abc import Mapping, Sequence
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any

from bqrl.mdp.atomic import write_whole
from bqrl.reports.document import FORMAT
from bqrl.reports.folder import PLAN, make_folder
from bqrl.reports.tables import level_columns, title
from bqrl.reports.words import number

PAGE = "report.html"
WRITERS = "`bqrl solve`, `learn`, `compare` or `theory` with --out"
MAX_IMAGES = 4_000_000  # bytes of figures in one page
MAX_ROWS = 200  # of a policy; the file beside the page has them all
FIGURES = {  # in the order of reading
    "guarantee_curve": "The best return that can be promised at every level",
    "return_cdf": "Distribution of the return under each policy",
    "policy_map": "The action played at each stage in each state",
}
EXPLAINED = {
    "level": "τ: the share of runs that may end below the promise",
    "quantile": "the return that a share of more than 1 \N{MINUS SIGN} τ of all runs reaches",
    "CVaR": "the mean return over the worst share τ of runs",
    "buffered quantile": "the mean return over the runs between τ \N{MINUS SIGN} β and τ, counted from the worst",
    "guaranteed": "reached under every kernel in the ball",
    "at least": "a proven lower value: the returns of this problem fit no exact grid",
    "in the model": "what the policy gives in the model as given",
    "upper bound": "proven: no policy does better",
    "gap": "how far the plan can be from the optimum",
    "margin": "how far the probability of ending below, and of ending at or below, is from τ: tiny means fragile",
    "certain": "whether rounding errors cannot have changed the answer",
    "mean": "mean return of the same policy",
    "mean at least": "a proven lower value of the same policy's mean return",
    "risk-neutral": "what the policy with the best mean gives on the same measure",
}
LOOK = """
:root { --ink: #1d2330; --quiet: #5b6475; --line: #e3e6ec; --soft: #f6f7f9; --strong: #0072B2; }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 2.2rem 1.4rem 4rem; color: var(--ink); background: #fff;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .2rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .8rem; }
.quiet, figcaption, footer { color: var(--quiet); font-size: .88rem; }
.cards { display: flex; flex-wrap: wrap; gap: .9rem; margin: 1.6rem 0 0; }
.card { flex: 1 1 15rem; background: var(--soft); border-left: 4px solid var(--strong); border-radius: 6px;
  padding: .9rem 1.1rem 1rem; }
.card b { display: block; font-size: 2rem; line-height: 1.15; font-variant-numeric: tabular-nums; }
.card p { margin: .45rem 0 0; font-size: .95rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .38rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; }
td:nth-child(2) { font-weight: 650; }
.policy th, .policy td { text-align: left; font-weight: 400; }
figure { margin: 0 0 2.2rem; }
figure img { display: block; width: 100%; max-width: 46rem; height: auto; }
.words th, .words td { padding: .38rem .55rem; } .words :is(th, td):first-child { text-align: left; }
figure.wide img { max-width: 62rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; font-size: .88rem; margin: 1rem 0 0; }
dt { font-weight: 600; } dd { margin: 0; color: var(--quiet); overflow-wrap: anywhere; }
details { margin: .5rem 0; } summary { cursor: pointer; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
@media print { body { max-width: none; padding: 0; } figure, .card { break-inside: avoid; } }
"""


def write_page(folder: Path, out: Path | None = None) -> Path:
    """The page of a result folder, written into it or into `out`; of several results in one folder the latest."""
    from bqrl.reports.learning import FORMATS
    from bqrl.reports.learning_folder import DOCUMENTS
    from bqrl.reports.learning_page import learning_page
    from bqrl.reports.theory_folder import FORMAT as THEORY_FORMAT
    from bqrl.reports.theory_folder import THEORY
    from bqrl.reports.theory_page import theory_page

    if not folder.is_dir():
        raise NotADirectoryError(f"{folder} is not a folder; give one that {WRITERS} wrote")
    pages = {PLAN: (FORMAT, plan_page)} | {DOCUMENTS[kind]: (FORMATS[kind], learning_page) for kind in DOCUMENTS}
    pages[THEORY] = (THEORY_FORMAT, theory_page)
    held = [folder / name for name in pages if (folder / name).is_file()]
    if not held:
        raise FileNotFoundError(f"{folder} holds no {', '.join(pages)}; give a folder that {WRITERS} wrote")
    path = max(held, key=lambda path: path.stat().st_mtime_ns)
    wanted, page = pages[path.name]
    content = read_document(path, wanted)
    try:
        text = page(content, folder)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as fault:
        raise ValueError(f"{path} is damaged: {fault!r} is missing or of the wrong kind") from None
    place = (folder if out is None else make_folder(out)) / PAGE
    write_whole(place, text.encode())
    return place


def read_document(path: Path, wanted: str = FORMAT) -> dict[str, Any]:
    """The document of a result folder; ValueError where it is none."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as fault:
        raise ValueError(f"{path} is damaged: {fault}") from None
    if not isinstance(data, dict) or data.get("format") != wanted:
        raise ValueError(f"{path} is not a document of the kind {wanted!r}")
    return data


def plan_page(document: Mapping[str, Any], folder: Path) -> str:
    """HTML of plans: the promises, the figures, the table, the policies, how it was made."""
    parts = [
        *heading(document),
        f'<div class="cards">{"".join(_card(level) for level in document["levels"])}</div>',
        *figures(folder, FIGURES),
        "<h2>The numbers</h2>",
        numbers(level_columns(document), EXPLAINED),
        "<h2>The policies</h2>",
        *(policy_part(level, folder) for level in document["levels"]),
        *making(document),
    ]
    return html(f"{document['model']['name']}: plans", parts)


def html(name: str, parts: Sequence[str]) -> str:
    """A whole page of the given parts."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}</title>\n<style>{LOOK}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def heading(document: Mapping[str, Any], more: str = "") -> list[str]:
    """The problem's name and size, and what `more` adds to them."""
    return [
        f"<h1>{escape(document['model']['name'])}</h1>",
        f'<p class="quiet">{escape(title(document).split(": ", 1)[1] + more)}</p>',
    ]


def making(document: Mapping[str, Any]) -> list[str]:
    """What was asked, how long it took, and with which versions."""
    return [
        "<h2>How it was made</h2>",
        _list(_asked(document)),
        f"<footer>{escape(_made_with(document))}</footer>",
    ]


def _card(level: Mapping[str, Any]) -> str:
    notes = "".join(f'<p class="quiet">{escape(note)}</p>' for note in level["notes"])
    return (
        f'<div class="card"><span class="quiet">{escape(level["objective"])}</span><b>{number(level["value"], 4)}</b>'
        f"<p>{escape(level['meaning'])}</p>{notes}</div>"
    )


def figures(folder: Path, captions: Mapping[str, str], look: str = "") -> list[str]:
    """The figures of a folder that `captions` name, inside the page."""
    parts, room = ["<h2>What to see</h2>"], MAX_IMAGES
    for name, caption in captions.items():
        path = folder / f"{name}.png"
        if not path.is_file() or path.stat().st_size > room:
            continue
        room -= path.stat().st_size
        image = base64.b64encode(path.read_bytes()).decode()
        parts.append(
            f'<figure class="{look}"><img alt="{escape(caption)}" src="data:image/png;base64,{image}"></figure>'
        )
    return parts if len(parts) > 1 else []


def numbers(columns: Sequence[tuple[str, list[str]]], explained: Mapping[str, str], look: str = "") -> str:
    """A table, and below it what its headings mean."""
    heads = "".join(f'<th title="{escape(explained.get(name, ""))}">{escape(name)}</th>' for name, _ in columns)
    rows = zip(*(cells for _, cells in columns), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    told = [(name, explained[name]) for name, _ in columns if name in explained]
    return f'<div class="scroll"><table class="{look}"><tr>{heads}</tr>{body}</table></div>{_list(told)}'


def policy_part(level: Mapping[str, Any], folder: Path) -> str:
    """The first decisions of a policy, from the file beside the document."""
    name = next((file for file in level.get("files", []) if str(file).endswith(".csv")), None)
    path = None if name is None else folder / Path(str(name)).name  # never outside the folder
    if path is None or not path.is_file():
        return ""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(islice(csv.reader(file), MAX_ROWS + 2))
    if len(rows) < 2:
        return ""
    more = (
        f'<p class="quiet">The first {MAX_ROWS} rows; {escape(path.name)} has all.</p>'
        if len(rows) > MAX_ROWS + 1
        else ""
    )
    heads = "".join(f"<th>{escape(cell.replace('_', ' '))}</th>" for cell in rows[0])
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(_cell(cell))}</td>' for cell in row)}</tr>" for row in rows[1 : MAX_ROWS + 1]
    )
    return (
        f"<details><summary>{escape(level['objective'])}: a {escape(level['policy'])} policy</summary>"
        f'<div class="scroll"><table class="policy"><tr>{heads}</tr>{body}</table></div>{more}</details>'
    )


def _cell(text: str) -> str:
    """A cell of a policy's file: decimals as short as in the other tables."""
    if text in ("inf", "-inf"):
        return text.replace("inf", "∞")
    try:
        return number(float(text)) if "." in text else text
    except ValueError:
        return text


def _list(pairs: Sequence[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<dt>{escape(key)}</dt><dd>{escape(value)}</dd>' for key, value in pairs)}</dl>"


def _asked(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings = document["settings"].items()
    asked = [(key.replace("_", " "), _shown(value)) for key, value in settings if value not in (None, False)]
    return [*asked, ("time", f"{number(document['seconds'], 3)} s")]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={_shown(part)}" for key, part in value.items()) or "as shipped"
    return number(value) if isinstance(value, float) else str(value)


def _made_with(document: Mapping[str, Any]) -> str:
    return "Made with " + ", ".join(f"{name} {version}" for name, version in document["versions"].items())
