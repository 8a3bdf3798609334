"""Read the model behind a Gymnasium environment, plan for a quantile, and play the policy in the environment itself.

FrozenLake, 8 x 8: the goal pays 50, a hole costs 50, every step costs 1, and one step in five slips to a side. The
risk-neutral route to the goal passes close to the holes. A policy for the 0.1-quantile walks around them; how much risk
it takes depends on the amount still needed.

    python examples/gymnasium_frozenlake.py
"""

import argparse

import gymnasium
import numpy as np

import bqrl

HORIZON, TAU = 60, 0.1


def play(env: gymnasium.Env, policy: bqrl.MarkovPolicy | bqrl.TargetPolicy) -> float:
    """Return of one episode; any policy runs in any loop through start, act and next."""
    total, memory = 0.0, policy.start()
    s, _ = env.reset()
    for h in range(HORIZON):
        action = policy.act(h, s, memory)
        s_next, reward, terminated, truncated, _ = env.step(action)
        memory = policy.next(memory, h, s, action, float(reward), s_next)
        total, s = total + float(reward), s_next
        if terminated or truncated:
            break
    return total


def main(quick: bool) -> None:
    env = gymnasium.make(
        "FrozenLake-v1",
        map_name="8x8",
        success_rate=0.8,
        reward_schedule=(50, -50, -1),  # goal, hole, any other step
        max_episode_steps=HORIZON,
    )
    mdp = bqrl.from_gymnasium(env, horizon=HORIZON)
    plan = bqrl.solve(mdp, TAU, secondary="mean")
    neutral = bqrl.solve(mdp, TAU, planner="expected")
    print(f"{mdp}\n\n{plan.compare(neutral)}\n")

    episodes = 50 if quick else 2000
    for name, chosen in (("0.1-quantile", plan), ("risk-neutral", neutral)):
        env.reset(seed=0)
        returns = np.array([play(env, chosen.policy) for _ in range(episodes)])
        print(
            f"{name}: {episodes} episodes in Gymnasium, mean {returns.mean():.1f} (exact {chosen.mean:.1f}), "
            f"{np.mean(returns >= plan.value):.1%} reach {plan.value:g} (exact {1 - chosen.law.shortfall(plan.value):.1%})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few episodes")
    main(parser.parse_args().quick)
