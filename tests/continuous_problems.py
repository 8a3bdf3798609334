"""Problems with continuous states and few events: their reachable states are finite, so that the truth can be computed."""

import numpy as np
from hypothesis import strategies as st

import bqrl

EVENTS = {0: 0.25, 1: 0.5, 2: 0.25}


@st.composite
def monotone_problems(draw):
    """A step function in which more never hurts, its actions (better states have more of them), a start and a horizon."""
    A, H, d = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    part = st.sampled_from([0.0, 0.25, 0.5, 1.0])
    scale = np.array(draw(st.lists(part, min_size=A * d * d, max_size=A * d * d))).reshape(A, d, d)
    move = np.array(draw(st.lists(st.sampled_from([-0.7, -0.3, 0.0, 0.4]), min_size=3 * A * d, max_size=3 * A * d)))
    slope = np.array(draw(st.lists(part, min_size=A * d, max_size=A * d))).reshape(A, d)
    paid = np.array(draw(st.lists(st.sampled_from([-1.0, 0.0, 0.5]), min_size=3 * A, max_size=3 * A))).reshape(A, 3)
    needs = [-np.inf, *draw(st.lists(st.sampled_from([-0.5, 0.0, 0.6]), min_size=A - 1, max_size=A - 1))]
    signs = np.array(draw(st.lists(st.sampled_from([1, -1]), min_size=d, max_size=d)))
    move = move.reshape(A, 3, d)

    def step(state, action, event):  # rounding keeps equal states equal
        s = signs * np.array(state)
        s_next = np.round(scale[action] @ s + move[action, event], 9)
        return tuple((signs * s_next + 0.0).tolist()), float(np.round(slope[action] @ s + paid[action, event], 9))

    def actions(state):
        return [a for a in range(A) if sum(signs * np.array(state)) >= needs[a]]

    names = ["x", "y"][:d]
    return step, actions, H, (0.1, -0.2)[:d], dict(zip(names, signs.tolist(), strict=True))


def grid_of(names, points=9, reach=2.5):
    """The same points for every coordinate."""
    return {name: np.linspace(-reach, reach, points) for name in names}


def truth(problem):
    """The same problem as a finite model over the states that can really be met."""
    step, actions, H, start, _ = problem
    return bqrl.from_step(step, actions, EVENTS, H, start)


class OnTuples(bqrl.Policy):
    """A policy for continuous states, played in the finite model of the truth."""

    def __init__(self, policy, mdp):
        self.policy, self.mdp = policy, mdp
        self.number = {action: a for a, action in enumerate(mdp.noise.actions)}

    def start(self, u=None):
        return self.policy.start(u)

    def act(self, h, s, memory):
        a = self.policy.act(h, self.mdp.state_values[s], memory)
        return self.number[self.policy.model.actions[a]]

    def next(self, memory, h, s, action, reward, s_next):
        states = self.mdp.state_values
        a = self.policy.model.actions.index(self.mdp.noise.actions[action])
        return self.policy.next(memory, h, states[s], a, reward, states[s_next])
