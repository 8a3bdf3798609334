"""Knapsack: numbers of possible returns and of lattice points by horizon, and the hardness proof of Theorem 3 at work.

Quantile decisions alone count the subsets up to half the weight; the count is compared with the exact law.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import asdict
from typing import Any

from bqrl import theory
from bqrl.experiments import experiment as base
from bqrl.results.charts import GREY, PALETTE, altair, csv_data, with_title
from bqrl.study.settings import Count, Settings


class KnapsackSettings(Settings):
    """Number of weights, which are packed one by one."""

    weights: Count


def _run(own: KnapsackSettings, context: base.Context) -> dict[str, Any]:
    sizes, families = base.Rows(), base.Rows()
    weights = theory.knapsack_families(own.weights, context.run_seed(5))
    for name, w in context.watch.track([*weights.items()], "possible returns"):
        growth, law, capacity = theory.support_growth(w), theory.knapsack_law(w, lattice=False), sum(w) // 2
        sizes += base.rows_of({"weights": name}, **asdict(growth))
        decisions: list[bool] = []

        def decide(*question: Any, law: Any = law, decisions: list[bool] = decisions) -> bool:
            decisions.append(law.decide(*question))
            return decisions[-1]

        counted = theory.count_subsets(w, capacity, decide=decide)
        subsets = law.running[bisect_right(law.sums, capacity) - 1]
        numbers = {"capacity": capacity, "counted": counted, "decisions": len(decisions), "subsets": subsets}
        families.append({"label": name, "weights": w, **numbers})
    return {"tables": {"knapsack": sizes}, "weights": own.weights, "families": families}


def _sentences(found: base.Found) -> list[str]:
    ends = list({row["weights"]: row for row in found["tables"]["knapsack"]}.values())  # the last row of each family
    large = max(ends, key=lambda row: (row["support"] is None, row["support"] or 0))
    others = [row for row in ends if row["weights"] not in (large["weights"], "all equal")]
    short = [row for row in others if row["lattice"] < 0.5 * row["histories"]] or ends[:1]
    small = max(short, key=lambda row: row["lattice"])
    support = "too many returns to list" if large["support"] is None else f"{large['support']:,} returns"
    right = all(one["counted"] == one["subsets"] for one in found["families"])
    asked = max(one["decisions"] for one in found["families"])
    return [
        f"Weights {large['weights']} give {support} from {large['histories']:,} histories; weights {small['weights']} stay on a"
        f" lattice of {small['lattice']:,} points",
        f"Quantile decisions alone, at most {asked} per family, count the subsets up to half the weight:"
        f" {'all counts are right' if right else 'NOT all counts are right'}.",
        "A lattice helps if it has fewer points than there are histories; with weights of as many bits as stages it has more.",
    ]


def _charts(found: base.Found, title: str) -> dict[str, Any]:
    """Possible returns by horizon: histories, full support, lattice."""
    alt, table = altair(), found["tables"]["knapsack"]
    kinds = {"support": "returns", "lattice": "lattice", "histories": "histories"}
    names = list(dict.fromkeys(row["weights"] for row in table))
    rows = [
        ["histories" if kind == "histories" else row["weights"], kind, row["horizon"], row[key]]
        for row in table
        for key, kind in kinds.items()
        if row[key] is not None and (kind != "histories" or row["weights"] == names[0])
    ]
    colours = {"domain": [*names, "histories"], "range": [*PALETTE[: len(names)], GREY]}
    data = csv_data(["weights", "kind", "horizon", "points"], rows, texts=("weights", "kind"))
    chart = alt.Chart(data).mark_line().encode(
        x=alt.X("horizon:Q"),
        y=alt.Y("points:Q", title="number of points", scale=base.LOG["y"]),
        color=alt.Color("weights:N", title=None, scale=colours, legend={"orient": "top"}),
        strokeDash=base.dashes("kind", kinds.values()),
        tooltip=["weights:N", "kind:N", "horizon:Q", "points:Q"],
    )  # fmt: skip
    note = (
        "Knapsack-like rewards. Solid: returns that can occur; dashed: the lattice that holds them; dotted: histories."
    )
    return {"knapsack": with_title(chart, title, note)}


CAPTION = "Possible returns by horizon: histories, full support, lattice."
KNAPSACK = base.Experiment(KnapsackSettings, _run, _sentences, _charts, {"knapsack": CAPTION})
