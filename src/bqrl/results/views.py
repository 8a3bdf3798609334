"""Notebook views of the library's objects: charts, and small HTML tables with a small picture.

Each class has one entry in VIEWS: a function that draws it and a function that returns the content of its table. A picture is
a static SVG in an image element, so no script runs; without the extra "plots" only the table is shown.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import replace
from html import escape
from itertools import product
from typing import Any

import numpy as np

from bqrl.checks import choice, whole
from bqrl.display import format_number, spread_indices
from bqrl.laws.law import Law
from bqrl.laws.sample import Sample
from bqrl.learners.record import Record
from bqrl.logs.acceptability import Acceptability
from bqrl.logs.estimate import Estimate
from bqrl.logs.posterior import PosteriorDraws
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.planners.curve import LEVELS, GridCurve
from bqrl.planners.cvar import CVaRCurve
from bqrl.planners.on_grid import Refinement
from bqrl.planners.outlook import Outlook
from bqrl.planners.plan import Plan
from bqrl.planners.strategies import Strategies
from bqrl.planners.strategies import strategies as strategies
from bqrl.planners.stress import Stress
from bqrl.planners.target import GuaranteeCurve
from bqrl.planners.tradeoff import Tradeoff
from bqrl.policies.levels import QuantileLevelPolicy
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy
from bqrl.results import charts
from bqrl.results.charts import Curve, altair, curves_chart
from bqrl.results.estimates import estimate_view
from bqrl.results.learning_curves import averaged_curve, learner_colours, mean_curve, thinning_note
from bqrl.results.plan_charts import (
    LEVEL_TITLE,
    WORST_TITLE,
    curve_chart,
    law_chart,
    plan_charts,
    policy_chart,
    trade_chart,
)
from bqrl.results.plans import curve_value, level_facts
from bqrl.results.posterior import acceptability_chart, posterior_chart
from bqrl.results.result import ResultTable
from bqrl.results.strategies import strategies_chart, strategy_table
from bqrl.results.stress import stress_chart
from bqrl.results.words import Words, display_table, order_of, sentence
from bqrl.results.words import drawn_words as drawn_words
from bqrl.results.words import outlook_sentence as outlook_sentence
from bqrl.results.words import remark as remark
from bqrl.results.words import remarks as remarks
from bqrl.study.scores import Contender, Experiment
from bqrl.study.suite import Suite

MAX_ROWS, MAX_CELLS = 12, 12  # of a table, and of either side of a map in a notebook
MAX_PICTURE = 72_000  # bytes of a picture in a notebook
POINTS = 100  # episodes of a learning curve in a notebook

# -- charts ---------------------------------------------------------------------------------------------------------------


def plan_view(plan: Plan) -> Any:
    """Charts of a plan: the law of its return, and the guarantee curve beside it if the planner made one."""
    if not plan.by_level:
        return law_chart({0.0: plan.law}, {})
    return charts.join_charts("hconcat", *plan_charts([plan], plan.details.get("curve"), words=Words.of(plan)).values())


def record_view(record: Record) -> Any:
    """Chart of one run: what each evaluated policy promises, or the realised returns if the kernel is unknown."""
    label, words = str(record.settings.get("learner", "learner")), Words.of(record.mdp)
    colours = learner_colours([Contender(label=label, learner=label, params=record.settings.get("params", {}))])
    if record.optimum is None:
        curve = averaged_curve(label, record.returns[None, :])
        y_title = words.axis("mean return of a block of episodes")
        return curves_chart([curve], title="Realised returns", y_title=y_title, colours=colours)
    values, best = record.value(), record.optimum.value(record.objective)
    return curves_chart(
        [Curve(label, np.arange(1.0, values.size + 1.0), values)], title="What the current policy promises",
        y_title=words.objective_axis(record.objective),
        references=[("best possible, at least" if record.optimum.error_of(record.objective) else "best possible", best)],
        note=words.bracket(record.optimum.error_of(record.objective), record.score_error), colours=colours, step=True,
    )  # fmt: skip


def experiment_view(
    experiment: Experiment, measure: str | None = None, points: int = charts.MAX_POINTS,
    colours: Mapping[str, str] | None = None, words: Words | None = None, title: str = "", finding: str = "", log: str = "",
) -> Any:  # fmt: skip
    """Learning curves with their bands; `measure` as in `Experiment.values`; a study gives the other arguments."""
    words = Words.of(experiment.problem) if words is None else words
    measure = measure or ("gap" if experiment.known else "return")
    bracket = words.bracket(experiment.error, experiment.score_error) if measure in ("gap", "exact") else ""
    return curves_chart(
        [
            mean_curve(one.label, experiment.values(one.label, measure), points, measure=measure, log="x" in log)
            for one in experiment.learners
        ],
        title=title or f"Cumulative {experiment.measure_name(measure)}, {experiment.objective.label}",
        finding=finding or sentence(order_of(experiment, measure, words)),
        y_title=words.axis(f"cumulative {experiment.measure_name(measure)}"),
        band=experiment.band,
        note=f"{thinning_note(experiment.episodes, points)} {bracket}".strip(),
        colours=colours or learner_colours(experiment.learners),
        log=log,
        description=experiment.runs,
    )


def _curve_rows(curve: GuaranteeCurve | CVaRCurve) -> list[dict[str, float]]:
    return [{"level": tau, Words.of(curve.mdp).titled(curve_value(curve)): curve(tau)} for tau in LEVELS]


def grid_curve_view(curve: GridCurve) -> Any:
    """Chart of the two ends of the guarantee curve of a problem with continuous states."""
    levels = np.linspace(0.01, 0.99, 99)
    ends: dict[str, Callable[[float], float]] = {"proven lower end": curve, "proven upper end": curve.upper}
    found = {label: np.array([end(float(tau)) for tau in levels]) for label, end in ends.items()}
    curves = [Curve(label, levels[np.isfinite(y)], y[np.isfinite(y)]) for label, y in found.items()]
    if isinstance(curve.low, CVaRCurve):
        return charts.lines(curves, WORST_TITLE.format("runs"), "CVaR of the return").chart(
            "Best CVaR at each level", ""
        )
    return charts.lines(curves, LEVEL_TITLE.format("runs"), "quantile of the return", step=True).chart(
        "Best quantile at each level", ""
    )


def refinement_view(path: Refinement) -> Any:
    """Chart of the bracket on ever finer grids."""
    points = np.array([row["points"] for row in path.path], float)
    ends = {"proven lower end": "value", "proven upper end": "upper"}
    curves = [Curve(label, points, np.array([row[key] for row in path.path])) for label, key in ends.items()]
    scales: dict[str, dict[str, Any]] = {"x": {"type": "log"}, "y": {"zero": False}}
    drawn = charts.lines(curves, "grid points", path.objective, scales=scales, points=True)
    return drawn.chart("The bracket on finer grids", "The optimum lies between the two lines.")


def mdp_view(mdp: MDP) -> Any:
    """Map of the mean reward by state and action at the first stage."""
    alt = altair()
    states, actions = (spread_indices(n, MAX_CELLS).tolist() for n in (mdp.S, mdp.A))
    rows = []
    for s, a in product(states, actions):
        _, probability, reward = mdp.outcomes(0, s, a)
        if probability.size:
            rows.append([mdp.state_label(s), mdp.action_label(a), float(probability @ reward)])
    axis, scale, legend = {"labelLimit": 110, "labelOverlap": True}, {"scheme": "viridis"}, {"orient": "right"}
    cells = charts.chart_of(["state", "action", "reward"], rows).mark_rect()
    chart = cells.encode(
        x=alt.X("action:N", sort=[mdp.action_label(a) for a in actions], axis={**axis, "labelAngle": 0}),
        y=alt.Y("state:N", sort=[mdp.state_label(s) for s in states], axis=axis),
        color=alt.Color("reward:Q", title=Words.of(mdp).axis("reward"), scale=scale, legend=legend),
    )
    note = f"{len(states)} of {mdp.S} states, {len(actions)} of {mdp.A} actions."
    return charts.with_title(chart, "Mean reward at the first stage", note, int(min(300, max(60, 14 * len(states)))))


def policy_view(policy: Policy) -> Any | None:
    """Map of the actions by stage and state; None for label policies, which have no such map."""
    states = spread_indices(policy.S, MAX_CELLS)
    played = _action_probabilities(policy, states)
    if played is None:
        return None
    shown = policy.policies[int(policy.weights.argmax())] if isinstance(policy, MixturePolicy) else policy
    note, title = f"{states.size} of {policy.S} states, by number.", "What the policy does"
    if not isinstance(shown, (MarkovPolicy, StochasticPolicy)):
        title += " while nothing has been earned"
        note = (
            f"Later the action also depends on what was earned so far: policy.table(mdp) is the rule to follow. {note}"
        )
    if isinstance(policy, MixturePolicy):
        note = f"The most likely of {len(policy.policies)} policies, drawn with probability {policy.weights.max():.3g}. {note}"
    names = [str(s) for s in states.tolist()]
    return policy_chart(
        {0.0: played}, names, [str(a) for a in range(played.shape[2])], title=title, note=note, visits=False
    )


def _action_probabilities(policy: Policy, states: IntArray) -> FloatArray | None:
    """Action probabilities (H, states, A) while nothing has been earned; a mixture is shown by its most likely part."""
    if isinstance(policy, MixturePolicy):
        return _action_probabilities(policy.policies[int(policy.weights.argmax())], states)
    if isinstance(policy, QuantileLevelPolicy):
        return _action_probabilities(policy.targets, states)
    if isinstance(policy, StochasticPolicy):
        return policy.probabilities[:, states]
    if isinstance(policy, TargetPolicy):
        met = np.ones((policy.H, states.size), bool)
        if policy.near is not None and policy.near.met is not None:
            met = policy.near.met[: policy.H, states]  # the other actions are not stored
        found = (policy.decisions(h, policy.target, states[met[h]]) for h in range(policy.H))
        table = np.array([actions[:, int(column)] for actions, column in found])
        return np.eye(int(table.max()) + 1)[table[:, states]] * met[:, :, None]
    if isinstance(policy, MarkovPolicy):
        return np.eye(int(policy.actions.max()) + 1)[policy.actions[:, states]]
    return None


# -- tables ---------------------------------------------------------------------------------------------------------------


def _experiment_rows(experiment: Experiment) -> list[dict[str, Any]]:
    """The final values without the columns that the caption states."""
    said = ("objective", "episodes", "seeds", "band")
    return [{key: x for key, x in row.items() if key not in said and "beats" not in key} for row in experiment.rows()]


def _record_facts(record: Record) -> dict[str, Any]:
    facts = {key: record.settings.get(key) for key in ("learner", "objective", "seed")}
    titled = Words.of(record.mdp).titled
    facts |= {"episodes": record.returns.size, titled("mean return"): float(record.returns.mean())}
    return facts | ({} if record.optimum is None else {titled("cumulative gap"): float(record.gap().sum())})


# By class: a function that returns the chart or None, and one that returns the table, as a dict of facts or as rows.
VIEWS: dict[type, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    Law: (lambda law: law_chart({0.0: law}, {}), lambda law: {
        "atoms": len(law), "mean": law.exact_mean, **{f"{tau:g}-quantile": law.quantile(tau) for tau in (0.05, 0.1, 0.5, 0.9)},
    }),
    Sample: (lambda sample: law_chart({0.0: sample.law}, {}), lambda sample: sample.rows()),
    MDP: (mdp_view, lambda mdp: {
        "states": mdp.S, "actions": mdp.A, "stages": mdp.H, "discount": mdp.discount,
        "transitions": int(mdp.successor.size),
    }),
    Policy: (policy_view, lambda policy: {"stages": policy.H, "states": policy.S, "table": "policy.table(mdp)"}),
    Plan: (plan_view, lambda plan: {
        "objective": plan.objective.label, "value": format_number(plan.value, direction=-1),
        "upper bound": format_number(plan.upper, direction=1), "proven": plan.certain,
        "mean": plan.mean, "policy": plan.policy.kind,
        "meaning": " ".join([level_facts(plan, Words.of(plan))["meaning"], *map(sentence, plan.remarks)]),
    }),
    GuaranteeCurve: (lambda curve: curve_chart(curve, words=Words.of(curve.mdp)), _curve_rows),
    CVaRCurve: (lambda curve: curve_chart(curve, words=Words.of(curve.mdp)), _curve_rows),
    GridCurve: (grid_curve_view, lambda curve: curve.rows()),
    Refinement: (refinement_view, lambda path: path.rows()),
    Strategies: (strategies_chart, lambda table: strategy_table(table, Words.of(table))),
    Tradeoff: (lambda trade: trade_chart([trade], Words.of(trade.mdp)), lambda trade: trade.rows()),
    Stress: (stress_chart, lambda held: held.rows()),
    Outlook: (lambda now: law_chart({0.0: now.law}, {0.0: now.target}, what="the target"), lambda now: now.rows()[0]),
    Record: (record_view, _record_facts),
    Experiment: (experiment_view, _experiment_rows),
    Suite: (lambda suite: draw_figure(suite.experiments), lambda suite: suite.shares()),
    Estimate: (estimate_view, lambda estimate: {
        **{key.replace("_", " "): value for key, value in estimate.coverage().items()}, "confidence": estimate.confidence,
    }),
    PosteriorDraws: (posterior_chart, lambda draws: draws.rows()),
    Acceptability: (acceptability_chart, lambda found: found.rows()),
}  # fmt: skip


def _view(thing: Any) -> tuple[Callable[..., Any], Callable[[Any], Any]]:
    """The entry of VIEWS for the class of an object."""
    for each in type(thing).__mro__:
        if each in VIEWS:
            return VIEWS[each]
    raise NotImplementedError(f"VIEWS has no entry for {type(thing).__name__}")


def draw_chart(thing: Any, *chosen: Any, title: bool | str = True, **options: Any) -> Any | None:
    """Altair chart of an object, or None; `chosen` is the measure of an experiment or the level of an estimate."""
    chart = _view(thing)[0](thing, *chosen, **options)
    return None if chart is None else charts.composable(chart, title)


def draw_figure(
    parts: Mapping[str, Any], *, columns: int = 3, measure: str | None = None, log: str = "", title: bool | str = True,
    width: int = 260, height: int = 200,
) -> Any:  # fmt: skip
    """Learning curves of experiments, or of pairs (experiment, measure), by the title of their panel, with one legend."""
    choice(log, "log", ("", "x", "y", "xy"))
    pairs = {name: one if isinstance(one, tuple) else (one, measure) for name, one in parts.items()}
    colours = learner_colours({each.label: each for one, _ in pairs.values() for each in one.learners}.values())
    panels = []
    for name, (one, shown) in pairs.items():
        chart: Any = draw_chart(one, shown, title=name if title else False, log=log, colours=colours)
        panels.append(chart.properties(width=whole(width, "width", 1), height=whole(height, "height", 1)))
    drawn = altair().concat(*panels, columns=whole(columns, "columns", 1)).resolve_scale(color="shared")
    return drawn if isinstance(title, bool) else drawn.properties(title=str(title))


def html(thing: Any) -> str:
    """HTML table (first rows) and chart."""
    rows, compact = _view(thing)[1](thing), (None, POINTS) if isinstance(thing, Experiment) else ()
    if isinstance(rows, Mapping):
        rows = [{"": key, type(thing).__name__: value} for key, value in rows.items()]
    shown = rows if isinstance(rows, ResultTable) else ResultTable(rows)
    rows = shown.rows
    caption = f"{thing!r}; low and high: {thing.band}." if isinstance(thing, Experiment) else ""
    caption += f" The first {MAX_ROWS} of {len(rows)} rows." if len(rows) > MAX_ROWS else ""
    titles, cells = display_table(replace(shown, rows=rows[:MAX_ROWS]))
    head = "".join(f"<th>{escape(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in cells)
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    table = f"<table>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    try:
        chart = draw_chart(thing, *compact)
        if chart is None:
            return table
        spec = charts.styled(chart)
        svg = charts.image(spec | {"config": spec["config"] | {"aria": False}}, "svg")
    except ImportError:
        return table
    if len(svg) > MAX_PICTURE:
        return f"{table}<p>The chart is too large to be shown here; chart() returns it.</p>"
    source = f"data:image/svg+xml;base64,{b64encode(svg).decode()}"
    return f'{table}<img alt="chart" style="max-width:100%" src="{source}">'
