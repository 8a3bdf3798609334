"""Small problems that every learner must solve, and what the tests of learners share."""

import numpy as np

from bqrl.learners.play import ModelWorld
from bqrl.learners.run import Run
from bqrl.mdp.model import MDP
from bqrl.policies.stochastic import StochasticPolicy


def two_arms():
    """The second arm pays 1 with probability 0.7, the first with 0.3."""
    return MDP([(0, a, 0, p, float(r)) for a, q in ((0, 0.3), (1, 0.7)) for r, p in ((1, q), (0, 1 - q))], horizon=1)


def chain():
    """Three states: a small reward for staying at the left end, a large one at the right end, three steps away."""
    rows = []
    for s in range(3):
        rows.append((s, 0, max(s - 1, 0), 1.0, 0.1 if s == 0 else 0.0))
        rows += [(s, 1, min(s + 1, 2), 0.9, 1.0 if s == 2 else 0.0), (s, 1, s, 0.1, 0.0)] if s < 2 else []
    rows += [(2, 1, 2, 0.8, 1.0), (2, 1, 0, 0.2, 0.0)]
    return MDP(rows, horizon=6)


def alternating():
    """One state in which action h mod 2 pays at stage h: a policy that ignores the stage gets half of it."""
    rewards = np.zeros((4, 1, 2))
    rewards[[0, 1, 2, 3], 0, [0, 1, 0, 1]] = 1.0
    return MDP(np.ones((1, 2, 1)), rewards, horizon=4)


def optimal_values(mdp):
    """The best mean from every stage and state, shape (H + 1, S)."""
    V = np.zeros((mdp.H + 1, mdp.S))
    for h in range(mdp.H - 1, -1, -1):
        for s in range(mdp.S):
            rows = [mdp.outcomes(h, s, a) for a in range(mdp.A)]
            V[h, s] = max((p @ (r + mdp.discount * V[h + 1, after]) for after, p, r in rows if after.size), default=0.0)
    return V


def finished(mdp, name, episodes, seed=5, **params):
    """A run of so many episodes, played to its end."""
    run = Run(mdp, name, 0.5, episodes, seed, **params)
    for _ in range(episodes):
        run.step()
    return run


def bits(run):
    """The state of a run as bytes."""
    return {name: np.asarray(value).tobytes() for name, value in run.state().items()}


def uniform_play(mdp):
    """Behaviour that draws every available action with the same probability."""
    chances = np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A)).astype(float)
    return StochasticPolicy(chances / np.maximum(chances.sum(axis=2, keepdims=True), 1.0))


def episodes(mdp, n, seed=0):
    """Episodes of random play."""
    world, chance = ModelWorld(mdp, np.random.default_rng(seed)), np.random.default_rng(seed + 1)
    return [world.play(uniform_play(mdp), chance) for _ in range(n)]


def updated_by_hand(name):
    """Follow 40 episodes, updating a table by hand."""
    mdp = alternating()
    work = Run(mdp, name, 0.5, 40, 1, learning_rate=0.25)
    Q, n = np.zeros((mdp.H + 1, 1, 2)), np.zeros((mdp.H, 1, 2))
    for _ in range(40):
        episode = work.world.play(work.learner.plan(), work.chance)
        work.learner.observe(episode)
        for h, (s, a, r, s_next) in enumerate(
            zip(episode.states[:-1], episode.actions, episode.rewards, episode.states[1:], strict=True)
        ):
            n[h, s, a] += 1
            after = Q[h + 1, s_next]
            later = after.max() if name == "q-learning" or h == mdp.H - 1 else after[episode.actions[h + 1]]
            Q[h, s, a] += max(0.25, 1 / n[h, s, a]) * (r + 0.99 * later - Q[h, s, a])
        assert np.allclose(work.learner.Q, Q[:-1], atol=1e-14)
