"""Small random problems with logs, the exact law of a policy in them, and the smallest balls that contain the truth.

The radii of `fit` are wide, so that most faults of the model or of the planner would not break a promise. With the smallest
balls that contain the true rows, a promise must hold in every log, and a fault shows.
"""

from collections import defaultdict
from dataclasses import dataclass, fields, replace

import numpy as np

from bqrl.logs.balls import Balls

LOST = "lost"  # the memory after a state that the log does not show; policies without memory have None


@dataclass(frozen=True, kw_only=True)
class Problem:
    """`rows[k][s][a]` lists (probability, next state or None for an end, reward); k is 0 if the kernel is stationary."""

    rows: list
    start: dict  # law of the first state
    H: int
    deterministic: bool  # whether the reward depends on the state and action alone

    def outcomes(self, h, s, a):
        return self.rows[h if len(self.rows) > 1 else 0][s][a]


def random_problem(rng):
    S, A, H = (int(rng.integers(1, n)) for n in (5, 4, 5))
    K, ends, deterministic = rng.choice([1, H]), rng.random() < 0.5, bool(rng.random() < 0.3)
    rewards = np.arange(-3.0, 0.0) if rng.random() < 0.4 else np.arange(-2.0, 3.0)

    def row():
        merged, paid = defaultdict(float), rng.choice(rewards)
        for n in rng.multinomial(10, np.ones(3) / 3):
            s_next = None if ends and rng.random() < 0.25 else f"s{rng.integers(S)}"
            merged[s_next, float(paid if deterministic else rng.choice(rewards))] += n / 10
        return [(p, s_next, r) for (s_next, r), p in merged.items() if p > 0]

    rows = [{f"s{s}": {f"a{a}": row() for a in range(A)} for s in range(S)} for _ in range(K)]
    first = rng.permutation(S)[: int(rng.integers(1, 3))]
    start = dict(zip((f"s{s}" for s in first), rng.dirichlet(np.ones(first.size)).tolist(), strict=True))
    return Problem(rows=rows, start=start, H=H, deterministic=deterministic)


def log_of(problem, episodes, rng, marked=False):
    """A log in random order of rows; `marked` adds next states and a mark at every last step, also that of the horizon."""
    steps, states = [], list(problem.start)
    play = rng.dirichlet(np.full(len(next(iter(problem.rows[0].values()))), 0.6))
    for episode in range(episodes):
        s = states[rng.choice(len(states), p=list(problem.start.values()))]
        for h in range(problem.H):
            a = f"a{rng.choice(play.size, p=play)}"
            outcomes = problem.outcomes(h, s, a)
            _, s_next, r = outcomes[rng.choice(len(outcomes), p=[p for p, *_ in outcomes])]
            steps.append((episode, h, s, a, r, s_next or "NA", s_next is None or h == problem.H - 1))
            if s_next is None:
                break
            s = s_next
    order = rng.permutation(len(steps))
    names = ("episode", "stage", "state", "action", "reward", "next_state", "done")[: 7 if marked else 5]
    return {name: [steps[i][j] for i in order] for j, name in enumerate(names)}


def exact_law(problem, estimate, policy):
    """The law {return: probability} of a policy of the estimate; in states that the log does not show it plays any action."""
    state = {name: i for i, name in enumerate(estimate.mdp.state_names)}
    now = {(s, policy.start(), 0.0): p for s, p in problem.start.items() if p > 0}
    law = defaultdict(float)
    for h in range(problem.H):
        after = defaultdict(float)
        for (s, memory, total), p in now.items():
            lost = memory is LOST or s not in state
            a = "a0" if lost else estimate.mdp.action_names[policy.act(h, state[s], memory)]
            for q, s_next, r in problem.outcomes(h, s, a):
                paid = round(total + estimate.mdp.discount**h * r, 9)
                if s_next is None:
                    law[paid] += p * q
                    continue
                known = not lost and s_next in state
                number = estimate.mdp.action_names.index(a) if known else -1
                moved = policy.next(memory, h, state[s], number, r, state[s_next]) if known else LOST
                after[s_next, moved, paid] += p * q
        now = after
    for (*_, total), p in now.items():
        law[total] += p
    return law


class SmallestBalls(Balls):
    """Balls with given radii and unseen masses."""

    __slots__ = ("given",)

    def radii(self, more=1):
        return self.given[0]

    def missing(self, more=1):
        return self.given[1]


def tightened(problem, estimate, share=1.0):
    """The estimate with the smallest balls that contain the true rows, or with a share of their radii."""
    mdp, balls = estimate.mdp, estimate.balls
    K, S, A = balls.visits.shape
    end, unseen = estimate.added
    radii, mass = np.where(balls.known, 0.0, 2.0), np.zeros((K, S, A))
    for k, s, a in np.argwhere((balls.visits > 0) & ~balls.known).tolist():
        true = defaultdict(float)
        for p, s_next, r in problem.outcomes(k, mdp.state_names[s], mdp.action_names[a]):
            last = k == problem.H - 1 and (K > 1 or problem.H == 1)
            true[mdp.state_names[end] if last or s_next is None else s_next, r] += p
        here = slice(*mdp.row_start[[(k * S + s) * A + a, (k * S + s) * A + a + 1]])
        reward = mdp.reward[k if len(mdp.reward) > 1 else 0, here]
        shown = [
            (true.get((mdp.state_names[t], float(r)), 0.0), p)
            for t, p, r in zip(mdp.successor[here], mdp.probability[here], reward, strict=True)
            if t != unseen
        ]
        radii[k, s, a] = min(2.0, share * 2.0 * sum(max(0.0, p_hat - p) for p, p_hat in shown) + 1e-12)
        left = share * (1.0 - sum(p for p, _ in shown))
        mass[k, s, a] = left + 1e-13 if 0.0 <= left < radii[k, s, a] / 2.0 - 1e-9 else 0.0
    smallest = SmallestBalls(**{field.name: getattr(balls, field.name) for field in fields(balls)})
    object.__setattr__(smallest, "given", (radii, mass))
    return replace(estimate, balls=smallest, _memo={})
