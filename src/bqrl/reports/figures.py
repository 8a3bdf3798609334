"""The figures of a plan: what can be promised, how the return spreads, and what the policy does.

Each takes numbers and returns a Matplotlib figure that needs no caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.reports.style import NEUTRAL, PALETTE, SIZE, escape, head, new_figure, shown, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_VERTICES = 3000  # of a drawn line: finer steps cannot be seen
OUTSIDE = 0.005  # share of runs at either end that may lie outside the frame, so that rare returns do not squeeze it


LETTER = 0.0165  # width of a bold letter as a share of the frame


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A step function of the level: values[i] for levels in (levels[i], levels[i + 1]], the last up to 1."""

    label: str
    levels: FloatArray
    values: FloatArray
    upper: tuple[FloatArray, FloatArray] | None = None  # levels and values of a proven upper curve
    colour: str = PALETTE[0]
    dashed: bool = False


def quantile_steps(label: str, low: Law, high: Law | None = None, **look: Any) -> Steps:
    """The quantiles of a law by level, or of both ends of a bracket."""
    upper = None if high is None else (np.r_[0.0, high.running[:-1]], high.values)
    return Steps(label, np.r_[0.0, low.running[:-1]], low.values, upper, **look)


def guarantee_figure(
    series: Sequence[Steps], marks: Sequence[tuple[float, float, str]], title: str, subtitle: str
) -> Figure:
    """Guaranteed return by level; `marks` are (level, value, colour), named above the frame."""
    figure = new_figure(5.6, 3.9)
    axes = figure.add_subplot()
    for line in series:
        x, y = _thinned(np.r_[line.levels, 1.0], np.r_[line.values, line.values[-1]])
        axes.step(
            x, y, where="post", color=line.colour, linestyle=(0, (4, 2)) if line.dashed else "-",
            linewidth=1.4 if line.dashed else 1.8, label=escape(line.label), zorder=2 if line.dashed else 3,
        )  # fmt: skip
        if line.upper is not None:
            _band(axes, line)
    for tau, value, colour in marks:
        axes.axvline(tau, color=colour, linewidth=0.8, linestyle=":", zorder=1)
        axes.plot([tau], [value], "o", color=colour, markersize=6, markeredgecolor="white", zorder=5, clip_on=False)
    least = "≥ " if any(line.upper is not None for line in series) else ""
    _names_above(axes, [(tau, f"{least}{shown(value)}\nat {shown(tau, 6)}", colour) for tau, value, colour in marks])
    tidy(axes, "level τ: share of runs that may end below the promise", "promised return")
    axes.set_xlim(0.0, 1.0)
    low = min([float(_at(line.levels, line.values, OUTSIDE)) for line in series] + [x for _, x, _ in marks])
    high = max([float(_at(line.levels, line.values, 1.0 - OUTSIDE)) for line in series] + [x for _, x, _ in marks])
    room = 0.06 * ((high - low) or 1.0)
    axes.set_ylim(low - room, high + room)
    legend = axes.legend(loc="best", frameon=True, framealpha=0.9, edgecolor="none", fontsize=SIZE - 0.5)
    _coloured(legend, [line.colour for line in series])
    head(figure, title, subtitle, axes)
    return figure


def _band(axes: Axes, line: Steps) -> None:
    assert line.upper is not None
    x = np.unique(np.r_[line.levels, line.upper[0], 1.0])
    if x.size > MAX_VERTICES:
        x = x[np.unique(np.linspace(0, x.size - 1, MAX_VERTICES).astype(int))]
    low, high = _at(line.levels, line.values, x), _at(*line.upper, x)
    axes.fill_between(x, low, high, step="post", color=line.colour, alpha=0.25, linewidth=0, zorder=2)


def _at(levels: FloatArray, values: FloatArray, x: Any) -> Any:
    """The step function just above the level(s) x."""
    return values[np.maximum(np.searchsorted(levels, x, side="right") - 1, 0)]


def _names_above(axes: Axes, names: Sequence[tuple[float, str, str]]) -> None:
    """Texts above the frame, each over its place on the x axis; where two would touch the second one stands higher."""
    top = axes.secondary_xaxis("top")
    placed: list[tuple[float, str, str]] = []
    reach = [-1.0, -1.0, -1.0]  # how far the texts of each row extend, from the lowest up
    for place, text, colour in sorted(names):
        half = 0.5 * LETTER * max(map(len, text.split("\n")))
        row = next((i for i in range(3) if place - half > reach[i]), None)
        if row is not None:
            reach[row] = place + half + LETTER
            placed.append((place, text + "\n\n" * row, colour))
    top.set_xticks([place for place, _, _ in placed], [escape(text) for _, text, _ in placed])
    top.tick_params(length=0, labelsize=SIZE - 0.5, pad=2)
    top.spines["top"].set_visible(False)
    for label, (_, _, colour) in zip(top.get_xticklabels(), placed, strict=True):
        label.set_color(colour)
        label.set_fontweight("bold")


def _coloured(legend: Any, inks: Sequence[str]) -> None:
    for text, ink in zip(legend.get_texts(), inks, strict=True):
        text.set_color(ink)


def _thinned(x: FloatArray, y: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Vertices of a step line, as many as can be seen, spread evenly along both axes."""
    if x.size <= MAX_VERTICES:
        return x, y
    along = np.abs(np.diff(x)) / max(float(np.ptp(x)), 1e-300) + np.abs(np.diff(y)) / max(float(np.ptp(y)), 1e-300)
    travelled = np.r_[0.0, np.cumsum(along)]
    kept = np.unique(np.searchsorted(travelled, np.linspace(0.0, travelled[-1], MAX_VERTICES)))
    kept = np.unique(np.r_[0, np.minimum(kept, x.size - 1), x.size - 1])
    return x[kept], y[kept]


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """A return law to draw, with the level it was planned for and the value to mark there."""

    label: str
    law: Law
    tau: float | None = None
    value: float | None = None
    colour: str = NEUTRAL
    law_upper: Law | None = None  # the other end where `law` is a bracket


def cdf_figure(spreads: Sequence[Spread], title: str, subtitle: str) -> Figure:
    """Distribution functions of the return; a plan's name stands beside its mark, where its line is the rightmost."""
    figure = new_figure(5.6, 3.9)
    axes = figure.add_subplot()
    unnamed = []
    for i, spread in enumerate(spreads):
        line = _distribution(axes, spread, covered=any(_same(spread, other) for other in spreads[i + 1 :]))
        if spread.tau is None:
            unnamed.append((line, spread.colour))
    height = 0.0
    for spread in sorted((s for s in spreads if s.tau is not None), key=lambda s: float(s.tau or 0.0)):
        height = max(float(spread.tau or 0.0) - 0.035, height + 0.055, 0.03)  # names do not run into each other
        _mark(axes, spread, height)
    _returns_shown(axes, spreads)
    axes.set_ylim(0.0, 1.02)
    tidy(axes, "return", "share of runs that end at or below it")
    if unnamed:
        handles = [line for line, _ in unnamed]
        legend = axes.legend(handles=handles, framealpha=0.9, edgecolor="none", fontsize=SIZE - 0.5)
        _coloured(legend, [colour for _, colour in unnamed])
    head(figure, title, subtitle, axes)
    return figure


def _distribution(axes: Axes, spread: Spread, *, covered: bool) -> Any:
    """The line of one law; where a later one will lie exactly on it, wide and pale so that both are seen."""
    low, high, dashed = spread.law, spread.law_upper, spread.tau is None
    x, y = _thinned(np.r_[low.values[0], low.values], np.r_[0.0, low.running])
    (line,) = axes.step(
        x, y, where="post", color=spread.colour, linewidth=5.0 if covered else 1.4 if dashed else 1.7,
        alpha=0.4 if covered else 1.0, linestyle=(0, (4, 2)) if dashed else "-", zorder=2 if covered or dashed else 3,
        label=escape(spread.label),
    )  # fmt: skip
    if high is not None:
        x = np.unique(np.r_[low.values, high.values])
        x = x[np.unique(np.linspace(0, x.size - 1, min(x.size, MAX_VERTICES)).astype(int))]
        axes.fill_between(x, low.cdf(x), high.cdf(x), step="post", color=spread.colour, alpha=0.25, linewidth=0)
    return line


def _mark(axes: Axes, spread: Spread, height: float) -> None:
    assert spread.tau is not None
    assert spread.value is not None
    axes.axhline(spread.tau, color=spread.colour, linewidth=0.7, linestyle=":", zorder=1)
    axes.plot(
        [spread.value],
        [spread.tau],
        "o",
        color=spread.colour,
        markersize=6,
        markeredgecolor="white",
        zorder=5,
        clip_on=False,
    )
    axes.annotate(
        escape(spread.label), (spread.value, height), xytext=(7, 0), textcoords="offset points", va="center",
        color=spread.colour, fontsize=SIZE - 0.5, fontweight="bold", zorder=6,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.8},
    )  # fmt: skip


def _returns_shown(axes: Axes, spreads: Sequence[Spread]) -> None:
    """Limits of the x axis: all but the rarest returns, and room for the names at the right of the marks."""
    low = min(spread.law.quantile(OUTSIDE) for spread in spreads)
    high = max((spread.law_upper or spread.law).quantile(1.0 - OUTSIDE) for spread in spreads)
    room = 0.03 * ((high - low) or 1.0)
    left, right = low - room, high + room
    for spread in spreads:
        if spread.value is not None:  # value + share * (right - left) <= right
            share = min(LETTER * len(spread.label) + 0.02, 0.6)
            right = max(right, (spread.value - share * left) / (1.0 - share))
    axes.set_xlim(left, right)
    axes.set_xticks([x for x in axes.get_xticks() if left <= x <= high + room])


def _same(a: Spread, b: Spread) -> bool:
    return a.law.equals(b.law) and (a.law_upper or a.law).equals(b.law_upper or b.law)
