"""Small problems that several tests of planners share."""

import bqrl
from bqrl import Law

FAIR = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=1)
NEARLY = bqrl.MDP([(0, 0, 0, 0.5 - 1e-13, 0.0), (0, 0, 0, 0.5 + 1e-13, 1.0)], horizon=1)
THREE_TENTHS = bqrl.MDP([(0, 0, 0, 0.3, 0.0), (0, 0, 0, 0.7, 10.0)], horizon=1)
RISKY = bqrl.MDP(
    [(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.25, 1.0), (0, 0, 0, 0.25, 2.0), (0, 1, 0, 0.75, 1.0), (0, 1, 0, 0.25, 3.0)],
    horizon=2,
)
STEADY, BOLD = Law([4.0, 7.0], [0.5, 0.5]), Law([0.0, 7.0], [0.4, 0.6])


def choice_after_chance(histories):
    """One of equally likely states, then a choice between two laws that is the same in all of them."""
    chance = [(0, a, 1 + s, 1 / histories, 0.0) for a in (0, 1) for s in range(histories)]
    choice = [
        (1 + s, a, 0, p, x)
        for s in range(histories)
        for a, law in enumerate((STEADY, BOLD))
        for x, p in zip(law.values.tolist(), law.probabilities.tolist(), strict=True)
    ]
    return bqrl.MDP(chance + choice, horizon=2)


def best_share(histories):
    """The best buffered quantile when j of the histories take the bold choice."""
    return max(
        Law.mixture([BOLD, STEADY], [j / histories, 1 - j / histories]).buffered_quantile(0.5, 0.25)
        for j in range(histories + 1)
    )
