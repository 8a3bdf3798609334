"""The charts of a study. Several views of one kind share a chart with drop-down lists, whose title follows the choice."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.solve import guarantee_curve
from bqrl.results import charts
from bqrl.results.charts import Curve, Selector, Steps, altair
from bqrl.study.compare import BAND
from bqrl.study.study import Study
from bqrl.study.tables import shown_states

POINTS = 80  # episodes of a curve that are drawn
QUANTITY = {
    "capped": "cumulative quantile gap, capped reference",
    "exact": "cumulative quantile gap, exact optimum",
    "expected": "cumulative expected-return regret",
}
SHORT = {"exact": "exact optimum", "capped": "capped reference", "expected": "expected return"}
ORDER = tuple(SHORT)  # of the selectors
SYMLOG: dict[str, Any] = {"type": "symlog", "constant": 1}


def level_selector(study: Study) -> Selector:
    """The list of levels."""
    return Selector("level", "level", [f"τ = {tau:g}" for tau in study.spec.levels])


def measure_selector(measures: Sequence[str]) -> Selector:
    """The list of measures."""
    return Selector("measure", "measured against", [SHORT[measure] for measure in measures])


def labels_of(study: Study) -> list[str]:
    """Names of the learners."""
    return [entry.label for entry in study.spec.entries]


def _curve(study: Study, variant: str, key: str, tau: float, measure: str, view: tuple[int, ...] = ()) -> Curve:
    """Mean over the shown seeds and its band."""
    values = np.array(study.scores.curves[variant, key, tau][measure])
    return charts.mean_curve(study.spec.entry(key).label, values, POINTS, view)


def figure_curves(study: Study, tau: float, measure: str, title: str) -> Any:
    """The main figure of a level."""
    curves = [_curve(study, "", entry.key, tau, measure) for entry in study.spec.entries if entry.plot]
    band = BAND.format(seeds=len(study.spec.study.seeds))
    return charts.curves_chart(
        curves, title=title, y_title=QUANTITY[measure], band=band, note=charts.thinning(study.spec.episodes, POINTS)
    )


def all_curves(study: Study, titles: Any, problems: Sequence[str]) -> Any:
    """Every measure of every learner at every level, on every variant of the problem."""
    spec = study.spec
    selectors = [level_selector(study), measure_selector(ORDER)]
    selectors += [Selector("problem", "problem", problems)] if spec.variants else []
    curves = [
        _curve(study, variant, entry.key, tau, measure, (i, j, v)[: len(selectors)])
        for v, (variant, _, _) in enumerate(spec.problems())
        for i, tau in enumerate(spec.levels)
        for j, measure in enumerate(ORDER)
        for entry in spec.entries
    ]
    drawn = charts.lines(curves, "episode", "cumulative measure", selectors=selectors, scales={"y": SYMLOG})
    band = BAND.format(seeds=len(spec.study.seeds))
    band += f", {len(spec.study.variant_seeds)} on the variants" if spec.variants else ""
    note = f"Band: {band}. {charts.thinning(spec.episodes, POINTS)}"
    return charts.with_title(altair().layer(*drawn.layers), titles, note, selectors=selectors)


def strip(
    study: Study, variants: Sequence[str], problems: Sequence[str], measures: Sequence[str], titles: Any, printed: Any
) -> Any:
    """Last values of every run: one row per learner, one dot per seed; `printed` are published values (level, measure, k, x)."""
    alt, spec, labels = altair(), study.spec, labels_of(study)
    selectors = [Selector("problem", "problem", problems)] if len(variants) > 1 else []
    selectors += [level_selector(study), measure_selector(measures)]
    rows = []
    cases = product(enumerate(variants), enumerate(spec.levels), enumerate(measures), enumerate(spec.entries))
    for (v, variant), (i, tau), (j, measure), (k, entry) in cases:
        ranking = spec.ranking_seeds(variant)
        ends = study.scores.ends[variant, entry.key, tau][measure]
        rows += [[v, i, j, k, seed, x, int(seed in ranking), n] for n, (seed, x) in enumerate(ends.items())]
    label, colour = charts.by_label(labels)
    colour.legend = None
    base = alt.Chart(charts.csv_data(["problem", "level", "measure", "k", "seed", "value", "further", "n"], rows))
    base = base.transform_filter(charts.chosen(selectors)).transform_calculate(line=label, sway="sin(2.4 * datum.n)")
    y = alt.Y("line:N", title=None, sort=labels, axis={"labelLimit": 170})
    x = alt.X("value:Q", title="cumulative measure at the end", scale=SYMLOG)
    sway = alt.YOffset("sway:Q", scale={"domain": [-3, 3]})
    tips = [
        alt.Tooltip("line:N", title="learner"),
        alt.Tooltip("seed:Q", format="d"),
        alt.Tooltip("value:Q", format=".5~g"),
    ]
    further, held_out = base.transform_filter("datum.further == 1"), base.transform_filter("datum.further == 0")
    dots = further.mark_point(filled=True, size=26, opacity=0.6)
    layers = [
        dots.encode(x=x, y=y, yOffset=sway, color=colour, tooltip=tips),
        further.mark_tick(thickness=2.5, size=20).encode(x=alt.X("mean(value):Q"), y=y, color=colour),
    ]
    note = f"After {spec.episodes} episodes. Dots: one seed each; bar: their mean"
    if any(not row[6] for row in rows):  # held-out seeds that are not among the dots
        layers.append(held_out.mark_point(size=60).encode(x=x, y=y, color=colour, tooltip=tips))
        note += "; rings: held-out seeds"
    if printed:
        marks = alt.Chart(charts.csv_data(["level", "measure", "k", "value"], printed)).transform_filter(
            charts.chosen(selectors)
        )
        cross = marks.transform_calculate(line=label).mark_point(
            shape="cross", angle=45, size=90, color=charts.RED, filled=True
        )
        layers.append(cross.encode(x=x, y=y, tooltip=[alt.Tooltip("value:Q", title="published value")]))
        note += "; red cross: the published value, a mean over the held-out seeds"
    return charts.with_title(alt.layer(*layers), titles, f"{note}.", 30 * len(labels) + 20, selectors)


def policy_map(study: Study, tau: float, state: str, title: str, note: str) -> Any:
    """The final policy of a level: states by stages, one colour per action."""
    mdp, seed, states = study.scores.problem(), study.scores.picked(tau), shown_states(study)
    assert seed is not None
    played: FloatArray = np.eye(mdp.A)[study.scores.policies[tau][seed][:, states]]
    names = [mdp.state_label(s) for s in states]
    actions = [mdp.action_label(a) for a in range(mdp.A)]
    return charts.policy_chart({tau: played}, names, actions, title=title, note=note, state=state)


def return_laws(study: Study, titles: Sequence[str]) -> Any:
    """Distribution functions of the return under the final policies."""
    alt, levels, selectors = altair(), study.spec.levels, [level_selector(study)]
    curves = []
    for (i, tau), entry in product(enumerate(levels), study.spec.entries):
        law = mixed_law(study, entry.key, tau)
        curves.append(Curve(entry.label, np.r_[law.values[0], law.values], np.r_[0.0, law.running], view=(i,)))
    drawn = charts.lines(curves, "return", "probability of a return at or below it", selectors=selectors, step=True)
    best = [[i, study.scores.reference(tau).exact, tau] for i, tau in enumerate(levels)]
    marks = alt.Chart(charts.csv_data(["level", "x", "y"], best)).transform_filter(charts.chosen(selectors))
    rule = marks.mark_rule(strokeDash=[3, 3], color=charts.GREY)
    note = (
        "Final policies of the held-out seeds, each seed equally likely. Dotted: the level and the best promise at it."
    )
    chart = alt.layer(*drawn.layers, rule.encode(x=drawn.x), rule.encode(y=drawn.y))
    return charts.with_title(chart, titles, f"{note} {drawn.note}", selectors=selectors)


def promises(study: Study, title: str) -> Any:
    """The best promise by level, and the promises of the final policies at the levels of the study."""
    alt, entries = altair(), study.spec.entries
    best = Steps(*guarantee_curve(study.scores.problem()).steps).curve("best promise")
    scale = {"x": {"domain": [0, 1]}}
    drawn = charts.lines([best], charts.LEVEL_TITLE, "promised return", scales=scale, colours=[charts.GREY], step=True)
    rows = []
    for (k, entry), tau in product(enumerate(entries), study.spec.levels):
        place = tau + 0.011 * (k - 0.5 * (len(entries) - 1))
        rows += [[k, tau, place, law.quantile(tau)] for law in final_laws(study, entry.key, tau)]
    label, colour = charts.by_label(labels_of(study), symbol="circle")
    dots = alt.Chart(charts.csv_data(["k", "tau", "x", "y"], rows)).transform_calculate(line=label)
    tips = [
        alt.Tooltip("line:N", title="learner"),
        alt.Tooltip("tau:Q", title="level"),
        alt.Tooltip("y:Q", title="promise"),
    ]
    points = dots.mark_point(filled=True, size=50, opacity=0.8)
    layers = [*drawn.layers, points.encode(x=drawn.x, y=drawn.y, color=colour, tooltip=tips)]
    note = "Grey: the best promise of any policy. Dots: final policies of the held-out seeds, beside the level of their score."
    return charts.with_title(alt.layer(*layers).resolve_scale(color="independent"), title, note)


def tuning(study: Study, names: Sequence[str], titles: Sequence[str]) -> Any:
    """The criterion over each grid, rung by rung."""
    alt, selectors = altair(), [Selector("search", "learner", names)]
    curves, best = [], []
    for s, (_, _, tuned) in enumerate(study.tunings()):
        best.append([s, tuned.winner.value, tuned.winner.gap])
        for r, rung in enumerate(tuned.rungs, start=1):
            values, gaps = (np.array([getattr(trial, key) for trial in rung.trials]) for key in ("value", "gap"))
            order = np.argsort(values)
            curves.append(Curve(f"rung {r}: {rung.episodes} episodes", values[order], gaps[order], view=(s,)))
    scales = {"x": {"type": "log"}, "y": SYMLOG}
    drawn = charts.lines(
        curves, "tuned parameter", "mean cumulative gap", selectors=selectors, scales=scales, points=True
    )
    ring = alt.Chart(charts.csv_data(["search", "x", "y"], best)).transform_filter(charts.chosen(selectors))
    ring = ring.mark_point(size=160, color=charts.BLUE, strokeWidth=2).encode(x=drawn.x, y=drawn.y)
    note = "Mean cumulative quantile gap over the validation seeds (capped reference). Ring: the winner."
    return charts.with_title(alt.layer(*drawn.layers, ring), titles, note, selectors=selectors)


def final_laws(study: Study, key: str, tau: float) -> list[Law]:
    """Laws of the return under the final policies, one per held-out seed."""
    laws = study.scores.laws["", key, tau]
    return [Law(*laws[seed]) for seed in study.spec.study.seeds]


def mixed_law(study: Study, key: str, tau: float) -> Law:
    """Law of the return if one of the held-out runs is drawn at random and its final policy played."""
    laws = final_laws(study, key, tau)
    mass = np.concatenate([law.probabilities for law in laws]) / len(laws)
    return Law(np.concatenate([law.values for law in laws]), mass)
