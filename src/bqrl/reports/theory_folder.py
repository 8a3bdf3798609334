"""The folder of theory experiments: the document, a table for each set of numbers, the figures.

    theory.json                            what was asked and found, one entry an experiment
    coverage.csv, coverage_runs.csv        confidence sets by problem, and the largest ratio of every run
    bounds.csv, bounds_lines.csv           regret beside the bounds, and the bounds on to large numbers of episodes
    hard.csv, hard_growth.csv              regret on the hard family by rho, and in long runs
    hard_slopes.csv                        exponents with standard errors
    buffer.csv, buffer_clears.csv          buffering gaps, and when each schedule is clear of them
    knapsack.csv                           histories, returns and lattice by horizon
    *.png, *.pdf                           figures of these

Every file is written whole or not at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bqrl.mdp.atomic import write_whole
from bqrl.reports.document import plain, to_json, versions
from bqrl.reports.folder import table
from bqrl.reports.style import MissingPlots, encode
from bqrl.reports.theory_figures import theory_figures
from bqrl.reports.theory_words import headline, remarks

THEORY = "theory.json"
FORMAT = "bqrl theory 1"
MARK = "A quick look: few and short runs. Its numbers are not those of the full experiments."

Found = Mapping[str, Any]
Rows = Iterator[dict[str, Any]]


def theory_document(found: Mapping[str, Found], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Everything found, with its headlines, as plain values."""
    quick = bool(settings["quick"])
    return plain(
        {
            "format": FORMAT,
            "title": settings["title"],
            "quick": quick,
            "mark": MARK if quick else "",
            "seed": settings["seed"],
            "experiments": {
                name: {"headline": headline(name, clean), "remarks": remarks(name, clean), **clean}
                for name, clean in ((name, plain(one)) for name, one in found.items())
            },
            "versions": versions(),
        }
    )


def check_folder(folder: Path, quick: bool) -> dict[str, Any]:
    """Experiments that the folder already holds; ValueError where a quick look would stand beside the full ones."""
    path = folder / THEORY
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
        if there["format"] != FORMAT:
            return {}
        if quick and not there["quick"]:
            raise ValueError(f"{folder} holds the full experiments; give another folder for a quick look")
        return dict(there["experiments"]) if there["quick"] == quick else {}
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError):
        return {}


def write_theory(content: dict[str, Any], folder: Path, kept: Mapping[str, Any] | None = None) -> list[str]:
    """Write tables, figures and the document, which gains `kept` experiments; returns a line for each thing left out."""
    left_out: list[str] = []
    for name, found in content["experiments"].items():
        written = []
        for stem, rows in TABLES[name].items():
            write_whole(folder / f"{stem}.csv", table(rows(found)))
            written.append(f"{stem}.csv")
        try:
            for stem, figure in theory_figures(name, found).items():
                for kind in ("png", "pdf"):
                    write_whole(folder / f"{stem}.{kind}", encode(figure, kind))
                    written.append(f"{stem}.{kind}")
        except MissingPlots as fault:
            left_out = [str(fault)]
        found["files"] = written
    both = dict(kept or {}) | content["experiments"]
    content["experiments"] = {name: both[name] for name in TABLES if name in both}
    write_whole(folder / THEORY, (to_json(content) + "\n").encode())  # last: where it stands, the rest does, too
    return left_out


# -- rows of the tables -------------------------------------------------------------------------------------------------


def _coverage(found: Found) -> Rows:
    for case in found["cases"]:
        yield {key: value for key, value in case.items() if key != "ratios"}


def _coverage_runs(found: Found) -> Rows:
    for case in found["cases"]:
        for i, ratio in enumerate(case["ratios"]):
            yield {"problem": case["problem"], "run": i, "largest_ratio": ratio, "inside": ratio <= 1.0 + 1e-12}


def _bounds(found: Found) -> Rows:
    for case in found["cases"]:
        for point in case["points"]:
            for statement, bound in point["bounds"].items():
                own = {key: value for key, value in point.items() if key not in ("bounds", "buffering")}
                yield (
                    {"problem": case["problem"], "tau": case["tau"], "statement": statement}
                    | own
                    | {"buffering_of_the_optimum": point["buffering"], "bound": bound["total"]}
                    | {f"bound_{key}": bound[key] for key in ("buffering", "statistical")}
                    | {key: bound[key] for key in ("trivial", "informative", "ratio", "holds")}
                    | {"informative_from": case["informative_from"][statement]}
                )


def _bounds_lines(found: Found) -> Rows:
    for case in found["cases"]:
        for i, T in enumerate(case["episodes"]):
            lines = {name.replace(" ", "_"): values[i] for name, values in case["bounds"].items()}
            yield {"problem": case["problem"], "episodes": T, **lines, "trivial": case["trivial"][i]}


def _hard(found: Found) -> Rows:
    for one in found["learners"]:
        for i, point in enumerate(one["points"]):
            bound = {"lower_bound": found["lower"][i], "lower_rate": found["lower_rate"][i], "most": found["most"][i]}
            yield {"learner": one["label"], **point, **bound}


def _hard_growth(found: Found) -> Rows:
    growth = found["growth"]
    for one in found["learners"]:
        for i, T in enumerate(growth["episodes"]):
            yield {
                "learner": one["label"],
                "episodes": T,
                "regret": one["growth"]["regret"][i],
                "error": one["growth"]["error"][i],
                "lower_bound": growth["lower"][i],
                "ucb1_upper_bound": growth["upper"][i],
                "most": growth["most"][i],
            }


def _hard_slopes(found: Found) -> Rows:
    for one in found["learners"]:
        rho, late = (slope or {"slope": None, "error": None} for slope in (one["slope"], one["growth"]["slope"]))
        yield {
            "learner": one["label"],
            "exponent_of_inverse_rho": rho["slope"],
            "its_error": rho["error"],
            "exponent_of_episodes_beyond": late["slope"],
            "error_of_that": late["error"],
        }


def _buffer(found: Found) -> Rows:
    for case in found["cases"]:
        two = case["two_sided"] or [None] * len(case["beta"])
        for i, beta in enumerate(case["beta"]):
            ends = {"one_sided_low": case["one_sided_low"][i], "one_sided_high": case["one_sided_high"][i]}
            yield {"problem": case["problem"], "tau": case["tau"], "beta": beta, "two_sided": two[i], **ends}


def _buffer_clears(found: Found) -> Rows:
    for case in found["cases"]:
        for schedule, episodes in case["clears"].items():
            yield {
                "problem": case["problem"],
                "tau": case["tau"],
                "schedule": schedule,
                "margin": case["margin"],
                "episodes_until_margin": episodes["margin"],
                "plateau_low": case["plateau"][0],
                "plateau_high": case["plateau"][1],
                "episodes_until_plateau_high": episodes["plateau"],
            }


def _knapsack(found: Found) -> Rows:
    for one in found["families"]:
        for i, horizon in enumerate(one["horizon"]):
            sizes = {key: one[key][i] for key in ("histories", "support", "lattice")}
            yield {"weights": one["label"], "horizon": horizon, **sizes}


TABLES: dict[str, dict[str, Any]] = {
    "coverage": {"coverage": _coverage, "coverage_runs": _coverage_runs},
    "bounds": {"bounds": _bounds, "bounds_lines": _bounds_lines},
    "hard": {"hard": _hard, "hard_growth": _hard_growth, "hard_slopes": _hard_slopes},
    "buffer": {"buffer": _buffer, "buffer_clears": _buffer_clears},
    "knapsack": {"knapsack": _knapsack},
}
