"""How much of the largest margin a plan should keep: mean and stress of plans with all, half and none of it.

Per problem and level three rows: the mean of the plan, and what its policy is still proven to guarantee if probabilities are off.
"""

from __future__ import annotations

from timing import machine, table

import bqrl

PROBLEMS = (
    "AssetSelling SafeOrRisky Inventory TreatmentChoice PerishableInventory MachineReplacement Gambler SlipperyCliff RiverSwim"
    " Staffing Liquidation Bandit"
).split()
OFF = (0.002, 0.005, 0.01, 0.02, 0.05)


def main() -> None:
    print(machine())
    rows = []
    for name in PROBLEMS:
        mdp = bqrl.envs.make(name)
        for tau in (0.1, 0.25):
            for margin in (1.0, 0.5, 0.0):
                plan = bqrl.solve(mdp, tau=tau, margin=margin)
                held = bqrl.stress(mdp, plan, off=OFF)
                rows.append([name, tau, margin, plan.value, plan.mean, *held.value.tolist()])
            rows.append(
                [name, tau, "risk-neutral", "", bqrl.solve(mdp, bqrl.Mean()).value, *held.risk_neutral.tolist()]
            )
    table(
        "Mean and stress by margin", ["problem", "tau", "margin", "value", "mean", *(f"off {x:.1%}" for x in OFF)], rows
    )


if __name__ == "__main__":
    main()
