"""Theory experiments without runs: what a buffer costs, and how many returns are possible.

Buffer: the cost of a buffer by its width, where the cost vanishes, and when each schedule gets there.

Knapsack: the number of possible returns as the horizon grows, the full support against the lattice that holds it. Beside it the
hardness proof at work: the number of subsets up to half the weight, found by quantile decisions alone.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Any

import numpy as np

from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.study.theory_spec import TheorySpec, run_seed
from bqrl.study.watch import Watch
from bqrl.theory import (
    count_subsets,
    gap_profile,
    knapsack_families,
    knapsack_law,
    optimal_margin,
    plateau_bounds,
    support_experiment,
)

LEAST_SHARE = 1e-3  # of tau: smaller buffers are not examined


def buffer(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """The buffering gaps of every case with plateau and margin, and the episode from which each schedule is below them."""
    own = spec.buffer
    assert own is not None
    watch.phase("buffering gaps", len(own.cases))
    cases = []
    for case in own.cases:
        problem, tau = spec.problems[case.problem], case.tau
        mdp = problem.build()
        schedules = {"log": log_buffer(tau)} | {f"power {a:g}": power_buffer(tau, a) for a in own.powers}
        edges = np.array([plateau_bounds(mdp, tau).upper, optimal_margin(mdp, tau)])
        least = max(edges.min() / 2.0, LEAST_SHARE * tau)
        betas = np.geomspace(least, tau, own.points)
        betas = np.minimum(np.r_[betas, edges[edges > least]], tau)  # with the corners of the curves
        found = gap_profile(mdp, tau, betas, schedules)
        cases.append(
            {
                "problem": case.problem,
                "label": problem.label,
                "tau": tau,
                "beta": found.beta.tolist(),
                "two_sided": None if found.two_sided is None else found.two_sided.tolist(),
                "one_sided_low": found.one_sided[0].tolist(),
                "one_sided_high": found.one_sided[1].tolist(),
                "plateau": [found.plateau.lower, found.plateau.upper],
                "plateau_reason": found.plateau.reason,
                "margin": found.margin,
                "clears": {
                    name: {"plateau": at_plateau, "margin": at_margin}
                    for name, (at_plateau, at_margin) in found.clears.items()
                },
            }
        )
        watch.tick()
    return {"cases": cases}


def knapsack(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Support and lattice of every family of weights by horizon, and what quantile decisions count."""
    own = spec.knapsack
    assert own is not None
    weights = knapsack_families(own.weights, run_seed(spec.theory.seed, 5))
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
