"""Knapsack: numbers of possible returns and of lattice points by horizon, and the reduction in the proof of Theorem 3.

The reduction counts the subsets up to half the weight from quantile decisions alone; the count is compared with the exact law.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from bqrl import theory
from bqrl.papers.ucb_bqrl.theory import experiment as base
from bqrl.results.charts import GREY, PALETTE
from bqrl.study.settings import Count, Settings


class KnapsackSettings(Settings):
    """The number of weights, which are packed one by one."""

    weights: Count


def _run(own: KnapsackSettings, context: base.Context) -> dict[str, Any]:
    """Return the tables and facts of the experiment."""
    sizes, families = base.Rows(), base.Rows()
    weights = knapsack_families(own.weights, context.run_seed(5))
    for name, w in context.watch.track([*weights.items()], "possible returns"):
        law, capacity = theory.knapsack_law(w, lattice=False), sum(w) // 2
        decisions: list[bool] = []

        def decide(*question: Any, law: Any = law, decisions: list[bool] = decisions) -> bool:
            decisions.append(law.decide(*question))
            return decisions[-1]

        counted = theory.count_subsets(w, capacity, decide=decide)
        subsets = law.running[bisect_right(law.sums, capacity) - 1]
        numbers = {"capacity": capacity, "counted": counted, "decisions": len(decisions), "subsets": subsets}
        sizes += base.rows_of({"weights": name}, **asdict(theory.support_growth(w)))
        families.append({"label": name, "weights": w, **numbers})
    return {"tables": {"knapsack": sizes}, "weights": own.weights, "families": families}


def knapsack_families(n: int, seed: int) -> dict[str, list[int]]:
    """Return four families of n weights: equal, up to 10, up to 100, and of n bits."""
    rng = np.random.default_rng(seed)
    ranges = {"up to 10": (1, 11), "up to 100": (1, 101), f"of {n} bits": (2 ** (n - 1), 2**n)}
    return {"all equal": [1] * n} | {name: rng.integers(*ends, n).tolist() for name, ends in ranges.items()}


def _headline(found: base.Found) -> str:
    """Return the main result as a sentence."""
    ends = {row["weights"]: row for row in found["tables"]["knapsack"]}  # the last row of each family
    *_, small, large = ends.values()
    support = "too many returns to list" if large["support"] is None else f"{large['support']:,} returns"
    right = all(one["counted"] == one["subsets"] for one in found["families"])
    return (
        f"Weights {large['weights']} give {support} from {large['histories']:,} histories; weights {small['weights']} lie on a"
        f" lattice of {small['lattice']:,} points; {found['weights']} quantile decisions count the subsets up to half the"
        f" weight, and {'all counts are right' if right else 'NOT all counts are right'}"
    )


def _charts(found: base.Found, finding: str) -> dict[str, Any]:
    """Return a chart of the numbers of histories, possible returns and lattice points by horizon."""
    families = {name: [*rows] for name, rows in groupby(found["tables"]["knapsack"], itemgetter("weights"))}
    curves = [base.curve("histories", next(iter(families.values())), "horizon", "histories")]
    for name, rows in families.items():
        listed = [row for row in rows if row["support"] is not None]
        curves.append(base.curve(name, listed, "horizon", "support", "support", "lattice"))
    colours = dict(zip(("histories", *families), (GREY, *PALETTE), strict=False))
    note = "Lines: returns that can occur with knapsack-like rewards; bands: up to the points of their lattice."
    return {"knapsack": base.chart(finding, note, curves, "horizon", "number of points", log="y", colours=colours)}


CAPTIONS = {"knapsack": "Numbers of histories, possible returns (support) and lattice points by horizon."}
NOTE = (
    "A lattice helps if it has fewer points than there are histories; if weights have as many bits as there are weights, "
    "it has more."
)
KNAPSACK = base.TheoryExperiment(
    settings=KnapsackSettings, run=_run, headline=_headline, charts=_charts, captions=CAPTIONS, notes=[NOTE],
)  # fmt: skip
