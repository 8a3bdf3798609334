"""Theory experiments that take a few seconds, made once per process."""

import copy
import csv
import io
from functools import cache

from bqrl.papers.ucb_bqrl.theory.suite import EXPERIMENTS, FILE, run_theory
from bqrl.study.settings import settings_of

SMALL = {
    "theory": {"seed": 7},
    "problems": {
        "hard": {"hard": {"tau": 0.5, "rho": 0.0625, "actions": 2, "horizon": 3, "best": 1}},
        "selling": {"label": "selling", "name": "AssetSelling", "params": {"offers": 4, "horizon": 3, "start": 1}},
    },
    "coverage": {
        "runs": 12,
        "episodes": 25,
        "delta": 0.05,
        "params": {"c_conf": "theory", "replan_factor": 1.5},
        "cases": [{"problem": "hard", "tau": 0.5}, {"problem": "selling", "tau": 0.25}],
    },
    "bounds": {
        "runs": 2,
        "episodes": [20, 60],
        "delta": 0.05,
        "params": {"c_conf": "theory"},
        "cases": [{"problem": "hard", "tau": 0.5}],
    },
    "hard": {
        "tau": 0.5,
        "actions": 2,
        "horizon": 2,
        "rhos": [0.0625, 0.05],
        "runs": 2,
        "learners": [
            {"learner": "sarsa", "label": "SARSA"},
            {"learner": "sarsa", "label": "again"},
            {"learner": "ucb-bqrl", "label": "UCB", "params": {"c_conf": "theory", "replan_factor": 1.5}},
        ],
        "growth_rho": 0.0625,
        "growth_factor": 2,
        "growth_runs": 2,
        "growth_points": 10,
    },
    "buffer": {
        "points": 7,
        "powers": [0.5],
        "cases": [{"problem": "hard", "tau": 0.5}, {"problem": "selling", "tau": 0.5}],
    },
    "knapsack": {"weights": 8},
    "quick": {"knapsack": {"weights": 4}},
}


def theory_of(tables):
    return settings_of(tables, FILE)


@cache
def _made(name):
    return run_theory(theory_of(SMALL), [name])[name]


def small_theory(name=None):
    """Tables and facts of an experiment, or of all by name; a copy, so that a test may change it."""
    return copy.deepcopy({each: _made(each) for each in EXPERIMENTS} if name is None else _made(name))


def with_second_level(found):
    """The experiment with its first problem at a second level, 0.25."""
    found["cases"].append({**found["cases"][0], "tau": 0.25})
    for rows in found["tables"].values():
        rows += [{**row, "tau": 0.25} for row in rows if row["problem"] == found["cases"][0]["problem"]]
    return found


def datasets(chart):
    """The embedded tables of a chart, as lists of rows of texts."""
    spec = chart.to_dict()
    sources = [layer.get("data") or spec["data"] for layer in spec.get("layer", [spec])]
    texts = [source["values"] if "values" in source else spec["datasets"][source["name"]] for source in sources]
    return [list(csv.DictReader(io.StringIO(text))) for text in texts]
