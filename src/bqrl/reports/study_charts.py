"""The interactive figures of a study's page, as plain values that the page's script draws.

A chart has selectors and one view for each choice; views are keyed by the places of the chosen options, "0|2".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from bqrl.reports.study_data import QUANTITY, Curve, StudyResults
from bqrl.reports.study_more import laws_title
from bqrl.reports.study_words import (
    curve_title,
    first_stage,
    luck_title,
    main_title,
    marked,
    promise_title,
)
from bqrl.reports.words import number

POINTS = 180  # of a curve: as many as a screen shows
SHORT = {"capped": "capped reference", "exact": "exact optimum", "expected": "expected return"}

ORDER = ("exact", "capped", "expected")

Chart = dict[str, Any]


def charts(study: StudyResults) -> dict[str, Chart]:
    """Every chart by name."""
    found = {"main": main_chart(study), "curves": curves_chart(study), "luck": luck_chart(study)}
    if any(study.policy(tau) is not None for tau in study.levels):
        found["policies"] = policies_chart(study)
    found |= {"laws": laws_chart(study), "promises": promises_chart(study)}
    if study.found["tuning"]:
        found["tuning"] = tuning_chart(study)
    if study.variants:
        found["variants"] = variants_chart(study)
    return found


def chart(selectors: Sequence[tuple[str, Sequence[str]]], views: Callable[..., Chart], log: bool | None) -> Chart:
    """A chart whose views come from the places of the chosen options; `log`: the scale at first, None: no choice."""
    places = product(*(range(len(options)) for _, options in selectors))
    return {
        "selectors": [{"name": name, "options": list(options)} for name, options in selectors],
        "views": {"|".join(map(str, place)): views(*place) for place in places},
        "log": log,
    }


def _levels(study: StudyResults) -> tuple[str, list[str]]:
    return "level", [f"τ = {tau:g}" for tau in study.levels]


def _problems(study: StudyResults) -> tuple[str, list[str]]:
    return "problem", ["as in the paper", *(f"{name.replace('_', ' ')} offers" for name in study.variants)]


def _curves(study: StudyResults, curves: Sequence[Curve], measure: str, title: str, seeds: int) -> Chart:
    T = curves[0].episode.size
    kept = np.unique(np.linspace(0, T - 1, min(T, POINTS)).round().astype(int))
    return {
        "kind": "xy",
        "title": marked(study, title),
        "note": f"Line: mean over {seeds} seeds; band: 1.96 standard errors.",
        "x": curves[0].episode[kept].astype(int).tolist(),
        "xrange": [0, T],
        "xlabel": "episode",
        "xname": "episode",
        "ylabel": QUANTITY[measure],
        "series": [
            _look(curve.learner) | {"y": _short(curve.mean[kept]), "b": _short(curve.half[kept])} for curve in curves
        ],
    }


def _look(learner: Any) -> Chart:
    return {"n": learner.label, "c": _ink(learner.ink), "d": learner.dashed}


def _ink(ink: Any) -> str:
    if isinstance(ink, str):
        return ink
    from matplotlib.colors import to_hex

    return str(to_hex(ink))


def _short(values: Any) -> list[float]:
    return [float(f"{x:.5g}") for x in np.asarray(values).tolist()]


def main_chart(study: StudyResults) -> Chart:
    """The paper's curves."""

    def view(i: int) -> Chart:
        tau = study.levels[i]
        return _curves(study, study.main_curves(tau), study.shown(tau), main_title(study, tau), len(study.seeds()))

    names = [f"Figure {i}: τ = {tau:g}" for i, tau in enumerate(study.levels, start=1)]
    return chart([("figure", names)], view, False)


def curves_chart(study: StudyResults) -> Chart:
    """Every measure of every learner on every problem."""

    def view(i: int, j: int, k: int = 0) -> Chart:
        tau, measure, variant = study.levels[i], ORDER[j], ["", *study.variants][k]
        title = curve_title(study, tau, measure, variant)
        return _curves(study, study.curves(tau, measure, variant), measure, title, len(study.seeds(variant)))

    selectors = [_levels(study), ("measured against", [SHORT[measure] for measure in ORDER])]
    return chart([*selectors, _problems(study)] if study.variants else selectors, view, True)


def _strip(study: StudyResults, tau: float, measure: str, variant: str) -> Chart:
    printed = {} if variant else study.printed(tau, measure)
    rows = []
    by_learner = study.ends(tau, measure, variant)
    for one in study.learners:
        ends = by_learner[one.key]
        further = [end for end in ends if not end.held_out] or ends
        values = [end.value for end in further]
        rows.append(
            _look(one)
            | {
                "further": [[end.seed, float(f"{end.value:.5g}")] for end in further],
                "held": [[end.seed, float(f"{end.value:.5g}")] for end in ends if end.held_out and end not in further],
                "mean": float(np.mean(values)),
                "std": float(np.std(values, ddof=1)),
                "printed": printed.get(one.key),
            }
        )
    return {
        "kind": "strip",
        "title": marked(study, luck_title(study, tau, measure, variant)),
        "note": f"After {study.episodes} episodes. Dots: one seed each; bar: their mean"
        + ("" if variant else "; rings: held-out seeds; cross: the number in print, a mean over the held-out seeds")
        + ".",
        "xlabel": QUANTITY[measure],
        "rows": rows,
    }


def luck_chart(study: StudyResults) -> Chart:
    """Last values by seed."""
    selectors = [_levels(study), ("measured against", [SHORT[measure] for measure in ORDER])]
    return chart(selectors, lambda i, j: _strip(study, study.levels[i], ORDER[j], ""), True)


def variants_chart(study: StudyResults) -> Chart:
    """Last values on the changed problems."""
    names = [f"{name.replace('_', ' ')} offers" for name in study.variants]
    selectors = [("problem", names), _levels(study), ("measured against", [SHORT["exact"], SHORT["expected"]])]
    return chart(
        selectors,
        lambda v, i, j: _strip(study, study.levels[i], ("exact", "expected")[j], study.variants[v]),
        True,
    )


def policies_chart(study: StudyResults) -> Chart:
    """Maps of the final policies picked for show."""

    def view(i: int) -> Chart:
        tau = study.levels[i]
        found = study.policy(tau)
        assert found is not None
        rule, picked = first_stage(study, tau), study.found["final_policies"][repr(tau)]
        told = "no threshold rule in the first stage" if rule is None else f"continues up to {rule} in the first stage"
        return {
            "kind": "map",
            "title": marked(study, f"τ = {tau:g}: {study.label(picked['learner'])} {told}"),
            "note": f"Seed {picked['seed']}: of the held-out seeds the one with the smallest final quantile error, then"
            " buffered-quantile error. Navy: Continue; grey: Stop.",
            "states": found[0],
            "actions": found[1].astype(int).tolist(),
            "xlabel": "stage",
            "ylabel": "offer",
        }

    return chart([_levels(study)], view, None)


def laws_chart(study: StudyResults) -> Chart:
    """Distribution functions of the return under the final policies."""

    def view(i: int) -> Chart:
        tau = study.levels[i]
        series, best = [], study.reference(tau)["exact"]
        for one in study.learners:
            law = study.mixed_law(study.laws(tau)[one.key])
            x, y = _short(np.r_[law.values[0], law.values]), _short(np.r_[0.0, law.running])
            series.append(_look(one) | {"x": x, "y": y, "step": True})
        ends = [series_x for one in series for series_x in (one["x"][0], one["x"][-1])]
        return {
            "kind": "xy",
            "title": marked(study, laws_title(study)),
            "note": f"Final policies of the held-out seeds, each seed equally likely. Dotted: level {tau:g} and the best"
            f" promise there, {number(best)}.",
            "xrange": [min(ends), max(ends)],
            "top": 1.0,
            "xlabel": "return",
            "xname": "return",
            "ylabel": "share of runs at or below it",
            "lines": [{"h": tau}, {"v": best}],
            "series": series,
        }

    return chart([_levels(study)], view, None)


def promises_chart(study: StudyResults) -> Chart:
    """The best promise by level, with the promises of final policies."""
    levels, values = study.best_quantiles()
    count = len(study.learners)
    curve: Chart = {
        "n": "best of any policy", "c": "#7A7A7A", "d": False, "step": True, "w": 2,
        "x": _short(np.r_[levels, 1.0]), "y": _short(np.r_[values, values[-1]]),
    }  # fmt: skip
    series: list[Chart] = [curve]
    for i, one in enumerate(study.learners):
        x, y, t = [], [], []
        for tau in study.levels:
            for law in study.laws(tau)[one.key]:
                x.append(tau + 0.01 * (i - 0.5 * (count - 1)))
                y.append(float(f"{law.quantile(tau):.5g}"))
                t.append(f"τ = {tau:g}: promises {number(y[-1], 4)} of {number(study.reference(tau)['exact'], 4)}")
        series.append(_look(one) | {"x": x, "y": y, "t": t, "dots": True})
    view = {
        "kind": "xy",
        "title": marked(study, promise_title(study)),
        "note": "Dots: final policies of the held-out seeds, beside the level that they are scored at. The level is"
        " the share of runs that may end below the promise.",
        "xrange": [0.0, 1.0],
        "low": min(0.0, float(values[0]), *(min(one["y"]) for one in series[1:])),
        "xlabel": "level τ",
        "xname": "level",
        "ylabel": "promised return",
        "lines": [{"v": tau} for tau in study.levels],
        "series": series,
    }
    return chart([], lambda: view, None)


def tuning_chart(study: StudyResults) -> Chart:
    """The criterion over each grid, rung by rung."""
    traces = [(key, tau, one) for key, levels in study.found["tuning"].items() for tau, one in levels.items()]

    def name(key: str, tau: str) -> str:
        return f"{study.label(key)}, τ = {tau}" if len(study.found["tuning"][key]) > 1 else study.label(key)

    def view(i: int) -> Chart:
        key, tau, one = traces[i]
        ink, series = _ink(study.learner(key).ink), []
        for r, rung in enumerate(one["rungs"]):
            x = [trial["value"] for trial in rung["trials"]]
            last = r + 1 == len(one["rungs"])
            series.append(
                {
                    "n": f"rung {r + 1}: {rung['episodes']} episodes", "c": ink, "d": not last, "knots": True,
                    "o": 0.35 + 0.65 * (r + 1) / len(one["rungs"]), "x": x,
                    "y": _short([trial["gap"] for trial in rung["trials"]]),
                    "star": x.index(one["winner"]) if last else None,
                }
            )  # fmt: skip
        return {
            "kind": "xy",
            "title": marked(study, f"{name(key, tau)}: {one['told']}"),
            "note": "Mean cumulative quantile gap over the validation seeds (capped reference); ring: the winner.",
            "xlog": True,
            "xrange": [0.8 * one["values"][0], 1.25 * one["values"][-1]],
            "xlabel": one["parameter"],
            "xname": one["parameter"],
            "ylabel": "mean cumulative gap",
            "series": series,
        }

    return chart([("learner", [name(key, tau) for key, tau, _ in traces])], view, True)
