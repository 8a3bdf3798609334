"""The figure of learners: what their policies promise from episode to episode, and what falling short has summed up to.

It takes numbers and returns a Matplotlib figure that needs no caption: names stand at the ends of the lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.reports.learning import Learned
from bqrl.reports.learning_words import headline, ranking
from bqrl.reports.style import INK, NEUTRAL, QUIET, SIZE, colours, escape, head, new_figure, shown, tidy
from bqrl.reports.words import runs as in_runs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLOCKS = 100  # averages that a promise is drawn as; single episodes jump too much to be read
VERTICES = 500  # of a line of sums
NAME_HEIGHT = 0.056  # of a name at the end of a line, as a share of the frame
SQUEEZE = 4.0  # ranges of the curves that a reference line may lie outside them and still be drawn
LONGEST = 26  # letters of a name before it is broken


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """A line over episodes, the mean over seeds, with the lowest and the highest seed."""

    x: IntArray
    mean: FloatArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, x: IntArray, values: FloatArray) -> Band:
        """The band of values by seed, shape (seeds, len(x))."""
        return cls(x, values.mean(axis=0), values.min(axis=0), values.max(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """How one learner fares."""

    label: str
    promise: Band  # of the policy in force, averaged over blocks of episodes
    gap: Band  # summed over episodes


def learning_figures(found: Learned, content: Mapping[str, Any]) -> dict[str, Figure]:
    """Figures by file name; none where the kernel is not known, since nothing exact can be drawn then."""
    if found.best_quantile is None or found.random is None:
        return {}
    courses = [
        Course(runs.label, promises(runs.quantiles), summed(found.gaps(runs)))
        for runs in found.runs
        if runs.quantiles is not None
    ]
    title = headline(content) if found.kind == "learn" else ranking(content)
    lines = [("best possible", found.best_quantile, INK), ("random policy", found.random.quantile(found.tau), NEUTRAL)]
    seeds = len(found.runs[0].seeds)
    figure = course_figure(courses, lines, found.tau, f"{found.name}: {title}", seeds)
    return {"learning": figure}


def promises(quantiles: FloatArray) -> Band:
    """Promises (seeds, T) averaged over blocks of episodes, each placed at its last episode."""
    T = quantiles.shape[1]
    ends = block_ends(T, BLOCKS)
    total = np.cumsum(quantiles, axis=1)[:, ends - 1]
    averages = np.diff(total, axis=1, prepend=0.0) / np.diff(ends, prepend=0)
    return Band.of(ends, averages)


def summed(gaps: FloatArray) -> Band:
    """Gaps (seeds, T) summed up to each episode, from nothing before the first."""
    ends = block_ends(gaps.shape[1], VERTICES)
    total = np.cumsum(gaps, axis=1)[:, ends - 1]
    return Band.of(np.r_[0, ends], np.concatenate([np.zeros((len(gaps), 1)), total], axis=1))


def block_ends(T: int, blocks: int) -> IntArray:
    """Last episodes, counted from 1, of at most `blocks` blocks of about equal length."""
    return np.unique(np.linspace(0, T, min(T, blocks) + 1).round().astype(np.int64))[1:]


def course_figure(
    courses: Sequence[Course], lines: Sequence[tuple[str, float, str]], tau: float, title: str, seeds: int
) -> Figure:
    """Promises on the left with reference lines (name, value, colour), summed gaps on the right with the names."""
    figure = new_figure(8.6, 3.9)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 0.92))
    inks = colours(len(courses))
    for i, (course, ink) in enumerate(zip(courses, inks, strict=True)):
        _draw(left, course.promise, ink, seeds, i)
        _draw(right, course.gap, ink, seeds, i)
    T = int(courses[0].gap.x[-1])
    for axes in (left, right):
        axes.set_xlim(0, T)
    _frame(left, courses, lines)
    _references(left, lines)
    over = "" if seeds == 1 else f"  (line: mean of {seeds} seeds, band: their range)"
    tidy(left, f"episode{over}", f"return reached in {in_runs(tau)}")
    tidy(right, "episode", "shortfall summed over episodes")
    top = max(float(course.gap.high.max()) for course in courses)
    right.set_ylim(0.0, 1.05 * top if top > 0.0 else 1.0)
    _names(right, courses, inks, T)
    _told(left, "What the policy in force promises")
    _told(right, "How far it falls short of the best possible")
    head(figure, title)
    return figure


def _draw(axes: Axes, band: Band, ink: Any, seeds: int, order: int) -> None:
    marker = "o" if band.x.size == 1 else None
    axes.plot(band.x, band.mean, color=ink, linewidth=1.6, zorder=30 - order, marker=marker, solid_capstyle="butt")
    if seeds > 1:
        axes.fill_between(band.x, band.low, band.high, color=ink, alpha=0.16, linewidth=0, zorder=10 - 0.1 * order)


def _told(axes: Axes, text: str) -> None:
    axes.set_title(escape(text), loc="left", fontsize=SIZE - 0.5, color=QUIET, pad=8)


def _frame(axes: Axes, courses: Sequence[Course], lines: Sequence[tuple[str, float, str]]) -> None:
    """Limits of the promises: all curves and the first reference; further ones where they do not squeeze the curves."""
    low = min([float(course.promise.low.min()) for course in courses] + [lines[0][1]])
    high = max([float(course.promise.high.max()) for course in courses] + [lines[0][1]])
    span = (high - low) or abs(high) or 1.0
    for _, value, _ in lines[1:]:
        if low - SQUEEZE * span <= value <= high + SQUEEZE * span:
            low, high = min(low, value), max(high, value)
    room = 0.08 * ((high - low) or abs(high) or 1.0)
    axes.set_ylim(low - room, high + room)


def _references(axes: Axes, lines: Sequence[tuple[str, float, str]]) -> None:
    """Dashed lines with their names: the first one's above it, those of others below, outside ones at the lower edge."""
    bottom, top = axes.get_ylim()
    for i, (name, value, ink) in enumerate(lines):
        inside = bottom <= value <= top
        text = f"{name}: {shown(value)}" + ("" if inside else ", below this frame" if value < bottom else ", above")
        if inside:
            axes.axhline(value, color=ink, linewidth=1.1, linestyle=(0, (4, 2)), zorder=5)
        place = value if inside else bottom
        above = i == 0 or not inside
        axes.annotate(
            text, (1.0, place), xycoords=("axes fraction", "data"), xytext=(-3, 3 if above else -3),
            textcoords="offset points", ha="right", va="bottom" if above else "top", color=ink, fontsize=SIZE - 1,
            fontweight="bold", zorder=40, bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
        )  # fmt: skip


def _names(axes: Axes, courses: Sequence[Course], inks: Sequence[Any], T: int) -> None:
    """Every learner's name and sum at the end of its line, moved apart where they would touch."""
    top = axes.get_ylim()[1]
    texts = [f"{_broken(course.label)}: {shown(float(course.gap.mean[-1]), 3)}" for course in courses]
    heights = [NAME_HEIGHT * (1 + text.count("\n")) for text in texts]
    places = spread([float(course.gap.mean[-1]) / top for course in courses], heights)
    for course, text, place, ink in zip(courses, texts, places, inks, strict=True):
        end = float(course.gap.mean[-1]) / top
        axes.annotate(
            escape(text), (1.0, end), xycoords="axes fraction", xytext=(1.05, place), textcoords="axes fraction",
            ha="left", va="center", color=ink, fontsize=SIZE - 1, fontweight="bold", annotation_clip=False,
            linespacing=1.0,
            arrowprops={"arrowstyle": "-", "color": ink, "linewidth": 0.6, "shrinkA": 1.0, "shrinkB": 0.0, "relpos": (0.0, 0.5)},
        )  # fmt: skip


def _broken(label: str) -> str:
    """A long name in two lines, broken after a comma."""
    if len(label) <= LONGEST or ", " not in label:
        return label
    cuts = [i + 1 for i in range(len(label)) if label.startswith(", ", i)]
    cut = min(cuts, key=lambda i: abs(2 * i - len(label)))
    return f"{label[:cut]}\n{label[cut + 1 :]}"


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Places near the wanted ones, in their order, whose neighbours are at least half the sum of their heights apart.

    >>> spread([0.5, 0.5, 0.9], [0.1, 0.1, 0.1])
    [0.55, 0.45, 0.9]
    """
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], -i))
    groups: list[tuple[list[int], float, float]] = []  # neighbours that touch, their common height, their middle
    for i in order:
        members, size, middle = [i], heights[i], _within(wanted[i], heights[i])
        while groups and groups[-1][2] + 0.5 * groups[-1][1] > middle - 0.5 * size + 1e-12:
            before, height, centre = groups.pop()
            weighed = (centre * len(before) + middle * len(members)) / (len(before) + len(members))
            members, size = before + members, height + size
            middle = _within(weighed, size)
        groups.append((members, size, middle))
    places = [0.0] * len(wanted)
    for members, size, middle in groups:
        edge = middle - 0.5 * size
        for j in members:
            places[j] = round(edge + 0.5 * heights[j], 12)
            edge += heights[j]
    return places


def _within(middle: float, size: float) -> float:
    """The middle of a group of that size moved into the frame; where it is too high for it, up from the lower edge."""
    return max(min(middle, 1.0 - 0.5 * size), 0.5 * size)
