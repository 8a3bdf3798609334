"""Learning in an environment that exposes neither its states nor its rewards: both are recorded as they are met.

The world numbers observations in the order in which they appear. State 0, `END`, follows the end of an episode; state 1, `NEW`,
stands for every state that the current plan does not know, in which actions are drawn uniformly. An episode that is truncated
stops without a transition to the end: truncation is not termination.

The learner plans on the empirical model: an outcome of a row (s, a) is an observed pair of successor and reward, and first
states have their observed frequencies. The rows have a prior for the unseen: each lists two more outcomes, an end with the
highest and one with the lowest sum of rewards that followed any step so far. A row that was never tried is therefore a gamble
between the best and the worst sum so far, and each learner weighs it by its own rule (posterior, ball or bonus). If all sums
so far are equal, 1 is added to the highest, so that exploration can gain something.

New outcomes change the model, so the learner is rebuilt on the larger model and observes all episodes again. This happens
when the number of episodes has grown by the share GROWTH since the last build if there were new outcomes, and by the share
REFRESH otherwise. From the first episode with a new outcome until then, the learner observes no episodes.

The prior is a heuristic; no regret bound is claimed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bqrl.errors import SizeError
from bqrl.learners.play import World, allowed_action
from bqrl.learners.protocol import Episode, Learner, Task, add_prefix, blank_model, strip_prefix
from bqrl.learners.registry import make_learner
from bqrl.mdp.arrays import BoolArray, FloatArray, require
from bqrl.mdp.model import MDP
from bqrl.mdp.observations import Digits, Observations
from bqrl.mdp.stepping import Stepper
from bqrl.mdp.table import Table
from bqrl.policies.in_env import chosen_action, draw_part, random_action
from bqrl.policies.protocol import Policy

END, NEW = 0, 1
NAMES = ("(end)", "(new)")
GROWTH, REFRESH = 0.05, 0.25  # relative increases of the number of episodes
MOST = 2**27  # steps of a run, which are all stored


class OpenWorld(World):
    """Episodes of any environment with Discrete actions; an episode has as many stages as were played, at most H."""

    def __init__(self, env: Any, H: int, rng: np.random.Generator, observations: Observations) -> None:
        self.env, self.H, self.rng, self.observations = env, H, rng, observations
        self.steps, self.A = Stepper(env), int(env.action_space.n)
        self._first_action = int(env.action_space.start)
        self.met: dict[Digits, int] = {}  # states by their digits, in the order of appearance
        self.masks: dict[int, BoolArray] = {}  # actions that were ever allowed in a state, if the environment says so

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all states met so far."""
        return NAMES + tuple(map(self.observations.name, self.met))

    def allowed(self, S: int) -> BoolArray:
        """Return which actions of the first `S` states may be played, shape (S, A)."""
        mask = np.ones((S, self.A), bool)
        for s in range(S):
            mask[s] = self.masks.get(s, True)
        return mask

    def play(self, behaviour: Policy, chance: np.random.Generator) -> Episode:
        """Play one episode; states that the policy does not know are played at random."""
        s = self._state(self.steps.reset(seed=int(self.rng.integers(2**31))), 0)
        behaviour = draw_part(behaviour, chance)
        memory = behaviour.start()
        states, actions, rewards = [s], [], []
        for h in range(self.H):
            known, mask = s if s < behaviour.S or behaviour.S == 0 else NEW, self.steps.mask(h)
            if mask is not None:
                self.masks[s] = mask | self.masks.get(s, False)
            if known == NEW:
                a = random_action(self.A, mask, chance)
            else:
                a = allowed_action(chosen_action(behaviour, h, s, memory, chance, self.A), mask, chance)
            observation, r, ended, cut = self.steps.step(a + self._first_action, h + 1)
            s = END if ended else self._state(observation, h + 1)
            states.append(s)
            actions.append(a)
            rewards.append(r)
            if ended or cut:
                break
            memory = behaviour.next(memory, h, known, a, r, s if s < behaviour.S or behaviour.S == 0 else NEW)
        self.steps.episode += 1
        return Episode(np.array(states), np.array(actions), np.array(rewards))

    def _state(self, observation: Any, step_number: int) -> int:
        """Return the number of an observation, a new one if it was not met before."""
        digits = self.observations.digits(observation)
        if digits is None:
            raise self.steps.error(step_number, self.observations.rule, observation)
        return self.met.setdefault(digits, len(NAMES) + len(self.met))

    def state(self) -> dict[str, Any]:
        """Return the state of the stream, the number of episodes and the states met."""
        masks = [[s, *mask.tolist()] for s, mask in self.masks.items()]
        return super().state() | {"episode": self.steps.episode, "met": list(map(list, self.met)), "masks": masks}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue the stream."""
        own = ("episode", "met", "masks")
        self.steps.episode = int(state["episode"])
        self.met = {tuple(map(int, digits)): len(NAMES) + i for i, digits in enumerate(state["met"])}
        self.masks = {int(s): np.array(mask, bool) for s, *mask in state["masks"]}
        super().restore({key: value for key, value in state.items() if key not in own})


class Growing(Learner):
    """A learner on a model that grows with what is seen.

    Parameters
    ----------
    maker, params
        The learner class and its parameters.
    facts
        Objective, episodes and delta, as in `Task`.
    world
        The world, which knows the numbers of stages and actions, and the actions allowed in each state.
    rng
        The learner's own random stream.
    """

    def __init__(
        self, maker: Callable[..., Learner], params: dict[str, Any], facts: dict[str, Any], world: OpenWorld,
        rng: np.random.Generator,
    ) -> None:  # fmt: skip
        H = world.H
        if facts["episodes"] * H > MOST:
            raise SizeError(
                f"a run in an environment without a table must have at most {MOST} steps, got {facts['episodes'] * H}; "
                "lower episodes or horizon", needed=facts["episodes"] * H, limit=MOST, name="episodes",
            )  # fmt: skip
        self._maker, self._params, self._facts, self._world, self.rng = maker, params, facts, world, rng
        self._episodes: list[Episode] = []
        self._rows: dict[tuple[int, int], dict[tuple[int, float], None]] = {}  # outcomes of each row, in order
        self._first: dict[int, int] = {}  # counts of first states
        self._highest = self._lowest = 0.0  # sums of rewards after a step
        self._built, self._fits = 0, True  # episodes at the last build, and whether the model has all outcomes since
        self._build()
        self.name = self.inner.name  # type: ignore[misc]

    def plan(self) -> Any:
        """Return the plan of the learner, on a larger model if enough has been seen since the last one."""
        t, part = len(self._episodes), REFRESH if self._fits else GROWTH
        if t > self._built * (1.0 + part):
            self._rebuild()
        return self.inner.plan()

    def observe(self, episode: Episode) -> None:
        """Store the episode, and pass it on if the model has all of its outcomes."""
        self._store(episode)
        if self._fits:
            self.inner.observe(episode)

    def evaluated(self) -> Any:
        """Return the policy that the learner would have scored."""
        return self.inner.evaluated()

    def notes(self) -> dict[str, float]:
        """Return the notes of the learner and the number of states met."""
        return self.inner.notes() | {"states": float(self.task.S - len(NAMES))}

    def _store(self, episode: Episode) -> None:
        """Count the first state and the outcomes of an episode."""
        known = self.task.S
        self._episodes.append(episode)
        first = int(episode.states[0])
        self._first[first] = self._first.get(first, 0) + 1
        sums = np.cumsum(episode.rewards[::-1])
        if len(self._episodes) == 1:
            self._highest = self._lowest = float(sums[0])
        self._highest, self._lowest = max(self._highest, float(sums.max())), min(self._lowest, float(sums.min()))
        steps = zip(episode.states[:-1], episode.actions, episode.states[1:], episode.rewards, strict=True)
        for s, a, s_next, r in steps:
            row = self._rows.setdefault((int(s), int(a)), {})
            outcome = int(s_next), float(r)
            if outcome not in row:
                row[outcome] = None
                self._fits = False
        self._fits &= int(episode.states.max()) < known

    def _rebuild(self, allowed: BoolArray | None = None) -> None:
        """Build the learner on the larger model and let it observe all episodes again."""
        self._build(allowed)
        for episode in self._episodes:
            self.inner.observe(episode)

    def _build(self, allowed: BoolArray | None = None) -> None:
        """Build the learner on the model of all episodes so far."""
        S = self._states()
        self._allowed = self._world.allowed(S) if allowed is None else allowed
        model = self._model(S, self._world.A)
        self.task = Task(structure=model.structure, model=blank_model(model), discount=1.0, **self._facts)
        self.inner = make_learner(self._maker, self.task, self.rng, self._params)
        self._built, self._fits = len(self._episodes), True

    def _states(self) -> int:
        """Return the number of states in the episodes so far."""
        return 1 + max([NEW, *(int(episode.states.max()) for episode in self._episodes)])

    def _model(self, S: int, A: int) -> MDP:
        """Return the model of the observed outcomes, with uniform rows; it has no rows for actions that were never allowed."""
        highest = self._highest if self._highest > self._lowest else self._lowest + 1.0
        unseen = {(END, highest): None, (END, self._lowest): None}
        rows = [
            {} if not self._allowed[s, a] else {(END, 0.0): None} if s == END else self._rows.get((s, a), {}) | unseen
            for s in range(S) for a in range(A)
        ]  # fmt: skip
        sizes = np.array([len(row) for row in rows])
        listed = [outcome for row in rows for outcome in row]
        table = Table(
            S=S, A=A, K=1, row_start=np.r_[0, np.cumsum(sizes)], successor=np.array([s for s, _ in listed], np.int32),
            probability=1.0 / np.repeat(sizes, sizes), reward=np.array([[r for _, r in listed]]),
        )  # fmt: skip
        return MDP.from_table(table, self._world.H, self._start(S))

    def _start(self, S: int) -> FloatArray:
        """Return the observed law of the first state; the new state before the first episode."""
        mu = np.zeros(S)
        for s, n in (self._first or {NEW: 1}).items():
            mu[s] = n
        return np.asarray(mu / mu.sum())

    def state(self) -> dict[str, Any]:
        """Return all episodes, the number at the last build, and the state of the learner."""
        lengths = np.array([episode.actions.size for episode in self._episodes], np.int64)
        columns = {
            name: np.concatenate([np.zeros(0), *(getattr(episode, name) for episode in self._episodes)])
            for name in ("states", "actions", "rewards")
        }
        return (
            {"lengths": lengths, "built": self._built, "allowed": self._allowed}
            | columns
            | add_prefix("inner_", self.inner.state())
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        lengths, built = np.asarray(state["lengths"], np.int64), int(state["built"])
        require(0 <= built <= lengths.size, "built", f"be at most {lengths.size}", built)
        states, actions = (np.asarray(state[name], np.int64) for name in ("states", "actions"))
        rewards = np.asarray(state["rewards"], np.float64)
        fits = actions.size == rewards.size == lengths.sum() and states.size == actions.size + lengths.size
        require(bool(fits), "states", f"have {actions.size + lengths.size} entries", states.size)
        ends = np.cumsum(lengths)[:-1]
        cuts = ends + np.arange(1, lengths.size), ends, ends  # an episode has one more state than actions
        parts = (np.split(values, at) for values, at in zip((states, actions, rewards), cuts, strict=True))
        episodes = [Episode(*each) for each in zip(*parts, strict=True)] if lengths.size else []
        for episode in episodes[:built]:
            self._store(episode)
        allowed = np.asarray(state["allowed"], bool)
        S = self._states()
        require(allowed.shape == (S, self._world.A), "allowed", f"have shape {(S, self._world.A)}", allowed.shape)
        self._rebuild(allowed)
        for episode in episodes[built:]:
            self.observe(episode)
        self.inner.restore(strip_prefix("inner_", state))
