"""Figures of a study beyond the paper's: exact gaps, return laws, promises, luck, tuning, other offers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.reports.study_data import QUANTITY, End, StudyResults
from bqrl.reports.study_figures import (
    AXES,
    by_rows,
    draw_curves,
    frame,
    headline,
    jumps_figure,
    main_figure,
    policies_figure,
)
from bqrl.reports.study_words import exact_title, listed, marked, promise_title, tuning_title, variants_title
from bqrl.reports.style import INK, NEUTRAL, QUIET, SIZE, escape, new_figure, tidy
from bqrl.reports.words import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Panels = dict[str, "Figure"]
ASIDE = 0.011  # of a level: how far learners stand apart beside it


def study_figures(study: StudyResults) -> Panels:
    """Every figure by the name of its file."""
    from bqrl.experiments.tables import level_name

    found: Panels = {}
    for i, tau in enumerate(study.levels, start=1):
        found[f"figure{i}_tau{level_name(tau)}"] = main_figure(study, tau)
    policies = policies_figure(study)
    if policies is not None:
        found[f"figure{len(study.levels) + 1}_final_policies"] = policies
    found["exact_gap"] = exact_figure(study)
    found["return_cdf"] = laws_figure(study)
    found["guarantee_curve"] = promises_figure(study)
    found["luck"] = luck_figure(study)
    if study.found["tuning"]:
        found["tuning"] = tuning_figure(study)
    if study.variants:
        found["other_offers"] = variants_figure(study)
    found["quantile_jumps"] = jumps_figure()
    return found


def _grid(study: StudyResults, rows: int, width: float, height: float, **share: Any) -> tuple[Figure, Any]:
    figure = new_figure(width, height)
    return figure, figure.subplots(rows, len(study.levels), squeeze=False, **share)


def _names_below(figure: Figure, axes: Axes, columns: int = 4) -> None:
    handles, labels = axes.get_legend_handles_labels()
    rows = by_rows(list(range(len(labels))), columns)
    handles, labels = [handles[i] for i in rows], [labels[i] for i in rows]
    figure.legend(
        handles, labels, loc="outside lower center", ncols=columns, fontsize=SIZE - 1, frameon=False, handlelength=1.8
    )


def exact_figure(study: StudyResults) -> Figure:
    """Cumulative gaps against the exact optimum, every learner and level."""
    figure, panels = _grid(study, 1, 8.6, 4.1)
    for axes, tau in zip(panels[0], study.levels, strict=True):
        draw_curves(axes, study.curves(tau, "exact"), study.episodes)
        axes.set_xticks(np.linspace(0, study.episodes, 5).round())
        axes.set_yscale("symlog", linthresh=1.0)
        axes.set_ylim(bottom=0.0)
        frame(axes, "Episode ($k$)", AXES["exact"] if axes is panels[0][0] else "")
        best = number(study.reference(tau)["exact"], 4)
        axes.set_title(f"$\\tau={tau:g}$, optimum {best}", fontsize=SIZE)
    _names_below(figure, panels[0][0])
    headline(figure, marked(study, exact_title(study)))
    return figure


def laws_figure(study: StudyResults) -> Figure:
    """Distribution functions of the return under the final policies."""
    figure, panels = _grid(study, 1, 8.6, 4.0, sharey=True)
    for axes, tau in zip(panels[0], study.levels, strict=True):
        for i, one in enumerate(study.learners):
            law = study.mixed_law(study.laws(tau)[one.key])
            axes.step(
                np.r_[law.values[0], law.values], np.r_[0.0, law.running], where="post", color=one.ink,
                linewidth=1.7 if i == 0 or one.dashed else 1.1, linestyle=(0, (4, 1.5)) if one.dashed else "-",
                label=escape(one.label), zorder=3.0 - i / 100,
            )  # fmt: skip
        best = study.reference(tau)["exact"]
        axes.axhline(tau, color=QUIET, linewidth=0.8, linestyle=":")
        axes.axvline(best, color=QUIET, linewidth=0.8, linestyle=":")
        axes.plot([best], [tau], "D", color=INK, markersize=4.5, zorder=5)
        axes.set_ylim(0.0, 1.02)
        tidy(axes, "return", "share of runs at or below it" if axes is panels[0][0] else "")
        axes.set_title(f"$\\tau={tau:g}$; the diamond: best promise {number(best, 4)}", fontsize=SIZE - 0.5)
    _names_below(figure, panels[0][0])
    headline(figure, marked(study, laws_title(study)))
    return figure


def laws_title(study: StudyResults) -> str:
    """Whose final policies keep the best promise, level by level."""
    parts = []
    for tau in study.levels:
        best, laws = study.reference(tau)["exact"], study.laws(tau)
        reach = [one.label for one in study.learners if all(law.quantile(tau) >= best - 1e-9 for law in laws[one.key])]
        who = "those of no learner" if not reach else listed(reach) if len(reach) <= 3 else f"{len(reach)} learners"
        parts.append(f"τ = {tau:g}: {who}")
    return f"Final policies that reach the best promise on every held-out seed. {'; '.join(parts)}"


def promises_figure(study: StudyResults) -> Figure:
    """The best promise by level, and what each learner's final policies promise at the levels of the study."""
    figure = new_figure(7.2, 4.6)
    axes = figure.add_subplot()
    levels, values = study.best_quantiles()
    axes.step(np.r_[levels, 1.0], np.r_[values, values[-1]], where="post", color=NEUTRAL, linewidth=1.6)
    count = len(study.learners)
    for tau in study.levels:
        axes.axvline(tau, color=QUIET, linewidth=0.6, linestyle=":", zorder=1)
        reach = 0.5 * count * ASIDE
        axes.plot([tau - reach, tau + reach], [study.reference(tau)["exact"]] * 2, color=INK, linewidth=0.9, zorder=2)
        for i, one in enumerate(study.learners):
            own = [law.quantile(tau) for law in study.laws(tau)[one.key]]
            place = tau + ASIDE * (i - 0.5 * (count - 1))
            axes.plot(
                [place] * len(own), own, "D" if one.dashed else "o", color=one.ink, markersize=5, alpha=0.7,
                markeredgecolor="white", markeredgewidth=0.4, zorder=3,
                label=escape(one.label) if tau == study.levels[0] else None,
            )  # fmt: skip
    low = min(float(np.min([law.quantile(tau) for law in study.laws(tau)[one.key]])) for tau in study.levels
              for one in study.learners)  # fmt: skip
    high = float(values[-1])
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(low - 0.06 * (high - low or 1.0), high + 0.06 * (high - low or 1.0))
    tidy(
        axes,
        "level τ  (grey: best promise of any policy; black: the same at τ; dots beside: final policies, one a seed)",
        "promised return",
    )
    _names_below(figure, axes)
    headline(figure, marked(study, promise_title(study)))
    return figure


def strip(axes: Axes, study: StudyResults, ends: dict[str, list[End]], printed: dict[str, float]) -> None:
    """Last values of every run, one row a learner: dots, the mean as a bar, printed values as crosses."""
    for i, one in enumerate(study.learners):
        further = [end.value for end in ends[one.key] if not end.held_out] or [end.value for end in ends[one.key]]
        held = [end.value for end in ends[one.key] if end.held_out]
        sway = 0.26 * np.sin(2.4 * np.arange(len(further)))  # dots of equal value stay apart
        axes.scatter(further, i + sway, s=11, color=one.ink, alpha=0.55, linewidth=0, zorder=3, clip_on=False)
        axes.scatter(
            held,
            np.full(len(held), i),
            s=24,
            facecolor="none",
            edgecolor=one.ink,
            linewidth=0.9,
            zorder=4,
            clip_on=False,
        )
        axes.plot([np.mean(further)] * 2, [i - 0.38, i + 0.38], color=one.ink, linewidth=2.0, zorder=5, clip_on=False)
        if one.key in printed:
            axes.plot([printed[one.key]], [i], "x", color=INK, markersize=6, markeredgewidth=1.3, zorder=6)
    axes.set_yticks(range(len(study.learners)), [escape(one.label) for one in study.learners])
    axes.set_ylim(len(study.learners) - 0.5, -0.5)
    axes.set_xscale("symlog", linthresh=1.0)
    most = max([end.value for runs in ends.values() for end in runs] + [*printed.values(), 1.0])
    axes.set_xlim(min(0.0, min(end.value for runs in ends.values() for end in runs)), 1.6 * most)


def luck_figure(study: StudyResults) -> Figure:
    """Last values on the further seeds, as the paper measures and against the exact optimum."""
    rows: Sequence[str] = ("main", "exact")
    figure, panels = _grid(study, 2, 9.2, 6.0, sharey=True)
    for line, kind in zip(panels, rows, strict=True):
        for axes, tau in zip(line, study.levels, strict=True):
            measure = study.shown(tau) if kind == "main" else "exact"
            strip(axes, study, study.ends(tau, measure), study.printed(tau, measure))
            tidy(axes, QUANTITY[measure], "")
            axes.set_title(f"$\\tau={tau:g}$", fontsize=SIZE)
            axes.xaxis.label.set_fontsize(SIZE - 1.5)
    headline(figure, marked(study, luck_head(study)))
    return figure


def luck_head(study: StudyResults) -> str:
    """How far single seeds lie apart, and how to read the marks."""
    widest = []
    for tau in study.levels:
        key = study.settings["final_policy"] or study.learners[0].key
        values = [end.value for end in study.ends(tau, study.shown(tau))[key] if not end.held_out]
        if values:
            same = max(values) - min(values) < 5e-4
            widest.append(
                f"always {number(values[0], 3)} at τ = {tau:g}"
                if same
                else f"{number(min(values), 3)} to {number(max(values), 3)} at τ = {tau:g}"
            )
    name = study.label(study.settings["final_policy"] or study.learners[0].key)
    told = f"{name} on further seeds: {', '.join(widest)}. " if widest else ""
    return f"{told}Dots: further seeds; bar: their mean; rings: held-out seeds; cross: printed"


def tuning_figure(study: StudyResults) -> Figure:
    """The criterion over each grid, rung by rung, with the winner."""
    traces = [(key, tau, one) for key, levels in study.found["tuning"].items() for tau, one in levels.items()]
    columns = min(3, len(traces))
    rows = -(-len(traces) // columns)
    figure = new_figure(8.6, 0.9 + 1.95 * rows)
    panels: Any = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in panels[len(traces) :]:
        axes.set_visible(False)
    for axes, (key, tau, one) in zip(panels, traces, strict=False):
        ink, rungs = study.learner(key).ink, one["rungs"]
        for i, rung in enumerate(rungs):
            x = [trial["value"] for trial in rung["trials"]]
            axes.plot(
                x, [trial["gap"] for trial in rung["trials"]], "o-", color=ink, markersize=3, linewidth=1.0,
                alpha=0.35 + 0.65 * (i + 1) / len(rungs), markerfacecolor="white" if i + 1 < len(rungs) else ink,
            )  # fmt: skip
        last = next(trial for trial in rungs[-1]["trials"] if trial["value"] == one["winner"])
        axes.plot([one["winner"]], [last["gap"]], "*", color=INK, markersize=10, zorder=5)
        axes.set_xscale("log")
        axes.set_yscale("symlog", linthresh=1.0)
        gaps = [trial["gap"] for rung in rungs for trial in rung["trials"]]
        axes.set_ylim(0.0, max(1.0, 1.5 * max(gaps)))
        tidy(axes, str(one["parameter"]), "mean gap" if axes in panels[::columns] else "")
        edge = "" if one["at_edge"] is None else f"; {one['at_edge']} value, {_flat(one['flat_at_edge'])}"
        level = f", τ = {tau}" if len(study.found["tuning"][key]) > 1 else ""
        axes.set_title(
            escape(f"{study.label(key)}{level}: {one['winner']:.3g}{edge}"), fontsize=SIZE - 1.5, loc="left",
            color="#B00020" if edge and not one["flat_at_edge"] else INK,
        )  # fmt: skip
    headline(figure, marked(study, f"{tuning_title(study)}. Star: winner; later rungs darker"))
    return figure


def _flat(flat: bool | None) -> str:
    return "flat there" if flat else "not flat" if flat is False else "neighbour dropped"


def variants_figure(study: StudyResults) -> Figure:
    """Last values against the exact optimum on the changed problems."""
    figure, panels = _grid(study, len(study.variants), 9.2, 1.0 + 2.5 * len(study.variants), sharey=True)
    for line, variant in zip(panels, study.variants, strict=True):
        for axes, tau in zip(line, study.levels, strict=True):
            strip(axes, study, study.ends(tau, "exact", variant), {})
            tidy(axes, QUANTITY["exact"], "")
            axes.set_title(escape(f"{variant.replace('_', ' ')} offers, τ = {tau:g}"), fontsize=SIZE)
            axes.xaxis.label.set_fontsize(SIZE - 1.5)
    headline(figure, marked(study, variants_title(study)))
    return figure
