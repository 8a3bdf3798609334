import numpy as np
import pytest

import bqrl
from bqrl.errors import ArgumentTypeError, PolicyError


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


class Answers(bqrl.Policy):
    """A policy of a user that answers from a function of the state."""

    def __init__(self, answer):
        self.answer = answer

    def act(self, h, s, memory):
        return self.answer(s)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda s: -1, "an available action from 0 to 1, got -1"),
        (lambda s: 2, "an available action from 0 to 1, got 2"),
        (lambda s: [1.0], "must have 2 entries, got 1"),
        (lambda s: [0.2, 0.2, 0.6], "must have 2 entries, got 3"),
        (lambda s: [1.5, -0.5], "must not be negative"),
    ],
)
def test_wrong_answers_in_continuous_states_are_refused(answer, message):
    with pytest.raises(PolicyError, match=message):
        bqrl.simulate(model(), Answers(answer), 10, seed=0)


def test_a_policy_for_continuous_states_may_mix_actions_and_probabilities():
    mixed, plain = (Answers(lambda s, x=x: x if s[0] > 1.0 else 0) for x in ([0.0, 1.0], 1))
    returns = bqrl.simulate(model(), mixed, 50, seed=0)
    assert np.array_equal(returns, bqrl.simulate(model(), plain, 50, seed=0))
