"""The theory as functions: the definitions, lemmas and theorems of the paper, evaluated on a given problem.

One file per statement. A paragraph that begins `Corrected:` says where a function departs from the printed statement, and
why.

    weissman, containment, total_variation      confidence sets
    perturbation                                how the return law depends on the kernel
    plateau, shortfalls, buffering, schedule    what a buffer costs, and until when
    decomposition, counting, regret             Theorem 1 and Corollary 1
    hard, power_law                             Theorem 2
    knapsack, support                           Theorem 3
    levels                                      the scalar quantile level as a martingale
"""

from bqrl.planners.confidence import confidence_constant, radius
from bqrl.theory.buffering import GapProfile, OneSidedGap, buffering_gap, gap_profile, one_sided_gap
from bqrl.theory.containment import Coverage, coverage
from bqrl.theory.counting import Counting, weighted_counting
from bqrl.theory.decomposition import Decomposition, optimistic_decomposition
from bqrl.theory.hard import (
    LowerBound,
    QuantileJumps,
    bandit_upper_bound,
    hard_instance,
    hard_lower_bound,
    quantile_jumps,
)
from bqrl.theory.knapsack import KnapsackLaw, count_subsets, knapsack_instance, knapsack_law
from bqrl.theory.levels import Drift, Levels, levels, martingale_drift
from bqrl.theory.perturbation import (
    Perturbation,
    mismatch_weights,
    return_law_perturbation,
    reward_spans,
    sharp_weights,
)
from bqrl.theory.plateau import PlateauBounds, optimal_margin, plateau, plateau_bounds
from bqrl.theory.power_law import Slope, loglog_slope
from bqrl.theory.regret import RegretBound, RegretBounds, regret_bound
from bqrl.theory.schedule import buffer_horizon, buffering_sum
from bqrl.theory.shortfalls import Shortfalls, attainable_shortfalls
from bqrl.theory.support import SupportGrowth, knapsack_families, support_experiment, support_growth
from bqrl.theory.total_variation import TotalVariation, inside, total_variation, total_variation_consequence
from bqrl.theory.weissman import weissman, weissman_radius

__all__ = [
    "Counting",
    "Coverage",
    "Decomposition",
    "Drift",
    "GapProfile",
    "KnapsackLaw",
    "Levels",
    "LowerBound",
    "OneSidedGap",
    "Perturbation",
    "PlateauBounds",
    "QuantileJumps",
    "RegretBound",
    "RegretBounds",
    "Shortfalls",
    "Slope",
    "SupportGrowth",
    "TotalVariation",
    "attainable_shortfalls",
    "bandit_upper_bound",
    "buffer_horizon",
    "buffering_gap",
    "buffering_sum",
    "confidence_constant",
    "count_subsets",
    "coverage",
    "gap_profile",
    "hard_instance",
    "hard_lower_bound",
    "inside",
    "knapsack_families",
    "knapsack_instance",
    "knapsack_law",
    "levels",
    "loglog_slope",
    "martingale_drift",
    "mismatch_weights",
    "one_sided_gap",
    "optimal_margin",
    "optimistic_decomposition",
    "plateau",
    "plateau_bounds",
    "quantile_jumps",
    "radius",
    "regret_bound",
    "return_law_perturbation",
    "reward_spans",
    "sharp_weights",
    "support_experiment",
    "support_growth",
    "total_variation",
    "total_variation_consequence",
    "weighted_counting",
    "weissman",
    "weissman_radius",
]
