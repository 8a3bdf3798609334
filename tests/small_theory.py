"""Theory experiments that take a few seconds, made once per process."""

import copy
from functools import cache

from bqrl.study.settings import settings_of
from bqrl.study.theory_runs import run_theory
from bqrl.study.theory_spec import TheorySpec

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
    return settings_of(tables, TheorySpec)


@cache
def _made():
    return run_theory(theory_of(SMALL))


def small_theory():
    """Tables and facts of every experiment; a copy, so that a test may change it."""
    return copy.deepcopy(_made())
