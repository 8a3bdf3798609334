"""Mean-reverting trading: buy low, sell high, and hold little at the end.

The price follows an Ornstein-Uhlenbeck process around 1 with speed 2 and volatility 1 per unit of time; the start price is 1.
In each of ten periods of length 0.1 the trader buys or sells u, one of 21 amounts from -2 to 2, at the price S and pays a
cost of 0.005 u^2. At the end the stock q is valued at the price and charged 0.5 q^2. Problem and numbers are those of the
public code for Moghimi and Ku (2025, "Beyond CVaR: leveraging static spectral risk measures for enhanced decision-making in
distributional reinforcement learning"), after Coache and Jaimungal (2024, "Reinforcement learning with dynamic convex risk
measures"). The code names a largest stock of 5 but does not enforce it: `limit=None` is the code, `limit=5` the stated bound.
The default has 5 trades instead of 21 and a coarse grid of prices, so that it is quick to plan; `trades=21, price_step=0.25`
is the published problem. Returns here are not discounted.

The return is the sum over periods of q' (S' - S) - 0.005 u^2 - 0.5 (q'^2 - q^2), with q' the stock after the trade. The total
is the same as with a valuation at the end, and the reward is the same function at every stage.

The price is continuous; here it is restricted to a grid. A move goes to the grid point nearest to the normal price, whose
variance is reduced by (price step)^2 / 12, so that mean and variance of a move on the grid are those of the continuous process
up to the ends of the grid, which are `ends` stationary standard deviations from the mean. Plans are exact or bracketed for
this grid, as the plan says. They are not proven for the continuous price; compare several grids to see how much they depend on
it.
"""

from __future__ import annotations

import math

import numpy as np

from bqrl.checks import bad_value, number, whole
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP

UNIT, STAGE = "dollars", "period"
THETA = 1.0  # mean and start of the price
NEGLIGIBLE = 1e-12  # moves of smaller probability are dropped


def mean_reversion(
    kappa: float = 2.0, sigma: float = 1.0, phi: float = 0.005, psi: float = 0.5, periods: int = 10, years: float = 1.0,
    trades: int = 5, largest: float = 2.0, limit: float | None = 5.0, price_step: float = 0.5, ends: float = 4.0,
) -> MDP:  # fmt: skip
    """Return the trading problem on a grid of prices; its return is the profit.

    Parameters
    ----------
    kappa, sigma : float
        Speed of the mean reversion and volatility.
    phi, psi : float
        Cost of a squared trade, and of the squared stock at the end.
    periods, years : int, float
        Number of trades and time to the end.
    trades, largest : int, float
        Number of possible trades, odd (21 as published), and the largest of them.
    limit : float, optional
        Largest stock, bought or sold short; None for no limit.
    price_step, ends : float
        Distance of the grid points, and of the ends of the grid from the mean, in stationary standard deviations.

    Returns
    -------
    MDP

    Examples
    --------
    >>> mean_reversion(trades=3, limit=2.0)
    MDP(H=10, S=27, A=3, start=13, 413 transitions, stationary)
    """
    H, n = whole(periods, "periods", 1), whole(trades, "trades", 3)
    if n % 2 == 0:
        raise bad_value("trades", trades, "be odd, so that 0 is among them")
    kappa, sigma = number(kappa, "kappa", 0.0, ends="(]"), number(sigma, "sigma", 0.0, ends="(]")
    phi, psi = number(phi, "phi", 0.0), number(psi, "psi", 0.0)
    unit = number(largest, "largest", 0.0, ends="(]") / (n // 2)
    most = n // 2 * H if limit is None else math.floor(number(limit, "limit", 0.0) / unit + SUM_TOL)
    prices, P = price_chain(kappa, sigma, number(years, "years", 0.0, ends="(]") / H, price_step, ends)
    i, i_next = np.nonzero(P)
    stocks, moves = np.arange(-most, most + 1), np.arange(-(n // 2), n // 2 + 1)
    j, u = np.nonzero(np.abs(stocks[:, None] + moves[None, :]) <= most)
    after = stocks[j] + moves[u]
    price, place = np.repeat(np.arange(i.size), j.size), np.tile(np.arange(j.size), i.size)
    gain = after[place] * unit * (prices[i_next] - prices[i])[price]
    paid = phi * (moves[u] * unit) ** 2 + psi * ((after * unit) ** 2 - (stocks[j] * unit) ** 2)
    rows = np.c_[
        i[price] * stocks.size + j[place], u[place], i_next[price] * stocks.size + after[place] + most, P[i, i_next][price],
        gain - paid[place],
    ]  # fmt: skip
    return MDP(
        rows,
        horizon=H,
        start=prices.size // 2 * stocks.size + most,
        state_names=[f"price {p:g}, stock {unit * q:g}" for p in prices.round(9) for q in stocks],
        action_names=[f"{'buy' if m > 0 else 'sell'} {abs(unit * m):g}" if m else "wait" for m in moves],
    )


def price_chain(kappa: float, sigma: float, dt: float, step: float, ends: float) -> tuple[FloatArray, FloatArray]:
    """Return the grid of prices and the matrix of their moves within a time `dt`."""
    step = number(step, "price_step", 0.0, ends="(]")
    half = math.floor(number(ends, "ends", 0.0, ends="(]") * sigma / math.sqrt(2.0 * kappa) / step + SUM_TOL)
    variance = sigma**2 * -math.expm1(-2.0 * kappa * dt) / (2.0 * kappa) - step**2 / 12.0
    if half < 1 or variance <= 0.0:
        raise bad_value("price_step", step, "be smaller than the moves of the price", remedy="halve it")
    points = np.arange(-half, half + 1) * step
    edges = (points[:-1] + points[1:]) / 2.0
    z = (edges[None, :] - math.exp(-kappa * dt) * points[:, None]) / math.sqrt(2.0 * variance)
    below = np.array([[0.0, *((1.0 + math.erf(x)) / 2.0 for x in row), 1.0] for row in z.tolist()])
    P = np.diff(below, axis=1)
    P[P < NEGLIGIBLE] = 0.0
    return np.asarray(THETA + points, np.float64), np.asarray(P / P.sum(axis=1, keepdims=True), np.float64)
