"""What a policy still guarantees if the model is off, as a Result: a sentence, a chart and a table."""

from __future__ import annotations

from typing import Any

from bqrl.display import percent
from bqrl.planners.stress import Stress
from bqrl.results import charts
from bqrl.results.charts import Curve, with_charts
from bqrl.results.result import Result, ResultTable
from bqrl.results.words import Words, held_sentence
from bqrl.versions import versions


def stress_table(held: Stress, words: Words) -> ResultTable:
    """The guarantees by share of probability that is off, with titles for people."""
    titles = {"off": "probabilities off by up to", "value": words.titled("guaranteed")}
    titles["risk_neutral"] = words.titled("risk-neutral")
    titles |= {key: words.titled(name) for key, name in zip(list(held.columns)[3:], held.others, strict=True)}
    rows: list[dict[str, Any]] = [{**row, "off": percent(row["off"])} for row in held.rows()]
    said = "What is still proven if in every row up to this share of probability moves between its outcomes."
    return ResultTable(rows, titles=titles, caption=said, bounds=dict.fromkeys(list(held.columns)[1:], -1))


def stress_chart(held: Stress, words: Words | None = None, finding: bool = True) -> Any:
    """Chart of what a policy and the risk-neutral one guarantee if the model is off; a page says the finding itself."""
    words = Words.of(held.mdp) if words is None else words
    shown = [("policy", held.value), ("risk-neutral", held.risk_neutral), *held.others.items()]
    curves = [Curve(name, 100.0 * held.off, values) for name, values in shown]
    upwards = words.axis(held.objective.axis(words.runs, words.total))
    drawn = charts.lines(curves, "probabilities off by up to (%)", upwards, points=held.off.size < 20, dashed=True)
    said = held_sentence(held, words) if finding else ""
    return drawn.chart("What holds if the model is off", "All lines are proven lower bounds.", finding=said)


def stress_result(held: Stress, words: Words) -> Result:
    """The result of a stress test."""
    result = Result(
        kind="stress",
        title=words.title,
        settings={"objective": held.objective.label, "off": [percent(x) for x in held.off.tolist()]},
        tables={"stress": stress_table(held, words)},
        sentences=[said] if (said := held_sentence(held, words)) else [],
        details={"rows": held.rows(), "overtaken": held.overtaken, "versions": versions()},
    )
    return with_charts(result, lambda: {"stress": stress_chart(held, words, finding=False)})
