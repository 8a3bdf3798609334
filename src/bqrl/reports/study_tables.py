"""The tables of a study's page, as HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from bqrl.experiments.run import in_words
from bqrl.experiments.spec import MEASURES
from bqrl.reports.study_data import StudyResults
from bqrl.reports.study_words import fixed, verdict
from bqrl.reports.words import number

NAMED = {"capped": "gap, capped reference", "exact": "gap, exact optimum", "expected": "expected regret",
         "threshold": "first-stage threshold"}  # fmt: skip


def grid(heads: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> str:
    """A table of texts; the first `left` columns are words."""
    kind = [' class="left"' if i < left else "" for i in range(len(heads))]
    top = "".join(f"<th{k}>{escape(name)}</th>" for k, name in zip(kind, heads, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{k}>{escape(cell)}</td>' for k, cell in zip(kind, row, strict=True))}</tr>" for row in rows
    )
    return f'<div class="scroll"><table class="wide"><tr>{top}</tr>{body}</table></div>'


def pairs(rows: Iterable[tuple[str, str]]) -> str:
    """Names and what they stand for."""
    return f"<dl>{''.join(f'<dt>{escape(key)}</dt><dd>{escape(value)}</dd>' for key, value in rows)}</dl>"


def comparison_table(study: StudyResults) -> str:
    """Each printed number next to ours, the difference, and below it the reason."""
    heads = ("where", "τ", "what", "learner", "printed", "ours", "difference", "further seeds")
    kinds = ["left", "", "left", "left", "", "strong", "", ""]
    top = "".join(f'<th class="{kind}">{name}</th>' for kind, name in zip(kinds, heads, strict=True))
    body = []
    for row in study.found["comparison"]:
        end = "further_mean" in row
        shown = fixed if end else _whole
        cells = (
            str(row["where"]), f"{row['level']:g}", NAMED[row["measure"]],
            str(row["label"]) + (", smallest of the rest" if row["smallest_of"] else ""), shown(row["printed"]),
            f"{shown(row['ours'])} ± {fixed(row['ours_std'])}" if end else shown(row["ours"]), shown(row["difference"]),
            f"{fixed(row['further_mean'])} ± {fixed(row['further_std'])}" if end else "",
        )  # fmt: skip
        apart = " apart" if verdict(row, study) == "apart" else ""
        kinds[6] = apart.strip()
        told = "".join(
            f'<td class="{kind}" data-name="{name}">{escape(cell)}</td>'
            for kind, name, cell in zip(kinds, heads, cells, strict=True)
        )
        body.append(f'<tr class="said">{told}</tr>')
        body.append(
            f'<tr class="reason"><td colspan="8"><div class="stay">{escape(str(row["reason"]))}</div></td></tr>'
        )
    note = (
        f"Ours: mean ± sample standard deviation over the {len(study.seeds())} held-out seeds; further seeds: the same over"
        f" {len(study.further())} others. Differences in red are more than chance over the seeds explains."
    )
    return (
        f'<div class="scroll"><table class="wide perrow"><tr>{top}</tr>{"".join(body)}</table></div>'
        f'<p class="quiet">{escape(note)}</p>'
    )


def _whole(x: float | None) -> str:
    return "\N{EN DASH}" if x is None else f"{x:g}".replace("-", "\N{MINUS SIGN}")


def luck_tables(study: StudyResults, variant: str = "") -> str:
    """Mean and spread per learner and level, one table a measure."""
    found = study.found["luck"][variant or study.name]
    parts = []
    for measure in MEASURES:
        rows = []
        for one in study.learners:
            for i, tau in enumerate(study.levels):
                s = found[repr(tau)][one.key][measure]
                numbers = [fixed(s[key]) for key in ("mean", "std", "error", "min", "median", "max")]
                rows.append([one.label if i == 0 else "", f"{tau:g}", *numbers])
        heads = ["learner", "τ", "mean", "sd", "standard error", "min", "median", "max"]
        name = f"{variant.replace('_', ' ')} offers: {NAMED[measure]}" if variant else NAMED[measure]
        told = f"{name}, {len(study.further(variant))} seeds"
        open_ = " open" if measure == "exact" and not variant else ""
        parts.append(f"<details{open_}><summary>{escape(told)}</summary>{grid(heads, rows)}</details>")
    return "".join(parts)


def ordering_table(study: StudyResults) -> str:
    """Learners from the smallest mean on; a sign says whether the next is clearly apart."""
    rows = []
    for tau in study.levels:
        for measure in MEASURES:
            order = study.found["orderings"][study.name][repr(tau)][measure]
            text = ""
            for row in order:
                text += f"{study.label(row['learner'])} {fixed(row['mean'])}"
                if "clear" in row:
                    text += " < " if row["clear"] else " ≈ "
            rows.append((f"{tau:g}", NAMED[measure], text))
    body = "".join(
        f'<tr><td class="left">τ = {escape(tau)}</td><td class="left">{escape(name)}</td>'
        f'<td class="wrap">{escape(text)}</td></tr>'
        for tau, name, text in rows
    )
    note = "<: the next mean is more than two standard errors larger, seed by seed; ≈: it is not."
    return (
        '<div class="scroll"><table class="wide stack"><tr><th class="left">τ</th><th class="left">measure</th>'
        f'<th class="left">smallest first</th></tr>{body}</table></div><p class="quiet">{escape(note)}</p>'
    )


def references_table(study: StudyResults) -> str:
    """What gaps and regrets are measured against."""
    rows = []
    for variant in ("", *study.variants):
        for tau in study.levels:
            one = study.reference(tau, variant)
            name = f"{variant.replace('_', ' ')} offers" if variant else study.name
            values = [number(one[key]) for key in ("exact", "capped", "best_mean", "margin")]
            rows.append([name, f"{tau:g}", *values])
    heads = ["problem", "τ", "exact optimum", "capped reference", "best mean", "margin"]
    note = "Margin: how far the level is above the probability of ending below the optimum; a small one is a fragile optimum."
    return (
        f"<details><summary>What gaps are measured against</summary>{grid(heads, rows)}"
        f'<p class="quiet">{escape(note)}</p></details>'
    )


def tuning_table(study: StudyResults) -> str:
    """Winners, and whether one sits on an edge of its grid."""
    body = []
    for key, levels in study.found["tuning"].items():
        for tau, one in levels.items():
            steep = one["at_edge"] is not None and not one["flat_at_edge"]
            edge = "inside" if one["at_edge"] is None else one["told"].split("; ", 1)[-1]
            cells = [study.label(key), tau, one["parameter"], f"{one['winner']:.4g}"]
            span = f"{one['values'][0]:g} … {one['values'][-1]:g}"
            told = "".join(f'<td class="left">{escape(str(cell))}</td>' for cell in [*cells, span])
            where = edge if one["at_edge"] is None else f"{one['at_edge']} value: {edge}"
            body.append(f'<tr>{told}<td class="wrap{" apart" if steep else ""}">{escape(where)}</td></tr>')
    heads = "".join(
        f'<th class="left">{name}</th>'
        for name in ("learner", "tuned at τ", "parameter", "winner", "grid", "where it lies")
    )
    return f'<div class="scroll"><table class="wide"><tr>{heads}</tr>{"".join(body)}</table></div>'


def settings_list(study: StudyResults) -> str:
    """Every setting that matters to the numbers."""
    s = study.settings
    rows = [
        ("problem", f"{s['problem']['name']}{_params(s['problem'].get('params', {}))}"),
        *((f"variant {name}", _params(one["params"]).strip(" ()")) for name, one in s["variants"].items()),
        ("levels", ", ".join(f"{tau:g}" for tau in study.levels)),
        ("episodes", str(study.episodes)),
        ("delta", f"{s['delta']:g}"),
        ("held-out seeds", _seeds(s["seeds"])),
        ("further seeds", _seeds(s["luck_seeds"])),
        ("seeds on variants", _seeds(s["variant_seeds"])),
    ]
    if s["tuning"]:
        rungs = ", ".join(f"{count} for {T} episodes" for count, T in s["tuning"]["rungs"])
        rows.append(
            (
                "tuning",
                f"{s['tuning']['points']} values on a logarithmic grid; {rungs}; seeds {_seeds(s['tuning']['seeds'])}",
            )
        )
        rows.append(("tuned at", f"each level where a learner trains for it, else τ = {s['tuning']['level']:g}"))
    for one in s["learners"].values():
        told = [one["learner"] + _params(one["params"]), f"tunes {one['tuned']}" if one["tuned"] else "nothing tuned"]
        told += ["trained for each level" if one["per_level"] else "trained once"]
        told += [f"left open in print: {one['open']}"] if one["open"] else []
        rows.append((one["label"], "; ".join(told)))
    return pairs(rows)


def made_list(study: StudyResults) -> str:
    """Versions and times."""
    one, found = study.found["session"], study.found["versions"]
    rows = [(name, str(version)) for name, version in found.items()]
    rows += [
        ("runs", f"{one['runs']}: {one['runs_made']} made in the last session, {one['runs_skipped']} there before"),
        ("episodes", f"{one['episodes']}"),
        ("last session", f"{in_words(one['seconds'])} with {one['workers']} workers"),
        ("compute time", f"{in_words(one['core_seconds'])} of one core in all"),
        *((f"of that, {part}", in_words(seconds)) for part, seconds in one["core_seconds_by_part"].items()),
    ]
    heads = ["learner", "compute time", "ms an episode"]
    table = grid(heads, (
        [key, in_words(seconds), number(one["milliseconds_an_episode"][key], 3)]
        for key, seconds in one["core_seconds_by_learner"].items()
    ))  # fmt: skip
    return f"{pairs(rows)}<h3>Time by learner</h3>{table}"


def _params(params: dict[str, Any]) -> str:
    return f" ({', '.join(f'{key} = {value}' for key, value in params.items())})" if params else ""


def _seeds(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds)) or "none"
