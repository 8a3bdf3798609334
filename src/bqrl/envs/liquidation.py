"""Optimal liquidation: sell a block of shares; fast sales depress the price, and waiting exposes you to its moves.

In each period the trader sells some lots at the present price minus an impact that grows with the number of lots sold.
Between periods the price moves up, down, or not at all. Lots that are left at the end are worth nothing. The structure is
that of Almgren and Chriss (2000, "Optimal execution of portfolio transactions"), with temporary impact only. Prices are in
ticks per lot. Illustrative numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "ticks", "period"


def liquidation(
    lots: int = 8, horizon: int = 6, largest_sale: int = 4, price: int = 50, impact: int = 1, volatility: int = 2,
    move_probability: float = 0.6, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the problem of selling a block; its return is the revenue.

    Parameters
    ----------
    lots, horizon, largest_sale : int
        Size of the block, number of periods, lots that can be sold in one period.
    price, impact, volatility : int
        First price, price reduction per lot sold in the same period, size of a move, all in ticks.
    move_probability : float
        Probability that the price moves between two periods; up and down are equally likely.
    shared : bool
        Whether learners know that one law moves the price.

    Returns
    -------
    MDP

    Examples
    --------
    >>> liquidation()
    MDP(H=6, S=105, A=5, start=98, 1035 transitions, stationary)
    """
    lots, largest = whole(lots, "lots", 1), whole(largest_sale, "largest_sale", 1)
    price, impact, volatility = whole(price, "price"), whole(impact, "impact"), whole(volatility, "volatility")
    p = number(move_probability, "move_probability", 0.0, 1.0)

    def step(state: tuple[int, int], sale: int, move: int) -> tuple[tuple[int, int], float]:
        left, change = state
        revenue = float(sale * max(price + change - impact * sale, 0))
        return ((left - sale, change + move * volatility) if left > sale else (0, 0)), revenue

    mdp = from_step(
        step, lambda state: range(min(state[0], largest) + 1), {-1: p / 2, 0: 1.0 - p, 1: p / 2}, horizon, (lots, 0),
        state_name=lambda state: f"{state[0]} lots, price {price + state[1]}" if state[0] else "sold",
        action_name=lambda sale: f"sell {sale}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
