"""The charts of a study. Several views of one kind share a chart with drop-down lists, whose title follows the choice.

Numbers are embedded as CSV text, which is a third of the size of JSON; curves are thinned to POINTS points.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bqrl.laws.law import Law
from bqrl.planners.solve import guarantee_curve
from bqrl.results.charts import BLUE, GREY, HEIGHT, PALETTE, RED, WIDTH, Curve, altair, curves_chart, learner_colours
from bqrl.study.compare import MEASURES as EXPERIMENT_MEASURES
from bqrl.study.compare import Experiment, evenly
from bqrl.study.study import Study
from bqrl.study.tables import shown_states

POINTS = 80
Z = 1.96  # of the bands, as in the paper
QUANTITY = {
    "capped": "cumulative quantile gap, capped reference",
    "exact": "cumulative quantile gap, exact optimum",
    "expected": "cumulative expected-return regret",
}
SHORT = {"exact": "exact optimum", "capped": "capped reference", "expected": "expected return"}
ORDER = tuple(SHORT)  # of the selectors


class Selector(NamedTuple):
    """A drop-down list of a chart."""

    name: str
    title: str
    options: Sequence[str]


def csv_data(columns: Sequence[str], rows: Iterable[Sequence[Any]], texts: Sequence[str] = ()) -> Any:
    """Embedded data; every column but those in `texts` holds numbers, shortened to five digits."""
    alt = altair()
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([f"{x:.5g}" if isinstance(x, float) else x for x in row] for row in rows)
    parse = {name: "string" if name in texts else "number" for name in columns}
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=parse))


def with_title(chart: Any, title: Any, note: str, height: int = HEIGHT, selectors: Sequence[Selector] = ()) -> Any:
    """The chart with its title, its note and its drop-down lists; `title` has one level of lists per selector."""
    alt = altair()
    text: Any = folded(title)
    if selectors:
        text = alt.ExprRef(json.dumps(folded(title)) + "".join(f"[{one.name}]" for one in selectors))
        params = [
            alt.param(
                name=one.name,
                value=0,
                bind=alt.binding_select(
                    options=list(range(len(one.options))), labels=list(one.options), name=f"{one.title}: "
                ),
            )
            for one in selectors
        ]
        usermeta = {
            "selectors": [one.name for one in selectors],
            "titles": title,
        }  # for the page, which breaks the lines
        chart = chart.add_params(*params).properties(usermeta=usermeta)
    head = alt.TitleParams(text, subtitle=folded(note), anchor="start", fontSize=14, subtitleFontSize=12, offset=10)
    return (
        chart.properties(title=head, width=WIDTH, height=height)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridOpacity=0.35, titleFontWeight="normal")
        .configure_legend(labelFontSize=12)
    )


def folded(text: Any, width: int = 76) -> Any:
    """Texts, in nested lists or alone, as lines of at most `width` characters."""
    if not isinstance(text, str):
        return [folded(part, width) for part in text]
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + len(word) >= width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def chosen(selectors: Sequence[Selector]) -> str:
    """The expression that keeps the rows of the selected view."""
    return " && ".join(f"datum.{one.name} == {one.name}" for one in selectors)


def by_learner(study: Study) -> tuple[str, Any]:
    """The expression that turns the column `k` into a learner's name, and its colour."""
    alt, labels = altair(), [entry.label for entry in study.spec.entries]
    scale = alt.Scale(domain=labels, range=learner_colours(labels))
    return f"{json.dumps(labels)}[datum.k]", alt.Color(
        "learner:N", title=None, scale=scale, legend=alt.Legend(orient="top", columns=2, labelLimit=200)
    )


def level_selector(study: Study) -> Selector:
    """The list of levels."""
    return Selector("level", "level", [f"τ = {tau:g}" for tau in study.spec.levels])


MEASURED = Selector("measure", "measured against", list(SHORT.values()))


def figure_curves(study: Study, tau: float, measure: str, title: str) -> Any:
    """The main figure of a level."""
    curves, n = [], len(study.spec.study.seeds)
    for entry in study.spec.entries:
        if entry.plot:
            mean, deviation = study.scores.mean_curve("", entry.key, tau, measure)
            half = Z * deviation / np.sqrt(n)
            drawn = evenly(mean.size, POINTS)
            curves.append(
                Curve(
                    entry.label, (drawn + 1).astype(np.float64), mean[drawn], (mean - half)[drawn], (mean + half)[drawn]
                )
            )
    return curves_chart(
        curves, title=folded(title), y_title=QUANTITY[measure], band=f"1.96 standard errors of the mean over {n} seeds"
    )


def all_curves(study: Study, titles: Any, problems: Sequence[str]) -> Any:
    """Every measure of every learner at every level, on every variant of the problem."""
    alt, spec = altair(), study.spec
    selectors = [
        level_selector(study),
        MEASURED,
        *([Selector("problem", "problem", problems)] if spec.variants else []),
    ]
    drawn = evenly(spec.episodes, POINTS)
    rows = []
    for v, (variant, _, _) in enumerate(spec.problems()):
        root = np.sqrt(len(spec.shown_seeds(variant)))
        for i, tau in enumerate(spec.levels):
            for j, measure in enumerate(ORDER):
                for k, entry in enumerate(spec.entries):
                    mean, deviation = study.scores.mean_curve(variant, entry.key, tau, measure)
                    half = Z * deviation / root
                    rows += [[v, i, j, k, int(t) + 1, float(mean[t]), float(half[t])] for t in drawn]
    label, colour = by_learner(study)
    base = alt.Chart(csv_data(["problem", "level", "measure", "k", "episode", "mean", "half"], rows))
    base = base.transform_filter(chosen(selectors)).transform_calculate(
        learner=label, low="max(datum.mean - datum.half, 0)", high="datum.mean + datum.half"
    )
    scale = alt.Scale(type="symlog", constant=1)
    x, y = alt.X("episode:Q", scale=alt.Scale(nice=False)), alt.Y("mean:Q", title="cumulative measure", scale=scale)
    tips = [alt.Tooltip("learner:N"), alt.Tooltip("episode:Q"), alt.Tooltip("mean:Q", format=".5~g")]
    band = base.mark_area(opacity=0.15, clip=True).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q", color=colour)
    line = base.mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=colour, tooltip=tips)
    note = f"Line: mean over seeds; band: 1.96 standard errors of the mean. {drawn.size} of {spec.episodes} episodes are drawn."
    return with_title(alt.layer(band, line), titles, note, selectors=selectors)


def strip(
    study: Study, variants: Sequence[str], problems: Sequence[str], measures: Sequence[str], titles: Any, printed: Any
) -> Any:
    """Last values of every run: one row per learner, one dot per seed; `printed` are published values (level, measure, k, x)."""
    alt, spec = altair(), study.spec
    selectors = [
        *([Selector("problem", "problem", problems)] if len(variants) > 1 else []),
        level_selector(study),
        Selector("measure", "measured against", [SHORT[measure] for measure in measures]),
    ]
    rows = []
    for v, variant in enumerate(variants):
        for i, tau in enumerate(spec.levels):
            for j, measure in enumerate(measures):
                for k, entry in enumerate(spec.entries):
                    ends = study.scores.ends[variant, entry.key, tau][measure]
                    ranking = spec.ranking_seeds(variant)
                    rows += [[v, i, j, k, seed, x, int(seed in ranking), n] for n, (seed, x) in enumerate(ends.items())]
    label, colour = by_learner(study)
    colour = colour.copy()
    colour.legend = None
    rings = any(not row[6] for row in rows)  # held-out seeds that are not among the dots
    base = alt.Chart(csv_data(["problem", "level", "measure", "k", "seed", "value", "further", "n"], rows))
    base = base.transform_filter(chosen(selectors)).transform_calculate(learner=label, sway="sin(2.4 * datum.n)")
    labels = [entry.label for entry in spec.entries]
    y = alt.Y("learner:N", title=None, sort=labels, axis=alt.Axis(labelLimit=170))
    x = alt.X("value:Q", title="cumulative measure at the end", scale=alt.Scale(type="symlog", constant=1))
    tips = [alt.Tooltip("learner:N"), alt.Tooltip("seed:Q", format="d"), alt.Tooltip("value:Q", format=".5~g")]
    further, held_out = base.transform_filter("datum.further == 1"), base.transform_filter("datum.further == 0")
    layers = [
        further.mark_point(filled=True, size=26, opacity=0.6).encode(
            x=x, y=y, yOffset=alt.YOffset("sway:Q", scale=alt.Scale(domain=[-3, 3])), color=colour, tooltip=tips
        ),
        *([held_out.mark_point(size=60).encode(x=x, y=y, color=colour, tooltip=tips)] if rings else []),
        further.mark_tick(thickness=2.5, size=20).encode(x=alt.X("mean(value):Q"), y=y, color=colour),
    ]
    note = f"After {spec.episodes} episodes. Dots: one seed each; bar: their mean" + (
        "; rings: held-out seeds" if rings else ""
    )
    if printed:
        columns = ["level", "measure", "k", "value"]
        marks = (
            alt.Chart(csv_data(columns, printed)).transform_filter(chosen(selectors)).transform_calculate(learner=label)
        )
        layers.append(
            marks.mark_point(shape="cross", angle=45, size=90, color=RED, filled=True).encode(
                x=x, y=y, tooltip=[alt.Tooltip("value:Q", title="published value")]
            )
        )
        note += "; red cross: the published value, a mean over the held-out seeds"
    return with_title(alt.layer(*layers), titles, f"{note}.", 30 * len(labels) + 20, selectors)


def policy_map(study: Study, tau: float, state_title: str, title: str, note: str) -> Any:
    """The final policy of a level: states by stages, one colour per action."""
    alt, mdp, seed = altair(), study.scores.problem(), study.scores.picked(tau)
    assert seed is not None
    actions, states = study.scores.policies[tau][seed], shown_states(study)
    rows = [
        [mdp.state_label(s), h + 1, mdp.action_label(int(actions[h, s]))]
        for s in states
        for h in range(actions.shape[0])
    ]
    names = [mdp.action_label(a) for a in np.unique(actions[:, states]).tolist()]
    chart = (
        alt.Chart(csv_data(["state", "stage", "action"], rows, texts=("state", "action")))
        .mark_rect(stroke="white", strokeWidth=0.3)
        .encode(
            x=alt.X("stage:O", axis=alt.Axis(labelAngle=0)),
            y=alt.Y("state:N", title=state_title, sort=[mdp.state_label(s) for s in reversed(states)]),
            color=alt.Color(
                "action:N",
                scale=alt.Scale(domain=names, range=[*PALETTE, *PALETTE][: len(names)]),
                legend=alt.Legend(orient="top"),
            ),
            tooltip=["stage:O", alt.Tooltip("state:N", title=state_title), "action:N"],
        )
    )
    return with_title(chart, title, note, int(min(420, max(90, 14 * len(states)))))


def return_laws(study: Study, titles: Sequence[str]) -> Any:
    """Distribution functions of the return under the final policies."""
    alt, spec, selectors = altair(), study.spec, [level_selector(study)]
    rows, lines = [], []
    for i, tau in enumerate(spec.levels):
        for k, entry in enumerate(spec.entries):
            law = mixed_law(study, entry.key, tau)
            points = zip(np.r_[law.values[0], law.values].tolist(), np.r_[0.0, law.running].tolist(), strict=True)
            rows += [[i, k, x, y] for x, y in points]
        lines.append([i, study.scores.reference(tau).exact, tau])
    label, colour = by_learner(study)
    x = alt.X("value:Q", title="return", scale=alt.Scale(zero=False))
    y = alt.Y("share:Q", title="probability of a return at or below it")
    base = alt.Chart(csv_data(["level", "k", "value", "share"], rows)).transform_filter(chosen(selectors))
    curve = base.transform_calculate(learner=label).mark_line(interpolate="step-after", strokeWidth=1.6)
    marks = alt.Chart(csv_data(["level", "value", "share"], lines)).transform_filter(chosen(selectors))
    rule = {"strokeDash": [3, 3], "color": GREY}
    layers = [
        curve.encode(x=x, y=y, color=colour, tooltip=["learner:N", "value:Q", "share:Q"]),
        marks.mark_rule(**rule).encode(x=x),
        marks.mark_rule(**rule).encode(y=y),
    ]
    note = (
        "Final policies of the held-out seeds, each seed equally likely. Dotted: the level and the best promise at it."
    )
    return with_title(alt.layer(*layers), titles, note, selectors=selectors)


def promises(study: Study, title: str) -> Any:
    """The best promise by level, and the promises of the final policies at the levels of the study."""
    alt, spec = altair(), study.spec
    levels, values = guarantee_curve(study.scores.problem()).steps
    best = zip([*levels.tolist(), 1.0], [*values.tolist(), float(values[-1])], strict=True)
    rows = []
    for k, entry in enumerate(spec.entries):
        for tau in spec.levels:
            place = tau + 0.011 * (k - 0.5 * (len(spec.entries) - 1))
            rows += [[k, tau, place, law.quantile(tau)] for law in final_laws(study, entry.key, tau)]
    label, colour = by_learner(study)
    x = alt.X("level:Q", title="level τ: probability of ending below the promise", scale=alt.Scale(domain=[0, 1]))
    y = alt.Y("value:Q", title="promised return", scale=alt.Scale(zero=False))
    line = alt.Chart(csv_data(["level", "value"], best)).mark_line(interpolate="step-after", color=GREY, strokeWidth=2)
    dots = alt.Chart(csv_data(["k", "tau", "level", "value"], rows)).transform_calculate(learner=label)
    layers = [
        line.encode(x=x, y=y),
        dots.mark_point(filled=True, size=50, opacity=0.8).encode(
            x=x, y=y, color=colour, tooltip=["learner:N", alt.Tooltip("tau:Q", title="level"), "value:Q"]
        ),
    ]
    note = "Grey: the best promise of any policy. Dots: final policies of the held-out seeds, beside the level of their score."
    return with_title(alt.layer(*layers), title, note)


def tuning(study: Study, names: Sequence[str], titles: Sequence[str]) -> Any:
    """The criterion over each grid, rung by rung."""
    alt, selectors = altair(), [Selector("search", "learner", names)]
    rows, best = [], []
    for s, (_, _, tuned) in enumerate(study.tunings()):
        for r, rung in enumerate(tuned.rungs, start=1):
            rows += [[s, f"rung {r}: {rung.episodes} episodes", trial.value, trial.gap] for trial in rung.trials]
        best.append([s, tuned.winner.value, tuned.winner.gap])
    rungs = list(dict.fromkeys(row[1] for row in rows))
    x = alt.X("value:Q", title="tuned parameter", scale=alt.Scale(type="log"))
    y = alt.Y("gap:Q", title="mean cumulative gap", scale=alt.Scale(type="symlog", constant=1))
    lines = alt.Chart(csv_data(["search", "rung", "value", "gap"], rows, texts=("rung",))).transform_filter(
        chosen(selectors)
    )
    winner = alt.Chart(csv_data(["search", "value", "gap"], best)).transform_filter(chosen(selectors))
    layers = [
        lines.mark_line(point=True).encode(
            x=x,
            y=y,
            color=alt.Color(
                "rung:N", title=None, sort=rungs, legend=alt.Legend(orient="top"), scale=alt.Scale(range=list(PALETTE))
            ),
            tooltip=["rung:N", "value:Q", "gap:Q"],
        ),
        winner.mark_point(size=160, color=BLUE, strokeWidth=2).encode(x=x, y=y),
    ]
    note = "Mean cumulative quantile gap over the validation seeds (capped reference). Ring: the winner."
    return with_title(alt.layer(*layers), titles, note, selectors=selectors)


def experiment_chart(experiment: Experiment, measure: str) -> Any:
    """Learning curves of an experiment with their bands."""
    rows, curves = experiment.curves(measure), []
    for one in experiment.learners:
        own = [row for row in rows if row["learner"] == one.label]
        columns = {name: np.array([float(row[name]) for row in own]) for name in ("episode", "mean", "low", "high")}
        curves.append(Curve(one.label, columns["episode"], columns["mean"], columns["low"], columns["high"]))
    best = experiment.rows()[0]["learner"]
    verdict = "ends with the smallest gap" if experiment.exact else "has the largest late return"
    title = f"{best} {verdict} at τ = {experiment.tau:g}"
    return curves_chart(curves, title=title, y_title=EXPERIMENT_MEASURES[measure], band=experiment.band)


def final_laws(study: Study, key: str, tau: float) -> list[Law]:
    """Laws of the return under the final policies, one per held-out seed."""
    laws = study.scores.laws["", key, tau]
    return [Law(*laws[seed]) for seed in study.spec.study.seeds]


def mixed_law(study: Study, key: str, tau: float) -> Law:
    """Law of the return if one of the held-out runs is drawn at random and its final policy played."""
    laws = final_laws(study, key, tau)
    mass = np.concatenate([law.probabilities for law in laws]) / len(laws)
    return Law(np.concatenate([law.values for law in laws]), mass)
