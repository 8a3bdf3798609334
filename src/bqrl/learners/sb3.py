"""Any algorithm of Stable-Baselines3 or sb3-contrib as a learner: learn(mdp, "sb3", algorithm="PPO", options={...}).

Algorithms of these libraries call the environment, whereas here the run calls the learner. The algorithm therefore runs
unchanged in its own thread, on an environment that passes each action to the episode being played and each outcome back. The
two threads take strict turns and never run at the same time, so the same seed gives the same run on one machine.

The run determines the budget: `episodes` episodes of H steps. An observation contains the state and the stage. The evaluated
policy is the deterministic prediction of the algorithm at every (h, s) or, with deterministic=False, its action probabilities. An
algorithm that updates every n_steps steps does not use the steps after its last full rollout, so choose n_steps as a multiple
of H that divides T * H.

Deviation: Stable-Baselines3 seeds the global streams of Python, NumPy and PyTorch, with a seed from the learner's stream.
"""

from __future__ import annotations

import importlib
import threading
import weakref
from queue import SimpleQueue
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Discrete

from bqrl.checks import bad_value, choice, flag
from bqrl.errors import ArgumentError, PolicyError
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.mdp.arrays import BoolArray
from bqrl.policies.convert import distribution_of
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.stochastic import StochasticPolicy

LIBRARIES = ("stable_baselines3", "sb3_contrib")
NEEDS_START, FINISHED, STOP = "needs the first state", "finished", "stop"  # messages between the two threads
ENCODINGS = ("one-hot", "numbers")


class SB3(Learner):
    """An external algorithm; `algorithm` is its name or its class, `options` are the arguments of its constructor."""

    name, label, extra = "sb3", "sb3", "sb3"

    def __init__(
        self, task: Task, rng: np.random.Generator, algorithm: Any = "PPO", policy: str = "MlpPolicy",
        encoding: str = "one-hot", options: dict[str, Any] | None = None, deterministic: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        self._deterministic = flag(deterministic, "deterministic")
        choice(encoding, "encoding", ENCODINGS)
        kind = find_algorithm(algorithm) if isinstance(algorithm, str) else algorithm
        available = task.available
        self._masked = "Maskable" in kind.__name__
        if not available.all() and not self._masked:
            raise _algorithm_error(kind, "be able to mask actions that do not exist", "use MaskablePPO")
        if "Recurrent" in kind.__name__:
            raise _algorithm_error(kind, "have a policy by stage and state, without memory", "use PPO")
        self._masks = available.reshape(task.H * task.S, task.A)
        self._from: SimpleQueue[Any] = SimpleQueue()
        to: SimpleQueue[Any] = SimpleQueue()
        starts = np.flatnonzero(task.structure.mu)
        bridge = Bridge(available, int(starts[0]) if starts.size == 1 else None, encoding, to, self._from)
        self._observations = bridge.observations
        try:
            self._model = kind(policy, bridge, seed=int(rng.integers(2**31)), **(options or {}))
        except (AssertionError, TypeError, ValueError) as fault:  # e.g. an algorithm for continuous actions
            reason = (str(fault).splitlines() or ["it gives no reason"])[0]
            raise bad_value("algorithm", kind, "fit this problem", f"{kind.__name__} ({reason})") from None
        self._behaviour = _Driven(task.H, task.S, self, to)
        self._message: Any = None
        steps = task.episodes * task.H
        threading.Thread(target=_train, args=(self._model, steps, self._from), daemon=True).start()
        weakref.finalize(self, to.put, STOP)

    def settle(self) -> Any:
        """Return the next message of the algorithm, which then waits: its policy does not change until `take`."""
        if self._message is None:
            self._message = self._from.get()
        if isinstance(self._message, BaseException):
            raise self._message
        return self._message

    def take(self) -> Any:
        """Return the next message and consume it."""
        message = self.settle()
        self._message = None
        return message

    def plan(self) -> Policy:
        """Return a policy that requests every action from the algorithm."""
        self.settle()
        return self._behaviour

    def observe(self, episode: Episode) -> None:
        """Do nothing: the algorithm received each outcome while the episode was played."""

    def evaluated(self) -> MarkovPolicy | StochasticPolicy:
        """Return the deterministic prediction at every stage and state, or the action probabilities there."""
        self.settle()
        masks = {"action_masks": self._masks} if self._masked else {}
        if not self._deterministic:
            network = getattr(self._model, "policy", None)
            if not callable(getattr(network, "get_distribution", None)):
                rule = "have a policy with get_distribution if deterministic is False"
                raise _algorithm_error(type(self._model), rule, "leave deterministic out")
            shares = distribution_of(network, self._observations, **masks)
            return StochasticPolicy(shares.reshape(self.task.H, self.task.S, self.task.A))
        actions, _ = self._model.predict(self._observations, deterministic=True, **masks)
        return MarkovPolicy(np.asarray(actions, dtype=np.int64).reshape(self.task.H, self.task.S))

    def state(self) -> dict[str, Any]:
        """Raise ArgumentError: the training loop of the algorithm cannot be saved."""
        raise bad_value(
            "learner", self.name, "not be an sb3 algorithm if the run is checkpointed", remedy="run it without checkpoint"
        )  # fmt: skip


class Bridge(gym.Env[Any, Any]):
    """The environment that the algorithm sees; it waits for the outcomes of the episode being played."""

    def __init__(
        self, available: BoolArray, start: int | None, encoding: str, inbox: SimpleQueue[Any], outbox: SimpleQueue[Any]
    ) -> None:
        self.H, S, A = available.shape
        self._available, self._start, self._inbox, self._outbox = available, start, inbox, outbox
        h, s = (x.reshape(-1) for x in np.divmod(np.arange((self.H + 1) * S), S))
        if encoding == "one-hot":
            seen = np.concatenate([np.eye(self.H + 1)[h], np.eye(S)[s]], axis=1).astype(np.float32)
        else:
            seen = np.stack([h / self.H, s / max(1, S - 1)], axis=1).astype(np.float32)
        self._seen = seen.reshape(self.H + 1, S, -1)
        self.observations = seen[: self.H * S]  # row h * S + s
        self.observation_space = Box(0.0, 1.0, (seen.shape[1],), np.float32)
        self.action_space = Discrete(A)
        self._h, self._s = 0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Return the first observation; if the first state is random, wait until the next episode begins."""
        super().reset(seed=seed)
        self._h = 0
        if self._start is None:
            self._outbox.put(NEEDS_START)
            self._s = self._receive()
        else:
            self._s = self._start
        return self._seen[0, self._s], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Send the action and wait for its outcome."""
        self._outbox.put(int(action))
        reward, self._s = self._receive()
        self._h += 1
        return self._seen[self._h, self._s], reward, self._h == self.H, False, {}

    def action_masks(self) -> BoolArray:
        """Return the mask of available actions, for algorithms that support masks."""
        return self._available[min(self._h, self.H - 1), self._s]

    def _receive(self) -> Any:
        message = self._inbox.get()
        if message is STOP:
            raise _StopRunError
        return message


class _Driven(Policy):
    """A policy that plays the actions chosen by the thread of the algorithm and sends it the outcomes."""

    kind = "driven"

    def __init__(self, H: int, S: int, learner: SB3, to: SimpleQueue[Any]) -> None:
        self.H, self.S, self._to = H, S, to
        self._learner = weakref.proxy(learner)

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action of the algorithm."""
        message = self._learner.take()
        if message is NEEDS_START:
            self._to.put(s)
            message = self._learner.take()
        if message is FINISHED:
            raise PolicyError(
                "expected an action of the sb3 algorithm, got the end of its training; leave the number of its steps to the run",
                stage=h,
                state=s,
            )
        return int(message)

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Send the outcome to the algorithm."""
        self._to.put((float(reward), int(s_next)))
        return memory


class _StopRunError(Exception):
    """The learner was deleted: leave the training loop."""


def _train(model: Any, steps: int, outbox: SimpleQueue[Any]) -> None:
    """Run the training loop; the last message is FINISHED or the exception."""
    try:
        model.learn(total_timesteps=steps)
        outbox.put(FINISHED)
    except _StopRunError:
        pass
    except BaseException as fault:  # raised in the waiting thread
        outbox.put(fault)


def find_algorithm(name: str) -> Any:
    """Return the class with this name from Stable-Baselines3 or sb3-contrib."""
    installed = 0
    for library in LIBRARIES:
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        installed += 1
        if hasattr(module, name):
            return getattr(module, name)
    if not installed:
        raise ImportError("the learner 'sb3' needs Stable-Baselines3; install it with: pip install \"bqrl[sb3]\"")
    raise bad_value("algorithm", name, f"be a class of {' or '.join(LIBRARIES)}")


def _algorithm_error(kind: Any, rule: str, remedy: str) -> ArgumentError:
    """Return the error for an algorithm that does not fit the problem."""
    return bad_value("algorithm", kind, rule, kind.__name__, remedy=remedy)
