"""Machine replacement: run a machine that wears out, overhaul it, or buy a new one.

The more the machine is worn, the less a week of running pays; it also adds 0, 1 or 2 units of wear. A machine that is worn
out breaks down: it earns nothing and causes the cost of the breakdown. An overhaul takes a week and removes two units of
wear; a replacement also takes a week and starts afresh. Equipment replacement is a textbook problem (for example Puterman
1994, "Markov decision processes", Section 4.7); the numbers are illustrative and our own.
"""

from __future__ import annotations

from collections.abc import Sequence

from bqrl.checks import bad_value, number, numbers
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "hundred dollars", "week"


def machine_replacement(
    output: Sequence[float] = (10.0, 10.0, 9.0, 7.0, 4.0, -6.0), overhaul: float = 5.0, replacement: float = 14.0,
    wear: Sequence[float] = (0.4, 0.4, 0.2), horizon: int = 15, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the problem of maintaining one machine; its return is the profit.

    Parameters
    ----------
    output : sequence
        Profit of a week of running at wear 0, 1, ...; the last entry is the profit of a breakdown.
    overhaul, replacement : float
        Costs.
    wear : sequence
        Probabilities that a week adds 0, 1, 2, ... units of wear.
    horizon : int
        Number of weeks.
    shared : bool
        Whether learners know that one law of wear drives every row.

    Returns
    -------
    MDP

    Examples
    --------
    >>> machine_replacement()
    MDP(H=15, S=6, A=3, start=0, 27 transitions, stationary)
    """
    profits, chances = (numbers(given, name) for name, given in (("output", output), ("wear", wear)))
    if profits.ndim != 1 or profits.size < 2:
        raise bad_value("output", output, "be a list of at least two numbers")
    if chances.ndim != 1:
        raise bad_value("wear", wear, "be a list of probabilities")
    overhaul, replacement = number(overhaul, "overhaul"), number(replacement, "replacement")
    worst = profits.size - 1

    def step(worn: int, action: str, added: int) -> tuple[int, float]:
        if action == "Run":
            return min(worn + added, worst), float(profits[worn])
        return (0, -replacement) if action == "Replace" else (max(worn - 2, 0), -overhaul)

    mdp = from_step(
        step, ["Run", "Overhaul", "Replace"], dict(enumerate(chances.tolist())), horizon, 0,
        state_name=lambda worn: "new" if worn == 0 else "worn out" if worn == worst else f"wear {worn}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
