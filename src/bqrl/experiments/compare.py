"""Numbers printed elsewhere beside ours, each with what can be computed about the difference.

A printed number is a mean over a few seeds, and so is ours: how far two such means lie apart by chance is measured on the
further seeds. What chance does not cover has a cause; where the cause is not known, that is what is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bqrl.experiments.measures import by_episode, reference
from bqrl.experiments.scores import Scores
from bqrl.experiments.spec import Printed
from bqrl.experiments.study import Finished
from bqrl.learners.record import Record
from bqrl.mdp.forms import IntArray
from bqrl.mdp.policy import MarkovPolicy

DIGITS = 0.005  # half of the last printed digit
ERRORS = 2.0  # standard errors that chance may explain


def comparison(finished: Finished, scores: Scores) -> list[dict[str, Any]]:
    """One row for each printed number whose level the study has."""
    rows = []
    for one in finished.spec.printed:
        if one.level in finished.spec.levels:
            row = _threshold(finished, scores, one) if one.what == "threshold" else _end(finished, scores, one)
            rows.append(row)
    return rows


def _end(finished: Finished, scores: Scores, one: Printed) -> dict[str, Any]:
    spec = finished.spec

    def values(key: str, seeds: tuple[int, ...]) -> Any:
        return np.array([scores.ends["", key, one.level][one.measure][seed] for seed in seeds])

    key = one.learner or min(one.among, key=lambda key: (float(values(key, spec.seeds).mean()), key))
    ours, further = values(key, spec.seeds), values(key, scores.counted(""))
    return {
        "what": f"cumulative {'expected regret' if one.measure == 'expected' else 'quantile gap'} after {spec.episodes} episodes",
        "where": one.where,
        "level": one.level,
        "measure": one.measure,
        "learner": key,
        "label": spec.entry(key).label,
        "smallest_of": list(one.among),
        "printed": one.value,
        "ours": float(ours.mean()),
        "ours_std": float(ours.std(ddof=1)),
        "difference": float(ours.mean() - one.value),
        "further_mean": float(further.mean()),
        "further_std": float(further.std(ddof=1)),
        "reason": " ".join(_reasons(finished, scores, one, key, ours, further)),
    }


def _reasons(finished: Finished, scores: Scores, one: Printed, key: str, ours: Any, further: Any) -> list[str]:
    spec, told = finished.spec, []
    if spec.quick:
        return ["A quick look, with fewer episodes than in print: the two numbers are not comparable."]
    mean, std, seeds = float(further.mean()), float(further.std(ddof=1)), len(spec.seeds)
    spread = std / np.sqrt(seeds)
    apart = abs(one.value - mean) / (std * np.sqrt(1 / seeds + 1 / further.size)) if std > 0.0 else np.inf
    on = f"on {further.size} other seeds a mean of {seeds} runs is {mean:.2f} with a standard deviation of {spread:.2f}"
    if abs(float(ours.mean()) - one.value) < DIGITS:
        told.append("Equal in all printed digits.")
    elif apart <= ERRORS:
        told.append(f"Chance over the seeds covers it: {on}.")
    else:
        far = f"{apart:.1f} standard errors" if np.isfinite(apart) else "outside of any spread"
        told.append(f"Chance over the seeds does not cover it ({far}): {on}.")
        told.append(_unknown(finished, one, key))
    against = reference(spec.problem, one.level)
    if one.measure == "capped" and abs(against.capped - against.exact) > 1e-9:
        exact = float(np.mean([scores.ends["", key, one.level]["exact"][seed] for seed in spec.seeds]))
        told.append(
            f"The capped reference is {against.capped:.6g} by the rules that are printed (its value is not); the exact"
            f" optimum is {against.exact:.6g}, and against it ours is {exact:.2f}."
        )
    return told


def _unknown(finished: Finished, one: Printed, key: str) -> str:
    """What is open, and which of the values that tuning tried would have come nearest to the printed number."""
    entry, tuned = finished.spec.entry(key), finished.finals[key, one.level].tuned
    left = [entry.open] if entry.open else []
    if tuned is None:
        return f"The cause is not known; left open in print: {left[0]}." if left else "The cause is not known."
    left.append(f"the range of the grid for {tuned.parameter}")
    told = f"The cause is not known; left open in print: {'; '.join(left)}. Ours is {tuned.winner.value:g}."
    against = reference(finished.spec.problem, one.level)
    tried = [
        (value, float(np.mean([by_episode(record, one.measure, against).sum() for record in records])))
        for value, records in _tried(finished, one.level, key)
    ]
    if not tried:
        return told
    value, mean = min(tried, key=lambda pair: (abs(pair[1] - one.value), pair[0]))
    among = f"{len(tried)} values that were tried over {finished.spec.episodes} episodes"
    if max(end for _, end in tried) - min(end for _, end in tried) < DIGITS:
        return f"{told} All {among} give {mean:.2f} on the validation seeds."
    return (
        f"{told} Of the {among}, {tuned.parameter} = {value:g} comes nearest to the printed number:"
        f" {mean:.2f} on the validation seeds."
    )


def _tried(finished: Finished, tau: float, key: str) -> Iterator[tuple[float, list[Record]]]:
    """Every value that tuning tried for as long as a final run, with its records on the validation seeds."""
    spec, final = finished.spec, finished.finals[key, tau]
    if final.tuned is not None and spec.tuning is not None:
        for rung in final.tuned.rungs:
            for trial in rung.trials if rung.episodes == spec.episodes else ():
                runs = (spec.run(final.entry, final.tau, seed, value=trial.value) for seed in spec.tuning.seeds)
                yield trial.value, [finished.store.load(run) for run in runs]


def _threshold(finished: Finished, scores: Scores, one: Printed) -> dict[str, Any]:
    """The highest state at which the final policy continues in its first stage."""
    spec, policies, seed = finished.spec, scores.policies[one.level], scores.picked(one.level)
    ours = None if seed is None else first_stage(finished, policies[seed])
    same = {
        name: sum(first_stage(finished, policies[seed]) == one.value for seed in seeds if seed in policies)
        for name, seeds in (("held-out", spec.seeds), ("further", spec.luck_seeds))
    }
    told = (
        f"{same['held-out']} of {len(spec.seeds)} held-out and {same['further']} of {len(spec.luck_seeds)} further"
        " final policies have the printed threshold."
    )
    if ours != one.value:
        told += _threshold_tried(finished, one)
    known = _planned(finished, one.level)
    if known is not None:
        told += f" The same planner on the true kernel without a buffer continues up to {known}."
    if spec.quick:
        told = f"A quick look, with fewer episodes than in print. {told}"
    return {
        "what": "first stage of the final policy: continue up to offer",
        "where": one.where,
        "level": one.level,
        "measure": "threshold",
        "learner": one.learner,
        "label": spec.entry(str(one.learner)).label,
        "smallest_of": [],
        "printed": one.value,
        "ours": ours,
        "difference": None if ours is None else ours - one.value,
        "reason": told,
    }


def _threshold_tried(finished: Finished, one: Printed) -> str:
    """Which values of the tuned parameter end with the printed threshold on most validation seeds."""
    values, count = [], 0
    for value, records in _tried(finished, one.level, str(one.learner)):
        policies = [record.final_policy for record in records]
        tables = [policy.actions.astype(np.int64) for policy in policies if isinstance(policy, MarkovPolicy)]
        count += 1
        if sum(first_stage(finished, table) == one.value for table in tables) > len(records) / 2:
            values.append(f"{value:g}")
    if not count:
        return ""
    tuned = finished.finals[str(one.learner), one.level].tuned
    assert tuned is not None
    name, length = tuned.parameter, finished.spec.episodes
    which = f"{name} = {', '.join(values)} end with it" if values else "none ends with it"
    return (
        f" Ours is tuned to {name} = {tuned.winner.value:g}; of the {count} values tried over {length} episodes,"
        f" {which} on most validation seeds."
    )


def first_stage(finished: Finished, actions: IntArray) -> int | None:
    """The threshold of a policy's first stage; None where the stage is no threshold rule."""
    mdp = finished.spec.problem.build()
    states = [s for s in range(mdp.S) if mdp.state_label(s) not in finished.spec.leave_out]
    goes_on = actions[0, states] == 1
    count = int(goes_on.sum())
    return count - 1 if goes_on[:count].all() else None


def _planned(finished: Finished, tau: float) -> int | None:
    """What the greedy planner does in the first stage where the kernel is known."""
    entry = finished.spec.entry(str(finished.spec.final_policy))
    if dict(entry.params).get("planner") != "greedy":
        return None
    from bqrl.planners.greedy import plan_greedy

    policy = plan_greedy(finished.spec.problem.build(), tau).policy
    return first_stage(finished, policy.actions.astype(np.int64)) if isinstance(policy, MarkovPolicy) else None
