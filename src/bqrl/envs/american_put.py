"""American put: when to exercise the right to sell a share at a fixed price.

The share price follows a binomial tree (Cox, Ross and Rubinstein 1979, "Option pricing: a simplified approach"): each month
it moves up by the factor u = exp(volatility * sqrt(dt)) or down by 1 / u. Exercising pays strike minus price, or nothing if
the price is higher. With the default drift, the interest rate, the best mean is the price of the option on this tree. A share
price and strike of 100, a rate of 5 % and a volatility of 20 % per year, and twelve months are illustrative numbers of our
own.

A put of the literature on static risk (Moghimi and Ku 2025, "Beyond CVaR: leveraging static spectral risk measures for
enhanced decision-making in distributional reinforcement learning", after Tamar, Chow, Ghavamzadeh and Mannor 2017,
"Sequential decision making with coherent risk") has price and strike 1, no interest, a drift of -0.3, a volatility of 0.3 and
ten periods in a year. In its public code the last decision is at the start of the tenth period and exercises in any case:
`price=1, strike=1, rate=0, volatility=0.3, drift=-0.3, steps=9, years=0.9`. There the price is a geometric Brownian motion;
`substeps` moves of the tree between decisions approximate it, and the difference is not proven.
"""

from __future__ import annotations

import math
from typing import Any

from bqrl.checks import bad_value, number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "dollars", "month"
EXERCISED = "exercised"  # the last state


def american_put(
    price: float = 100.0, strike: float = 100.0, rate: float = 0.05, volatility: float = 0.2, years: float = 1.0,
    steps: int = 12, drift: float | None = None, shared: bool = False, substeps: int = 1,
) -> MDP:  # fmt: skip
    """Return the option, with a decision before each price move and one at expiry; its return is the discounted payoff.

    Parameters
    ----------
    price, strike : float
        First price of the share, and the price at which it may be sold.
    rate, volatility : float
        Interest and volatility per year.
    years, steps : float, int
        Time to expiry, and number of periods between decisions.
    drift : float, optional
        Mean growth of the share per year; the interest rate if not given.
    shared : bool
        Whether learners know that one law moves the price.
    substeps : int
        Moves of the price within a period.

    Returns
    -------
    MDP

    Examples
    --------
    >>> american_put(steps=3)
    MDP(H=4, S=10, A=2, start=0, 22 transitions, stationary, discount=0.983471)
    """
    N, n = whole(steps, "steps", 1), whole(substeps, "substeps", 1)
    price, strike = number(price, "price", 0.0, ends="(]"), number(strike, "strike", 0.0, ends="(]")
    rate, volatility = number(rate, "rate", 0.0), number(volatility, "volatility", 0.0, ends="(]")
    dt = number(years, "years", 0.0, ends="(]") / N
    up = math.exp(volatility * math.sqrt(dt / n))
    growth = math.exp((rate if drift is None else number(drift, "drift")) * dt / n)
    p = (growth - 1.0 / up) / (up - 1.0 / up)
    if not 0.0 < p < 1.0:
        raise bad_value("steps", N, "be large enough that a move of the price exceeds its drift", remedy="raise steps")

    def step(level: Any, action: str, move: int) -> tuple[Any, float]:
        if level == EXERCISED:
            return EXERCISED, 0.0
        if action == "Exercise":
            return EXERCISED, max(strike - price * up**level, 0.0)
        return level + move, 0.0

    mdp = from_step(
        step, lambda level: ["Hold"] if level == EXERCISED else ["Hold", "Exercise"],
        {2 * k - n: math.comb(n, k) * p**k * (1.0 - p) ** (n - k) for k in range(n, -1, -1)}, N + 1, 0,
        discount=math.exp(-rate * dt),
        state_name=lambda level: EXERCISED if level == EXERCISED else f"price {price * up**level:.2f}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
