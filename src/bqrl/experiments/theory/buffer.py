"""What a buffer costs by its width, where the cost vanishes, and when each schedule gets there."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.experiments.theory.runs import Watch
from bqrl.experiments.theory.settings import BufferSpec, TheorySpec
from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.theory import gap_profile, optimal_margin, plateau_bounds

LEAST_SHARE = 1e-3  # of tau: buffers below are not looked at


def buffer(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """The buffering gaps of every case with plateau and margin, and the episode from which each schedule is below them."""
    own: BufferSpec = spec.experiments["buffer"]
    watch.phase("buffering gaps", len(own.cases))
    cases = []
    for case in own.cases:
        problem, tau = spec.problem(case.problem), case.tau
        mdp = problem.build()
        schedules = {"log": log_buffer(tau)} | {f"power {a:g}": power_buffer(tau, a) for a in own.powers}
        edges = np.array([plateau_bounds(mdp, tau).upper, optimal_margin(mdp, tau)])
        least = max(edges.min() / 2.0, LEAST_SHARE * tau)
        betas = np.geomspace(least, tau, own.points)
        betas = np.minimum(np.r_[betas, edges[edges > least]], tau)  # the corners of the curves belong to the picture
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
