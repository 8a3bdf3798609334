"""How many returns are possible as the horizon grows: the full support against the lattice that holds it.

Beside it the hardness proof at work: the number of subsets up to half the weight, found by quantile decisions alone.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

from bqrl.experiments.theory.runs import Watch, run_seed
from bqrl.experiments.theory.settings import KnapsackSpec, TheorySpec
from bqrl.theory import count_subsets, knapsack_families, knapsack_law, support_experiment


def knapsack(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Support and lattice of every family of weights by horizon, and what quantile decisions count."""
    own: KnapsackSpec = spec.experiments["knapsack"]
    weights = knapsack_families(own.weights, run_seed(spec.seed, 5))
    watch.phase("possible returns", len(weights))
    families = []
    for name, growth in support_experiment(dict(weights)).items():
        w = weights[name]
        capacity = sum(w) // 2
        law = knapsack_law(w, lattice=False)
        asked: list[Any] = []

        def decide(*question: Any, law: Any = law, asked: list[Any] = asked) -> bool:
            asked.append(question)
            return bool(law.decide(*question))

        counted = count_subsets(w, capacity, decide=decide)
        families.append(
            {
                "label": name,
                "weights": w,
                "horizon": list(growth.horizon),
                "histories": list(growth.histories),
                "support": list(growth.support),
                "lattice": list(growth.lattice),
                "capacity": capacity,
                "counted": counted,
                "decisions": len(asked),
                "subsets": law.running[bisect_right(law.sums, capacity) - 1],
            }
        )
        watch.tick()
    return {"weights": own.weights, "families": families}
