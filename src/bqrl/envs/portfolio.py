"""Two-asset portfolio: how much of a fortune to hold in shares, year after year.

Bonds grow by 2 % per year; shares rise by 20 % or fall by 12 %. Each year a quarter, a half, three quarters, all or none of
the wealth is held in shares. Wealth is counted in whole units, rounded to the nearest at the end of each year, so the
returns lie on a lattice. The return is the gain over all years. Illustrative numbers of our own.
"""

from __future__ import annotations

import math

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "thousand dollars", "year"
QUARTERS = 4  # shares are held in quarters of the wealth


def portfolio(
    wealth: int = 100, horizon: int = 6, up: float = 0.2, down: float = -0.12, up_probability: float = 0.55,
    bonds: float = 0.02, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the problem of holding shares and bonds over several years.

    Parameters
    ----------
    wealth, horizon : int
        First wealth in whole units, and number of years.
    up, down, up_probability : float
        Growth of shares in good and bad years, and the probability of a good one.
    bonds : float
        Growth of bonds per year.
    shared : bool
        Whether learners know that one law drives the share price.

    Returns
    -------
    MDP

    Examples
    --------
    >>> portfolio(horizon=2)
    MDP(H=2, S=39, A=5, start=14, 90 transitions, stationary)
    """
    first = whole(wealth, "wealth", 1)
    low = -1.0
    rates = {1: number(up, "up", low), -1: number(down, "down", low)}
    p, safe = number(up_probability, "up_probability", 0.0, 1.0), number(bonds, "bonds", low)

    def step(units: int, quarters: int, market: int) -> tuple[int, float]:
        growth = (quarters * rates[market] + (QUARTERS - quarters) * safe) / QUARTERS
        after = math.floor(units * (1.0 + growth) + 0.5 + 1e-9)  # 1e-9: decimal halves round up despite float errors
        return after, float(after - units)

    mdp = from_step(
        step, range(QUARTERS + 1), {1: p, -1: 1.0 - p}, horizon, first, state_name=lambda units: f"wealth {units}",
        action_name=lambda quarters: f"{100 * quarters // QUARTERS} % shares",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
