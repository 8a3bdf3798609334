"""Numbers that the literature reports for problems of this package, for comparison with the certified optimum.

An entry names a problem with its parameters, an objective, and, if there is one, the best published number of a learner with
its source. `seen` says where we read that number: "read" in the source itself, or "summary" if it is quoted from a text about
the source. Entries without a number list an optimum for which we found none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bqrl.laws.objectives import CVaR, Mean, Objective, Quantile

MOGHIMI = "Moghimi and Ku 2025, Table 2"
CATSO = "otimeotime/catso-patso"  # a repository with result files
EIGHTHS = {"stakes": "eighths"}
CODE, PAPER = EIGHTHS | {"win_probability": 0.88}, EIGHTHS | {"win_probability": 0.8}
PUT = {
    "price": 1.0, "strike": 1.0, "rate": 0.0, "volatility": 0.3, "drift": -0.3, "steps": 9, "years": 0.9, "substeps": 50
}  # fmt: skip
FINE: dict[str, Any] = {"trades": 21, "price_step": 0.25}
GRID = "the price grid"  # the approximation for which the optimum is proven


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A problem, an objective and what the literature reports for them."""

    problem: str
    objective: Objective
    params: Mapping[str, Any] = field(default_factory=dict)
    value: float | None = None  # None if no number was found
    error: float | None = None  # error of the value, as stated by the source
    source: str = ""
    seen: str = ""  # "read" or "summary"
    proven_for: str = "the problem"  # the problem, or its approximation, for which the optimum is proven
    options: Mapping[str, Any] = field(default_factory=dict)  # options of the planner
    slow: bool = False  # takes more than ten seconds
    files: bool = False  # needs the parameter `folder`


ENTRIES = (
    *(Published(problem="AmericanPut", params=PUT, objective=goal, proven_for=GRID, options=options) for goal, options in (
        (Mean(), {}), (CVaR(0.6), {"pairs": True}), (CVaR(0.2), {"pairs": True}))),
    *(Published(problem="BettingGame", params=CODE, objective=goal) for goal in (
        CVaR(0.05), CVaR(0.2), Quantile(0.05), Quantile(0.2))),
    *(Published(problem="BettingGame", params=PAPER, objective=goal) for goal in (
        CVaR(0.05), Quantile(0.05), Quantile(0.2))),
    *(Published(problem="BettingGame", params=PAPER, objective=CVaR(tau), value=0.0, seen="read",
                source=f"{CATSO}, tune_bettinggame.csv: its optimum, chosen by CVaR state by state") for tau in (0.2, 0.25)),
    Published(problem="BettingGame", params=PAPER, objective=CVaR(0.25), value=-8.9, seen="read",
              source=f"{CATSO}, results_bettinggame_summary.csv: CATSO after 100,000 trials"),
    *(Published(problem="Blackjack", objective=goal) for goal in (Mean(), Quantile(0.5), Quantile(0.6))),
    *(Published(problem="GuardedMaze", objective=goal, proven_for="the rounded guard, 32 steps") for goal in (
        Mean(), CVaR(0.2), Quantile(0.2))),
    *(Published(problem="MeanReversion", params=FINE | limit, objective=Mean(), value=1.48, error=0.07,
                source=f"{MOGHIMI}, QR-CVaR", seen="summary", proven_for=GRID) for limit in ({}, {"limit": None})),
    Published(problem="MeanReversion", params=FINE, objective=CVaR(0.5), value=0.27, error=0.03,
              source=f"{MOGHIMI}, a static method", seen="summary", proven_for=GRID, options={"points": 4000}, slow=True),
    *(Published(problem="NoisyCliff", objective=Quantile(tau)) for tau in (0.05, 0.1, 0.25, 0.5)),
    *(Published(problem="QuantileDomain", params={"domain": name}, objective=Quantile(0.25), options={"points": 100_000})
      for name in ("machine", "riverswim")),
    *(Published(problem="QuantileDomain", params={"domain": name}, objective=Quantile(0.25))
      for name in ("ruin", "inventory1")),
    *(Published(problem="QuantileDomain", params={"domain": name}, objective=Quantile(0.25), files=True, slow=slow)
      for name, slow in (("cliff", False), ("population", False), ("inventory2", True))),
)  # fmt: skip
