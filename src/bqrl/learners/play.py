"""Worlds in which episodes are played: an MDP, or a Gymnasium environment with discrete spaces."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from bqrl.errors import EpisodeError, PolicyError
from bqrl.learners.protocol import Episode, Task
from bqrl.learners.q_learning import EpsilonGreedy
from bqrl.learners.replan import planning_grid
from bqrl.loops.play import EventSource, find_events
from bqrl.loops.q_learning import play_exploring
from bqrl.loops.rollout import draw, draw_many, play_chances, step
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.mdp.observations import Observations
from bqrl.mdp.stepping import Stepper
from bqrl.planners.follow import Follower
from bqrl.planners.sweep import Layout
from bqrl.policies.in_env import chosen_action, draw_part, random_action
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.pairs import check_played
from bqrl.policies.protocol import Policy, action_index, as_decisions, check_methods, is_vector
from bqrl.policies.shares import check_shares, draw_actions, pair_shares
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

SAME_REWARD = 1e-6  # relative to the largest reward of the table; environments may return rewards in single precision
REMEDY = "; correct P, or make the change in a wrapper"


class World(ABC):
    """A world in which episodes are played; `rng` is its own random stream."""

    rng: np.random.Generator

    @abstractmethod
    def play(self, behaviour: Policy, chance: np.random.Generator) -> Episode:
        """Play one episode of a policy; a policy that draws its actions uses `chance`, the learner's own stream."""

    def play_many(self, behaviour: Policy, n: int, chance: np.random.Generator) -> list[Episode]:
        """Play several episodes, at once if possible."""
        return [self.play(behaviour, chance) for _ in range(n)]

    def state(self) -> dict[str, Any]:
        """Return the state of the world's stream."""
        return dict(self.rng.bit_generator.state)

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the stream."""
        self.rng.bit_generator.state = state


def blank_episode(H: int) -> Episode:
    """Return an episode of H stages to be filled in."""
    return Episode(np.empty(H + 1, np.int64), np.empty(H, np.int64), np.zeros(H))


class ModelWorld(World):
    """Episodes of an MDP. Each episode uses H + 1 uniforms from the world's stream, whatever the learner does.

    If the problem has shared noise whose events are observed, episodes report their events. States and rewards are the same
    with and without shared noise.
    """

    def __init__(self, mdp: MDP, rng: np.random.Generator) -> None:
        self.mdp, self.rng = mdp, rng
        self.layout = Layout(mdp, planning_grid(mdp))
        self.follower = Follower(self.layout)
        self._source = _event_source(mdp)

    def play(self, behaviour: Policy, chance: np.random.Generator) -> Episode:
        """Play one episode; outcomes are drawn by inverting the distribution function."""
        u, episode = self.rng.random(self.mdp.H + 1), blank_episode(self.mdp.H)
        behaviour = draw_part(behaviour, chance)
        if isinstance(behaviour, StochasticPolicy):
            v, dynamics = chance.random(self.mdp.H), tuple(self.follower.dynamics)
            if isinstance(behaviour, EpsilonGreedy):
                play_exploring(dynamics, behaviour.mix, u, v, *episode[:3])
            else:
                play_chances(dynamics, behaviour.probabilities, u, v, *episode[:3])
        elif self.follower.fits(behaviour):
            self.follower.play(behaviour, u, *episode[:3])  # type: ignore[arg-type]
        else:
            self.follow(behaviour, u, episode)
        return self._with_events(u, episode)

    def _with_events(self, u: FloatArray, episode: Episode) -> Episode:
        """Return the episode with its events if they are observed."""
        if self._source is not None:
            episode = episode._replace(events=np.empty(self.mdp.H, np.int64))
            find_events(self._source, u, episode)
        return episode

    def play_many(self, behaviour: Policy, n: int, chance: np.random.Generator) -> list[Episode]:
        """Play several episodes, stage by stage if there is more than one; each has the uniforms that it has in `play`."""
        if n == 1 or isinstance(behaviour, (MixturePolicy, StochasticPolicy)):
            return super().play_many(behaviour, n, chance)
        mdp, u = self.mdp, self.rng.random((n, self.mdp.H + 1))
        states, actions = np.empty((n, mdp.H + 1), np.int64), np.empty((n, mdp.H), np.int64)
        rewards = np.empty((n, mdp.H))
        outcome = np.empty(n, np.int64)
        draw_many(np.array([0, mdp.S]), mdp.mu, np.zeros(n, np.int64), u[:, 0], outcome)
        states[:, 0], memory = outcome, behaviour.start_many(np.zeros(n))
        for h in range(mdp.H):
            stage, s = mdp.stage(h), states[:, h]
            a = behaviour.act_many(h, s, memory)
            check_played(mdp, h, s, a)
            draw_many(stage.row_start, stage.probability, s * mdp.A + a, u[:, 1 + h], outcome)
            actions[:, h], rewards[:, h], states[:, h + 1] = a, stage.reward[outcome], stage.successor[outcome]
            memory = behaviour.next_many(memory, h, s, a, rewards[:, h], states[:, h + 1])
        return [self._with_events(u[i], Episode(states[i], actions[i], rewards[i])) for i in range(n)]

    def follow(self, policy: Policy, u: FloatArray, episode: Episode) -> None:
        """Play one episode of a policy through its own methods."""
        s = int(draw(self.layout.stages.mu, 0, self.mdp.S, u[0]))
        memory = policy.start()
        episode.states[0] = s
        for h in range(self.mdp.H):
            a, here = policy.act(h, s, memory), np.array([s])
            if is_vector(a):
                shares = pair_shares(self.mdp, h, here, as_decisions([a], h, [s]))
                (a,), (u[1 + h],) = draw_actions(shares, u[1 + h : 2 + h])
            a = action_index(a, h, s)
            check_played(self.mdp, h, here, np.array([a]))
            step(self.follower.dynamics, h, a, u[1 + h], *episode[:3])
            after = int(episode.states[h + 1])
            memory = policy.next(memory, h, s, a, float(episode.rewards[h]), after)
            s = after


def check_behaviour(behaviour: Policy, task: Task, mdp: MDP | None) -> None:
    """Raise PolicyError unless the policy has the sizes of the task and plays only available actions.

    The compiled loops do not check this. Label, quantile-level and custom policies are checked while they are played.
    """
    check_methods(behaviour)
    H, S, A = task.H, task.S, task.A
    met = np.ones((H, S), bool) if mdp is None else mdp.reachable[:-1]
    if (behaviour.H or H, behaviour.S or S) != (H, S):
        raise PolicyError(f"the policy must have H={H} and S={S} as the task, got H={behaviour.H} and S={behaviour.S}")
    if isinstance(behaviour, MixturePolicy):
        for part in behaviour.policies:
            check_behaviour(part, task, mdp)
    if isinstance(behaviour, StochasticPolicy):
        shares = behaviour.probabilities
        if shares.shape[2] != A:
            raise PolicyError(f"action probabilities must have shape (H, S, A) = {(H, S, A)}, got {shares.shape}")
        labels = () if mdp is None else (mdp.state_label, mdp.action_label)
        check_shares(shares, task.available, met, *labels)
    if mdp is not None and isinstance(behaviour, (MarkovPolicy, TargetPolicy)):
        for h in range(H):
            played = behaviour.actions[h].reshape(S, -1)[met[h]]
            check_played(mdp, h, np.repeat(np.flatnonzero(met[h]), played.shape[1]), played.ravel())


class GymWorld(World):
    """Episodes of a Gymnasium environment with discrete observations and actions, cut or extended to H stages.

    Every learner sees H stages: after an episode has ended in observation s, it stays in state `ends[s]` with reward 0 for the
    remaining stages (-1 if the table has no such state). `table` is the model of the environment's transition table, if that
    table is used to score the policies. Then a first state, a transition or a reward that is not in the table is refused. An
    episode that the environment truncates before stage H is refused, because truncation is not an end. Each reset is
    seeded from the world's stream, so the randomness of an episode depends only on its number, not on earlier episodes. Every
    observation and reward is checked.
    """

    def __init__(
        self, env: Any, H: int, rng: np.random.Generator, ends: IntArray, table: MDP | None = None,
        observations: Observations | None = None,
    ) -> None:  # fmt: skip
        self.env, self.H, self.rng, self.ends, self.table = env, H, rng, ends, table
        self.steps, self.observations = Stepper(env), observations or Observations(env.observation_space)
        self._first_action = int(env.action_space.start)
        self._slack = 0.0 if table is None else SAME_REWARD * float(np.abs(table.reward).max())

    def play(self, behaviour: Policy, chance: np.random.Generator) -> Episode:
        """Play one episode by stepping the environment."""
        s = self._state(self.steps.reset(seed=int(self.rng.integers(2**31))), 0)
        if self.table is not None and self.table.mu[s] == 0.0:
            raise self.steps.error(0, "a first state of positive probability in the environment's own law", s, REMEDY)
        episode = blank_episode(self.H)
        episode.states[0] = s
        over = False
        behaviour = draw_part(behaviour, chance)
        memory = behaviour.start()
        for h in range(self.H):
            a = chosen_action(behaviour, h, s, memory, chance, int(self.env.action_space.n))
            r, after = 0.0, s
            if not over:
                if self.table is None:  # a table lists every action, also those that a mask calls useless
                    a = allowed_action(a, self.steps.mask(h), chance)
                observation, r, ended, cut = self.steps.step(a + self._first_action, h + 1)
                after, cut = self._state(observation, h + 1), cut and h + 1 < self.H
                if cut and not ended:
                    raise self._cut_error(h + 1)
                over = ended
                if over:
                    after = int(self.ends[after])
            self._check_listed(h, s, a, r, after)
            memory = behaviour.next(memory, h, s, a, r, after)
            episode.actions[h], episode.rewards[h], episode.states[h + 1] = a, r, after
            s = after
        self.steps.episode += 1
        return episode

    def _cut_error(self, step_number: int) -> EpisodeError:
        """Return the error for an episode that the environment truncates before stage H."""
        why = "truncation is not an end" if self.table is None else "the transition table has no time limit"
        rule = f"truncated=False before step {self.H}, since {why}"
        return self.steps.error(step_number, rule, True, f"; pass horizon={step_number}")

    def _check_listed(self, h: int, s: int, a: int, r: float, after: int) -> None:
        """Raise EpisodeError unless the table lists the transition with this reward; otherwise it describes another problem."""
        if self.table is None:
            return
        begin, end = map(int, self.table.row_start[s * self.table.A + a :][:2])
        near = np.abs(self.table.reward[0, begin:end] - r) <= self._slack
        if not np.any(near & (self.table.successor[begin:end] == after)):
            rule = f"a state and a reward that the table P lists for action {a} in state {s}"
            raise self.steps.error(h + 1, rule, ("an end" if after < 0 else after, r), REMEDY)

    def _state(self, observation: Any, step_number: int) -> int:
        """Return the observation as a state, or raise EpisodeError."""
        digits = self.observations.digits(observation)
        if digits is None:
            raise self.steps.error(step_number, self.observations.rule, observation)
        return self.observations.index(digits)

    def state(self) -> dict[str, Any]:
        """Return the state of the stream and the number of episodes; the environment is reset for each episode."""
        return super().state() | {"episode": self.steps.episode}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the stream."""
        self.steps.episode = int(state["episode"])
        super().restore({key: value for key, value in state.items() if key != "episode"})


def allowed_action(a: int, mask: BoolArray | None, chance: np.random.Generator) -> int:
    """Return the action if the environment allows it, else a random one that it allows."""
    return a if mask is None or mask[a] else random_action(mask.size, mask, chance)


def _event_source(mdp: MDP) -> EventSource | None:
    """Return the arrays from which the events of an episode are found; None if the problem has none or they are unobserved."""
    noise = mdp.noise
    if noise is None or not noise.known or not noise.events_observed:
        return None
    law = np.concatenate([*noise.probabilities, np.empty(0)])
    return EventSource(
        shape=noise.row_law.shape, row_start=mdp.row_start, probability=np.array(mdp.probability),
        row_law=noise.row_law.reshape(-1), pair_start=noise.pair_start, pair_outcome=noise.pair_outcome,
        pair_probability=law[noise.pair_event],
    )  # fmt: skip
