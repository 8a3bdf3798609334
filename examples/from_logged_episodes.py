"""From logged episodes to a policy with a promise that holds with 95 % confidence.

The log is simulated here, so that the promise can be compared with the truth: a machine over six weeks that is run,
overhauled or replaced. In practice, pass the name of a .csv file to `bqrl.fit`.

    python examples/from_logged_episodes.py
    python examples/from_logged_episodes.py --episodes 20000 --tau 0.05
"""

import argparse

import numpy as np

import bqrl


def simulated(mdp: bqrl.MDP, episodes: int, seed: int = 0) -> dict[str, list]:
    """A log of a policy that chooses all actions with equal probability."""
    rng = np.random.default_rng(seed)
    log: dict[str, list] = {name: [] for name in ("episode", "stage", "state", "action", "reward", "next_state")}
    for episode in range(episodes):
        s = mdp.start
        for stage in range(mdp.H):
            a = int(rng.choice(np.flatnonzero(mdp.available[0, s])))
            successor, probability, reward = mdp.outcomes(stage, s, a)
            i = int(rng.choice(successor.size, p=probability))
            row = (
                episode,
                stage,
                mdp.state_label(s),
                mdp.action_label(a),
                float(reward[i]),
                mdp.state_label(int(successor[i])),
            )
            for column, value in zip(log.values(), row, strict=True):
                column.append(value)
            s = int(successor[i])
    return log


def main(episodes: int, tau: float) -> None:
    truth = bqrl.envs.make("MachineReplacement", horizon=6, shared=True)
    log = simulated(truth, episodes)

    estimates = {
        "nothing known": bqrl.fit(log, stationary=True, reward_range=(-14, 10)),
        "possible outcomes known": bqrl.fit(log, model=truth.with_noise(None)),
        "one law of wear": bqrl.fit(log, model=truth),
    }
    print(estimates["nothing known"], "\n")
    print(f"{'known beforehand':<26}{'promise':>8}{'true value':>12}")
    for name, estimate in estimates.items():
        plan = estimate.solve(tau)
        # Without a model, the estimate has two additional states, so its policy cannot be evaluated in `truth`.
        value = f"{bqrl.evaluate(truth, plan.policy).quantile(tau):g}" if not estimate.added else ""
        print(f"{name:<26}{plan.value:>8g}{value:>12}")
    print(f"{'the best policy':<26}{'':>8}{bqrl.guarantee_curve(truth)(tau):>12g}\n")

    estimate = estimates["possible outcomes known"]
    print(estimate.solve(tau).remarks[0], "\n")
    print("What limits the promise:")
    for row in estimate.limits(tau, top=3):
        print(f"  {row['action']} in state {row['state']}: {row['visits']} visits, costs {row['cost']:.3g}")
    for one in estimate.projection(tau):
        print(f"With {one['factor']} times the data one might promise {one['value']:g} (a projection)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=5000)
    parser.add_argument("--tau", type=float, default=0.1)
    parser.add_argument("--quick", action="store_true", help="a small log")
    given = parser.parse_args()
    main(500 if given.quick else given.episodes, given.tau)
