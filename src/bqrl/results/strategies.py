"""Strategies side by side as a Result: their table, a sentence, their laws over one another, and values against a parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from bqrl.checks import exact_text
from bqrl.display import TINY, format_number, percent
from bqrl.planners.strategies import Scenario, Strategies
from bqrl.results import charts
from bqrl.results.charts import Curve, Selector, chart_of, lines, with_charts
from bqrl.results.plan_charts import OUTSIDE
from bqrl.results.result import Result, ResultTable, Sentence, asked_for, chart_files
from bqrl.results.words import SENTENCE_DIGITS, Words, list_words, price
from bqrl.versions import versions

CHART = "strategies"
FILES = ("strategies.csv", "return_laws.csv", *chart_files([CHART]))
BEST = "best of any policy"
BOUNDS = (
    "Where exact is no, quantiles and worst-case averages are proven lower bounds, distances and shares of low returns "
    "are at most the stated ones, and means are exact."
)


def strategy_rows(table: Strategies) -> list[dict[str, Any]]:
    """The rows without columns that say nothing: the model beside its parameters, and `exact` if all numbers are exact."""
    hidden = {"model"} if table.scenarios[0].parameters else set()
    hidden |= {"exact"} if table.exact else set()
    return [{key: value for key, value in row.items() if key not in hidden} for row in table.rows()]


def strategy_table(table: Strategies, words: Words) -> ResultTable:
    """The rows with titles for people."""
    titles = {"mean": "mean", "behind_mean": "below the best mean"}
    for tau in table.taus:
        level, certain = exact_text(tau), words.share(tau)
        titles |= {f"quantile_{level}": f"in {certain} at least", f"cvar_{level}": f"worst {percent(tau)} on average"}
        titles[f"behind_{level}"] = (
            "below the best guarantee" if len(table.taus) == 1 else f"below the best in {certain}"
        )
    if table.below is not None:
        titles["chance_below"] = f"{words.runs} below {format_number(table.below)} (%)"
    titles |= {f"mean_{name}": f"mean {name.replace('_', ' ')}" for name in table.scenarios[0].mdp.outcome_names}
    titles |= {f"parameter_{name}": f"{name} (parameter)" for name in table.scenarios[0].parameters}
    caption = f"Strategies side by side{f', in {words.unit}' if words.unit else ''}." + (
        "" if table.exact else f" {BOUNDS}"
    )
    rows = strategy_rows(table)
    if table.below is not None:  # as a percentage of at most two decimals
        rows = [row | {"chance_below": _percentage(row["chance_below"])} for row in rows]
    return ResultTable(rows, titles=titles, caption=caption, bounds=table.bounds)


def _percentage(share: float) -> float | str:
    """A share in percent with three digits and at most two decimals."""
    if 0.0 < share < TINY:
        return f"< {100.0 * TINY:g}"
    return round(float(f"{100.0 * share:.3g}"), 2)


def strategy_tables(table: Strategies, words: Words) -> list[ResultTable]:
    """The same table for a terminal: with several levels one narrow table per level.

    Only the first has the columns that belong to no level, and the distance to the best mean is left out.
    """
    whole = strategy_table(table, words)
    if len(table.taus) == 1:
        return [whole]
    found = list[ResultTable]()
    names = {"model", "strategy", *(f"parameter_{x}" for x in table.scenarios[0].parameters)}
    levels = [[f"{kind}_{exact_text(tau)}" for kind in ("quantile", "cvar", "behind")] for tau in table.taus]
    hidden = {"behind_mean", *(key for keys in levels for key in keys)}
    for tau, keys in zip(table.taus, levels, strict=True):
        columns = [key for key in whole.columns if key in names or key in keys or not (found or key in hidden)]
        caption = f"The same in {words.share(tau)}." if found else whole.caption
        titles = dict(whole.titles) | {keys[-1]: "below the best guarantee"}
        rows = [{key: row[key] for key in columns} for row in whole.rows]
        found.append(replace(whole, rows=rows, titles=titles, caption=caption))
    return found


def strategy_sentences(table: Strategies, words: Words) -> list[str]:
    """The best guarantee among the strategies and its price; with several models, how often each is best and the safest one."""
    tau, sure = table.taus[0], words.share(table.taus[0])
    leaders = [_leader(table, one, tau) for one in table.scenarios]
    if len(table.scenarios) == 1:
        return [_sentence(table, table.scenarios[0], leaders[0], words)]
    counts = {name: leaders.count(name) for name in table.names if name in leaders}
    said = [f"{name} in {count}" for name, count in counts.items()]
    first = f"The strategy that guarantees the most in {sure}: {list_words(said)} of {len(leaders)} models."
    if len(counts) == 1:
        first = f"{leaders[0]} guarantees the most of these strategies in {sure}, in each of the {len(leaders)} models."
    worst = {name: min(one.laws[name][0].quantile(tau) for one in table.scenarios) for name in table.names}
    safest = max(table.names, key=worst.__getitem__)  # ties go to the first
    least = words.amount(format_number(worst[safest], SENTENCE_DIGITS, -1))
    last = f"{safest}: at least {least} in {sure}, in each of the {len(leaders)} models"
    if len(table.names) == 1:
        return [f"{last}."]
    return [first, f"{last}; no other of these strategies promises more in its worst model."]


def _leader(table: Strategies, scenario: Scenario, tau: float) -> str:
    """The strategy with the best quantile; ties go to the better mean, then to the first."""
    laws = {name: scenario.laws[name][0] for name in table.names}
    return max(table.names, key=lambda name: (laws[name].quantile(tau), laws[name].exact_mean))


def _sentence(table: Strategies, scenario: Scenario, name: str, words: Words) -> str:
    """What one strategy gives, and its price."""
    (law, upper), tau = scenario.laws[name], table.taus[0]
    least = words.amount(format_number(law.quantile(tau), SENTENCE_DIGITS, -1))
    chance = None if table.below is None else law.shortfall(table.below)
    parts = price(law.exact_mean, scenario.best_mean, words, table.below, chance, upper is None)
    alone = "" if len(table.names) == 1 else ", the most of these strategies"
    return f"{'; '.join([f'{name}: in {words.share(tau)} at least {least}{alone}', *parts])}."


def strategies_chart(table: Strategies, words: Words | None = None) -> Any:
    """The quantile against a parameter, if one has several numbers as values; otherwise the laws over one another."""
    words = Words.of(table) if words is None else words
    parameter = next((name for name in table.scenarios[0].parameters if len(_numbers(table, name)) > 1), None)
    return laws_chart(table, words) if parameter is None else parameter_chart(table, parameter, words)


def laws_chart(table: Strategies, words: Words) -> Any:
    """The share of runs above each return, one line per strategy; a list chooses the model."""
    models = [one.name for one in table.scenarios]
    selectors = [Selector("model", "model", models, models)] if len(models) > 1 else []
    laws = [(i, name, one.laws[name][0]) for i, one in enumerate(table.scenarios) for name in table.names]
    low, high, outside = _axis(table)
    laws = [each for each in laws if each[1] not in outside]
    room = 0.03 * (high - low or 1.0)
    left, right = low - room, high + room
    curves = []
    for i, name, law in laws:
        inside = (law.values > left) & (law.values < right)
        x, y = law.values[inside], 1.0 - law.running[inside]
        ends = [1.0 - law.cdf(end) for end in (left, right)]
        curves.append(Curve(name, np.r_[left, x, right], np.r_[ends[0], y, ends[1]], view=(i,) if selectors else ()))
    scales: dict[str, Any] = {"x": {"domain": [left, right]}, "y": {"domain": [0, 1]}}
    title = f"share of {words.runs} that exceed it"
    drawn = lines(curves, words.axis(words.total), title, selectors=selectors, scales=scales, step=True)
    marks = chart_of(["y"], [[1.0 - tau] for tau in table.taus]).encode(y=drawn.y)
    more = [marks.mark_rule(strokeDash=[4, 3], color=charts.GREY)]
    marked = table.below is not None and left < table.below < right
    if marked:
        limit = chart_of(["x"], [[table.below]]).encode(x=drawn.x)
        more.append(limit.mark_rule(strokeDash=[2, 2], color=charts.RED))
    note = f"How often each exceeds a {words.total}: the higher the line, the better."
    note += f" Dashed: {list_words([words.share(tau) for tau in table.taus])}."  # a label could touch a line
    note += "" if table.exact else " Laws are proven lower bounds."
    note += f" Red: {words.amount(format_number(table.below))}." if marked else ""
    note += f" To the left of the axis: {list_words(outside)}." if outside else ""
    return drawn.chart("Strategies side by side", note, *more)


def _axis(table: Strategies) -> tuple[float, float, list[str]]:
    """The range of returns to show, and the strategies that lie below it.

    It holds the strategies whose returns overlap with those of the best strategy, and what others have in it.
    """
    spans: dict[str, list[float]] = {}
    for one in table.scenarios:
        for name in table.names:
            law = one.laws[name][0]
            spans.setdefault(name, []).extend(law.quantile(u) for u in (OUTSIDE, *table.taus, 1.0 - OUTSIDE))
    leaders = {_leader(table, one, table.taus[0]) for one in table.scenarios}
    least = min(min(spans[name]) for name in leaders)
    ends = [x for name in table.names if max(spans[name]) >= least for x in spans[name]]
    return min(ends), max(ends), [name for name in table.names if max(spans[name]) < min(ends)]


def parameter_chart(table: Strategies, parameter: str, words: Words) -> Any:
    """The quantile of every strategy, and the best of any policy, against one parameter; lists choose the other ones."""
    settings = [one.parameters for one in table.scenarios]
    values = {name: list(dict.fromkeys(each[name] for each in settings)) for name in settings[0] if name != parameter}
    selectors = [
        Selector(f"p{i}", name, [str(value) for value in given], given)
        for i, (name, given) in enumerate(values.items())
    ]
    levels = [words.share(tau) for tau in table.taus]
    selectors += [Selector("level", "certainty", levels, table.taus)] if len(levels) > 1 else []
    curves = []
    for (k, tau), place in product(enumerate(table.taus), product(*(range(len(given)) for given in values.values()))):
        here = {name: given[i] for (name, given), i in zip(values.items(), place, strict=True)}
        some = [one for one in table.scenarios if all(one.parameters[name] == x for name, x in here.items())]
        some.sort(key=lambda one: float(one.parameters[parameter]))
        x = np.array([float(one.parameters[parameter]) for one in some])
        view = (*place, k) if len(levels) > 1 else place
        for name in table.names:
            curves.append(Curve(name, x, np.array([one.laws[name][0].quantile(tau) for one in some]), view=view))
        if all(one.optimum[k] is not None for one in some):
            curves.append(Curve(BEST, x, np.array([float(one.optimum[k] or 0.0) for one in some]), view=view))
    palette = dict(zip(table.names, charts.PALETTE * (1 + len(table.names) // len(charts.PALETTE)), strict=False))
    title = words.axis(f"{words.total} reached {f'in {levels[0]}' if len(levels) == 1 else 'with this certainty'}")
    colours = {name: palette.get(name, charts.GREY) for name in dict.fromkeys(curve.label for curve in curves)}
    drawn = lines(curves, parameter, title, selectors=selectors, colours=colours, points=True)
    note = f"Grey: the {BEST} in each model." if BEST in colours else ""
    return drawn.chart("What each strategy guarantees", note)


def _numbers(table: Strategies, name: str) -> set[float]:
    """The different values of a parameter; none if one of them is not a number."""
    values = [one.parameters[name] for one in table.scenarios]
    if any(isinstance(value, bool) or not isinstance(value, (int, float, np.number)) for value in values):
        return set()
    return set(map(float, values))


def strategies_document(table: Strategies, words: Words, settings: Mapping[str, Any]) -> dict[str, Any]:
    """The rows as JSON values; printed by `--json`."""
    return {
        "format": "bqrl strategies 1", "title": words.title, "settings": dict(settings), "tau": list(table.taus),
        "below": table.below, "rows": table.rows(), "meaning": strategy_sentences(table, words), "versions": versions(),
    }  # fmt: skip


def strategies_result(table: Strategies, words: Words, settings: Mapping[str, Any], size: str = "") -> Result:
    """The result of strategies side by side."""
    rows: list[dict[str, Any]] = [
        {
            **({"model": one.name} if one.name else {}),
            "strategy": f"{name}{end}",
            "return": atom["value"],
            "probability": atom["probability"],
        }
        for one in table.scenarios
        for name in table.names
        for end, law in _ends(one, name)
        for atom in law.rows()
    ]
    caption = "The probability of every return under each strategy."
    said: Sequence[Any] = strategy_sentences(table, words)
    said = [*said, *([] if table.exact else [Sentence(BOUNDS, aside=True)])]
    result = Result(
        kind="strategies",
        title=words.title,
        settings=({"size": size} if size else {}) | asked_for(settings),
        tables={
            "strategies": strategy_table(table, words),
            "return_laws": ResultTable(rows, titles={"return": words.axis(words.total)}, caption=caption),
        },
        sentences=said,
        details=strategies_document(table, words, settings),
    )
    return with_charts(result, lambda: {CHART: strategies_chart(table, words)})


def _ends(scenario: Scenario, name: str) -> list[tuple[str, Any]]:
    """The law of a strategy, or both ends of its bracket."""
    lower, upper = scenario.laws[name]
    return [("", lower)] if upper is None else [(" lower", lower), (" upper", upper)]
