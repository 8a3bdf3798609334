"""The theory as functions: the definitions, lemmas and theorems of the paper, evaluated on a given problem.

There is one file per statement. A paragraph that begins with `Corrected:` explains where a function departs from the printed
statement::

    containment, total_variation         confidence sets
    perturbation                         how the return law depends on the kernel
    plateau, buffering, schedule         the cost of a buffer, and when it ends
    decomposition, counting, regret      Theorem 1 and Corollary 1
    hard                                 Theorem 2
    knapsack                             Theorem 3

Parameters that many functions share::

    mdp            MDP or the name of a problem; unless stated otherwise its returns must lie on an exact grid, else a GridError
                   is raised
    tau            float in (0, 1), the quantile level
    beta, betas    float or array_like, buffers in (0, tau]
    schedule       the buffers beta_t: a `Buffer` of the planners, a function of the episode, a list with one buffer per
                   episode, a constant, or None for the paper's tau / log(e + t); in (0, tau] and never increasing
    rho            float, a plateau or a margin: the buffer up to which buffering costs nothing
    delta          float in (0, 1), the probability that a confidence set may fail
    S, A, H, T     int, numbers of states, actions, stages and episodes
    max_laws, max_values, max_atoms      int, limits on the size of a computation; a SizeError is raised beyond them
"""

from bqrl.planners.confidence import confidence_constant, radius
from bqrl.theory.buffering import OneSidedGap, buffering_gap, one_sided_gap
from bqrl.theory.containment import weissman
from bqrl.theory.counting import Counting, weighted_counting
from bqrl.theory.decomposition import Decomposition, optimistic_decomposition
from bqrl.theory.hard import LowerBound, hard_instance, hard_lower_bound
from bqrl.theory.knapsack import (
    KnapsackLaw,
    SupportGrowth,
    count_subsets,
    knapsack_instance,
    knapsack_law,
    support_growth,
)
from bqrl.theory.perturbation import Perturbation, return_law_perturbation
from bqrl.theory.plateau import PlateauBounds, optimal_margin, plateau, plateau_bounds
from bqrl.theory.regret import RegretBound, RegretBounds, regret_bound
from bqrl.theory.schedule import buffer_horizon, buffering_sum
from bqrl.theory.total_variation import TotalVariation, total_variation_consequence

__all__ = [
    "Counting", "Decomposition", "KnapsackLaw", "LowerBound", "OneSidedGap", "Perturbation", "PlateauBounds", "RegretBound",
    "RegretBounds", "SupportGrowth", "TotalVariation", "buffer_horizon", "buffering_gap", "buffering_sum",
    "confidence_constant", "count_subsets", "hard_instance", "hard_lower_bound", "knapsack_instance", "knapsack_law",
    "one_sided_gap", "optimal_margin", "optimistic_decomposition", "plateau", "plateau_bounds", "radius", "regret_bound",
    "return_law_perturbation", "support_growth", "total_variation_consequence", "weighted_counting", "weissman",
]  # fmt: skip
