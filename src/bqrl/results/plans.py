"""Plans as a Result: the sentence of each level, the curve, the law of the return, the policy, and their tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from bqrl.checks import choice
from bqrl.display import format_number, level_name, percent, plural
from bqrl.errors import PolicyError, SizeError
from bqrl.laws.law import Law
from bqrl.laws.objectives import Buffered, Objective, Quantile
from bqrl.mdp.model import MDP
from bqrl.mdp.observations import Observations
from bqrl.planners.cvar import CVaRCurve
from bqrl.planners.facts import LowTail, RuleFound
from bqrl.planners.plan import Plan
from bqrl.planners.stress import Stress
from bqrl.planners.target import GuaranteeCurve
from bqrl.policies.protocol import THIS_MODEL, Policy
from bqrl.policies.tables import wide_rows
from bqrl.progress import progress_bar
from bqrl.results.charts import with_charts
from bqrl.results.decisions import MAX_WIDE, decision_table, policy_files, rule_overview, rule_sentences
from bqrl.results.plan_charts import plan_charts, plan_key, policy_chart, trade_chart
from bqrl.results.result import (
    Control,
    Result,
    ResultTable,
    Sentence,
    Shown,
    asked_for,
    chart_files,
    check_folder,
    check_sheet,
    save_sheet,
)
from bqrl.results.solved import Solved, solve_goals, with_chart_data
from bqrl.results.steps import ENDS, MAX_SHARES, STEPS, policy_control, step_name, step_tables, trade_marks, trade_table
from bqrl.results.strategies import CHART, strategies_chart, strategy_table, strategy_tables
from bqrl.results.stress import stress_table
from bqrl.results.words import PLAIN, Words, held_sentence, margin_sentence, meaning, remark, remarks, sentence
from bqrl.versions import versions

FILES = (  # files that a folder may hold; POLICY_FILES are those of each objective
    "levels.csv", "strategies.csv", "return_laws.csv", "guarantee_curve.csv",
    *chart_files(["guarantee_curve", "tradeoff", "return_law", "policy_map", CHART]),
)  # fmt: skip
BOUNDS = {"value": -1, "nominal": -1, "upper": 1, "gap": 1, "neutral": -1, "neutral_upper": 1}  # of a level
POLICY_FILES = (  # with `objective_name`
    "policy{}.csv", "policy{}.npz", "overview{}.csv", "stress{}.csv", "tradeoff{}.csv",
    *(f"policy{{}}_step{i + 1}.{end}" for i in range(STEPS) for end in ("csv", "npz")),
)  # fmt: skip


def show_plans(
    mdp: MDP, words: Words, goals: Sequence[Objective], settings: Mapping[str, Any], *, off: float | None = None,
    policies: Mapping[str, Any] | None = None, below: float | None = None, usual: bool = True, folder: Path | None = None,
    sheet: Path | None = None, decimal: str = ".", notices: Iterable[str] = (), progress: bool | None = None,
) -> Shown:  # fmt: skip
    """Plan for every objective, compare, and describe the plans; write the decisions of the first plan to `sheet`.

    The result is made only if there is a `folder`, which the caller writes. `notices` are shown before the work begins, and
    `progress` as by `learn`. The other arguments are those of `solve_goals`.
    """
    choice(decimal, "decimal", (".", ","))
    check_folder(folder, "plan", plan_files(goals))
    if sheet is not None:
        check_sheet(sheet)
    result: Result | None = None
    with progress_bar(progress) as watch:
        for notice in notices:
            watch.say(f"bqrl: {notice}", detail=-1)
        solved = solve_goals(
            mdp, words, goals, settings, watch, off=off, policies=policies or {}, below=below, usual=usual
        )
        if folder is not None:
            result = replace(plan_result(with_chart_data(solved, watch)), decimal=decimal)
    document, overviews = plan_document(solved), list[ResultTable]()
    if settings["rule"] is not None:
        overviews = [table for plan in solved.plans if (table := rule_overview(plan, words)) is not None]
    compared = [] if solved.strategies is None else strategy_tables(solved.strategies, words)
    if sheet is not None:
        plan = solved.plans[0]
        save_sheet(rule_overview(plan, words, whole=True) or decision_table(plan.policy, mdp, words), sheet, decimal)
    return Shown(
        document=document, result=result, header=f"{words.title}: {in_one_line(document['model'], words)}",
        tables=[replace(level_table(document, words), caption=""), *overviews, *compared], lines=plan_lines(document),
    )  # fmt: skip


def plan_lines(document: Mapping[str, Any]) -> list[str]:
    """The meaning and the notes of each level, and how to narrow a bracket."""
    levels, found = document["levels"], list[str]()
    for level in levels:
        found.append(f"{level['objective']}: {level['meaning']}" if len(levels) > 1 else level["meaning"])
        found += level.get("rule", [])
        if level["attitude"] == "nominal":  # with a radius the sentence already says it
            found += map(sentence, level["notes"])
        found += [level[line] for line in ("held", "choice") if level.get(line)]
    if any(level["gap"] and not level["exact"] for level in levels):
        found.append("A finer grid narrows the bracket: --points, or --gap without --radius.")
    return found


def plan_document(solved: Solved) -> dict[str, Any]:
    """The plans at the requested levels as JSON values; printed by `--json`."""
    beside: tuple[Mapping[float, Any], ...] = (solved.held, solved.margins)
    return {
        "format": "bqrl plan 1",
        "model": sizes(solved.words.title, solved.mdp),
        "settings": dict(solved.settings),
        "levels": [
            level_facts(plan, solved.words, solved.neutral, solved.below, *(of.get(plan_key(plan)) for of in beside))
            for plan in solved.plans
        ],
        "strategies": None if solved.strategies is None else solved.strategies.rows(),
        "seconds": solved.seconds,
        "versions": versions(),
    }


def sizes(name: str, source: Any, horizon: int | None = None, bins: Any = None) -> dict[str, Any]:
    """Name and sizes of a problem: of a model, or of an environment that is played for `horizon` stages."""
    if not isinstance(source, MDP):
        space, A = source.observation_space, source.action_space.n
        S = None if bins is None and isinstance(space, Box) else Observations(space, bins).size
        found = {"name": name, "states": S, "actions": A, "horizon": horizon, "discount": 1.0}
        return found | {"start": "chosen by the environment"}
    first = np.flatnonzero(source.mu)
    return {
        "name": name, "states": source.S, "actions": source.A, "horizon": source.H, "discount": source.discount,
        "start": source.state_label(int(first[0])) if first.size == 1 else f"random over {first.size} states",
        "transitions": int(source.successor.size),
    }  # fmt: skip


def in_one_line(model: Mapping[str, Any], words: Words) -> str:
    """The sizes of a problem in one line."""
    nouns = {"states": words.state, "actions": words.action, "horizon": words.stage}
    parts = [
        f"continuous {plural(noun) or noun}" if model[key] is None else words.count(noun, model[key])
        for key, noun in nouns.items()
    ] + [f"start {model['start']}"]
    return ", ".join([*parts, f"discount {format_number(model['discount'])}"] if model["discount"] != 1.0 else parts)


def objective_name(objective: Objective) -> str:
    """The part of a file name that tells the levels of a folder apart: "_tau0p1"; "" for objectives without a level."""
    return f"_tau{level_name(objective.tau)}" if isinstance(objective, Quantile | Buffered) else ""


def plan_files(objectives: Iterable[Objective]) -> list[str]:
    """Names of the files that a folder of plans for these objectives may hold."""
    return [*FILES, *(name.format(objective_name(one)) for one in objectives for name in POLICY_FILES)]


def plan_result(solved: Solved) -> Result:
    """The result of plans."""
    document, words, mdp = plan_document(solved), solved.words, solved.mdp
    files, left_out = dict[str, bytes](), list[str]()
    tables = {} if solved.strategies is None else {"strategies": strategy_table(solved.strategies, words)}
    tables |= {"levels": level_table(document, words), "return_laws": _laws(solved)}
    if solved.curve is not None:
        tables["guarantee_curve"] = _curve_table(solved.curve, words)
    for plan in solved.plans:
        level = objective_name(plan.objective)
        if (held := solved.held.get(plan_key(plan))) is not None:
            tables[f"stress{level}"] = stress_table(held, words)
        if (overview := rule_overview(plan, words)) is not None:
            tables[f"overview{level}"] = overview
        elif mdp.H <= MAX_WIDE and mdp.H * mdp.S * mdp.A <= MAX_SHARES:
            # Not written: the action depends on more than the state, or the table is too large.
            with suppress(PolicyError, SizeError):
                rows, caption = wide_rows(plan.policy, mdp, rewards=THIS_MODEL), f"The {words.action} by {words.state}"
                caption += f" and {words.stage}."
                tables[f"overview{level}"] = ResultTable(rows, titles={"state": words.state}, caption=caption)
        trade, steps = solved.trades.get(plan_key(plan), (None, ()))
        name, when = f"policy{level}", {"policy": ENDS} if steps else {}
        left_out += policy_files(plan.policy, mdp, words, name, f"{plan.objective.label}: ", tables, files, when)
        conditions = [{"tau": plan.tau, "policy": step_name(i)} for i in range(len(steps))]
        if trade is not None:
            left_out += step_tables(trade, steps, conditions, words, name, tables, files)
            tables[f"tradeoff{level}"] = trade_table(trade, words)
    tables = {name: tables[name] for name in sorted(tables, key=_rank)}
    sentences, choices = _sentences(solved)

    def charts() -> dict[str, Any]:
        neutral = None if solved.neutral is None else solved.neutral[1]
        further = {
            tau: {
                step_name(i): (step.law, step.law.quantile(tau) if trade.objective.beta > 0.0 else step.guarantee)
                for i, step in enumerate(steps)
            }
            for tau, (trade, steps) in solved.trades.items()
        }
        drawn = plan_charts(solved.all, solved.curve, neutral, words, further)
        if solved.trades:
            drawn["tradeoff"] = trade_chart(
                [trade for trade, _ in solved.trades.values()], words, trade_marks(solved.plans, solved.trades)
            )
        if solved.shares:
            names = [mdp.state_label(s) for s in range(mdp.S)], [mdp.action_label(a) for a in range(mdp.A)]
            maps = {
                tau: {step_name(i): step.shares for i, step in enumerate(steps) if step.shares is not None}
                for tau, (_, steps) in solved.trades.items()
            }
            drawn["policy_map"] = policy_chart(
                solved.shares, *names, neutral=solved.neutral_shares, further=maps, words=words
            )
        if solved.strategies is not None:
            drawn[CHART] = strategies_chart(solved.strategies, words)
        return drawn

    result = Result(
        kind="plan", title=words.title,
        settings={"size": in_one_line(document["model"], words)} | asked_for(solved.settings), tables=tables,
        sentences=sentences, choices=choices, details=document, files=files, left_out=left_out,
    )  # fmt: skip
    return with_charts(result, charts)


def _rank(table: str) -> int:
    """Place of a table on the page: what people decide by before what explains it."""
    order = ("strategies", "overview", "policy", "levels", "stress", "tradeoff", "guarantee_curve", "return_laws")
    return next(i for i, name in enumerate(order) if table.startswith(name))


def curve_value(curve: GuaranteeCurve | CVaRCurve) -> str:
    """Name of the values of a curve."""
    best = "best CVaR" if isinstance(curve, CVaRCurve) else "best quantile"
    return best if curve.exact else f"proven lower value of the {best}"


def _curve_table(curve: GuaranteeCurve | CVaRCurve, words: Words) -> ResultTable:
    best = curve_value(curve)
    titles = {"level_above": "for levels above", "value": words.titled(best)}
    said = f"The {best} of any policy, from each level to the next."
    if isinstance(curve, CVaRCurve):
        titles = {"level": "from level", "value": words.titled(best), "target": words.titled("target")}
        titles["missing"] = words.titled("missing")
        said = f"The {best} of any policy: from each level to the next it is the target minus missing / level."
    return ResultTable(curve.rows(), titles=titles, caption=said, bounds={"value": -1})


def level_facts(
    plan: Plan, words: Words = PLAIN, neutral: tuple[Policy, Law, Law | None] | None = None, below: float | None = None,
    held: Stress | None = None, margins: Mapping[float, float] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """The numbers of a plan as JSON values, with those of the risk-neutral policy and a sentence on their meaning."""
    level = plan.summary() | {
        "law_exact": plan.law_upper is None, "kind": plan.objective.kind, "probability": plan.objective.probability,
        "target": getattr(plan.policy, "target", None), "randomized_upper": plan.details.get("randomized"),
        "risk_neutral": None, "notes": remarks(plan, words),
    }  # fmt: skip
    if said := rule_sentences(plan, words):
        level["rule"] = said
    if below is not None:
        level |= {"below": below, "chance_below": plan.law.shortfall(below)}
    if plan.details.get("off"):
        level["off"] = plan.details["off"]
    if held is not None:
        level |= {"stress": held.rows(), "held": held_sentence(held, words)}
    if margins:
        level["smaller_margins"] = [{"margin": share, "mean": mean} for share, mean in margins.items()]
        level["choice"] = margin_sentence(plan.mean, margins, words)
    if neutral is not None:
        low, high = (plan.objective(law) for law in (neutral[1], neutral[2] or neutral[1]))
        level["risk_neutral"] = {"value": low, "upper": high, "mean": neutral[1].exact_mean}
    if not plan.by_level:
        best = ", the best that any policy can reach" if plan.gap == 0.0 else ""
        value = format_number(plan.value, direction=-1)
        amount = value if plan.objective.probability else words.amount(value)
        return level | {"meaning": sentence(f"{words.promise(plan.objective, amount)}{best}")}
    return level | {"meaning": meaning(level, words, plan.law)}


def level_table(document: Mapping[str, Any], words: Words) -> ResultTable:
    """One row per level: value, proof, mean, and the risk-neutral policy; empty columns are left out."""
    rows, kinds, amount = [], set(), words.titled
    for level in document["levels"]:
        kind, robust, neutral = _kind(level), level["attitude"] == "robust", level["risk_neutral"] or {}
        low, high = (neutral.get(end) for end in ("value", "upper"))
        # Only exact quantiles in the model as given have margins; two digits show how large they are.
        margins = level["margin"] if (kind, level["attitude"]) == ("quantile", "nominal") else {}
        rows.append({
            **level, "level": level["tau"], "nominal": level["nominal"] if robust else None, "neutral": low,
            "neutral_upper": None if low == high else high, **{key: float(f"{x:.2g}") for key, x in margins.items()},
        })  # fmt: skip
        kinds.add(kind)
    value = str if any(level["probability"] for level in document["levels"]) else amount  # a probability has no unit
    least = "" if all(level["law_exact"] for level in document["levels"]) else " at least"
    titles = {
        "level": "level", "value": value(kinds.pop() if len(kinds) == 1 else "value"),
        "nominal": value(f"in the model{least}"), "upper": value("upper bound"), "gap": value("gap"),
        "below": "margin below", "above": "margin above", "fragile": "fragile", "proven": "proven",
        "mean": amount("mean"),
        "neutral": value("risk-neutral"), "neutral_upper": value("risk-neutral at most"),
    }  # fmt: skip
    if not any(row["fragile"] for row in rows):
        del titles["fragile"]
    titles = {key: title for key, title in titles.items() if any(row.get(key) is not None for row in rows)}
    return ResultTable(
        [{key: row.get(key) for key in titles} for row in rows], titles=titles, caption="One row per level.", bounds=BOUNDS
    )  # fmt: skip


def _kind(level: Mapping[str, Any]) -> str:
    """Name of the value of a level."""
    if level["attitude"] == "robust" or not level["exact"]:
        return "guaranteed" if level["attitude"] == "robust" else "at least"
    return str(level["kind"])


def _sentences(solved: Solved) -> tuple[list[Sentence], list[Control]]:
    """The sentence of every level, and the controls that choose between them."""
    plans = sorted(solved.all, key=lambda plan: plan.tau)
    levels = [plan.tau for plan in plans]
    labels = [
        f"the worst {percent(plan.tau)} of {solved.words.runs}" if plan.beta == plan.tau
        else f"{percent(plan.tau)} of {solved.words.runs} may fall short" for plan in plans
    ]  # fmt: skip
    start = levels.index(solved.plans[0].tau)
    sentences, choices = [], list[Control]()
    if solved.plans[0].by_level:
        choices.append(Control(name="tau", title="Level", values=levels, labels=labels, start=start))
    if solved.neutral is not None:
        choices.append(policy_control(solved.trades, solved.words))
        text = "Shown: the risk-neutral policy. Lines and numbers in red belong to the planned policy."
        sentences.append(Sentence(text, when={"policy": "risk-neutral"}))
    for plan in plans:
        notes = plan.notes if plan.attitude == "nominal" else ()  # with a radius the sentence already says it
        when: dict[str, Any] = {"tau": plan.tau} if plan.by_level else {}
        _, steps = solved.trades.get(plan_key(plan), (None, ()))
        when |= {"policy": ENDS} if steps else {}
        sentences += [Sentence(step.text, when=when | {"policy": step_name(i)}) for i, step in enumerate(steps)]
        sentences.append(Sentence(level_facts(plan, solved.words, solved.neutral, solved.below)["meaning"], when=when))
        sentences += [Sentence(line, when=when) for line in rule_sentences(plan, solved.words)]
        if plan in solved.plans and (held := solved.held.get(plan_key(plan))) is not None:
            sentences.append(Sentence(held_sentence(held, solved.words), when=when))
        if plan in solved.plans and (margins := solved.margins.get(plan_key(plan))):
            sentences.append(Sentence(margin_sentence(plan.mean, margins, solved.words), when=when))
        sentences += [
            Sentence(sentence(remark(note, solved.words)), when=when, aside=not isinstance(note, LowTail | RuleFound))
            for note in notes
        ]
    return sentences, choices


def _laws(solved: Solved) -> ResultTable:
    """The laws of all policies; a bracketed law has two entries, lower and upper."""
    pairs = {f"tau={plan.tau!r}" if plan.by_level else "planned": (plan.law, plan.law_upper) for plan in solved.plans}
    if solved.neutral is not None:
        pairs["risk-neutral"] = solved.neutral[1:]
    laws = dict[str, Law]()
    for name, (low, high) in pairs.items():
        laws |= {name: low} if high is None else {f"{name} lower": low, f"{name} upper": high}
    rows = [
        {"policy": name, "return": row["value"], "probability": row["probability"]}
        for name, law in laws.items()
        for row in law.rows()
    ]
    caption = f"The probability of every {solved.words.total} under each policy."
    return ResultTable(rows, titles={"return": solved.words.axis(solved.words.total)}, caption=caption)
