"""Posterior draws as a chart and as part of the result of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from bqrl.display import percent
from bqrl.laws.law import Law
from bqrl.laws.objectives import Quantile
from bqrl.logs.acceptability import Acceptability
from bqrl.logs.posterior import INTERVAL, PosteriorDraws
from bqrl.results.charts import PALETTE, altair, chart_of, colour_channel, tooltips, with_charts, with_title
from bqrl.results.plan_charts import law_chart
from bqrl.results.result import Result, ResultTable, chart_files
from bqrl.results.words import PLAIN, Words

FILES = ("posterior.csv", "acceptability.csv", *chart_files(["posterior", "acceptability"]))
NOT_PROMISED = "a statement about the posterior, which depends on the prior; it is not the promise"


def posterior_chart(draws: PosteriorDraws, words: Words = PLAIN) -> Any:
    """How often each value of the quantile, or of the promised objective, occurs among the draws."""
    values = draws.quantile if draws.promised is None else draws.promised
    atoms, counts = np.unique(values, return_counts=True)
    promises = {} if draws.promise is None else {draws.tau: draws.promise}
    chart = law_chart({draws.tau: Law(atoms, counts / counts.sum())}, promises, words=words)
    said = f"{draws.draws:,} draws: {NOT_PROMISED}. {'Dashed line: promise of the new plan. ' if promises else ''}"
    said += f"Prior: weight {draws.prior:g} per row, spread evenly over its outcomes."
    goal = Quantile(draws.tau) if draws.promised is None or draws.objective is None else draws.objective
    title = {"text": f"The {goal.label} under posterior draws", "subtitle": said}
    for layer in chart.layer:
        for axis, name in (
            ("x", goal.axis() if goal.probability else words.axis(f"{goal.label} of the return")),
            ("y", "share of the draws"),
        ):
            channel = getattr(layer.encoding, axis, None)
            if channel is not None and hasattr(channel, "title"):
                channel.title = name
    return chart.properties(title=title)


def posterior_table(draws: PosteriorDraws, words: Words = PLAIN) -> ResultTable:
    """The table of the measures over the draws."""
    titles = {key: words.titled(key) for key in ("mean", "median", "lower", "upper")}
    said = (
        f"{draws.draws:,} posterior draws, {NOT_PROMISED}. Lower and upper: central {percent(INTERVAL)} of the draws."
    )
    return ResultTable(draws.rows(), titles=titles, caption=said)


def acceptability_chart(found: Acceptability, words: Words = PLAIN) -> Any:
    """Cost-effectiveness acceptability curves: the probability of the highest net benefit against the threshold."""
    alt, rows = altair(), [[row["threshold"], row["strategy"], row["probability"]] for row in found.rows()]
    worth = f"what one unit of {found.effect} is worth ({found.cost})"
    chart = chart_of(("threshold", "strategy", "probability"), rows).mark_line(point=True).encode(
        x=alt.X("threshold:Q", title=worth),
        y=alt.Y("probability:Q", title="probability of being cost-effective", scale={"domain": [0, 1]}),
        color=colour_channel("strategy:N", dict(zip(found.names, cycle(PALETTE), strict=False))),
        tooltip=tooltips("strategy:N", ("threshold:Q", "threshold", ".6~g"), ("probability:Q", "probability", ".3~g")),
    )  # fmt: skip
    said = f"{found.draws:,} draws: {NOT_PROMISED}. Cost-effective: the highest net benefit, threshold x mean {found.effect} "
    return with_title(chart, "Which strategy is worth its cost", f"{said}- mean {found.cost}.")


def acceptability_table(found: Acceptability) -> ResultTable:
    """The table of probabilities and net benefits."""
    titles = {"net_benefit": f"net benefit ({found.cost})", "perfect_information": "value of perfect information"}
    said = f"{found.draws:,} posterior draws, {NOT_PROMISED}. Best: the highest mean net benefit at the threshold."
    return ResultTable(found.rows(), titles=titles, caption=said)


def with_posterior(result: Result, draws: PosteriorDraws, words: Words, *, draw: bool) -> Result:
    """The result of a fit with the table, the sentence and, with `draw`, the chart of posterior draws."""
    said = {"sentence": draws.sentence, "share": draws.share, "measures": draws.rows()}
    chart = (lambda: posterior_chart(draws, words)) if draw else None
    return _with(result, "posterior", posterior_table(draws, words), said, chart)


def with_acceptability(result: Result, found: Acceptability, *, draw: bool) -> Result:
    """The result of a fit with the table, the sentence and, with `draw`, the chart of the acceptability of strategies."""
    said = {"sentence": found.sentence, "rows": found.rows()}
    return _with(
        result, "acceptability", acceptability_table(found), said, (lambda: acceptability_chart(found)) if draw else None
    )  # fmt: skip


def _with(
    result: Result, name: str, table: ResultTable, said: Mapping[str, Any], chart: Callable[[], Any] | None
) -> Result:
    """The result with one more table, its sentence and, if given, its chart."""
    found = replace(
        result,
        tables={**result.tables, name: table},
        sentences=[*result.sentences, said["sentence"]],
        details={**result.details, name: said},
    )
    if chart is None:
        return found
    drawn = with_charts(found, lambda: {name: chart()})
    return replace(drawn, charts={**result.charts, **drawn.charts})
