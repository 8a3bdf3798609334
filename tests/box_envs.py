"""Small environments with Box observations."""

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete


class Walk(gym.Env):
    """A walk that ends at +-2. Action 0 goes down, 1 up, 2 stays and is allowed at the origin only."""

    observation_space, action_space = Box(-np.inf, np.inf, (2,)), Discrete(3)

    def __init__(self, fault=None, masked=True):
        self.fault, self.masked = fault, masked

    def _seen(self):
        seen = np.array([self.place, self.steps], np.float32)
        info = {"action_mask": np.array([1, 1, self.place == 0], np.int8)} if self.masked else {}
        if self.fault == "nan" and self.steps == 1:
            seen[0] = np.nan
        if self.fault == "shape":
            seen = seen[:1]
        if self.fault == "mask":
            info["action_mask"] = np.zeros(3, bool)
        return seen, info

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.steps = 0, 0
        return self._seen()

    def step(self, action):
        assert action != 2 or self.place == 0 or not self.masked
        self.place += (-1, 1, 0)[action]
        self.steps += 1
        seen, info = self._seen()
        return seen, float(self.place), abs(self.place) == 2, False, info
