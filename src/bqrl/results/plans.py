"""Plans as a Result: the sentence of each level, the curve, the law of the return, the policy, and their tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bqrl.errors import PolicyError, SizeError
from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import Policy, TargetPolicy
from bqrl.planners.decisions import decision_rows, wide_rows
from bqrl.planners.plan import Plan, objective_value
from bqrl.planners.target import GuaranteeCurve
from bqrl.results.charts import with_charts
from bqrl.results.plan_charts import Steps, guarantee_chart, law_chart, policy_chart
from bqrl.results.result import Choice, Result, Sentence, Table, asked_for, chart_files, saved, versions
from bqrl.results.words import Words, meaning, number, percent
from bqrl.study.tables import level_name

MAX_SHARES = 4_000_000  # numbers (stage, state, action) of a map that is worth its memory
MAX_WIDE = 30  # stages of a table of states by stages
FILES = ("levels.csv", "return_laws.csv", "guarantee_curve.csv")
CHARTS = ("guarantee_curve", "return_law", "policy_map")


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """Plans of one problem at several levels, and what they are compared with."""

    words: Words
    mdp: MDP
    plans: tuple[Plan, ...]  # those that were asked for
    others: tuple[Plan, ...] = ()  # at further levels, for the slider of the page
    neutral: tuple[Policy, Law, Law] | None = None  # the risk-neutral policy and both ends of its law
    settings: Mapping[str, Any] = field(default_factory=dict)
    curve: GuaranteeCurve | None = None
    shares: Mapping[float, FloatArray] = field(default_factory=dict)  # by level (H, S, A): how often actions are played
    neutral_shares: FloatArray | None = None
    seconds: float = 0.0

    @property
    def all(self) -> list[Plan]:
        """The plans that were asked for, then those at further levels."""
        asked = {plan.tau for plan in self.plans}
        return [*self.plans, *(plan for plan in self.others if plan.tau not in asked)]


def plan_document(solved: Solved) -> dict[str, Any]:
    """The plans that were asked for, as JSON values: what `--json` prints."""
    return {
        "format": "bqrl plan 1",
        "model": sizes(solved.words.title, solved.mdp),
        "settings": dict(solved.settings),
        "levels": [_level(plan, solved) for plan in solved.plans],
        "seconds": solved.seconds,
        "versions": versions(),
    }


def sizes(name: str, mdp: MDP) -> dict[str, Any]:
    """Name and sizes of a problem."""
    first = np.flatnonzero(mdp.mu)
    return {
        "name": name,
        "states": mdp.S,
        "actions": mdp.A,
        "horizon": mdp.H,
        "discount": mdp.discount,
        "start": mdp.state_label(int(first[0])) if first.size == 1 else f"random over {first.size} states",
        "transitions": int(mdp.successor.size),
    }


def in_one_line(model: Mapping[str, Any], words: Words) -> str:
    """The sizes of a problem in one line."""
    parts = [words.count(noun, model[key]) for key, noun in (("states", "state"), ("actions", "action"))]
    parts += [words.count(words.stage, model["horizon"]), f"start {model['start']}"]
    if model["discount"] != 1.0:
        parts.append(f"discount {number(model['discount'])}")
    return ", ".join(parts)


def plan_files(taus: Sequence[float]) -> list[str]:
    """Names of the files that a folder of these levels may hold."""
    kinds = ("policy_tau{}.csv", "policy_tau{}.npz", "overview_tau{}.csv")
    return [*FILES, *(kind.format(level_name(tau)) for tau in taus for kind in kinds), *chart_files(CHARTS)]


def plan_result(solved: Solved) -> Result:
    """The result of plans."""
    document, words = plan_document(solved), solved.words
    files, left_out = dict[str, bytes](), list[str]()
    tables = {"levels": level_table(document, words), "return_laws": _laws(solved)}
    if solved.curve is not None:
        titles = {"level_above": "for levels above", "value": words.titled("best quantile")}
        said = "The best quantile of any policy, from each level to the next."
        tables["guarantee_curve"] = Table(solved.curve.rows(), titles, said)
    for plan in solved.plans:
        overview = policy_overview(plan.policy, solved.mdp, words)
        if overview is not None:
            tables[f"overview_tau{level_name(plan.tau)}"] = overview
        left_out += policy_files(plan.policy, solved.mdp, words, plan.tau, f"{plan.objective}: ", tables, files)
    sentences, choices = _sentences(solved)
    result = Result(
        kind="plan",
        title=words.title,
        settings={"size": in_one_line(document["model"], words)} | asked_for(solved.settings),
        tables=tables,
        charts={},
        sentences=sentences,
        choices=choices,
        details=document,
        files=files,
        left_out=left_out,
    )
    return with_charts(result, lambda: plan_charts(solved))


def policy_files(
    policy: Policy, mdp: MDP, words: Words, tau: float, caption: str, tables: dict[str, Table], files: dict[str, bytes]
) -> list[str]:
    """Add a policy to tables and files; one line if its table cannot be written."""
    name = f"policy_tau{level_name(tau)}"
    files[f"{name}.npz"] = saved(policy)
    try:
        tables[name] = policy_table(policy, mdp, words, caption)
    except (SizeError, PolicyError) as fault:
        return [f"{name}.csv is not written: {fault}; {name}.npz holds the policy"]
    return []


def plan_charts(solved: Solved) -> dict[str, Any]:
    """The charts of plans by name."""
    words, plans, mdp = solved.words, solved.all, solved.mdp
    neutral = None if solved.neutral is None else solved.neutral[1]
    promises = {plan.tau: plan.value if plan.beta == 0.0 else plan.law.quantile(plan.tau) for plan in plans}
    bracketed = any(plan.law_upper is not None for plan in plans)
    laws = {plan.tau: plan.law for plan in plans}
    drawn = {} if solved.curve is None else {"guarantee_curve": _curve_chart(solved, solved.curve, promises, neutral)}
    drawn["return_law"] = law_chart(laws, promises, neutral=neutral, bracketed=bracketed, words=words)
    if solved.shares:
        states, actions = [mdp.state_label(s) for s in range(mdp.S)], [mdp.action_label(a) for a in range(mdp.A)]
        drawn["policy_map"] = policy_chart(solved.shares, states, actions, neutral=solved.neutral_shares, words=words)
    return drawn


def _curve_chart(solved: Solved, curve: GuaranteeCurve, promises: Mapping[float, float], neutral: Law | None) -> Any:
    """The guarantee curve beside the risk-neutral policy and, with a ball of kernels, what holds over the ball."""
    first, others = solved.plans[0], {} if neutral is None else {"risk-neutral policy": Steps.of(neutral)}
    if first.attitude != "nominal" and isinstance(first.policy, TargetPolicy) and "shortfall" in first.details:
        kernel = "under every kernel" if first.attitude == "robust" else "with the best kernel"
        steps = Steps.best(np.asarray(first.details["shortfall"]), first.policy.grid.points(0))
        others = {f"{kernel} in the ball": steps, **others}
    upper = None if curve.optimistic is None else Steps.best(curve.optimistic[1], curve.optimistic[0])
    name = "best policy" if curve.exact else "proven value"
    name += " for each level" if first.attitude == "nominal" else " in the model as given"
    marks = list(promises.items())
    return guarantee_chart(Steps(*curve.steps), upper=upper, others=others, marks=marks, words=solved.words, name=name)


def policy_table(policy: Policy, mdp: MDP, words: Words, caption: str = "") -> Table:
    """The decisions of a policy that can be met, with titles in the problem's words."""
    rows = decision_rows(policy, mdp, stage=words.stage)
    titles = {
        "earned_from": words.titled("earned so far: from"),
        "earned_to": words.titled("to"),
        "need_from": words.titled("still needed: from"),
        "need_to": words.titled("to "),
        "target": words.titled("target"),
        "probability": "probability of meeting it",
        "next_state": "next state",
        "next_label": "next label",
    }
    said = f"{caption}what to do in each situation that can be met; {words.stage}s count from 1."
    return Table(rows, {key: titles.get(key, key) for key in rows[0]}, said[0].upper() + said[1:])


def policy_overview(policy: Policy, mdp: MDP, words: Words) -> Table | None:
    """States by stages, where nothing else matters and the table is readable; else None."""
    if mdp.H > MAX_WIDE or mdp.H * mdp.S * mdp.A > MAX_SHARES:
        return None
    try:
        return Table(wide_rows(policy, mdp), {}, f"The action by state and {words.stage}.")
    except PolicyError:
        return None


def level_table(document: Mapping[str, Any], words: Words) -> Table:
    """One row per level: the value, its proof, the mean, and the risk-neutral policy."""
    levels: Sequence[Mapping[str, Any]] = document["levels"]
    exact_laws = all(level["law_exact"] for level in levels)
    titles = {
        "level": "level", "value": words.titled(_value_name(levels)), "nominal": "in the model", "upper": "upper bound",
        "gap": "gap", "below": "margin below", "above": "margin above", "certain": "certain",
        "mean": "mean" if exact_laws else "mean at least", "neutral": "risk-neutral",
        "neutral_upper": "risk-neutral at most",
    }  # fmt: skip
    rows = []
    for level in levels:
        margins = {key: float(f"{level['margin'][key]:.2g}") for key in ("below", "above")}  # a size, not a result
        low, high = (
            None if level["risk_neutral"] is None else level["risk_neutral"][key] for key in ("value", "upper")
        )
        rows.append({**level, **margins, "level": level["tau"], "neutral": low, "neutral_upper": high})
    # Margins measure how firm a quantile of the model as given is: a mean over levels, a ball or a bracket have none.
    firm = all(level["beta"] == 0.0 and level["attitude"] == "nominal" and level["exact"] for level in levels)
    proven = any(row["upper"] is not None for row in rows)
    wanted = {
        "nominal": any(level["attitude"] == "robust" for level in levels), "below": firm, "above": firm,
        "upper": proven, "gap": proven, "neutral": any(row["neutral"] is not None for row in rows),
        "neutral_upper": any(row["neutral"] != row["neutral_upper"] for row in rows),
    }  # fmt: skip
    titles = {key: title for key, title in titles.items() if wanted.get(key, True)}
    return Table([{key: row[key] for key in titles} for row in rows], titles, "One row per level.")


def _value_name(levels: Sequence[Mapping[str, Any]]) -> str:
    """What the values of the levels are; "value" if they differ in kind."""
    names = {
        "guaranteed" if level["attitude"] == "robust"
        else "at least" if not level["exact"]
        else "quantile" if level["beta"] == 0.0
        else "CVaR" if level["beta"] == level["tau"]
        else "buffered quantile"
        for level in levels
    }  # fmt: skip
    return names.pop() if len(names) == 1 else "value"


def _level(plan: Plan, solved: Solved) -> dict[str, Any]:
    level = plan.summary() | {
        "law_exact": plan.law_upper is None,
        "target": getattr(plan.policy, "target", None),
        "randomized_upper": plan.details.get("randomized"),
        "risk_neutral": None,
    }
    if solved.neutral is not None:
        low, high = (objective_value(law, plan.tau, plan.beta) for law in solved.neutral[1:])
        level["risk_neutral"] = {"value": low, "upper": high, "mean": solved.neutral[1].mean()}
    level["meaning"] = meaning(level, solved.words)
    return level


def _sentences(solved: Solved) -> tuple[list[str | Sentence], list[Choice]]:
    """The sentence of every level, and the controls that choose between them."""
    plans = sorted(solved.all, key=lambda plan: plan.tau)
    both = solved.neutral is not None
    sentences: list[str | Sentence] = []
    for plan in plans:
        level = _level(plan, solved)
        text = " ".join([level["meaning"], *(f"{note[0].upper()}{note[1:]}." for note in level["notes"])])
        sentences.append(Sentence(text, {"tau": plan.tau} | ({"policy": "best"} if both else {})))
        if both:
            other = {"policy": "risk-neutral", "tau": plan.tau}
            sentences.append(Sentence(f"Shown: the risk-neutral policy. {level['meaning']}", other))
    levels = [plan.tau for plan in plans]
    labels = [f"{percent(tau)} of runs may end below" for tau in levels]
    choices = [Choice("tau", "Level τ", levels, labels, levels.index(solved.plans[0].tau))]
    if both:
        choices.append(Choice("policy", "Policy", ["best", "risk-neutral"], ["planned", "risk-neutral"]))
    return sentences, choices


def _laws(solved: Solved) -> Table:
    """The laws of all policies; both ends where a law is bracketed."""
    laws = [(f"tau={plan.tau!r}", plan.law, plan.law_upper) for plan in solved.plans]
    if solved.neutral is not None:
        _, low, high = solved.neutral
        laws.append(("risk-neutral", low, None if high is low else high))
    rows = []
    for name, lower, upper in laws:
        for end, law in (("", lower),) if upper is None else ((" lower", lower), (" upper", upper)):
            pairs = zip(law.values.tolist(), law.probabilities.tolist(), strict=True)
            rows += [{"policy": f"{name}{end}", "return": x, "probability": p} for x, p in pairs]
    titles = {"policy": "policy", "return": solved.words.returns, "probability": "probability"}
    return Table(rows, titles, "The probability of every return under each policy.")
