"""Seconds that Stable-Baselines3's PPO and sb3-contrib's TRPO take for as many steps. Runs in the peers' own environment."""

import sys
import time

import gymnasium as gym
import numpy as np
from sb3_contrib import TRPO
from stable_baselines3 import PPO


class AssetSelling(gym.Env):
    """Ten stages; the observation is the offer and the stage, one-hot."""

    observation_space = gym.spaces.MultiDiscrete([26, 10])
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        """First offer 5."""
        super().reset(seed=seed)
        self.s, self.h = 5, 0
        return np.array([self.s, self.h]), {}

    def step(self, action):
        """Stop pays the offer; Continue draws another."""
        reward = 0.0
        if self.s < 25:
            if action == 0:
                reward, self.s = self.s / 24, 25
            else:
                self.s = int(self.np_random.integers(25))
        self.h += 1
        return np.array([self.s, min(self.h, 9)]), reward, self.h == 10, False, {}


if __name__ == "__main__":
    for name, algorithm in (("ppo", PPO), ("trpo", TRPO)):
        model = algorithm("MlpPolicy", AssetSelling(), seed=0, device="cpu")
        begun = time.perf_counter()
        model.learn(10 * int(sys.argv[1]))
        print(name, time.perf_counter() - begun)
