"""Deep learning of every need at once: one network, the whole guarantee curve.

A need n is chosen, not observed, so a transition (h, x, a, r, x') teaches what happens for every need at once:

    J(h, x, a, n)  <-  min over a' of J(h + 1, x', a', n - r),    J at the end = clip(n, 0, d) / d

with d -> 0 for a quantile (J is then W, the probability of ending short) and d = the whole range of returns for CVaR. From J at
the first stage follow the target z and its value:

    quantile    the largest z with W(z) < tau
    CVaR        the z that maximises z - d J(z) / tau

Buffers between the two are refused: their value is max over z of a minimum over widths d, which needs one network per width. With
a single width the learner found targets whose promise was far too high.

The loss is the cross-entropy over all needs, of W itself or of the slopes of J. The next action is chosen by the current weights,
per need, and valued by averaged weights. The grid of needs spans, at each stage, the returns still to come that were seen; its
step is a multiple of the lattice of the rewards seen, if they have one. Episodes are played towards the present target or a
random one, with random actions at a falling rate.

Deviation from the exact recursion of `planners/target.py`: everything is estimated, so nothing is certified. Simulate the
policy on new episodes for a statement with confidence. (Choosing among targets near the promised one by a tenth of the episodes,
with a lower confidence bound, was worse than the promised target itself.)
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bqrl.checks import number, whole
from bqrl.laws.objectives import CVaR, Quantile, averaged_levels
from bqrl.learners.box_world import BoxEpisode
from bqrl.learners.network import Batch, Network
from bqrl.learners.protocol import Episode, Learner, Task, add_prefix, strip_prefix
from bqrl.mdp.arrays import BoolArray, FloatArray
from bqrl.mdp.find_grid import reward_step
from bqrl.mdp.grid import SNAP
from bqrl.policies.envelope import EnvelopePolicy, need_grid, standardise
from bqrl.policies.protocol import Policy, action_dtype
from bqrl.policies.target import TargetPolicy

WARM = 200  # episodes of random actions at first
BLOCK, BATCH = 32, 256  # episodes between trainings, and transitions per gradient step
HIDDEN, POLYAK, MEAN_WEIGHT = 128, 0.02, 0.02
FIRST_EPSILON, LAST_EPSILON = 1.0, 0.05  # rates of random actions
FALL = 0.5  # share of the training in which the rate falls
RANDOM_TARGETS = 0.5
REPLAY = 2_000_000  # numbers kept; a transition has one for each feature and one more
RECENT = 256  # first observations that the promise averages
MANY_REWARDS = 1000  # distinct rewards beyond which no lattice is sought


class Envelope(Learner):
    """A network that learns the shortfall of every need; for MDPs and for environments with Discrete or Box observations.

    Parameters
    ----------
    task, rng
        See `Learner`.
    needs
        Largest number of needs on the grid.
    updates
        Gradient steps per episode.
    learning_rate
        First learning rate; it falls linearly.
    device
        Device of PyTorch.
    """

    name, label, extra = "envelope", "Envelope", "deep"
    objectives = (Quantile, CVaR)
    observes = True
    tuned = "learning_rate"

    def __init__(
        self, task: Task, rng: np.random.Generator, needs: int = 256, updates: float = 1.0, learning_rate: float = 1e-3,
        device: str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        self.needs, self.updates = whole(needs, "needs", 4), number(updates, "updates", 0.0, ends="(]")
        self.learning_rate = number(learning_rate, "learning_rate", 0.0, ends="(]")
        self.device = device
        self.tau, beta = averaged_levels(task.objective)
        self.cvar = beta > 0.0
        self.warm = min(WARM, max(1, task.episodes // 10))
        self.available = None if task.features else task.available
        d = task.features
        size = min(REPLAY // (d + 1), task.episodes * task.H)
        kind: Any = ((size, d), np.float32) if d else ((size,), np.int64)
        self.x, self.x_next = np.zeros(*kind), np.zeros(*kind)
        self.h, self.a, self.r = np.zeros(size, np.int64), np.zeros(size, np.int64), np.zeros(size)
        self.ended, self.mask = np.zeros(size, bool), np.ones((size if d else 0, task.A), bool)
        self.first_x, self.first_mask = np.zeros((RECENT, d) if d else RECENT, kind[1]), np.ones((RECENT, task.A), bool)
        self.centre, self.spread = np.zeros(d), np.ones(d)
        self.lo, self.hi = np.zeros(task.H), np.zeros(task.H)  # ends of the grid
        self.least, self.most = np.zeros(task.H), np.zeros(task.H)  # returns still to come that were seen
        self.rewards = np.zeros(0)  # distinct rewards seen
        self.t, self.seen, self.step, self.d, self.scale, self.target, self.value = 0, 0, 1.0, 1.0, 1.0, 0.0, math.nan
        self._build(4)

    def _build(self, M: int) -> None:
        """Make a new network for a grid of M needs, and its policy."""
        task = self.task
        self.network = Network(
            self.rng, task.S, task.features, task.H, task.A, M,
            width=HIDDEN, weight=MEAN_WEIGHT, polyak=POLYAK, device=self.device,
        )  # fmt: skip
        self._renew()

    def _renew(self) -> None:
        """Make the policy of the averaged weights towards the present target."""
        task, net = self.task, self.network
        grid = need_grid(self.lo, self.step, net.M, task.discount)
        self.policy: Policy
        if task.features:
            self.policy = EnvelopePolicy(
                net.arrays("averaged"), grid, self.target, net.weight, self.centre, self.spread, net.ratio
            )
            return
        assert self.available is not None
        tables: list[Any] = []
        states = np.arange(task.S)
        for h in range(task.H):
            best = net.greedy(states, np.full(task.S, h), self.available[h] | ~self.available[h].any(1)[:, None])[0]
            tables.append(np.column_stack([best, best[:, -1]]).astype(action_dtype(task.A)))
        self.policy = TargetPolicy(grid, tables, self.target)

    def promise(self) -> tuple[float, float]:
        """Return the best target and the value that the network promises for it."""
        n = min(RECENT, self.t)
        x, mask = self.first_x[:n], self.first_mask[:n]
        cost = self.network.greedy(self._scaled(x), np.zeros(n, np.int64), mask)[1].mean(axis=0)
        z = self.lo[0] + self.step * np.arange(self.network.M)
        if not self.cvar:
            safe = np.flatnonzero((cost < self.tau) & (z <= self.hi[0] + SNAP * self.step))
            best = float(z[safe[-1]]) if safe.size else float(z[0])
            return best, best
        value = z - self.d * cost / self.tau
        return float(z[value.argmax()]), float(value.max())

    def plan(self) -> Policy:
        """Return the policy of the averaged weights towards the present or a random target, with random actions."""
        if self.t < self.warm:
            return Exploring(self.policy, self.target, 1.0, self.rng, self.available)
        target = self.target
        if self.rng.random() < RANDOM_TARGETS:
            target = float(self.rng.uniform(self.lo[0], self.hi[0]))
        epsilon = FIRST_EPSILON + (LAST_EPSILON - FIRST_EPSILON) * min(1.0, self.progress / FALL)
        return Exploring(self.policy, target, epsilon, self.rng, self.available)

    def evaluated(self) -> Policy:
        """Return the policy without random actions and towards the chosen target."""
        return self.policy

    @property
    def progress(self) -> float:
        """Share of the training that is done."""
        return min(1.0, (self.t - self.warm) / max(1, self.task.episodes - self.warm))

    def notes(self) -> dict[str, float]:
        """Return the target and the value that the network promises."""
        return {"target": self.target, "promised": self.value}

    def observe(self, episode: Episode | BoxEpisode) -> None:
        """Store the episode; train after every block of episodes."""
        worth = episode.rewards * self.task.discount ** np.arange(self.task.H)
        self._store(episode, worth)
        self.t += 1
        first = self.t == self.warm
        if first:
            self._prepare()
        if first or (self.t > self.warm and (self.t - self.warm) % BLOCK == 0):
            self._fit_grid()
            for _ in range(math.ceil(self.updates * (self.warm if first else BLOCK))):
                self.network.update(self._batch(), self.learning_rate * max(0.02, 1.0 - self.progress))
            self.target, self.value = self.promise()
            self._renew()

    def _store(self, episode: Episode | BoxEpisode, worth: FloatArray) -> None:
        """Add the transitions of an episode to the replay memory, and widen the ranges of returns still to come."""
        n = int((episode.actions >= 0).sum())
        i = (self.seen + np.arange(n)) % self.h.size
        self.h[i], self.a[i], self.r[i] = np.arange(n), episode.actions[:n], worth[:n]
        self.x[i], self.x_next[i] = episode.states[:n], episode.states[1 : n + 1]
        self.ended[i] = np.arange(n) == n - 1
        k = self.t % RECENT
        self.first_x[k] = episode.states[0]
        if self.available is not None:
            self.first_mask[k] = self.available[0, episode.states[0]]
        elif isinstance(episode, BoxEpisode) and episode.masks.size:
            self.first_mask[k], self.mask[i] = episode.masks[0], episode.masks[1 : n + 1]
        self.seen += n
        still = np.cumsum(worth[::-1])[::-1]
        self.least = still if self.t == 0 else np.minimum(self.least, still)
        self.most = still if self.t == 0 else np.maximum(self.most, still)
        if self.rewards.size <= MANY_REWARDS:
            self.rewards = np.union1d(self.rewards, np.round(worth[:n], 9))

    def _prepare(self) -> None:
        """After the random episodes: scale the observations, and choose the size of the grid and of the network."""
        if self.task.features:
            seen = self.x[: min(self.seen, self.h.size)].astype(np.float64)
            self.centre, self.spread = seen.mean(axis=0), np.maximum(seen.std(axis=0), 1e-6)
        self.scale = float(self.most[0] - self.least[0]) or 1.0
        lattice, span = self._lattice(), float((self.most - self.least).max())
        cells = math.inf if lattice == 0.0 else 1.5 * span / lattice
        self._build(int(min(self.needs, max(4.0, cells + 2.0))))

    def _lattice(self) -> float:
        """Return the step of the rewards seen; 0 if they have none."""
        if self.task.discount < 1.0 or not 0 < self.rewards.size <= MANY_REWARDS:
            return 0.0
        found = reward_step(self.rewards)
        return 0.0 if found is None else float(found[1])

    def _fit_grid(self) -> None:
        """Choose the ends and the step of the grid, and the width of the final cost."""
        self.lo, self.hi = self.least, self.most
        span, lattice = float((self.hi - self.lo).max()) or 1.0, self._lattice()
        self.step = span / (self.network.M - 2)
        if 0.0 < lattice < span * (1.0 + SNAP):
            self.step = lattice * max(1.0, math.ceil(self.step / lattice - SNAP))
        self.d = span if self.cvar else 1e-6 * self.step
        self.network.ratio = self.step / self.d if self.cvar else 0.0

    def _scaled(self, x: Any) -> Any:
        return standardise(x, self.centre, self.spread) if self.task.features else x

    def _batch(self) -> Batch:
        """Return a random batch of transitions with what is known about the needs that they leave."""
        i = self.rng.integers(min(self.seen, self.h.size), size=BATCH)
        h, r, ended = self.h[i], self.r[i], self.ended[i]
        after = np.minimum(h + 1, self.task.H - 1)
        slack = SNAP * self.step
        left = (self.lo[h] - r)[:, None] + self.step * np.arange(self.network.M)
        low, high = self.lo[after][:, None], self.hi[after][:, None]
        at_end = np.clip((left - slack) / self.d, 0.0, 1.0)
        known = np.where(ended[:, None], at_end, np.where(left <= low + slack, 0.0, np.nan))
        x_next = self.x_next[i]
        mask = self.mask[i] if self.available is None else self.available[after, x_next]
        return Batch(
            x=self._scaled(self.x[i]), h=h, action=self.a[i], reward=r / self.scale, ended=ended, x_next=self._scaled(x_next),
            h_next=after, mask=mask, position=np.maximum(np.minimum(left, high) - low, 0.0) / self.step,
            above=np.maximum(left - high - slack, 0.0) / self.d, known=known,
        )  # fmt: skip

    stored = (
        "x", "x_next", "h", "a", "r", "ended", "mask", "first_x", "first_mask", "centre", "spread", "lo", "hi",
        "least", "most",
    )  # fmt: skip
    numbers = ("step", "d", "scale", "target", "value")

    def state(self) -> dict[str, Any]:
        """Return the network, the replay memory and the counters as plain arrays."""
        flat = super().state() | {name: getattr(self, name) for name in ("rewards", *self.numbers)}
        return flat | {"t": self.t, "seen": self.seen, "M": self.network.M} | add_prefix("net_", self.network.state())

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self.rewards = np.array(state["rewards"], np.float64)
        for name in self.numbers:
            setattr(self, name, float(state[name]))
        self.t, self.seen = int(state["t"]), int(state["seen"])
        stream = self.rng.bit_generator.state
        self._build(whole(int(state["M"]), "M", 2))
        self.rng.bit_generator.state = stream  # building draws weights
        self.network.restore(strip_prefix("net_", state))
        self.network.ratio = self.step / self.d if self.cvar else 0.0
        self._renew()


class Exploring(Policy):
    """Another policy with a target of its own, and random actions at the rate epsilon drawn from the learner's stream."""

    kind = "exploring"

    def __init__(
        self, policy: Policy, target: float, epsilon: float, rng: np.random.Generator, available: BoolArray | None
    ) -> None:
        self.policy, self.target, self.epsilon, self.rng, self.available = policy, target, epsilon, rng, available
        self.H, self.S = policy.H, policy.S

    def start(self, u: float | None = None) -> float:
        """Return the first need, which is the target."""
        return self.target

    def act(self, h: int, s: Any, memory: Any, mask: BoolArray | None = None) -> int:
        """Return a random allowed action, or that of the policy."""
        if self.epsilon > 0.0 and self.rng.random() < self.epsilon:
            if self.available is not None:
                mask = self.available[h, s]
            A = self.policy.A if mask is None else 0  # type: ignore[attr-defined]
            return int(self.rng.choice(np.flatnonzero(mask) if mask is not None else A))
        return self.policy.act(h, s, memory) if mask is None else self.policy.act(h, s, memory, mask)  # type: ignore[call-arg]

    def next(self, memory: Any, h: int, s: Any, action: int, reward: float, s_next: Any) -> Any:
        """Return the remaining need after the reward."""
        return self.policy.next(memory, h, s, action, reward, s_next)
