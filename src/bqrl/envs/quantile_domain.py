"""Seven tabular domains of the literature on quantile MDPs, discounted by 0.9 over 100 stages.

The domains are those of Hau, Delage, Derman, Ghavamzadeh and Petrik (2025, "Q-learning for quantile MDPs: a decomposition,
performance, and convergence analysis") and their public data (MIT licence). A discount leaves no lattice of returns, so plans
are brackets. Four domains are rebuilt here from their rules:

- "ruin": a gambler with 0 to 10 coins stakes any part of them on a coin that wins with probability 0.7, the capital stops at
  10, and each stage at 10 pays 1;
- "inventory1": stock up to 20, orders up to 10 (cut at the free room), Poisson demand of mean 10 cut after 30, lost sales,
  price 4.99, unit cost 2.49, 0.49 per order, 0.05 per unit left;
- "machine": a machine ages in eight steps; running it moves on with probability 0.8, repairing renews it with probability
  0.6; the costs are 2 for a renewed machine, 10 for a long repair and 20 for a broken machine;
- "riverswim": 20 positions; Left always moves left and pays 5, Right moves up or back, and staying at the right bank pays
  86.2971.

"cliff", "population" and "inventory2" are read from the files of that name (.csv) in `folder`. First states are those of the
public data (domains_info.csv of MonkieDein/entropic-TRC, commit 7646930, where the states of every domain are numbered from 1:
riverswim 9, machine 1, population 44, cliff 37, inventory2 20, ruin 5, which is 4 coins, and inventory1 10, which is 9 in stock).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bqrl.checks import bad_value, choice
from bqrl.envs.demand import poisson
from bqrl.mdp.load import load_model
from bqrl.mdp.model import MDP

UNIT, STAGE = "points", "stage"
FROM_FILES = {"cliff": 37, "population": 44, "inventory2": 20}  # first states, counted from 1
Row = tuple[str, str, str, float, float]  # state, action, next state, probability, reward


def quantile_domain(
    domain: str = "ruin", horizon: int = 100, discount: float = 0.9, start: str | None = None, folder: str | None = None
) -> MDP:
    """Return one of the seven domains.

    Parameters
    ----------
    domain : str
        "ruin", "inventory1", "machine", "riverswim", or with `folder` "cliff", "population" or "inventory2".
    horizon, discount : int, float
        Number of stages and discount per stage.
    start : str, optional
        Name of the first state; by default that of the public data.
    folder : str, optional
        Folder with the files of the last three.

    Returns
    -------
    MDP

    Examples
    --------
    >>> quantile_domain("ruin")
    MDP(H=100, S=11, A=11, start=4, 111 transitions, stationary, discount=0.9)
    """
    choice(domain, "domain", (*RULES, *FROM_FILES))
    if domain in FROM_FILES:
        if folder is None:
            raise bad_value(
                "folder", None, f"be given for the domain {domain}", remedy=f"name the folder with {domain}.csv"
            )
        first = str(FROM_FILES[domain]) if start is None else start
        return load_model(Path(folder) / f"{domain}.csv", horizon=horizon, start=first, discount=discount)
    rule, first = RULES[domain]
    columns = zip(*rule(), strict=True)
    table = dict(zip(("state", "action", "next_state", "probability", "reward"), map(list, columns), strict=True))
    return MDP(table, horizon=horizon, start=first if start is None else start, discount=discount)


def _ruin() -> Iterator[Row]:
    """Capital 0 to 10; every stake is possible at 10, where nothing changes."""
    for capital in range(11):
        here = f"{capital} coins"
        for stake in range(capital + 1):
            if capital == 10 or stake == 0:
                yield here, f"stake {stake}", here, 1.0, float(capital == 10)
            else:
                yield here, f"stake {stake}", f"{capital - stake} coins", 0.3, 0.0
                yield here, f"stake {stake}", f"{min(capital + stake, 10)} coins", 0.7, 0.0


def _inventory1() -> Iterator[Row]:
    """Orders above the free room are cut to it."""
    demand = poisson(10.0, 1.0 - 1e-7)
    for stock in range(21):
        for order in range(11):
            bought = min(order, 20 - stock)
            paid = 2.49 * bought + (0.49 if bought else 0.0)
            for sold in range(stock + bought + 1):
                left = stock + bought - sold
                p = demand[sold] if left else 1.0 - sum(demand[k] for k in range(sold))
                yield f"{stock} in stock", f"order {order}", f"{left} in stock", p, 4.99 * sold - paid - 0.05 * left


def _machine() -> Iterator[Row]:
    """States "new", "repair" and ages 1 to 8; at age 8 the machine is broken."""
    yield from (
        ("new", "Run", "new", 0.2, -2.0),
        ("new", "Run", "age 1", 0.8, 0.0),
        ("new", "Repair", "new", 1.0, -2.0),
    )
    yield "repair", "Run", "repair", 1.0, -10.0
    yield from (("repair", "Repair", "new", 0.6, -2.0), ("repair", "Repair", "repair", 0.4, -10.0))
    for k in range(1, 8):
        age, older, cost = f"age {k}", f"age {k + 1}", -20.0 if k == 7 else 0.0
        yield from ((age, "Run", age, 0.2, 0.0), (age, "Run", older, 0.8, cost))
        yield from (
            (age, "Repair", "new", 0.6, 0.0),
            (age, "Repair", "repair", 0.1, 0.0),
            (age, "Repair", older, 0.3, cost),
        )
    yield "age 8", "Run", "age 8", 1.0, -20.0
    yield from (
        ("age 8", "Repair", to, p, r)
        for to, p, r in (("new", 0.6, -2.0), ("repair", 0.1, -10.0), ("age 8", 0.3, -20.0))
    )


def _riverswim() -> Iterator[Row]:
    """Position 1 is the left bank, 20 the right one."""
    back, stay, up = 0.137028976772708, 0.284628388822161, 0.578342634405131
    for k in range(1, 21):
        here, left, right = (f"position {max(1, min(20, j))}" for j in (k, k - 1, k + 1))
        yield here, "Left", left, 1.0, 5.0
        if k == 1:
            yield from ((here, "Right", here, back + stay, 0.0), (here, "Right", right, up, 0.0))
        elif k == 20:
            yield from ((here, "Right", left, back, 0.0), (here, "Right", here, stay + up, 100.0 * (stay + up)))
        else:
            yield from (
                (here, "Right", left, back, 0.0),
                (here, "Right", here, stay, 0.0),
                (here, "Right", right, up, 0.0),
            )


RULES = {
    "ruin": (_ruin, "4 coins"),
    "inventory1": (_inventory1, "9 in stock"),
    "machine": (_machine, "new"),
    "riverswim": (_riverswim, "position 9"),
}
