"""Inventory with lost sales: order stock before the demand of the month is known.

Ordering has a fixed and a unit cost, stock in hand is charged for storage, and demand beyond the stock is lost. The
structure is the stochastic inventory example of Puterman (1994, "Markov decision processes", Section 3.2), whose numbers
are capacity=3, price=8, fixed=4, unit=2, holding=1 and demand {0: 1/4, 1: 1/2, 2: 1/4}. The defaults keep his costs, with
room for eight units and a Poisson demand of mean 3, cut at probability 0.999, as illustrative numbers of our own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bqrl.checks import number, whole
from bqrl.envs.demand import poisson
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "dollars", "month"


def inventory(
    capacity: int = 8, horizon: int = 10, start: int = 0, demand: float | Mapping[int, float] = 3.0, price: float = 8.0,
    fixed: float = 4.0, unit: float = 2.0, holding: float = 1.0, mass: float = 0.999, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the inventory problem with lost sales; its return is the profit.

    Parameters
    ----------
    capacity, horizon, start : int
        Largest stock, number of months, first stock.
    demand : float or dict
        Mean of a Poisson demand, or {demand: probability}.
    price, fixed, unit, holding : float
        Revenue per unit sold, cost per order, per unit ordered and per unit stored.
    mass : float
        Probability at which the law of the Poisson demand is cut.
    shared : bool
        Whether learners know that one law of demand drives every row.

    Returns
    -------
    MDP

    Examples
    --------
    >>> inventory()
    MDP(H=10, S=9, A=9, start=0, 285 transitions, stationary)
    """
    capacity = whole(capacity, "capacity", 1)
    price, fixed = number(price, "price"), number(fixed, "fixed")
    unit, holding = number(unit, "unit"), number(holding, "holding")

    def step(stock: int, order: int, wanted: int) -> tuple[int, float]:
        available = stock + order
        sold = min(available, wanted)
        return available - sold, price * sold - (fixed + unit * order if order else 0.0) - holding * available

    law: Any = demand if isinstance(demand, Mapping) else poisson(demand, mass)
    mdp = from_step(
        step, lambda stock: range(capacity - stock + 1), law, horizon, whole(start, "start", 0, capacity),
        state_name=lambda stock: f"{stock} in stock", action_name=lambda order: f"order {order}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
