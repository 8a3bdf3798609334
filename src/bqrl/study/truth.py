"""Published numbers beside certified optima: one row per entry of `bqrl.envs.published`."""

from __future__ import annotations

from typing import Any

from bqrl.display import format_number
from bqrl.envs.published import Published
from bqrl.envs.registry import make
from bqrl.laws.objectives import Mean
from bqrl.planners.expected import best_mean
from bqrl.planners.plan import GAP_TOL
from bqrl.planners.solve import solve

TITLES = {
    "problem": "problem", "parameters": "parameters", "objective": "objective", "published": "published", "source": "source",
    "seen": "seen", "optimum": "optimum", "proven_for": "proven for", "ratio": "published over optimum",
}  # fmt: skip
NONE = "\N{EN DASH}"


def compare_published(entry: Published, folder: str | None = None) -> dict[str, Any]:
    """Return the published number, the certified optimum as the bracket `value` to `upper`, and the ratio of the two.

    `folder` holds the files of the entries that need them. The ratio is a pair (least, most) or None if the optimum is not
    positive or nothing was published.
    """
    params = dict(entry.params) | ({"folder": folder} if entry.files else {})
    mdp = make(entry.problem, **params)
    if isinstance(entry.objective, Mean):  # without the law of the return, which may have too many values
        value, certain = best_mean(mdp)[0], True
        upper = value
    else:
        plan = solve(mdp, entry.objective, **entry.options)
        value, upper, certain = plan.value, plan.value if plan.upper is None else plan.upper, plan.certain
    ratio = (
        None if entry.value is None or value <= 0.0 or entry.value < 0.0 else (entry.value / upper, entry.value / value)
    )
    return {
        "problem": entry.problem, "params": dict(entry.params), "objective": entry.objective.label, "published": entry.value,
        "error": entry.error, "source": entry.source, "seen": entry.seen, "value": value, "upper": upper,
        "proven": certain, "proven_for": entry.proven_for, "ratio": ratio,
    }  # fmt: skip


def spell_out(row: dict[str, Any]) -> dict[str, str]:
    """Return a row of `compare_published` as texts, by the keys of TITLES."""
    value, upper, ratio = row["value"], row["upper"], row["ratio"]
    exact = upper <= value + GAP_TOL * max(1.0, abs(value))
    number = format_number(value, 6) if exact else f"{format_number(value, 6)} to {format_number(upper, 6)}"
    published = NONE if row["published"] is None else f"{row['published']:g}"
    percent = [] if ratio is None else [f"{100.0 * part:.0f}" for part in ratio]
    return {
        "problem": row["problem"],
        "parameters": ", ".join(f"{key} {'none' if given is None else given}" for key, given in row["params"].items())
        or "default",
        "objective": row["objective"],
        "published": published if row["error"] is None else f"{published} \N{PLUS-MINUS SIGN} {row['error']:g}",
        "source": row["source"] or NONE,
        "seen": row["seen"] or NONE,
        "optimum": number if row["proven"] else f"{number} (tie)",
        "proven_for": row["proven_for"],
        "ratio": NONE if ratio is None else f"{' to '.join(dict.fromkeys(percent))} %",
    }
