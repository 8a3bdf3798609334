"""Policies of any kind in any Gymnasium environment: those of bqrl, which track the amount still needed, and others."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from gymnasium.spaces import Discrete

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import EpisodeError, PolicyError
from bqrl.loops.draws import draw
from bqrl.mdp.arrays import BoolArray
from bqrl.mdp.model import MDP
from bqrl.mdp.observations import Observations
from bqrl.mdp.stepping import Stepper
from bqrl.policies.convert import predictor
from bqrl.policies.envelope import EnvelopePolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import Policy, action_index, as_decisions, is_vector
from bqrl.policies.shares import drawn_action
from bqrl.policies.stochastic import StochasticPolicy

RANDOM = "random"
FORMS = "a Policy, a function of the observation, an object with predict or 'random'"
LONGEST = 1_000_000  # steps of an episode that has no limit


class Step(NamedTuple):
    """One step of an episode."""

    observation: Any
    action: Any
    reward: float
    after: Any  # the next observation
    ended: bool
    cut: bool  # stopped by a time limit or by the horizon, without an end


class Player(Protocol):
    """What plays the episodes of an environment."""

    horizon: int | None  # number of stages of the policy, None if it has no limit
    unknown: bool  # whether the current episode showed a state that the policy does not know

    def begin(self, seed: int) -> None:
        """Prepare for an episode; all draws of the policy in this episode derive from `seed`."""

    def act(self, h: int, observation: Any, mask: BoolArray | None) -> Any:
        """Return the action for the environment; `mask` says which actions it allows, None all of them."""

    def learn(self, h: int, reward: float, after: Any) -> None:
        """Take note of the reward and the next observation."""


class CallingPlayer:
    """A policy from elsewhere: a function of the observation, or random actions of the environment's own action space.

    Random actions are drawn among those allowed. A function is played as it is: some environments, such as Taxi, mask actions
    that have no effect but are valid.
    """

    horizon: int | None = None
    unknown: bool = False

    def __init__(self, env: Any, policy: Any, masked: bool = False) -> None:
        self.space, self.policy, self.masked = env.action_space, policy, masked

    def begin(self, seed: int) -> None:
        """Seed the random actions, and the draws from probabilities; functions have no seed."""
        self.chance = np.random.default_rng(seed)
        if self.policy is None:
            self.space.seed(seed)

    def act(self, h: int, observation: Any, mask: BoolArray | None) -> Any:
        """Return the action of the policy; a Discrete one is a number, from an array of one entry or drawn from probabilities."""
        if self.policy is None:
            return self.space.sample() if mask is None else self.space.sample(mask=mask.astype(np.int8))
        masks = {"action_masks": mask} if self.masked and mask is not None else {}
        action = self.policy(observation, **masks)
        if not isinstance(self.space, Discrete):
            return action
        first, n = int(self.space.start), int(self.space.n)
        if n > 1 and np.size(action) == n:
            shares = np.asarray(action, dtype=np.float64).reshape(-1)
            return drawn_action(shares, float(self.chance.random()), h, state=str(observation)) + first
        action = action.reshape(-1)[0] if isinstance(action, np.ndarray) and action.size == 1 else action
        if not self.space.contains(action):
            rule = f"must be a whole number from {first} to {first + n - 1}"
            raise PolicyError(f"the action at stage {h + 1} {rule}, got {one_line(action)}", stage=h, action=action)
        return action

    def learn(self, h: int, reward: float, after: Any) -> None:
        """Remember nothing."""


class PolicyPlayer:
    """A policy of bqrl; the rewards of the environment are subtracted from its need.

    In a state that the policy does not know, a uniformly random action among those allowed is played.
    """

    def __init__(self, env: Any, policy: Policy, observations: Observations, states: Sequence[str] | None) -> None:
        if not isinstance(env.action_space, Discrete):
            got = f"{type(env.action_space).__name__} in {type(env.unwrapped).__name__}"
            raise bad_value("env", env, "have Discrete actions for a Policy", got, remedy="pass a function")
        self.A, self._first = int(env.action_space.n), int(env.action_space.start)
        self.policy, self.observations, self.horizon = policy, observations, policy.H or None
        self._place = None if states is None else {name: s for s, name in enumerate(states)}
        self.unknown = False

    def begin(self, seed: int) -> None:
        """Draw the policy of a mixture and start its memory."""
        self.chance, self.unknown, self._s = np.random.default_rng(seed), False, -1
        self.part = draw_part(self.policy, self.chance)
        self.memory = self.part.start()

    def act(self, h: int, observation: Any, mask: BoolArray | None) -> Any:
        """Return the action of the policy in the state of the observation."""
        if h == 0:
            self._s = self._state(observation)
        if self._s < 0:
            self.unknown, self._a = True, random_action(self.A, mask, self.chance)
        else:
            self._a = chosen_action(self.part, h, self._s, self.memory, self.chance, self.A)
        return self._a + self._first

    def learn(self, h: int, reward: float, after: Any) -> None:
        """Update the memory of the policy."""
        s, self._s = self._s, self._state(after)
        self.memory = self.part.next(self.memory, h, s, self._a, reward, self._s)

    def _state(self, observation: Any) -> int:
        """Return the state of an observation, -1 if the policy does not know it."""
        digits = self.observations.digits(observation)
        if digits is None:
            raise EpisodeError(f"expected {self.observations.rule}, got {observation!r}", value=observation)
        if self._place is not None:
            return self._place.get(self.observations.name(digits), -1)
        s = self.observations.index(digits)
        return s if self.policy.S == 0 or s < self.policy.S else -1


class NeedPlayer:
    """An `EnvelopePolicy`, which acts on the numbers of an observation and obeys info["action_mask"]."""

    horizon: int | None
    unknown: bool = False

    def __init__(self, env: Any, policy: EnvelopePolicy) -> None:
        if not isinstance(env.action_space, Discrete) or int(env.action_space.n) != policy.A:
            raise bad_value("env", env, f"have {policy.A} Discrete actions for this policy", env.action_space)
        self.policy, self.horizon, self._first = policy, policy.H, int(env.action_space.start)

    def begin(self, seed: int) -> None:
        """Start with the target."""
        self.need = self.policy.start()

    def act(self, h: int, observation: Any, mask: BoolArray | None) -> Any:
        """Return the action of the policy among the allowed ones."""
        return self.policy.act(h, observation, self.need, mask) + self._first

    def learn(self, h: int, reward: float, after: Any) -> None:
        """Subtract the reward from the need."""
        self.need = self.policy.next(self.need, h, None, 0, reward, None)


def player_of(env: Any, policy: Any, states: Any = None, bins: Any = None, deterministic: bool = True) -> Player:
    """Return the player of a policy in an environment; `simulate` explains the arguments."""
    if isinstance(policy, EnvelopePolicy) and states is None and bins is None:
        return NeedPlayer(env, policy)
    if isinstance(policy, Policy):
        observations = Observations(env.observation_space, bins, type(env.unwrapped).__name__)
        names = state_names(states)
        if names is None and not isinstance(env.observation_space, Discrete):
            remedy = "pass the model of the plan, or record.states for a learned policy"
            rule = f"name the states of the policy, because the observations of {observations.owner} are not numbers"
            raise bad_value("states", None, rule, remedy=remedy)
        return PolicyPlayer(env, policy, observations, names)
    if states is not None or bins is not None:
        name = "bins" if states is None else "states"
        raise bad_value(
            name, states or bins, "be None unless the policy is a bqrl.Policy, which acts on numbered states"
        )
    if isinstance(policy, str) and policy == RANDOM:
        return CallingPlayer(env, None)
    if isinstance(getattr(policy, "policy", None), Policy):
        raise bad_type("policy", policy, f"be {FORMS}", type(policy).__name__, remedy="pass plan.policy")
    if (seen := predictor(policy, deterministic)) is not None:
        return CallingPlayer(env, seen, "action_masks" in inspect.signature(policy.predict).parameters)
    if not callable(policy):
        raise bad_type("policy", policy, f"be {FORMS}")
    return CallingPlayer(env, policy)


def state_names(states: Any) -> tuple[str, ...] | None:
    """Return the names of the states of a policy, from a model or a list of names."""
    if states is None:
        return None
    if isinstance(states, MDP):
        return tuple(states.state_label(s) for s in range(states.S))
    if isinstance(states, str) or not isinstance(states, Sequence) or not all(isinstance(s, str) for s in states):
        raise bad_type("states", states, "be an MDP or a list of names")
    return tuple(states)


def play_steps(steps: Stepper, player: Player, seed: int, episode: int, horizon: int | None) -> Iterator[Step]:
    """Play one episode and yield its steps.

    The environment and the policy draw from two streams that depend only on `seed` and the number of the episode. EpisodeError
    if an episode without a horizon has not ended after a million steps.
    """
    steps.episode = episode
    world_seed, policy_seed = np.random.SeedSequence(seed, spawn_key=(episode,)).generate_state(2).tolist()
    observation = steps.reset(world_seed)
    player.begin(policy_seed)
    for h in range(LONGEST if horizon is None else horizon):
        action = player.act(h, observation, steps.mask(h))
        after, reward, ended, cut = steps.step(action, h + 1)
        last = horizon is not None and h + 1 == horizon
        yield Step(observation, action, reward, after, ended, (cut or last) and not ended)
        if ended or cut or last:
            return
        player.learn(h, reward, after)
        observation = after
    raise steps.error(LONGEST, "an end of the episode", "none", "; pass horizon=")


def chosen_action(policy: Policy, h: int, s: int, memory: Any, chance: np.random.Generator, A: int) -> int:
    """Return the action of a policy, drawn with `chance` if it draws; PolicyError unless the environment has it."""
    if isinstance(policy, StochasticPolicy):
        shares = policy.shares(h, s)
        return int(draw(shares, 0, shares.size, chance.random()))  # type: ignore[arg-type]
    answer = policy.act(h, s, memory)
    if is_vector(answer):
        answer = drawn_action(as_decisions([answer], h, [s], A)[0], float(chance.random()), h, state=str(s))
    a = action_index(answer, h, s)
    if not 0 <= a < A:
        where = f"the action in state {s} at stage {h + 1}"
        raise PolicyError(f"{where} must be from 0 to {A - 1}, got {a}", stage=h, state=s, action=a)
    return a


def random_action(A: int, mask: BoolArray | None, chance: np.random.Generator) -> int:
    """Return a uniformly random action among those allowed."""
    return int(chance.integers(A)) if mask is None else int(chance.choice(np.flatnonzero(mask)))


def draw_part(policy: Policy, chance: np.random.Generator) -> Policy:
    """Return the policy to play in this episode; from a mixture, one policy is drawn with the learner's stream."""
    u = float(chance.random()) if isinstance(policy, MixturePolicy) else 0.0
    while isinstance(policy, MixturePolicy):
        i, u = policy.drawn(u)
        policy = policy.policies[i]
    return policy
