"""What runs of learners mean, in one or two sentences, and as the title of their figure; all of it from their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bqrl.planners.plan import GAP_TOL
from bqrl.reports.words import apart, number, runs

EASY = "Playing at random promises as much, so at this level there is nothing to learn."
LATE = 0.9  # of the run: who settles later has only just got there


def learned(document: Mapping[str, Any]) -> str:
    """What one learner came to and what the way there cost."""
    (learner,) = document["learners"]
    T, tau, rows = document["episodes"], document["tau"], learner["runs"]
    after = f"After {_episodes(T)}"
    if document["best"] is None:
        last, whole = apart(learner["mean"]["last_return"], learner["mean"]["return"])
        return (
            f"{after} the mean return is {last} over the last tenth of them and {whole} over all. The environment does not "
            "tell its kernel, so there is no exact promise and no gap."
        )
    best, final = document["best"]["quantile"], learner["mean"]["quantile"]
    at_best = [row for row in rows if row["settled"] is not None]
    top, value, short = apart(best, final, best - final)
    if len(at_best) == len(rows):
        seeds = "" if len(rows) == 1 else f", with each of the {len(rows)} seeds"
        head = f"{after}, in {runs(tau)} you get at least {top}, the best that any policy can promise{seeds}."
    elif at_best:
        head = (
            f"{after} {len(at_best)} of {len(rows)} seeds end with the best promise of any policy, at least {top} in "
            f"{runs(tau)}; on average they promise {value}."
        )
    else:
        mean = "" if len(rows) == 1 else " (mean over seeds)"
        head = f"{after}, in {runs(tau)} you get at least {value}{mean}, {short} less than the best promise, {top}."
    easy = f" {EASY}" if _equal(document["random"]["quantile"], best) else ""
    return f"{head} {_cost(learner['mean']['gap'], T, best)}{easy}"


def _cost(gap: float, T: int, size: float) -> str:
    if gap <= GAP_TOL * T * max(1.0, abs(size)):
        return "No policy on the way fell short of it."
    return (
        f"On the way policies fell short of it by {number(gap / T, 3)} an episode on average, {number(gap, 4)} in all."
    )


def ranked(document: Mapping[str, Any]) -> str:
    """Who fell short least, and what chance alone gives."""
    T, tau = document["episodes"], document["tau"]
    if document["best"] is None:
        order = sorted(document["learners"], key=lambda one: -one["mean"]["last_return"])
        told = ", ".join(f"{one['label']} {number(one['mean']['last_return'], 4)}" for one in order)
        return (
            f"Mean return over the last tenth of {_episodes(T)}: {told}. The environment does not tell its kernel, so there "
            "are no exact promises and no gaps."
        )
    best, random = document["best"]["quantile"], document["random"]["quantile"]
    top, chance = apart(best, random)
    told = f"Over {_episodes(T)} {ranking(document)}. In {runs(tau)} the best policy gives at least {top}"
    return f"{told}. {EASY}" if _equal(random, best) else f"{told}, playing at random {chance}."


def ranking(document: Mapping[str, Any]) -> str:
    """The order of the learners by cumulative gap in a few words, without a full stop."""
    order = by_gap(document["learners"])
    if len(order) == 1:
        return headline(document)
    T, size = document["episodes"], document["best"]["quantile"]
    perfect = [one["label"] for one in order if one["mean"]["gap"] <= GAP_TOL * T * max(1.0, abs(size))]
    if len(perfect) == len(order):
        return f"none of the {len(order)} learners ever falls short of the best promise"
    if len(perfect) > 3:
        return f"{len(perfect)} of {len(order)} learners never fall short of the best promise"
    if perfect:
        after = order[len(perfect)]
        verb = "never falls" if len(perfect) == 1 else "never fall"
        return (
            f"{_and(perfect)} {verb} short of the best promise; the next, {after['label']}, by "
            f"{number(after['mean']['gap'], 3)} in all"
        )
    first, second = order[:2]
    least, more = apart(first["mean"]["gap"], second["mean"]["gap"], digits=3)
    if max(row["gap"] for row in first["runs"]) >= min(row["gap"] for row in second["runs"]):
        return (
            f"{first['label']} and {second['label']} fall short of the best promise least: by {least} and {more} in all"
        )
    times = second["mean"]["gap"] / first["mean"]["gap"]
    lead = f" ({number(times, 2)} times as much)" if times >= 1.5 else ""
    return f"{first['label']} falls short of the best promise by {least} in all; the next, {second['label']}, by {more}{lead}"


def by_gap(learners: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Learners in the order of their cumulative gap (of their last returns where there is none), the best first."""
    if any("gap" not in one["mean"] for one in learners):
        return sorted(learners, key=lambda one: -one["mean"]["last_return"])
    return sorted(learners, key=lambda one: one["mean"]["gap"])


def headline(document: Mapping[str, Any]) -> str:
    """What to see in the curve of one learner."""
    learner, T = document["learners"][0], document["episodes"]
    rows, label, best = learner["runs"], learner["label"], document["best"]["quantile"]
    there = [row["settled"] for row in rows if row["settled"] is not None]
    top, short = apart(best, best - learner["mean"]["quantile"])
    if len(there) == len(rows):
        every = "" if len(rows) == 1 else f" in all {len(rows)} seeds"
        if max(there) > LATE * T:
            return f"{label} ends with the best promise, {top},{every}".removesuffix(",")
        since = "the first episode" if max(there) == 0 else f"episode {max(there) + 1}"
        return f"{label} makes the best promise, {top}, from {since} on{every}"
    if there:
        return f"{label} ends with the best promise, {top}, in {len(there)} of {len(rows)} seeds"
    return f"{label} ends {'' if len(rows) == 1 else 'on average '}{short} short of the best promise, {top}"


def _equal(x: float, y: float) -> bool:
    return abs(x - y) <= GAP_TOL * max(1.0, abs(y))


def _episodes(T: int) -> str:
    return "1 episode" if T == 1 else f"{T} episodes"


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
