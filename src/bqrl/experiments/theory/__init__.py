"""Experiments that show the theory at work: coverage, bounds, the hard family, buffers, possible returns.

Each is a function of the settings that returns plain numbers; reports draw and tell them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any

from bqrl.experiments.theory.bounds import bounds
from bqrl.experiments.theory.buffer import buffer
from bqrl.experiments.theory.coverage import coverage
from bqrl.experiments.theory.hard import hard
from bqrl.experiments.theory.knapsack import knapsack
from bqrl.experiments.theory.runs import Silence, Watch
from bqrl.experiments.theory.settings import TheorySpec, chosen, read_theory

EXPERIMENTS: dict[str, Callable[[TheorySpec, Watch], dict[str, Any]]] = {
    "coverage": coverage,
    "bounds": bounds,
    "hard": hard,
    "buffer": buffer,
    "knapsack": knapsack,
}


def run_theory(
    spec: TheorySpec, only: Iterable[str] | None = None, watch: Watch | None = None
) -> dict[str, dict[str, Any]]:
    """What the experiments named in `only` (default: all of the settings) found, each with its seconds."""
    found = {}
    for name in chosen(spec, only):
        begun = time.perf_counter()
        found[name] = EXPERIMENTS[name](spec, Silence() if watch is None else watch)
        found[name]["seconds"] = time.perf_counter() - begun
    return found


def paper_theory(name: str = "ucb_bqrl") -> Path:
    """The settings file of a paper's theory, in an installed package or in a clone."""
    package = Path(str(files("bqrl")))
    places = [root / "papers" / name / "theory.toml" for root in (package, package.parents[1])]
    for path in places:
        if path.is_file():
            return path
    raise FileNotFoundError(f"the settings are neither at {places[0]} nor at {places[1]}; name a file with --settings")


__all__ = ["EXPERIMENTS", "TheorySpec", "Watch", "chosen", "paper_theory", "read_theory", "run_theory"]
