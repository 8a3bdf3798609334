"""The figures of a study in the paper's form: curves with bands, maps of final policies, the jumps of a quantile.

Colours, order, labels, bands and ranges are the paper's; a title above says what the numbers say.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.reports.study_data import Curve, StudyResults
from bqrl.reports.study_words import main_title, marked, policies_title
from bqrl.reports.style import FAINT, INK, SIZE, escape, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STOP, CONTINUE = "#D1D1D1", "#004488"  # black!18 and navy
BAND = 0.06  # opacity
AXES = {
    "capped": "Cumulative numerical $\\tau$-quantile policy gap ($\\widehat{\\mathcal{G}}_{\\tau}(k)$)",
    "exact": "Cumulative gap to the exact optimum",
    "expected": "Cumulative expected-return regret ($\\mathcal{R}_{\\mathrm{E}}(k)$)",
}


def main_figure(study: StudyResults, tau: float) -> Figure:
    """Figures 1 to 3 of the paper: a measure of every learner by episode."""
    figure = new_figure(6.9, 4.5)
    axes = figure.add_subplot()
    draw_curves(axes, study.main_curves(tau), study.episodes)
    frame(axes, "Episode ($k$)", AXES[study.shown(tau)])
    handles, labels = axes.get_legend_handles_labels()
    rows = by_rows(list(range(len(labels))), 4)
    legend = axes.legend(
        [handles[i] for i in rows], [labels[i] for i in rows],
        loc="lower center", bbox_to_anchor=(0.5, 1.01), ncols=4, fontsize=SIZE - 1.5, handlelength=1.4,
        columnspacing=1.2, edgecolor="#666666", fancybox=True, framealpha=1.0,
    )  # fmt: skip
    legend.get_frame().set_linewidth(0.5)
    headline(figure, marked(study, main_title(study, tau)))
    return figure


def headline(figure: Figure, title: str) -> None:
    """A bold title at the left edge."""
    width = figure.get_size_inches()[0]
    bold = "\n".join(textwrap.wrap(escape(title), int(11.9 * width), break_on_hyphens=False))
    figure.suptitle(bold, x=0.08 / width, ha="left", fontsize=SIZE + 0.5, fontweight="bold", color=INK)


def by_rows(entries: Sequence[int], columns: int) -> list[int]:
    """Entries in the order in which a legend, which fills column by column, shows them row by row.

    >>> by_rows([1, 2, 3, 4, 5], 4)
    [1, 5, 2, 3, 4]
    """
    return [entry for start in range(columns) for entry in entries[start::columns]]


def draw_curves(axes: Axes, curves: Sequence[Curve], episodes: int) -> None:
    """Means and bands; the first learner's line is thicker, as in the paper."""
    for i, curve in enumerate(curves):
        one = curve.learner
        axes.fill_between(
            curve.episode, curve.mean - curve.half, curve.mean + curve.half, color=one.ink, alpha=BAND, linewidth=0
        )
        axes.plot(
            curve.episode, curve.mean, color=one.ink, linewidth=1.6 if i == 0 or one.dashed else 1.1,
            linestyle=(0, (4, 1.5)) if one.dashed else "-", label=escape(one.label), zorder=3.0 + (len(curves) - i) / 100,
        )  # fmt: skip
    axes.set_xlim(0, episodes)
    if episodes % 8 == 0:
        axes.set_xticks(np.arange(0, episodes + 1, episodes // 8))


def frame(axes: Axes, xlabel: str, ylabel: str) -> None:
    """A box with ticks outside and a pale grid; labels may hold formulas."""
    axes.set_xlabel(xlabel, fontsize=SIZE)
    axes.set_ylabel(ylabel, fontsize=SIZE)
    axes.tick_params(labelsize=SIZE - 1, direction="out", length=3, width=0.5)
    for spine in axes.spines.values():
        spine.set_color("#404040")
        spine.set_linewidth(0.6)
    axes.grid(True, color=FAINT, linewidth=0.4)
    axes.set_axisbelow(True)


def policies_figure(study: StudyResults) -> Figure | None:
    """Figure 4 of the paper: one final policy a level, stage by state."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Patch

    found = {tau: policy for tau in study.levels if (policy := study.policy(tau)) is not None}
    if not found:
        return None
    figure = new_figure(7.2, 4.4)
    panels: Any = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, (tau, (states, actions)) in zip(panels, found.items(), strict=True):
        stages = np.arange(actions.shape[1] + 1) + 0.5
        rows = np.arange(len(states) + 1) - 0.5
        axes.pcolormesh(
            stages,
            rows,
            actions,
            cmap=ListedColormap([STOP, CONTINUE]),
            vmin=0,
            vmax=1,
            edgecolor="white",
            linewidth=0.3,
        )
        tidy(axes, "Horizon step", "Offer state" if axes is panels[0] else "", grid=False)
        for spine in axes.spines.values():
            spine.set_visible(True)
        axes.set_xticks(np.arange(1, actions.shape[1] + 1))
        axes.set_yticks(np.arange(len(states)), [escape(state) for state in states])
        axes.tick_params(labelsize=SIZE - 2.5)
        axes.set_title(f"$\\tau={tau:g}$", fontsize=SIZE + 1)
    figure.legend(
        handles=[Patch(facecolor=STOP, edgecolor="#737373", label="Stop"), Patch(facecolor=CONTINUE, label="Continue")],
        loc="outside lower center", ncols=2, fontsize=SIZE - 1, edgecolor="#737373",
    )  # fmt: skip
    headline(figure, marked(study, policies_title(study)))
    return figure


def jumps_figure(tau: float = 0.5, rho: float = 0.0625, H: int = 2) -> Figure:
    """The appendix figure of the paper: where the quantile of the best action jumps, and where that of the others."""
    from bqrl.theory.hard import quantile_jumps

    found = quantile_jumps(tau, rho, H)
    figure = new_figure(5.0, 3.2)
    axes = figure.add_subplot()
    top = float(found.best[1][1])
    for (levels, values), ink, name in (
        (found.best, "#00A6D6", "$a^\\star$"),
        (found.other, "#D62728", "$a \\neq a^\\star$"),
    ):
        jump = float(levels[1])
        lift = 0.012 * top if ink == "#00A6D6" else -0.012 * top  # so that both lines are seen where they run together
        axes.plot([0.0, jump], [values[0] + lift] * 2, color=ink, linewidth=2.0)
        axes.plot([jump, 1.0], [values[1] + lift] * 2, color=ink, linewidth=2.0, label=name)
        axes.plot([jump] * 2, [0.0, top], color=ink, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.plot([jump], [values[0]], "o", color=ink, markersize=6, clip_on=False, zorder=4)
        axes.plot([jump], [values[1]], "o", color=ink, markerfacecolor="white", markersize=6, zorder=4)
    axes.axvline(tau, ymax=1.0, color="#737373", linewidth=0.8, linestyle=(0, (4, 3)))
    tidy(axes, "$q$", "$Q_q(G_a)$", grid=False)
    axes.set_xlabel("$q$")
    axes.set_ylabel("$Q_q(G_a)$")
    axes.set_xlim(max(0.0, tau - 3.5 * rho), min(1.0, tau + 3.5 * rho))
    axes.set_ylim(-0.03 * top, 1.15 * top)
    axes.set_xticks([tau - rho, tau, tau + rho], ["$\\tau-\\rho$", "$\\tau$", "$\\tau+\\rho$"], color=INK)
    axes.set_yticks([0.0, top], ["0", "$H-1$"], color=INK)
    axes.legend(loc="center right", fontsize=SIZE, edgecolor="#737373")
    headline(figure, jumps_title())
    return figure


def jumps_title() -> str:
    """What the appendix figure shows."""
    return (
        "Within \N{GREEK SMALL LETTER RHO} of τ the best action's quantile is H \N{MINUS SIGN} 1 and every other's is 0"
    )
