"""Figures of the theory experiments; each takes the experiment's plain numbers and needs no caption."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.reports.style import INK, NEUTRAL, PALETTE, QUIET, SIZE, escape, head, new_figure, tidy
from bqrl.reports.theory_words import (
    RHO,
    bounds_title,
    buffer_title,
    coverage_title,
    growth_title,
    hard_title,
    knapsack_title,
    rough,
    signed,
)
from bqrl.reports.words import number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Found = Mapping[str, Any]
DASHED, DOTTED = (0, (4, 2)), (0, (1, 1.5))
TICKS = [m * 10.0**k for k in range(-6, 1) for m in (1, 3)]  # of a buffer
MARKERS = "osD^vP*X"
BOUNDS = {
    "theorem 1": ("Theorem 1", PALETTE[1]),
    "corollary 1": ("Corollary 1", PALETTE[4]),
    "ours": ("ours", PALETTE[2]),
}


def theory_figures(name: str, found: Found) -> dict[str, Figure]:
    """Figures of an experiment by file name."""
    return {stem: draw(found) for stem, draw in FIGURES[name].items()}


def coverage_figure(found: Found) -> Figure:
    """Share of runs whose sets hold, by the factor on the radii; the theory's own radii are at 1."""
    figure = new_figure(5.6, 3.9)
    axes = figure.add_subplot()
    for i, case in enumerate(found["cases"]):
        ratios, ink = np.sort(case["ratios"]), PALETTE[i]
        top = max(1.15, float(ratios[-1]) * 1.05)
        share = np.arange(1, ratios.size + 1) / ratios.size
        x, y = np.r_[0.0, ratios, top], np.r_[0.0, share, 1.0]
        axes.step(x, y, where="post", color=ink, linewidth=1.6, label=escape(case["label"]))
        axes.errorbar(
            [1.0 + 0.02 * (i - 1)], [case["share"]], [[case["share"] - case["low"]], [case["high"] - case["share"]]],
            color=ink, marker="o", markersize=4, capsize=3, linewidth=1.2, zorder=5, clip_on=False,
        )  # fmt: skip
    promised = found["cases"][0]["promised"]
    axes.axhline(promised, color=INK, linewidth=0.9, linestyle=DASHED)
    axes.annotate(
        f"promised: {percent(promised)}", (0.02, promised), xycoords=("axes fraction", "data"), xytext=(0, -3),
        textcoords="offset points", va="top", fontsize=SIZE - 1, color=INK,
    )  # fmt: skip
    axes.axvline(1.0, color=NEUTRAL, linewidth=0.8, linestyle=DOTTED)
    axes.set_xlim(0.0, max(1.15, *(max(case["ratios"]) * 1.05 for case in found["cases"])))
    axes.set_ylim(0.0, 1.02)
    tidy(axes, "factor on the theoretical radii", "share of runs inside in every episode")
    _legend(axes, loc="center right")
    runs, episodes = found["cases"][0]["runs"], found["episodes"]
    confidence = percent(found["confidence"])
    note = f"{runs} runs of {episodes} episodes; at 1 the theory's own radii, with {confidence} intervals"
    head(figure, coverage_title(found), note, axes)
    return figure


def bounds_figure(found: Found) -> Figure:
    """Measured regret under the bounds, drawn on to where they become informative."""
    cases = found["cases"]
    figure = new_figure(0.6 + 3.0 * len(cases), 4.0)
    frames = np.atleast_1d(figure.subplots(1, len(cases)))
    for i, (axes, case) in enumerate(zip(frames, cases, strict=True)):
        T = np.array(case["episodes"], dtype=float)
        for name, (label, ink) in BOUNDS.items():
            dashes = DASHED if name == "corollary 1" else "-"
            axes.plot(T, case["bounds"][name], color=ink, linewidth=1.4, linestyle=dashes, label=label)
            start = case["informative_from"][name]
            if start is not None and np.isfinite(start):
                axes.plot([start], [np.interp(start, T, case["trivial"])], "o", color=ink, markersize=4.5, zorder=5)
        axes.plot(T, case["trivial"], color=NEUTRAL, linewidth=1.1, linestyle=DOTTED, label="trivial: T H")
        x = [point["episodes"] for point in case["points"]]
        kept = [(n, p["regret"], p["regret_most"]) for n, p in zip(x, case["points"], strict=True) if p["regret"] > 0.0]
        if kept:
            n, mean, most = (np.array(part, dtype=float) for part in zip(*kept, strict=True))
            axes.errorbar(
                n, mean, [np.zeros(n.size), most - mean], color=PALETTE[0], marker="o", markersize=4, linewidth=1.4,
                capsize=2.5, label="measured, mean to most", zorder=6,
            )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        tidy(axes, "episodes T", "regret" if i == 0 else "")
        start = case["informative_from"]["ours"]
        _told(
            axes, f"{case['label']}, τ = {number(case['tau'])}\nours is below the trivial bound from T = {rough(start)}"
        )
        axes.minorticks_off()
        if i == 0:
            _legend(axes, loc="lower right")
    head(figure, bounds_title(found))
    return figure


def hard_figure(found: Found) -> Figure:
    """Regret at T = A / rho^2 against rho, with the lower bound."""
    figure = new_figure(7.2, 4.2)
    axes = figure.add_subplot()
    rho = np.array(found["rhos"])
    shifts = np.linspace(-0.02, 0.02, len(found["learners"]))
    for i, one in enumerate(found["learners"]):
        y, error = (np.array([point[name] for point in one["points"]]) for name in ("regret", "error"))
        label = f"{one['label']}: {signed(one['slope'])}"
        down = np.minimum(error, 0.9 * y)  # on a logarithmic axis the lower end must stay positive
        axes.errorbar(
            (1.0 / rho) * (1.0 + shifts[i]), y, [down, error], color=PALETTE[i % 8], marker=MARKERS[i % 8], markersize=4,
            linewidth=1.3, capsize=2, elinewidth=0.8, label=escape(label), zorder=4,
        )  # fmt: skip
    axes.plot(1.0 / rho, found["most"], color=NEUTRAL, linewidth=1.1, linestyle=DOTTED, label="always wrong: 2")
    axes.plot(1.0 / rho, found["lower"], color=INK, linewidth=1.3, linestyle=DASHED, label="lower bound: 2")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(1.0 / rho, [number(x, 3) for x in 1.0 / rho])
    axes.minorticks_off()
    tidy(axes, f"1 / {RHO}", f"mean regret at T = A / {RHO}²")
    _beside(axes, f"exponent of 1 / {RHO}")
    note = (
        f"τ = {number(found['tau'])}, {found['actions']} actions, {found['horizon']} stages;"
        " mean over runs with each action the best one, bars: standard errors"
    )
    head(figure, hard_title(found), note, axes)
    return figure


def growth_figure(found: Found) -> Figure:
    """Regret in long runs at one rho, with the flat lower bound and the logarithmic upper bound of UCB1."""
    figure = new_figure(7.2, 4.2)
    axes = figure.add_subplot()
    growth = found["growth"]
    T = np.array(growth["episodes"], dtype=float)
    for i, one in enumerate(found["learners"]):
        y, error = np.array(one["growth"]["regret"]), np.array(one["growth"]["error"])
        ink = PALETTE[i % 8]
        axes.plot(
            T, y, color=ink, linewidth=1.5, label=escape(f"{one['label']}: {signed(one['growth']['slope'])}"), zorder=4
        )
        axes.fill_between(T, np.maximum(y - error, 0.1 * y), y + error, color=ink, alpha=0.13, linewidth=0)
    axes.plot(T, growth["upper"], color=INK, linewidth=1.1, label="proven for UCB1: logarithmic")
    axes.plot(T, growth["most"], color=NEUTRAL, linewidth=1.1, linestyle=DOTTED, label="always wrong: 1")
    axes.plot(T, growth["lower"], color=INK, linewidth=1.3, linestyle=DASHED, label="lower bound: flat")
    axes.axvline(growth["scale"], color=QUIET, linewidth=0.8, linestyle=DOTTED)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(T[0], T[-1])
    axes.annotate(
        f"A / {RHO}²", (growth["scale"], 0.97), xycoords=("data", "axes fraction"), xytext=(3, 0), textcoords="offset points",
        va="top", fontsize=SIZE - 1, color=QUIET,
    )  # fmt: skip
    tidy(axes, "episodes T", "mean regret")
    _beside(axes, f"exponent of T beyond A / {RHO}²")
    note = f"hard family, {RHO} = {number(growth['rho'])}; mean over runs with each action the best one, band: standard error"
    head(figure, growth_title(found), note, axes)
    return figure


def buffer_figure(found: Found) -> Figure:
    """Both buffering gaps by buffer with plateau and margin, and when each schedule gets there."""
    cases = found["cases"]
    figure = new_figure(0.6 + 3.2 * len(cases), 4.3)
    frames = np.atleast_1d(figure.subplots(1, len(cases)))
    for i, (axes, case) in enumerate(zip(frames, cases, strict=True)):
        beta = np.array(case["beta"])
        axes.plot(beta, case["one_sided_high"], color=PALETTE[0], linewidth=1.7, label="from the best policy")
        axes.fill_between(
            beta, case["one_sided_low"], case["one_sided_high"], color=PALETTE[0], alpha=0.25, linewidth=0
        )
        if case["two_sided"] is not None:
            axes.plot(
                beta, case["two_sided"], color=PALETTE[1], linewidth=1.5, linestyle=DASHED, label="from any policy, Δβ"
            )
        axes.set_xscale("log")
        axes.set_ylim(0.0, 1.05 * max(case["one_sided_high"] + (case["two_sided"] or [])) or 1.0)
        low, high = beta[0] / 1.1, beta[-1] * 1.05
        axes.set_xlim(low, high)
        for name, place, ink in ((f"{RHO}*", case["margin"], PALETTE[0]), (f"{RHO}τ", case["plateau"][1], PALETTE[1])):
            if low <= place <= high:
                axes.axvline(place, color=ink, linewidth=1.0, linestyle=DOTTED)
                near = name == f"{RHO}τ" and abs(np.log(place / case["margin"])) < 0.15 * np.log(high / low)
                axes.annotate(
                    name, (place, 0.96 if not near else 0.88), xycoords=("data", "axes fraction"), xytext=(-3, 0),
                    textcoords="offset points", color=ink, fontsize=SIZE, fontweight="bold", ha="right", va="top",
                )  # fmt: skip
        ticks = [x for x in (TICKS[::2] if high > 200.0 * low else TICKS) if low <= x <= high]
        axes.set_xticks(ticks, [number(x) for x in ticks])
        axes.minorticks_off()
        tidy(axes, "buffer β", "return that the buffer takes" if i == 0 else "")
        _told(axes, f"{case['label']}, τ = {number(case['tau'])}\n{_clears(case)}")
        if i == 0 or (case["two_sided"] is not None and all(c["two_sided"] is None for c in cases[:i])):
            _legend(axes, loc="center left")
    head(figure, buffer_title(found))
    return figure


def _clears(case: Found) -> str:
    low, high = case["plateau"]
    sign = "" if low == high else "≤ "
    rows = [
        f"{RHO}* = {number(case['margin'], 2)}, {RHO}τ {sign or '= '}{number(high, 2)}; episodes until below {RHO}* ({RHO}τ):"
    ]
    rows += [
        f"{name}: {rough(one['margin'])} ({rough(one['plateau'], least=low < high)})"
        for name, one in case["clears"].items()
    ]
    return "\n".join(rows)


def knapsack_figure(found: Found) -> Figure:
    """Possible returns by horizon: histories, full support, lattice."""
    figure = new_figure(6.6, 4.2)
    axes = figure.add_subplot()
    families = found["families"]
    axes.plot(
        families[0]["horizon"],
        families[0]["histories"],
        color=NEUTRAL,
        linewidth=1.2,
        linestyle=DOTTED,
        label="histories",
    )
    for i, one in enumerate(families):
        kept = [(h, n) for h, n in zip(one["horizon"], one["support"], strict=True) if n is not None]
        h, n = zip(*kept, strict=True)
        axes.plot(
            h,
            n,
            color=PALETTE[i % 8],
            marker=MARKERS[i % 8],
            markersize=3.5,
            linewidth=1.5,
            label=f"{one['label']}: returns",
        )
        axes.plot(
            one["horizon"],
            one["lattice"],
            color=PALETTE[i % 8],
            linewidth=1.1,
            linestyle=DASHED,
            label=f"{one['label']}: lattice",
        )
    axes.set_yscale("log")
    tidy(axes, "horizon", "number of points")
    _beside(axes, "weights")
    head(
        figure,
        knapsack_title(found),
        "Knapsack-like rewards: solid the returns that can occur, dashed the lattice that holds them",
        axes,
    )
    return figure


FIGURES: dict[str, dict[str, Any]] = {
    "coverage": {"coverage": coverage_figure},
    "bounds": {"bounds": bounds_figure},
    "hard": {"hard": hard_figure, "hard_growth": growth_figure},
    "buffer": {"buffer": buffer_figure},
    "knapsack": {"knapsack": knapsack_figure},
}


def _told(axes: Axes, text: str) -> None:
    axes.set_title(escape(text), loc="left", fontsize=SIZE - 1.5, color=QUIET, pad=8)


def _legend(axes: Axes, **place: Any) -> None:
    axes.legend(frameon=True, framealpha=0.9, edgecolor="none", fontsize=SIZE - 1.5, **place)


def _beside(axes: Axes, title: str) -> None:
    """A legend at the right of the frame."""
    legend = axes.legend(
        loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=SIZE - 1.5, title=title, alignment="left"
    )
    legend.get_title().set_fontsize(SIZE - 1)
    legend.get_title().set_color(QUIET)
