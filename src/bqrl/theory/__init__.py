"""The theory as functions that can be checked: put a problem in and see what the results say about it.

Each function names its definition, lemma or theorem; lines beginning `Corrected:` say where it departs from the printed
statement and why.
"""

from bqrl.theory.buffering import GapProfile, OneSidedGap, buffering_gap, gap_profile, one_sided_gap
from bqrl.theory.confidence import (
    Coverage,
    confidence_constant,
    coverage,
    inside,
    radius,
    total_variation_consequence,
    weissman,
    weissman_radius,
)
from bqrl.theory.decomposition import Counting, Decomposition, optimistic_decomposition, weighted_counting
from bqrl.theory.hard import (
    LowerBound,
    QuantileJumps,
    Slope,
    bandit_upper_bound,
    hard_instance,
    hard_lower_bound,
    loglog_slope,
    quantile_jumps,
)
from bqrl.theory.knapsack import (
    KnapsackLaw,
    SupportGrowth,
    count_subsets,
    knapsack_families,
    knapsack_instance,
    knapsack_law,
    support_experiment,
    support_growth,
)
from bqrl.theory.levels import Drift, Levels, levels, martingale_drift
from bqrl.theory.perturbation import (
    Perturbation,
    mismatch_weights,
    return_law_perturbation,
    reward_spans,
    sharp_weights,
    total_variation,
)
from bqrl.theory.plateau import PlateauBounds, attainable_shortfalls, optimal_margin, plateau, plateau_bounds
from bqrl.theory.regret import RegretBound, RegretBounds, regret_bound
from bqrl.theory.schedule import buffer_horizon, buffering_sum

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
    "Slope",
    "SupportGrowth",
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
