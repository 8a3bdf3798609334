"""Plans as a Result: the sentence of each level, the curve, the law of the return, the policy, and their tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from bqrl.display import Watch, format_number, level_name, percent, plural
from bqrl.errors import ArgumentError, PolicyError, SizeError
from bqrl.laws.law import Law
from bqrl.laws.objectives import Buffered, CVaR, Objective, Quantile
from bqrl.mdp.arrays import FloatArray, digest
from bqrl.mdp.model import MDP
from bqrl.mdp.observations import Observations
from bqrl.planners.at_least import smaller_margins
from bqrl.planners.curve import curve_objective, guarantee_curve
from bqrl.planners.cvar import CVaRCurve, with_tail
from bqrl.planners.facts import LowTail, RuleFound
from bqrl.planners.plan import Plan
from bqrl.planners.room import forecast
from bqrl.planners.solve import solve
from bqrl.planners.strategies import Strategies, beside_plans
from bqrl.planners.stress import Stress, quick_stress
from bqrl.planners.target import GuaranteeCurve, risk_neutral
from bqrl.policies.forward import play_shares
from bqrl.policies.protocol import THIS_MODEL, Policy
from bqrl.policies.tables import wide_rows
from bqrl.results.charts import with_charts
from bqrl.results.decisions import MAX_WIDE, policy_files, rule_overview, rule_sentences
from bqrl.results.plan_charts import plan_charts, plan_key, policy_chart, trade_chart
from bqrl.results.result import Control, Result, ResultTable, Sentence, asked_for, chart_files
from bqrl.results.steps import (
    ENDS,
    MAX_SHARES,
    STEPS,
    Trades,
    policy_control,
    quick_trades,
    step_name,
    step_tables,
    trade_marks,
    trade_table,
)
from bqrl.results.strategies import CHART, strategies_chart, strategy_table
from bqrl.results.stress import stress_table
from bqrl.results.words import PLAIN, Words, held_sentence, margin_sentence, meaning, remark, remarks, sentence
from bqrl.versions import versions

HELD = (0.0, 0.02, 0.05)  # shares of probability that may be off, in the output of `solve`
MARGIN_SECONDS = 1.0  # for the means with smaller margins, per plan
PAGE_SECONDS = 5.0  # for the same on a page, per plan
CHOICES = (
    "radius", "attitude", "randomized", "at_least", "margin", "secondary", "arithmetic", "points", "gap", "max_nodes", "rule",
    "order", "folder", "precision", "cluster",
)  # fmt: skip
WORTH_SAYING = 2.0  # seconds of a plan from which its forecast is shown
LIMITS = ("points", "max_bytes", "folder", "precision", "cluster")  # settings of a sweep
SLIDER = dict.fromkeys((0.1, 0.25, 0.5, 0.75, 0.9, *(k / 20 for k in range(1, 20))))  # the important levels first
SLIDER_WORK = 5.0 / 1.5e-9  # outcomes times columns for further levels: five seconds on two cores of 2024
FILES = (  # files that a folder may hold; POLICY_FILES are those of each objective
    "levels.csv", "strategies.csv", "return_laws.csv", "guarantee_curve.csv",
    *chart_files(["guarantee_curve", "tradeoff", "return_law", "policy_map", CHART]),
)  # fmt: skip
POLICY_FILES = (  # with `objective_name`
    "policy{}.csv", "policy{}.npz", "overview{}.csv", "stress{}.csv", "tradeoff{}.csv",
    *(f"policy{{}}_step{i + 1}.{end}" for i in range(STEPS) for end in ("csv", "npz")),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Solved:
    """Plans of one problem at several levels, and the risk-neutral policy for comparison."""

    words: Words
    mdp: MDP
    plans: tuple[Plan, ...]  # at the requested levels
    others: tuple[Plan, ...] = ()  # at further levels, for the slider of the page
    neutral: tuple[Policy, Law, Law] | None = None  # the risk-neutral policy and both ends of its law
    settings: Mapping[str, Any] = field(default_factory=dict)
    curve: GuaranteeCurve | CVaRCurve | None = None
    shares: Mapping[float, FloatArray] = field(default_factory=dict)  # by level (H, S, A): how often actions are played
    neutral_shares: FloatArray | None = None
    strategies: Strategies | None = None  # the plans beside other policies
    below: float | None = None  # the limit of low returns
    held: Mapping[float, Stress] = field(default_factory=dict)  # by level: what the plan guarantees if the model is off
    margins: Mapping[float, Mapping[float, float]] = field(default_factory=dict)  # by level: means of `smaller_margins`
    trades: Trades = field(default_factory=dict)  # the price of certainty, where it takes a few seconds
    seconds: float = 0.0

    @property
    def all(self) -> list[Plan]:
        """Plans at the requested levels, then at further levels."""
        asked = {plan.tau for plan in self.plans}
        return [*self.plans, *(plan for plan in self.others if plan.tau not in asked)]


def solve_goals(
    mdp: MDP, words: Words, planners: Mapping[Objective, str], settings: Mapping[str, Any], watch: Watch, *,
    off: float | None, policies: Mapping[str, Any], below: float | None, usual: bool,
) -> Solved:  # fmt: skip
    """The plans for objectives by planner, beside other policies; `settings` are options of `solve`, None where unset."""
    begun = time.perf_counter()
    plans = _plan_goals(mdp, planners, settings, watch)
    if off is not None:
        plans = [replace(plan, details=plan.details | {"off": off}) for plan in plans]
    watch.phase("comparing with the risk-neutral policy")
    solved = with_strategies(collect_plans(plans, words, settings), policies, below=below, usual=usual)
    return replace(solved, seconds=time.perf_counter() - begun)


def _plan_goals(mdp: MDP, planners: Mapping[Objective, str], settings: Mapping[str, Any], watch: Watch) -> list[Plan]:
    """Plans by objective; for quantiles, and for CVaR, one sweep serves all levels."""
    options = _drop_unset(settings, *CHOICES, "max_bytes")
    shown = curve_objective(planners) if set(planners.values()) == {"target"} else None
    of_curve = {*LIMITS, "arithmetic"} if shown is CVaR else {*LIMITS, "randomized", "arithmetic"}
    if shown is not None and options.keys() <= of_curve and options["arithmetic"] == "float":
        begun = time.perf_counter()
        levels = [goal.tau for goal in planners if isinstance(goal, Quantile | Buffered)]
        limits = _drop_unset(settings, *LIMITS)
        expected = ""
        if shown is Quantile:
            watch.phase("forecasting time and memory")
            found = forecast(mdp, **{name: value for name, value in limits.items() if name != "cluster"})
            expected = f", {found.short}" if found.seconds > WORTH_SAYING else ""
        watch.phase(f"planning{expected}", mdp.H)
        curve = guarantee_curve(mdp, shown, tick=lambda _: watch.tick(), **limits)
        tracked = watch.track(levels, "evaluating the policies")
        return [curve.plan(tau).with_time(time.perf_counter() - begun) for tau in tracked]
    return [solve(mdp, goal, planner=planners[goal], **options) for goal in watch.track(list(planners), "planning")]


def _drop_unset(settings: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """The settings of these names that are not None."""
    return {name: settings[name] for name in names if settings[name] is not None}


def collect_plans(plans: Sequence[Plan], words: Words, settings: Mapping[str, Any] | None = None) -> Solved:
    """Plans of one problem with the risk-neutral policy; `settings` are those requested, by default those of the plans."""
    mdp = plans[0].mdp if plans else None
    if mdp is None or any(plan.mdp is None or _differ(plan.mdp, mdp) for plan in plans):
        raise ArgumentError("expected plans of one problem, got others; make them with solve", name="thing")
    if len(plans) > 1 and (len({plan.tau for plan in plans}) < len(plans) or not all(plan.by_level for plan in plans)):
        labels = ", ".join(plan.objective.label for plan in plans)
        text = f"expected plans at different levels, got {labels}; report them one by one, or use compare"
        raise ArgumentError(text, name="thing")
    if settings is None:
        first = plans[0]
        said = {"objective": [plan.objective.label for plan in plans], "planner": first.planner}
        settings = said | ({} if first.attitude == "nominal" else {"attitude": first.attitude})
    neutral = None
    if all(plan.planner != "expected" for plan in plans):  # on a grid as fine as that of the plans
        grids = (getattr(plan.policy, "grid", None) for plan in plans)
        finest = max((int(grid.size[0]) for grid in grids if grid is not None), default=0)
        policy, law, upper = risk_neutral(mdp, finest)
        neutral = (policy, law, upper or law)
        plans = [with_tail(plan, law) for plan in plans]
    return Solved(
        words=words, mdp=mdp, plans=tuple(sorted(plans, key=plan_key)), neutral=neutral, settings=settings,
        curve=plans[-1].details.get("curve"), held=held_plans(mdp, plans, HELD, 1.0),
        margins={plan_key(plan): smaller_margins(mdp, plan, MARGIN_SECONDS) for plan in plans},
        seconds=sum(plan.seconds for plan in plans),
    )  # fmt: skip


def with_strategies(
    solved: Solved, policies: Mapping[str, Any] | None = None, *, below: float | None = None, usual: bool = True
) -> Solved:
    """Add the plans beside other policies; with `usual` beside the risk-neutral and the best constant policies, too."""
    table = None
    if usual or policies:
        neutral = solved.neutral and (
            *solved.neutral[:2],
            None if solved.neutral[1] is solved.neutral[2] else solved.neutral[2],
        )
        curve = solved.curve if isinstance(solved.curve, GuaranteeCurve) else None
        found = beside_plans(solved.plans, neutral, policies or {}, curve=curve, below=below, usual=usual)
        table = found if len(found.names) > len(solved.plans) else None
    return replace(solved, strategies=table, below=below)


def held_plans(mdp: MDP, plans: Iterable[Plan], off: Sequence[float], seconds: float) -> dict[float, Stress]:
    """What each plan guarantees if the model is off, by level, where that takes about `seconds` per plan at most."""
    found = ((plan_key(plan), quick_stress(mdp, plan, off, seconds)) for plan in plans)
    return {key: held for key, held in found if held is not None}


def _differ(one: MDP, other: MDP) -> bool:
    return one is not other and digest(one) != digest(other)


def with_chart_data(solved: Solved, watch: Watch | None = None) -> Solved:
    """Add the data of charts: the guarantee curve, plans at further levels, and how often actions are played."""
    mdp, curve, first, others = solved.mdp, solved.curve, solved.plans[0], list[Plan]()
    watch = Watch() if watch is None else watch
    if curve is None:
        watch.phase("guarantee curve", mdp.H)
        limits = {name: solved.settings[name] for name in LIMITS if solved.settings.get(name) is not None}
        with suppress(ValueError):  # the sweep does not fit into memory
            shown = curve_objective(plan.objective for plan in solved.plans) or Quantile
            curve = guarantee_curve(mdp, shown, tick=lambda _: watch.tick(), **limits)
    by_curve = "curve" in first.details and curve_objective([first.objective]) is not None
    if curve is not None and by_curve and first.attitude == "nominal":
        further = list(SLIDER)[: int(SLIDER_WORK / curve.work)]
        others = [curve.plan(level) for level in watch.track(further, "further levels")]
        others = others if solved.neutral is None else [with_tail(plan, solved.neutral[1]) for plan in others]
    shares, neutral = dict[float, FloatArray](), None
    if mdp.H * mdp.S * mdp.A <= MAX_SHARES:
        every = watch.track([*solved.plans, *others], "policy map")
        shares = {plan_key(plan): play_shares(mdp, plan.policy) for plan in every}
        neutral = None if solved.neutral is None else play_shares(mdp, solved.neutral[0])
    watch.phase("stress")
    later = [plan for plan in solved.plans if plan_key(plan) not in solved.held]
    held = {**solved.held, **held_plans(mdp, later, HELD, PAGE_SECONDS)}
    watch.phase("price of certainty")
    trades = {} if solved.neutral is None else quick_trades(mdp, solved.plans, curve, solved.words)
    watch.phase("drawing")
    return replace(
        solved, curve=curve, others=tuple(others), shares=shares, neutral_shares=neutral, held=held, trades=trades
    )


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
        "name": name,
        "states": source.S,
        "actions": source.A,
        "horizon": source.H,
        "discount": source.discount,
        "start": source.state_label(int(first[0])) if first.size == 1 else f"random over {first.size} states",
        "transitions": int(source.successor.size),
    }


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
            with suppress(
                PolicyError, SizeError
            ):  # the action depends on more than the state, or the table is too large
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
        kind="plan",
        title=words.title,
        settings={"size": in_one_line(document["model"], words)} | asked_for(solved.settings),
        tables=tables,
        sentences=sentences,
        choices=choices,
        details=document,
        files=files,
        left_out=left_out,
    )
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
    return ResultTable(curve.rows(), titles=titles, caption=said)


def level_facts(
    plan: Plan,
    words: Words = PLAIN,
    neutral: tuple[Policy, Law, Law] | None = None,
    below: float | None = None,
    held: Stress | None = None,
    margins: Mapping[float, float] | None = None,
) -> dict[str, Any]:
    """The numbers of a plan as JSON values, with those of the risk-neutral policy and a sentence on their meaning."""
    level = plan.summary() | {
        "law_exact": plan.law_upper is None,
        "kind": plan.objective.kind,
        "probability": plan.objective.probability,
        "target": getattr(plan.policy, "target", None),
        "randomized_upper": plan.details.get("randomized"),
        "risk_neutral": None,
        "notes": remarks(plan, words),
    }
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
        level["choice"] = margin_sentence(plan.mean, margins)
    if neutral is not None:
        low, high = (plan.objective(law) for law in neutral[1:])
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
        [{key: row.get(key) for key in titles} for row in rows], titles=titles, caption="One row per level."
    )


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
            sentences.append(Sentence(margin_sentence(plan.mean, margins), when=when))
        sentences += [
            Sentence(sentence(remark(note, solved.words)), when=when, aside=not isinstance(note, LowTail | RuleFound))
            for note in notes
        ]
    return sentences, choices


def _laws(solved: Solved) -> ResultTable:
    """The laws of all policies; a bracketed law has two entries, lower and upper."""
    pairs = {
        f"tau={plan.tau!r}" if plan.by_level else "planned": (plan.law, plan.law_upper or plan.law)
        for plan in solved.plans
    }
    if solved.neutral is not None:
        pairs["risk-neutral"] = solved.neutral[1:]
    laws = dict[str, Law]()
    for name, (low, high) in pairs.items():
        laws |= {name: low} if low is high else {f"{name} lower": low, f"{name} upper": high}
    rows = [
        {"policy": name, "return": row["value"], "probability": row["probability"]}
        for name, law in laws.items()
        for row in law.rows()
    ]
    caption = f"The probability of every {solved.words.total} under each policy."
    return ResultTable(rows, titles={"return": solved.words.axis(solved.words.total)}, caption=caption)
