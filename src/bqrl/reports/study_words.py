"""What a study found, in sentences that are computed from its files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bqrl.experiments.compare import DIGITS, ERRORS
from bqrl.reports.study_data import StudyResults
from bqrl.reports.words import number

MEASURED = {
    "capped": "gap to the capped reference",
    "exact": "gap to the exact optimum",
    "expected": "expected-return regret",
}
SAME = 0.005  # values that print alike are told as equal


def fixed(x: float | None, decimals: int = 2) -> str:
    """A number as the paper prints it.

    >>> fixed(1.149), fixed(-0.0001)
    ('1.15', '0.00')
    """
    if x is None:
        return "\N{EN DASH}"
    text = f"{x:.{decimals}f}"
    return text.lstrip("-") if float(text) == 0.0 else text.replace("-", "\N{MINUS SIGN}")


def listed(names: Sequence[str]) -> str:
    """Names in a row of words.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def marked(study: StudyResults, text: str) -> str:
    """The text, with a word in front where it is about a quick look."""
    return f"Quick look: {text}" if study.quick else text


def ranking(ends: Mapping[str, float], measure: str, episodes: int) -> str:
    """Who ends lowest, and who comes next."""
    order = sorted(ends, key=lambda label: ends[label])
    first = [label for label in order if ends[label] - ends[order[0]] < SAME]
    after = f"after {episodes} episodes"
    if len(first) == len(order):
        return f"{listed(first)} end alike {after}: {MEASURED[measure]} {fixed(ends[order[0]])}"
    rest = order[len(first) :]
    told = f"{listed(first)} {'has' if len(first) == 1 else 'have'} the smallest {MEASURED[measure]} {after}"
    following = ", ".join(f"{label} {fixed(ends[label])}" for label in rest[:2])
    return f"{told}, {fixed(ends[order[0]])}; then {following}"


def main_title(study: StudyResults, tau: float) -> str:
    """What the main figure of a level shows."""
    ends = {curve.learner.label: float(curve.mean[-1]) for curve in study.main_curves(tau)}
    return f"τ = {tau:g}: {ranking(ends, study.shown(tau), study.episodes)}"


def curve_title(study: StudyResults, tau: float, measure: str, variant: str = "") -> str:
    """What the curves of a measure show."""
    ends = {curve.learner.label: float(curve.mean[-1]) for curve in study.curves(tau, measure, variant)}
    return f"τ = {tau:g}: {ranking(ends, measure, study.episodes)}"


def luck_title(study: StudyResults, tau: float, measure: str, variant: str = "") -> str:
    """The head of an ordering, and whether chance could turn it around."""
    rows = study.found["orderings"][variant or study.name][repr(tau)][measure]
    first = rows[0]
    equal = [study.label(row["learner"]) for row in rows if row["mean"] - first["mean"] < SAME]
    if len(equal) > 1:
        return f"τ = {tau:g}: {listed(equal)} have the smallest mean, {fixed(first['mean'])}"
    told = f"τ = {tau:g}: {equal[0]} has the smallest mean, {fixed(first['mean'])}"
    if len(rows) == 1:
        return told
    clear = "more than" if first["clear"] else "within"
    return f"{told}; {study.label(rows[1]['learner'])} follows with {fixed(rows[1]['mean'])}, {clear} two standard errors away"


def exact_title(study: StudyResults) -> str:
    """The smallest gaps against the exact optimum, level by level."""
    parts = []
    for tau in study.levels:
        ends = {curve.learner.label: float(curve.mean[-1]) for curve in study.curves(tau, "exact")}
        best = min(ends.values())
        first = [label for label in ends if ends[label] - best < SAME]
        who = listed(first) if len(first) <= 2 else f"{len(first)} learners"
        parts.append(f"{who} {fixed(best)} at τ = {tau:g}")
    return f"Smallest gap to the exact optimum after {study.episodes} episodes: {'; '.join(parts)}"


def policies_title(study: StudyResults) -> str:
    """How the first stage of the policies that are shown depends on the level."""
    rules = {tau: first_stage(study, tau) for tau in study.levels}
    known = {tau: rule for tau, rule in rules.items() if rule is not None}
    if not known:
        return "Final policies, stage by state"
    told = [f"up to {rule} at τ = {tau:g}" for tau, rule in known.items()]
    return f"In the first stage the final policies continue {'; '.join(told)}"


def first_stage(study: StudyResults, tau: float) -> str | None:
    """The highest state in which the shown policy continues in its first stage, where that is a threshold rule."""
    found = study.policy(tau)
    if found is None:
        return None
    states, actions = found
    count = int(actions[:, 0].sum())
    return states[count - 1] if count > 0 and actions[:count, 0].all() else None


def promise_title(study: StudyResults) -> str:
    """What final policies promise against what can be promised, for the learners whose policies are shown."""
    keys = [study.settings["final_policy"] or study.learners[0].key]
    keys += [one.key for one in study.learners if one.dashed]
    told = []
    for key in keys:
        parts = []
        for tau in study.levels:
            own = float(np.mean([law.quantile(tau) for law in study.laws(tau)[key]]))
            parts.append(f"{number(own, 3)} of {number(study.reference(tau)['exact'], 3)} (τ = {tau:g})")
        told.append(f"{study.label(key)} {', '.join(parts)}")
    return f"Promised by final policies, of what can be promised: {'; '.join(told)}"


def tuning_title(study: StudyResults) -> str:
    """How many winners sit on an edge of their grid, and whether the criterion is flat there."""
    flat = f"{study.settings['tuning']['points']} values" if study.settings["tuning"] else "values"
    ones = [one for levels in study.found["tuning"].values() for one in levels.values()]
    edge = [one for one in ones if one["at_edge"] is not None]
    steep = [one for one in edge if not one["flat_at_edge"]]
    if not edge:
        return f"Every winner of the tuning lies inside its grid of {flat}"
    told = f"{len(edge)} of {len(ones)} winners of the tuning lie on an edge of their grid"
    return f"{told}, {len(steep)} of them where the criterion is not known to be flat"


def variants_title(study: StudyResults) -> str:
    """Who has the smallest mean gap on the changed problems, and how often."""
    first: dict[str, int] = {}
    cases = 0
    for variant in study.variants:
        for tau in study.levels:
            rows = study.found["orderings"][variant][repr(tau)]["exact"]
            cases += 1
            for row in rows:
                if row["mean"] - rows[0]["mean"] < SAME:
                    label = study.label(row["learner"])
                    first[label] = first.get(label, 0) + 1
    told = [f"{label} in {count}" for label, count in sorted(first.items(), key=lambda pair: -pair[1])]
    return (
        f"Other offers, {cases} cases of problem and level; smallest mean gap to the exact optimum: {', '.join(told)}"
    )


def verdict(row: Mapping[str, Any], study: StudyResults) -> str:
    """Whether a printed number and ours are equal, near by chance, or apart."""
    if row["ours"] is None or study.quick:
        return "not compared"
    if "further_std" not in row:
        return "equal" if row["difference"] == 0 else "apart"
    if abs(row["difference"]) < DIGITS:
        return "equal"
    spread = row["further_std"] * np.sqrt(1.0 / len(study.seeds()) + 1.0 / len(study.further()))
    return "chance" if abs(row["printed"] - row["further_mean"]) <= ERRORS * spread else "apart"


def summary(study: StudyResults) -> list[str]:
    """The few sentences that a reader should not miss."""
    told = []
    rows = study.found["comparison"]
    if rows and study.quick:
        told.append("Numbers of a quick look are not comparable with printed ones.")
    elif rows:
        kinds = [verdict(row, study) for row in rows]
        words = {
            "equal": "equal in all printed digits",
            "chance": "within two standard errors of what our seeds give",
            "apart": "further away than that",
            "not compared": "without a number of ours",
        }
        counts = [f"{kinds.count(kind)} {words[kind]}" for kind in words if kind in kinds]
        told.append(f"Of {len(rows)} printed numbers, {', '.join(counts)}.")
    for tau in study.levels:
        against = study.reference(tau)
        told.append(f"{luck_title(study, tau, 'exact')} ({len(study.further())} seeds, gap to the exact optimum).")
        if abs(against["capped"] - against["exact"]) > 1e-9:
            told.append(
                f"τ = {tau:g}: the capped reference, which the paper measures against, is {number(against['capped'])};"
                f" the exact optimum is {number(against['exact'])}."
            )
    return told
