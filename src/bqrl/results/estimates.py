"""Estimates from logs as a Result: three policies, the promise in words, what limits it, and their charts."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any

import numpy as np

from bqrl.display import format_number, percent, spread_indices
from bqrl.laws.objectives import Buffered, Mean, Objective, Quantile, quantile_objective
from bqrl.logs.estimate import Estimate
from bqrl.planners.chance import Chance
from bqrl.planners.facts import Fact, LowersPromise, Promised
from bqrl.planners.plan import Plan
from bqrl.policies.forward import play_shares
from bqrl.results import charts
from bqrl.results.charts import altair, chart_of, colour_channel, join_charts, tooltips, with_charts, with_title
from bqrl.results.decisions import policy_files
from bqrl.results.plan_charts import policy_chart
from bqrl.results.result import Result, ResultTable, Sentence, asked_for, chart_files, saved_bytes
from bqrl.results.steps import MAX_SHARES
from bqrl.results.words import PLAIN, Words, remark, sentence, without_assumptions
from bqrl.versions import versions

MAX_HELPS = 3  # steps that are named
MAX_ROWS = 1000  # points of the chart of rows
FILES = (  # files that a folder may hold
    "policies.csv", "gains.csv", "limits.csv", "projection.csv", "rows.csv", "policy.csv", "policy.npz", "estimate.npz",
    *chart_files(["promise", "coverage", "policy_map"]),
)  # fmt: skip
PROMISE, CLAIM, LATER = "promise", "empirical value", "projection"  # short: legends fit a phone
OLD, NEW = "old policy", "new plan"
ADAPTIVE = "estimate without an interval: the log is adaptive"
LOGGED, ALONE, CUT = "estimate with an interval", "estimate without an interval", "no estimate: episodes were cut off"
COLOURS = {
    PROMISE: charts.BLUE, CLAIM: charts.ORANGE, LOGGED: charts.GREY, ALONE: charts.GREY, ADAPTIVE: charts.GREY,
    CUT: charts.GREY, LATER: charts.SKY,
}  # fmt: skip
HAVE_INTERVALS = (Quantile, Chance)  # the old policy has an interval with two ends
USUAL = Mean()  # an objective whose values are amounts
LIMITING, OTHER = "limits the promise", "other rows"


def fit_document(estimate: Estimate, promise: Plan, words: Words = PLAIN) -> dict[str, Any]:
    """An estimate and its promise as JSON values, as printed by `bqrl fit --json`."""
    goal, none = promise.objective, {"lower": None, "upper": None}
    logged: dict[str, Any] = {"value": None, **none, "meaning": CUT}
    if estimate.has_returns:
        found = estimate.logged(goal)
        two_ends = isinstance(goal, HAVE_INTERVALS)
        logged = found | ({} if two_ends else none) | {"meaning": LOGGED if two_ends else ALONE}
        if math.isnan(found["value"]):
            logged |= {"value": None, "meaning": CUT}
    if estimate.adaptive:
        logged |= none | {"meaning": ADAPTIVE}
    promised, others = split_promise(promise)
    plug_in, limited = estimate.plug_in(goal), isinstance(goal, Quantile | Buffered)
    obstacle = estimate.obstacle(goal) if limited else None
    proven = min(estimate.promise_of(plug_in, goal), promise.value) if limited else -math.inf
    return {
        "policies": [
            *([{"policy": OLD, "promise": _finite(promised.old), **logged}] if estimate.episodes else []),
            {"policy": "plug-in plan", "promise": _finite(proven), "value": plug_in.value, **none, "meaning": CLAIM},
            {"policy": NEW, "promise": _finite(promise.value), "value": promise.nominal, **none, "meaning": CLAIM},
        ],
        "headline": {"keep": OLD if promised.keep_old else NEW, "promise": max(promised.old, promise.value)},
        "sentence": remark(promised, words),
        "notes": [remark(fact, words) for fact in others if fact != obstacle],
        "without_data": estimate.without_data(goal),
        "useful": obstacle is None if limited else not (promised.no_data or estimate.trivial(promise.value, goal)),
        "reason": None if obstacle is None else remark(obstacle, words),
        "gains": estimate.gains(goal),
        "helps": estimate.helps(goal),
        "coverage": estimate.coverage(),
        "limits": estimate.limits(goal) if limited else [],
        "projection": estimate.projection(goal),
        "assumptions": list(estimate.assumptions),
    }


def _without_decisions(estimate: Estimate) -> list[int]:
    """The states that the log does not show, and those in which nothing is to be decided, such as death."""
    return sorted({*estimate.added, *np.flatnonzero(estimate.settled.all(axis=0)).tolist()})


def _finite(value: float) -> float | None:
    """A promise, or None if there is none."""
    return value if math.isfinite(value) else None


def split_promise(plan: Plan) -> tuple[Promised, list[Fact]]:
    """The promise of an estimate's plan, and the other facts about it."""
    (promised,) = (fact for fact in plan.notes if isinstance(fact, Promised))
    return promised, [fact for fact in plan.notes if fact is not promised]


def fit_result(
    estimate: Estimate, promise: Plan, words: Words, settings: Mapping[str, Any], *, draw: bool = True
) -> Result:
    """The result of a fit; without `draw`, it has neither files nor charts."""
    content, files, left_out = fit_document(estimate, promise, words), dict[str, bytes](), list[str]()
    tables = _tables(content, promise, estimate, words)
    if draw:
        files["estimate.npz"] = saved_bytes(estimate)
        caption = f"new plan, {promise.objective}, with the observed frequencies as probabilities: "
        left_out = policy_files(promise.policy, estimate.mdp, words, "policy", caption, tables, files)
    if "policy" in tables:
        hidden = {estimate.mdp.state_label(s) for s in _without_decisions(estimate)}
        # For other functions of the return the sweep aims at the highest return, which is no goal.
        aims = () if isinstance(promise.objective, Quantile | Buffered) else ("target", "need_from", "need_to")
        rows = [
            {key: cell for key, cell in row.items() if key not in aims}
            for row in tables["policy"].rows
            if row["state"] not in hidden
        ]
        decisions = {"policy": replace(tables.pop("policy"), rows=rows)}  # after the comparison of the policies
        tables = {"policies": tables.pop("policies")} | decisions | tables
    noted = split_promise(promise)[1]
    lowering = {fact.declaration for fact in noted if isinstance(fact, LowersPromise)}
    seen, sentences = content["coverage"], [remark(without_assumptions(split_promise(promise)[0]), words)]
    asides = [] if content["sentence"] in sentences else [content["sentence"]]
    if content["reason"] is not None:
        none = estimate.trivial(promise.value, promise.objective)
        adds = "No useful promise is possible for a new plan" if none else "Why the data add nothing to the promise"
        sentences.append(f"{adds}: {content['reason']}.")
    asides += [
        *map(sentence, content["notes"]),
        *(
            gain_sentence(gain, words, promise.objective)
            for gain in content["gains"]
            if gain["declaration"] not in lowering
        ),
    ]
    asides += [help_sentence(one, words, promise.objective) for one in content["helps"][:MAX_HELPS]]
    asides.append(
        f"Coverage: {estimate.data_words(words)}, "
        f"{seen['rows_seen']} of {seen['rows']} rows seen, median visits {seen['median_visits']:g}."
    )
    result = Result(
        kind="fit", title=words.title, settings=asked_for(settings), tables=tables,
        sentences=[*sentences, *(Sentence(text, aside=True) for text in asides)],
        details={**content, "settings": dict(settings), "versions": versions()}, files=files, left_out=left_out,
    )  # fmt: skip
    return with_charts(result, lambda: fit_charts(content, estimate, promise, words)) if draw else result


def gain_sentence(gain: Mapping[str, Any], words: Words = PLAIN, goal: Objective = USUAL) -> str:
    """What one declaration adds to the promise.

    >>> gain_sentence({"declaration": "stationary", "without": 14.0, "value": 16.0, "note": ""})
    'The promise is 16 with the declaration stationary and 14 without it.'
    """
    name, ends = words.option(gain["declaration"]), [gain["value"], gain["without"]]
    if gain["without"] is None:
        return f"Without the declaration {name} this log cannot be fitted: {_with_options(gain['note'], words)}."
    value, without = ("none" if x == -math.inf else words.value(goal, x) for x in ends)
    why = f": {gain['note']}" if gain["note"] else ""
    return f"The promise is {value} with the declaration {name} and {without} without it{why}."


def _with_options(text: str, words: Words) -> str:
    """A step or a note of an estimate, which names arguments, with the names that the reader writes."""
    named = r"(?<=^declare )(?!that\b)\w+|(?<=^it requires )\w+|\bround_rewards\b"
    return re.sub(named, lambda name: words.option(name[0]), text)


def help_sentence(one: Mapping[str, Any], words: Words = PLAIN, goal: Objective = USUAL) -> str:
    """What one step would add to the promise, as a projection.

    >>> help_sentence({"step": "record the event of every step", "value": 117.0, "with_it": 185.0, "assumes": False})
    'What would help: record the event of every step; 117 becomes about 185 (a projection, not a promise).'
    """
    now, then = ("no promise" if x == -math.inf else words.value(goal, x) for x in (one["value"], one["with_it"]))
    condition = ", if it is true" if one["assumes"] else ""
    step = _with_options(one["step"], words)
    return f"What would help{condition}: {step}; {now} becomes about {then} (a projection, not a promise)."


def _tables(content: Mapping[str, Any], promise: Plan, estimate: Estimate, words: Words) -> dict[str, ResultTable]:
    """The tables of the folder by name."""
    goal, titled = promise.objective, str if promise.objective.probability else words.titled
    value = {"value": titled(goal.label)}
    stage = {"stage": words.stage, "state": words.state, "action": words.action}
    ends = {name: titled(name) for name in ("lower", "upper", "promise")}
    target = words.amount(format_number(content["limits"][0]["target"])) if content["limits"] else ""
    below = f"adds most to the probability of a return below {target}"
    adding = f"{below}, the lowest that is not promised"
    if isinstance(goal, Buffered):  # costs refer to a target, which a buffered quantile does not have
        of = quantile_objective(goal.tau).label
        adding = f"{below}, the lowest that is not promised for the {of}, a bound on the {goal}"
    limits = [{key: value for key, value in row.items() if key != "target"} for row in content["limits"]]
    costs, radii = stage | {"cost": "added probability"}, stage | {"radius": "l1 radius"}
    gained = {"without": titled("promise without it"), "value": titled("promise")}
    old = "policy that wrote the log, the " if estimate.episodes else ""
    policies = f"The {old}plug-in plan and the new plan, with the promise that each is proven to keep."
    policies += f" {CLAIM.capitalize()}: with the observed frequencies as probabilities."
    if isinstance(goal, HAVE_INTERVALS) and estimate.episodes and not estimate.adaptive:
        policies += f" Lower and upper: {_interval(estimate, goal)}."
    policies += "" if isinstance(goal, Quantile | Buffered) else " That of the plug-in plan is not computed."
    hidden = () if estimate.episodes else ("lower", "upper")  # without an old policy, they are empty
    compared = [{key: cell for key, cell in row.items() if key not in hidden} for row in content["policies"]]
    found = {
        "policies": ResultTable(
            compared, titles=value | ends, caption=policies, bounds={"promise": -1, "lower": -1, "upper": 1}
        ),
        "gains": ResultTable(
            content["gains"], titles=gained, caption="What each declaration adds to the promise.",
            bounds={"value": -1, "without": -1},
        ),
        "limits": ResultTable(limits, titles=costs, caption=f"The rows whose uncertainty {adding}."),
        "projection": ResultTable(
            content["projection"], titles=value, caption="A projection for more data, not a promise.", bounds={"value": -1},
        ),
        "rows": ResultTable(estimate.rows(), titles=radii, caption="Visits and radii of the rows that the data show."),
    }  # fmt: skip
    without = [] if content["gains"] else ["gains"]
    without += [] if isinstance(goal, Quantile | Buffered) else ["limits"]
    return {name: table for name, table in found.items() if name not in without}


def _interval(estimate: Estimate, goal: Objective) -> str:
    """Description of the interval of the old policy."""
    method = "exact binomial limits" if goal.probability else "from order statistics"
    what = f"{percent(estimate.confidence)} confidence interval of the old policy's {goal.kind}"
    return f"{what}, {method} of independent episodes"


def estimate_view(estimate: Estimate, tau: float | None = None) -> Any:
    """Charts of an estimate: the rows and, at a level, the promise beside other plans."""
    words = Words.of(estimate.mdp)
    if tau is None:
        return coverage_chart(estimate, [], words)
    promise = estimate.solve(tau)
    return join_charts(
        "vconcat", *fit_charts(fit_document(estimate, promise, words), estimate, promise, words).values()
    )


def fit_charts(content: Mapping[str, Any], estimate: Estimate, promise: Plan, words: Words) -> dict[str, Any]:
    """The charts of a fit by name; `content` comes from `fit_document`."""
    goal = promise.objective
    title = goal.axis() if goal.probability else words.axis(f"{goal} of the return")
    first = promise_chart(content, title, _interval(estimate, goal))
    drawn = {"promise": first, "coverage": coverage_chart(estimate, content["limits"], words)}
    mdp = estimate.mdp
    if mdp.H * mdp.S * mdp.A > MAX_SHARES:
        return drawn
    shares = play_shares(mdp, promise.policy)
    shares[:, _without_decisions(estimate)] = 0.0
    names = [mdp.state_label(s) for s in range(mdp.S)], [mdp.action_label(a) for a in range(mdp.A)]
    note = "New plan, with the observed frequencies as probabilities. Blank: never reached."
    chart = policy_chart({getattr(goal, "tau", 0.0): shares}, *names, words=words, note=note)
    return {"promise": drawn.pop("promise"), "policy_map": chart, **drawn}


def promise_chart(content: Mapping[str, Any], title: str, interval: str) -> Any:
    """The promise and the value of every policy, that of the old one with its `interval`, and projections for more data."""
    alt, none, shown = altair(), {"lower": None, "upper": None}, []
    for row in content["policies"]:
        shown += [row, row | none | {"value": row.get("promise"), "meaning": PROMISE}]
    for one in content["projection"]:
        shown.append({"policy": f"{one['factor']} times the data", **one, **none, "meaning": LATER})
    rows = []
    for row in shown:
        value, ends = row["value"], (row["lower"], row["upper"])
        value = value if value is not None and math.isfinite(value) else None
        if value is not None or any(x is not None and math.isfinite(x) for x in ends):
            both = "none" if row["lower"] is None else " to ".join(map(format_number, ends))
            texts = [row["policy"], row["meaning"], both, format_number(value, 5, -1)]
            rows.append([*texts, value, *(value if x is None else x for x in ends)])
    drawn = [x for row in rows for x in row[4:] if x is not None and math.isfinite(x)] or [0.0]
    low, high = min(drawn), max(drawn)
    far = high - low + 1.0  # an infinite end is drawn as an arrow at the end of the axis
    arrows = [
        [row[0], row[1], end, left]
        for row in rows
        for end, left in ((low, True), (high, False))
        if abs(row[5 if left else 6]) == math.inf
    ]
    rows = [[*row[:5], max(row[5], low - far), min(row[6], high + far)] for row in rows]
    room = 0.15 * (high - low or 1.0)  # so that an arrow does not lie on the lowest or the highest value
    low, high = low - room * any(row[3] for row in arrows), high + room * any(not row[3] for row in arrows)
    arrows = [[*row[:2], low if row[3] else high, row[3], "-∞" if row[3] else "∞"] for row in arrows]
    names = list(dict.fromkeys(row[0] for row in rows))
    y = alt.Y("policy:N", title=None, sort=names)
    scale = {"domain": [low, high], "clamp": True, "nice": False, "zero": False, "padding": 12}
    x = alt.X("value:Q", title=title, scale=scale)
    colour = colour_channel(
        "meaning:N", {kind: COLOURS[kind] for kind in COLOURS if any(row[1] == kind for row in rows)}, labelLimit=260
    )
    tips = tooltips("policy:N", ("value:Q", "value", ".6~g"), "interval:N", "meaning:N")

    def of(rows: list[Any]) -> Any:
        return chart_of(("policy", "meaning", "interval", "text", "value", "low", "high"), rows).encode(y=y)

    points = [row for row in rows if row[4] is not None]
    above = [row for row in points if row[1] in (PROMISE, LATER)]
    below = [row for row in points if row not in above]  # so that the labels of a policy do not overlap
    chart = alt.layer(
        of(rows).mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q", color=colour),
        of(points).mark_point(filled=True, size=110, opacity=1).encode(x=x, color=colour, tooltip=tips),
        *(
            of(part).mark_text(dy=dy, fontSize=11).encode(x=x, text="text:N")
            for part, dy in ((above, -12), (below, 14))
            if part
        ),
        *(
            mark.encode(y=y, x=x)
            for left, side in ((True, "left"), (False, "right"))
            if any(row[3] == left for row in arrows)
            for ends in [
                chart_of(
                    ("policy", "meaning", "value", "end"), [[*row[:3], row[4]] for row in arrows if row[3] == left]
                )
            ]
            for mark in (
                ends.mark_point(shape=f"triangle-{side}", filled=True, size=130, opacity=1).encode(color=colour),
                ends.mark_text(dy=-12, fontSize=11).encode(text="end:N"),
            )
        ),
    )
    said = "Only promises hold with the stated confidence, all at once. Empirical values take the frequencies as the truth."
    said += f" Line: {interval}." if any(low < high for *_, low, high in rows) else ""
    said += " Arrow: this end of the interval is infinite." if arrows else ""
    if all(row[1] != PROMISE for row in rows):
        said += " No promise is possible with these data."
    return with_title(chart, "What the data promise", said, 40 * len(names) + 20)


def coverage_chart(estimate: Estimate, limits: Sequence[Mapping[str, Any]], words: Words = PLAIN) -> Any:
    """Visits and radii of the rows; those that limit the promise are marked."""
    alt, place = altair(), itemgetter("stage", "state", "action")
    said = "One point per row (state and action) that the data show. Radius 2: nothing is known; 0: known exactly."
    limiting = set(map(place, limits))
    rows = [
        [*place(row), row["visits"], row["radius"], LIMITING if place(row) in limiting else OTHER]
        for row in sorted(estimate.rows(), key=lambda row: (place(row) in limiting, row["visits"]))
    ]
    if len(rows) > MAX_ROWS:  # those that limit the promise stay
        said += f" {MAX_ROWS} of {len(rows)} rows."
        others = sum(row[-1] == OTHER for row in rows)
        rows = [rows[i] for i in spread_indices(others, MAX_ROWS - len(rows) + others)] + rows[others:]
    stage = [] if estimate.mdp.stationary else [("stage:N", words.stage)]
    points = chart_of(("stage", "state", "action", "visits", "radius", "kind"), rows)
    chart = points.mark_point(filled=True, size=45, opacity=0.7).encode(
        x=alt.X("visits:Q", title="visits of the row", scale={"type": "log", "nice": False, "padding": 10}),
        y=alt.Y("radius:Q", title="l1 radius of the row"),
        color=colour_channel("kind:N", {OTHER: charts.GREY, LIMITING: charts.RED}),
        tooltip=tooltips(*stage, "state:N", "action:N", "visits:Q", ("radius:Q", "radius", ".3~g")),
    )
    return with_title(chart, "How well each row is known", said)
