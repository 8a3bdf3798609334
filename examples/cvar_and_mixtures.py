"""From CVaR to the quantile, and a problem in which a randomized policy beats every deterministic one.

python examples/cvar_and_mixtures.py
"""

import argparse

import numpy as np

import bqrl


def dial(quick: bool) -> None:
    """Asset selling at tau = 0.1: buffers from tau (CVaR) down to 0 (the quantile)."""
    mdp, tau = bqrl.envs.make("AssetSelling"), 0.1
    print("beta      value     proven upper   0.1-quantile   CVaR      mean")
    for beta in (0.1, 0.03, 0.0) if quick else (0.1, 0.08, 0.06, 0.04, 0.03, 0.02, 0.01, 0.0):
        plan = bqrl.solve(mdp, tau, beta)
        law = plan.law
        print(
            f"{beta:<6g}  {plan.value:8.5f}  {plan.upper:12.5f}   {law.quantile(tau):12.5f}"
            f"   {law.cvar(tau):.5f}   {law.mean():.5f}"
        )
    print(f"margin of the optimum: {bqrl.guarantee_curve(mdp).margin(tau).below:.4f}; a smaller buffer changes nothing")


def draw() -> None:
    """Two contracts: 4 or 7 with equal probability, or 7 with probability 0.6 and otherwise nothing."""
    contracts = [(0, 0, 0, 0.5, 4.0), (0, 0, 0, 0.5, 7.0), (0, 1, 0, 0.6, 7.0), (0, 1, 0, 0.4, 0.0)]
    mdp = bqrl.MDP(contracts, horizon=1, action_names=["steady", "bold"])
    tau, beta = 0.5, 0.25
    alone = bqrl.solve(mdp, tau, beta, randomized=False)  # proven to be the best deterministic policy
    mixed = bqrl.solve(mdp, tau, beta, randomized=True)  # one random draw before the first stage
    print(f"\ndeterministic {alone.value:g}, randomized {mixed.value:g}, upper bound {mixed.upper:g}")
    for weight, part in zip(mixed.policy.weights, mixed.policy.policies, strict=True):
        print(f"  with probability {weight:g}: {mdp.action_label(part.act(0, 0, part.start()))}")
    values, counts = np.unique(bqrl.simulate(mdp, mixed.policy, episodes=100_000, seed=0), return_counts=True)
    played = bqrl.Law(values, counts / counts.sum())
    print(f"  simulated: {played.buffered_quantile(tau, beta):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three buffers only")
    dial(parser.parse_args().quick)
    draw()
