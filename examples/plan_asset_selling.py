"""Plan asset selling for several levels of certainty, and show the rule and the risk of each policy.

At each of ten stages there is an offer between 0 and 24. Accepting it ends the episode; declining it means waiting for the
next one. What is the best price that can be guaranteed with a certainty of 90 %?

    python examples/plan_asset_selling.py
"""

import argparse

import numpy as np

import bqrl

SHOWN = 24  # offers are paid as offer / 24


def lowest_taken(mdp: bqrl.MDP, policy: bqrl.TargetPolicy, h: int) -> str:
    """The lowest offer that the policy takes at stage `h` while its target is still needed."""
    taken = [s for s in range(SHOWN + 1) if policy.act(h, s, policy.target) == 0]
    return str(taken[0]) if taken else "-"


def main(quick: bool) -> None:
    mdp = bqrl.envs.make("AssetSelling")
    curve = bqrl.guarantee_curve(mdp)  # one sweep serves every level
    neutral = bqrl.solve(mdp, tau=0.5, planner="expected")

    print(
        f"{'certainty':>9}  {'promise':>7}  {'risk-neutral':>12}  {'mean':>6}  {'margin':>7}   lowest offer taken, stages 1-10"
    )
    for tau in (0.1, 0.5) if quick else (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9):
        policy = curve.policy(tau)
        law = bqrl.evaluate(mdp, policy)
        rule = " ".join(f"{lowest_taken(mdp, policy, h):>2}" for h in range(mdp.H))
        print(
            f"{1 - tau:>9.0%}  {curve(tau) * SHOWN:>7.0f}  {neutral.law.quantile(tau) * SHOWN:>12.0f}"
            f"  {law.mean() * SHOWN:>6.2f}  {curve.margin(tau).below:>7.4f}   {rule}"
        )

    tau, episodes = 0.1, 2_000 if quick else 200_000
    returns = bqrl.simulate(mdp, curve.policy(tau), episodes=episodes, seed=0)
    reached = np.mean(returns >= curve(tau) - 1e-9)
    exact = 1.0 - bqrl.evaluate(mdp, curve.policy(tau)).shortfall(curve(tau))
    print(f"\n{episodes} simulated episodes at tau = {tau}: {reached:.2%} reach the promise (exactly: {exact:.2%}).")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two levels and few episodes")
    main(parser.parse_args().quick)
