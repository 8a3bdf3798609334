"""Perishable inventory: order blood platelets that expire after three days.

Each morning a hospital orders packs, which arrive at once and can be used on that day and the following days; the oldest
are used first. A pack that expires is wasted, and a pack that is missing is fetched by courier. The state is the number
of packs per remaining day of life. The structure is a small version of the one in Haijema, van der Wal and van Dijk (2007,
"Blood platelet production: optimization by dynamic programming and simulation"); costs and demand are illustrative
numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.envs.demand import poisson
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "cost units", "day"


def perishable_inventory(
    life: int = 3, largest_order: int = 5, horizon: int = 7, demand: float = 2.0, unit: float = 1.0, waste: float = 2.0,
    shortage: float = 10.0, mass: float = 0.999, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the perishable-inventory problem; its return is minus the cost.

    Parameters
    ----------
    life : int
        Number of days on which a pack can be used, including the day of delivery; at least 2.
    largest_order, horizon : int
        Largest number of packs per order, and number of days.
    demand, mass : float
        Mean of the Poisson demand per day, and the probability at which its law is cut.
    unit, waste, shortage : float
        Cost per pack ordered, expired and missing.
    shared : bool
        Whether learners know that one law of demand drives every row.

    Returns
    -------
    MDP

    Examples
    --------
    >>> perishable_inventory()
    MDP(H=7, S=36, A=6, start=0, 1943 transitions, stationary)
    """
    life, largest = whole(life, "life", 2), whole(largest_order, "largest_order", 1)
    unit, waste, shortage = number(unit, "unit"), number(waste, "waste"), number(shortage, "shortage")

    def step(stock: tuple[int, ...], order: int, wanted: int) -> tuple[tuple[int, ...], float]:
        left, packs = wanted, []
        for age in (*stock, order):  # the oldest first
            used = min(age, left)
            left -= used
            packs.append(age - used)
        expired, *fresh = packs
        return tuple(fresh), -(unit * order + waste * expired + shortage * left)

    mdp = from_step(
        step, list(range(largest + 1)), poisson(demand, mass), horizon, (0,) * (life - 1),
        state_name=lambda stock: " + ".join(map(str, stock)) + " packs", action_name=lambda order: f"order {order}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
