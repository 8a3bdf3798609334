import numpy as np
import pytest

import bqrl
from bqrl.errors import ArgumentTypeError


class Cautious(bqrl.Policy):
    """A policy of a user, which sees tuples."""

    def start(self, u=None):
        return 0

    def act(self, h, s, memory):
        assert memory == h
        assert len(s) == 1
        return int(s[0] > 1.0)

    def next(self, memory, h, s, action, reward, s_next):
        return memory + 1


def step(state, action, event):
    return (state[0] + action * event,), action * event


def model():
    grid = {"x": np.linspace(-5.0, 5.0, 21)}
    return bqrl.from_step(
        step, [0.0, 0.3], {-1.0: 0.5, 1.0: 0.5}, 3, (1.2,), grid=grid, monotone={"x": 1}, discount=0.5
    )


def test_episodes_are_played_in_the_continuous_problem():
    returns = bqrl.simulate(model(), Cautious(), 4_000, seed=3)
    expected = set()
    for events in np.ndindex(2, 2, 2):  # every path by hand
        x, total = 1.2, 0.0
        for h, e in enumerate(events):
            action = 0.3 * (x > 1.0)
            reward = action * (2 * e - 1)
            x, total = x + reward, total + 0.5**h * reward
        expected.add(round(total, 9))
    assert set(np.round(returns, 9).tolist()) == expected
    assert np.array_equal(returns, bqrl.simulate(model(), Cautious(), 4_000, seed=3))


def test_a_policy_for_finite_models_is_refused():
    with pytest.raises(
        ArgumentTypeError, match=r"^policy must be a Policy for continuous states, got str; pass plan.policy$"
    ):
        bqrl.simulate(model(), "always:0.3", 10)
