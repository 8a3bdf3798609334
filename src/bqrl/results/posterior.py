"""Posterior draws as a chart and as part of the result of a fit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.display import percent
from bqrl.laws.law import Law
from bqrl.laws.objectives import Quantile
from bqrl.logs.posterior import INTERVAL, PosteriorDraws
from bqrl.results.charts import with_charts
from bqrl.results.plan_charts import law_chart
from bqrl.results.result import Result, ResultTable, chart_files
from bqrl.results.words import PLAIN, Words

FILES = ("posterior.csv", *chart_files(["posterior"]))
NOT_PROMISED = "a statement about the posterior, which depends on the prior; it is not the promise"


def posterior_chart(draws: PosteriorDraws, words: Words = PLAIN) -> Any:
    """How often each value of the quantile, or of the promised objective, occurs among the draws."""
    values = draws.quantile if draws.promised is None else draws.promised
    atoms, counts = np.unique(values, return_counts=True)
    promises = {} if draws.promise is None else {draws.tau: draws.promise}
    chart = law_chart({draws.tau: Law(atoms, counts / counts.sum())}, promises, words=words)
    said = f"{draws.draws:,} draws: {NOT_PROMISED}. {'Dashed line: the promise. ' if promises else ''}"
    said += f"Prior: weight {draws.prior:g} per row, spread evenly over its outcomes."
    title = {"text": f"The {Quantile(draws.tau).label} under posterior draws", "subtitle": said}
    for layer in chart.layer:
        for axis, name in (
            ("x", words.axis(f"{Quantile(draws.tau).label} of the return")),
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


def with_posterior(result: Result, draws: PosteriorDraws, words: Words, *, draw: bool) -> Result:
    """The result of a fit with the table, the sentence and, with `draw`, the chart of posterior draws."""
    details: Mapping[str, Any] = {"sentence": draws.sentence, "share": draws.share, "measures": draws.rows()}
    found = replace(
        result,
        tables={**result.tables, "posterior": posterior_table(draws, words)},
        sentences=[*result.sentences, draws.sentence],
        details={**result.details, "posterior": details},
    )
    if not draw:
        return found
    drawn = with_charts(found, lambda: {"posterior": posterior_chart(draws, words)})
    return replace(drawn, charts={**result.charts, **drawn.charts})
