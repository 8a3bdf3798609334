"""The simulated logs of benchmarks/logs.py, and small logs by hand."""

import importlib.util
from pathlib import Path

import numpy as np

PATH = Path(__file__).parents[1] / "benchmarks" / "logs.py"
SPEC = importlib.util.spec_from_file_location("logs_benchmark", PATH)
study = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(study)


def simulated(name, episodes, kind="fixed", seed=0):
    """A problem of the benchmark and a log of it."""
    mdp = study.problems()[name]
    return mdp, study.simulated(mdp, kind, episodes, np.random.default_rng(seed))


def coin(n, heads, **columns):
    """One step: action a pays 1 or 0."""
    rewards = [1.0] * heads + [0.0] * (n - heads)
    return {"episode": range(n), "state": ["s"] * n, "action": ["a"] * n, "reward": rewards} | columns


def two_steps(n=400):
    """Action "new" is tried in state s only; state t is reached from s."""
    half = ["old", "new"] * (n // 2)
    return {
        "episode": np.repeat(np.arange(n), 2), "state": ["s", "t"] * n, "action": [x for a in half for x in (a, "old")],
        "reward": [0.0, 1.0] * n, "next_state": ["t", "s"] * n,
    }  # fmt: skip
