"""An inventory with Poisson demand from a step function, planned for the profit that is reached with 90 % certainty.

python examples/inventory_from_step.py
"""

import argparse

from scipy.stats import poisson

import bqrl


def step(stock: int, order: int, demand: int) -> tuple[int, float]:
    """Sell what is there, lose the rest of the demand, pay for the order and for storage."""
    sold = min(stock + order, demand)
    left = stock + order - sold
    return left, 8 * sold - 3 * order - (4 if order else 0) - left


def main(quick: bool) -> None:
    room, months = (6, 5) if quick else (12, 12)
    mdp = bqrl.from_step(step, lambda stock: range(room - stock + 1), poisson(4), horizon=months, start=0, mass=0.9999)
    print(mdp)
    print(mdp.noise)
    curve = bqrl.guarantee_curve(mdp)
    neutral = bqrl.solve(mdp, tau=0.1, planner="expected").law
    print(f"\n{'certainty':>9}  {'best profit':>11}  {'policy with the best mean':>25}")
    for tau in (0.05, 0.1, 0.25, 0.5):
        print(f"{1 - tau:>9.0%}  {curve(tau):>11.0f}  {neutral.quantile(tau):>25.0f}")
    policy = bqrl.solve(mdp, tau=0.1).policy
    first = policy.act(0, mdp.start, policy.start())
    print(f"\nFirst order at 90 % certainty: {mdp.noise.actions[first]} units.")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller warehouse and fewer months")
    main(parser.parse_args().quick)
