"""Deep learning of every need at once: one network, the whole guarantee curve.

A need n is chosen, not observed, so a transition (h, x, a, r, x') teaches what happens for every need at once:

    J(h, x, a, n)  <-  min over a' of J(h + 1, x', a', n - r)

At the end J is 1{n > 0} for a quantile (J is then W, the probability of ending short) and max(n, 0) / d for CVaR, with the width
d of the grid of needs. From J at the first stage follow the target z and its value:

    quantile    the largest z with W(z) < tau
    CVaR        the z that maximises z - d J(z) / tau

Buffers between the two are refused: their value is max over z of a minimum over widths d, which needs one network per width. With
a single width the learner found targets whose promise was far too high.

The loss is a cross-entropy: of the masses of the return between the needs, whose sums are W, or of the slopes of J. The next
action is chosen by the current weights, per need, and valued by averaged weights. A minimum over noisy estimates is too low, at
every stage again; therefore a batch takes every k-th of the sorted transitions, which is less noisy than a random one. The needs
of each stage span the returns still to come that were seen. For a quantile they are coarse at first and then narrow to the
targets whose shortfall may be near tau, for CVaR to the returns of trials; their step is a multiple of the lattice of the rewards
seen, if they have one. The episodes between two trainings are played at once, towards the present target or a random one, with
random actions at a falling rate, each repeated for some stages (Dabney, Ostrovski and Barreto, 2021, "Temporally-extended
epsilon-greedy exploration"). Some are trials without random actions: the rate at which they miss their target, less the promised
one, corrects the promise. In the last episodes the network stays as it is, and the target with the best returns in trials is
chosen: of a quantile among those whose shortfall may be just below tau, of CVaR among targets around the present one, the better
half of which is played on several times.

Deviation from the exact recursion of `planners/target.py`: everything is estimated, so nothing is certified. Simulate the
policy on new episodes for a statement with confidence.
"""

from __future__ import annotations

import math
from copy import copy
from operator import itemgetter
from typing import Any

import numpy as np

from bqrl.checks import number, whole
from bqrl.laws.law import Law
from bqrl.laws.objectives import CVaR, Quantile, averaged_levels
from bqrl.learners.box_world import BoxEpisode
from bqrl.learners.network import SHARP, Batch, Network
from bqrl.learners.protocol import Episode, Learner, Task, add_prefix, strip_prefix
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.find_grid import reward_step
from bqrl.mdp.grid import SNAP
from bqrl.policies.envelope import EnvelopePolicy, need_grid, standardise
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy, action_dtype

WARM = 200  # episodes of random actions at first
BLOCK = 32  # episodes between trainings
STEPS = 4  # gradient steps with the same targets
HIDDEN, POLYAK, MEAN_WEIGHT = 128, 0.05, 0.02
FIRST_EPSILON, LAST_EPSILON = 1.0, 0.05  # rates of random actions
FALL = 0.5  # share of the training in which the rate falls
REPEAT = 2.0  # exponent of the law of how often a random action is repeated
RANDOM_TARGETS, TRIALS = 0.5, 0.25  # shares of episodes towards a random target, and of those without random actions
FINAL = 0.2  # share of the episodes, at the end, in which the network stays as it is and targets are tried
COARSE, CHECKS = 64, (0.125, 0.25, 0.375)  # needs at first, and shares of the training after which the grid is narrowed
CATCH_UP = 1000  # episodes whose updates a new network receives at once
AGAIN = 1.1  # growth of the replay memory after which it is sorted again
FEW = 50  # final trials below which a target is not chosen; of CVaR, those in the tail that each rival has on average
RIVALS = 16  # most targets that the final trials of CVaR compare
ERRORS = (-2.0, 1.0)  # final trials play the largest target that is safe with a number of standard errors between these
WINDOW, PRIOR = 1000, 300.0  # trials that correct the network's promise, and trials for which its promise counts
REPLAY = 2_000_000  # numbers kept; a transition has one for each feature and one more
RECENT = 256  # first observations that the promise averages
COUNTS = ("t", "seen", "sorted", "tried", "begun", "checked")
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
    batch
        Transitions per gradient step.
    device
        Device of PyTorch.
    """

    name, label, extra = "envelope", "Envelope", "deep"
    objectives = (Quantile, CVaR)
    observes = True
    tuned = "learning_rate"

    def __init__(
        self, task: Task, rng: np.random.Generator, needs: int = 256, updates: float = 1.0, learning_rate: float = 3e-3,
        batch: int = 512, device: str = "cpu",
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        self.needs, self.updates = whole(needs, "needs", 4), number(updates, "updates", 0.0, ends="(]")
        self.learning_rate = number(learning_rate, "learning_rate", 0.0, ends="(]")
        self.batch, self.device = whole(batch, "batch", 1), device
        self.tau, beta = averaged_levels(task.objective)
        self.cvar = beta > 0.0
        self.warm = min(WARM, max(1, task.episodes // 10))
        final = int(FINAL * task.episodes)
        self.most_rivals = min(RIVALS, int(final * self.tau / FEW)) if self.cvar else 0
        # episodes of training; CVaR has no final trials if too few of them would be in the tail
        self.last = task.episodes - (final if self.most_rivals > 1 or not self.cvar else 0)
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
        self.poorest, self.richest = np.zeros((2, task.H))  # sums of rewards before each stage that were seen
        self.low, self.high = -math.inf, math.inf  # targets that the grid must hold
        self.checked = 0
        self.rewards = np.zeros(0)  # distinct rewards seen
        self.order, self.sorted = np.zeros(0, np.int64), 0  # the sorted transitions, and how many were seen then
        self.trials = np.full(BLOCK, -1)  # columns of the targets of episodes without random actions
        self.begun = 0  # the first episode of the block
        self.excess, self.tried = np.zeros(WINDOW), 0  # misses less the promised shortfall, per trial
        self.reached = np.zeros(WINDOW)  # returns of trials
        self.aimed = np.zeros(task.episodes - self.last, np.int64)  # columns of the targets of final trials
        self.returns = np.zeros(self.aimed.size)
        self.t, self.seen, self.step, self.d, self.scale, self.target, self.value = 0, 0, 1.0, 1.0, 1.0, 0.0, math.nan
        self._build(4)

    def _build(self, M: int) -> None:
        """Make a new network for a grid of M needs, and its policy."""
        task = self.task
        self.network = Network(
            self.rng, task.S, task.features, task.H, task.A, M,
            width=HIDDEN, weight=MEAN_WEIGHT, polyak=POLYAK, device=self.device,
        )  # fmt: skip
        self.curve = np.zeros(M)
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

    def _towards(self, target: float) -> Policy:
        """Return the present policy with another target."""
        if isinstance(self.policy, TargetPolicy):
            return TargetPolicy(self.policy.grid, self.policy.actions, target)
        found = copy(self.policy)
        found.target = target  # type: ignore[attr-defined]
        return found

    @property
    def targets(self) -> FloatArray:
        """The targets on the grid."""
        return np.asarray(self.lo[0] + self.step * np.arange(self.network.M))

    def promise(self) -> tuple[float, float]:
        """Return the best target and the value that is promised for it."""
        z = self.targets
        if self.t <= self.last:
            if self.cvar:
                value = z - self.d * (self.curve + self._bias()) / self.tau
                return float(z[value.argmax()]), float(value.max())
            best = float(z[self._largest(0.0)])
            return best, best
        return max(
            ((float(z[k]), self._tested(k)) for k in np.flatnonzero(self._tests()[0] >= FEW).tolist()),
            key=itemgetter(1),
            default=(self.target, self.value),
        )

    def _tested(self, k: int) -> float:
        """Return the value of the returns of the final trials of a target: of a quantile the mean over levels around tau."""
        n = self.t - self.last
        returns = self.returns[:n][self.aimed[:n] == k]
        if self.cvar:
            return float(self.task.objective(Law(returns, np.full(returns.size, 1.0 / returns.size))))
        error = math.sqrt(self.tau * (1.0 - self.tau) / returns.size)
        levels = self.tau + error * np.linspace(-1.5, 1.5, 7)
        return float(np.quantile(returns, levels.clip(0.0, 1.0), method="inverted_cdf").mean())

    def _bias(self) -> float:
        """Return by how much trials missed their targets more often than promised, shrunk towards 0."""
        n = min(WINDOW, self.tried)
        return float(self.excess[:n].sum() / (n + PRIOR))

    def _largest(self, errors: float) -> int:
        """Return the column of the largest target whose shortfall, with a number of standard errors added, is below tau."""
        tests, misses = self._tests()
        number = PRIOR + tests
        cost = (PRIOR * (self.curve + self._bias()) + misses) / number
        cost = cost + errors * np.sqrt(self.tau * (1.0 - self.tau) / number)
        safe = np.flatnonzero((cost < self.tau) & (self.targets <= self.hi[0] + SNAP * self.step))
        return int(safe[-1]) if safe.size else 0

    def _rivals(self) -> IntArray:
        """Return the columns of the targets that the next final trials of CVaR play: all at first, later the better half."""
        reached = self.reached[: min(WINDOW, self.tried)] if self.tried else np.array([self.target])
        ends = np.searchsorted(self.targets[:-1], np.quantile(reached, (self.tau / 2.0, (1.0 + self.tau) / 2.0)))
        present = np.abs(self.targets - self.target).argmin()
        rivals = np.union1d(np.linspace(ends[0], ends[1], self.most_rivals - 1).round().astype(int), present)
        count, rounds = self._tests()[0], max(1, int(math.log2(rivals.size)))
        kept = rivals.size >> min(rounds - 1, rounds * max(0, self.t - self.last) // max(1, self.aimed.size))
        values = [self._tested(k) if count[k] else math.inf for k in rivals.tolist()]
        return np.asarray(rivals[np.argsort(values)[rivals.size - kept :]])

    def _tests(self) -> tuple[FloatArray, FloatArray]:
        """Return the number of final trials per target, and of those that missed it."""
        n = max(0, self.t - self.last)
        missed = self.returns[:n] < self.targets[self.aimed[:n]] - SNAP * self.step
        count, misses = (np.bincount(self.aimed[:n], w, self.network.M) for w in (np.ones(n), missed))
        return np.asarray(count, np.float64), np.asarray(misses, np.float64)

    def ahead(self) -> int:
        """Return the number of episodes before the next training, at most a block."""
        left = self.warm - self.t if self.t < self.warm else BLOCK - (self.t - self.warm) % BLOCK
        return min(left, BLOCK, self.last - self.t if self.t < self.last else BLOCK)

    def plan(self) -> Policy:
        """Return the policy of the averaged weights towards the present and random targets, with random actions or without."""
        n, z = self.ahead(), self.targets
        self.begun, self.trials[:] = self.t, -1
        targets, epsilon = np.full(n, self.target), np.ones(n)
        if self.t >= self.last and self.cvar:
            self.trials[:n] = np.resize(self._rivals(), n)
        elif self.t >= self.last:  # on both sides of the best target
            self.trials[:n] = [self._largest(errors) for errors in self.rng.uniform(*ERRORS, n)]
        elif self.t >= self.warm:
            kind, epsilon[:] = self.rng.random(n), np.interp(self.progress, (0.0, FALL), (FIRST_EPSILON, LAST_EPSILON))
            at_random = (kind >= TRIALS) & (kind < TRIALS + RANDOM_TARGETS)
            targets[at_random] = self.rng.uniform(self.lo[0], self.hi[0], at_random.sum())
            self.trials[:n][kind < TRIALS] = np.abs(z - self.target).argmin()
        trial = self.trials[:n] >= 0
        targets[trial], epsilon[trial] = z[self.trials[:n][trial]], 0.0
        return Exploring(self.policy, targets, epsilon, self.rng, self.available, longest=self.task.H)

    def evaluated(self) -> Policy:
        """Return the policy without random actions and towards the chosen target."""
        return self.policy

    @property
    def progress(self) -> float:
        """Share of the training that is done."""
        return min(1.0, (self.t - self.warm) / max(1, self.last - self.warm))

    def notes(self) -> dict[str, float]:
        """Return the target and the value that the network promises."""
        return {"target": self.target, "promised": self.value}

    def observe(self, episode: Episode | BoxEpisode) -> None:
        """Store the episode; train after every block of episodes."""
        worth = episode.rewards * self.task.discount ** np.arange(self.task.H)
        self._judge(float(worth.sum()))
        self._store(episode, worth)
        self.t += 1
        first = self.t == self.warm
        if first:
            self._prepare()
        if not first and (self.t < self.warm or (self.t - self.warm) % BLOCK):
            return
        if self.t <= self.last:
            if self.checked < len(CHECKS) and self.progress >= CHECKS[self.checked]:
                first = self._focus()
            self._fit_grid()
            for _ in range(math.ceil(self.updates * (min(CATCH_UP, self.t) if first else BLOCK) / STEPS)):
                self.network.update(self._batch(), self.learning_rate * max(0.02, 1.0 - self.progress), STEPS)
            n = min(RECENT, self.t)
            x, mask = self._scaled(self.first_x[:n]), self.first_mask[:n]
            self.curve = self.network.greedy(x, np.zeros(n, np.int64), mask)[1].mean(axis=0)
            self.target, self.value = self.promise()
            self._renew()
        else:
            self.target, self.value = self.promise()
            self.policy = self._towards(self.target)

    def _judge(self, total: float) -> None:
        """Compare the return of a trial with its target."""
        trial = int(self.trials[self.t - self.begun])
        if trial < 0:
            return
        short = self.targets[trial] - total
        missed = float(np.clip((short - SNAP * self.step) / self.d, 0.0, math.inf if self.cvar else 1.0))
        if self.t < self.last:
            self.excess[self.tried % WINDOW] = missed - self.curve[trial]
            self.reached[self.tried % WINDOW] = total
            self.tried += 1
        else:
            self.aimed[self.t - self.last], self.returns[self.t - self.last] = trial, total

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
        earned = still[0] - still
        self.poorest = earned if self.t == 0 else np.minimum(self.poorest, earned)
        self.richest = earned if self.t == 0 else np.maximum(self.richest, earned)
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
        self._build(self._size())

    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Return the least and the largest need of each stage that the targets from `low` to `high` can leave."""
        lo = np.minimum(np.maximum(self.least, self.low - self.richest), self.most)
        return lo, np.maximum(np.minimum(self.most, self.high - self.poorest), lo)

    def _size(self) -> int:
        """Return the number of needs: a tenth more than on the lattice of the returns seen, up to a limit."""
        lo, hi = self._ends()
        lattice, most = self._lattice(), COARSE if self.checked == 0 else self.needs
        cells = math.inf if lattice == 0.0 else 1.1 * float((hi - lo).max()) / lattice
        return int(min(self.needs, most, max(4.0, cells + 2.0)))

    def _focus(self) -> bool:
        """Return whether the grid of targets has changed.

        For a quantile it narrows to the targets whose shortfall may be near tau, and widens if the best target is near its end;
        for CVaR it narrows to the returns of trials.
        """
        z, cost, reached = self.targets, self.curve + self._bias(), self.reached[: min(WINDOW, self.tried)]
        on_lattice, first = self.step <= self._lattice() * (1.0 + SNAP), self.checked == 0
        self.checked += 1
        if first and on_lattice:  # few needs: all are kept
            self.checked = len(CHECKS)
            return False
        last = float(cost[z <= self.hi[0] + SNAP * self.step][-1])
        if self.cvar:
            low = min(float(np.quantile(reached, self.tau / 50.0)), self.target) if reached.size else float(z[0])
            low, high = low - 0.25 * (float(self.hi[0]) - low), math.inf
        else:
            near = np.flatnonzero((cost > self.tau / 4.0) & (cost < self.tau + 0.25 * (1.0 - self.tau)))
            low, high = (float(z[near[0]]), float(z[near[-1]])) if near.size else (float(z[0]), float(z[-1]))
            low = min(
                low, float(np.quantile(reached, self.tau / 4.0, method="nearest")) if reached.size else float(z[0])
            )
            low, high = low - 2.0 * self.step, high + 2.0 * self.step
        narrow = not on_lattice and min(high, self.hi[0]) - low < 0.5 * (self.hi[0] - self.lo[0])
        if first or narrow or (self.cvar and low < self.lo[0]):
            self.low, self.high = low, high
        elif not self.cvar and (last < self.tau + 0.1 * (1.0 - self.tau) or self.target <= z[2]):
            self.low, self.high = 2.0 * self.low - self.high, 2.0 * self.high - self.low
        else:
            return False
        self._build(self._size())
        self.tried = 0  # trials of the former network do not count
        return True

    def _lattice(self) -> float:
        """Return the step of the rewards seen; 0 if they have none."""
        if self.task.discount < 1.0 or not 0 < self.rewards.size <= MANY_REWARDS:
            return 0.0
        found = reward_step(self.rewards)
        return 0.0 if found is None else float(found[1])

    def _fit_grid(self) -> None:
        """Choose the ends and the step of the grid, and the width of the final cost."""
        self.lo, self.hi = self._ends()
        span, lattice = float((self.hi - self.lo).max()) or 1.0, self._lattice()
        if lattice * (self.network.M - 2) < span * (1.0 - SNAP) and self._size() > self.network.M:
            self.network.grow(self._size())
        self.step = span / (self.network.M - 2)
        if 0.0 < lattice < span * (1.0 + SNAP):
            self.step = lattice * max(1.0, math.ceil(self.step / lattice - SNAP))
        self.d = span if self.cvar else self.step / SHARP
        self.network.ratio = self.step / self.d if self.cvar else 0.0

    def _scaled(self, x: Any) -> Any:
        return standardise(x, self.centre, self.spread) if self.task.features else x

    def _batch(self) -> Batch:
        """Return a batch of transitions with what is known about the needs that they leave.

        It takes every k-th of the sorted transitions from a random one on: a stage, state and action has the share of its
        outcomes in the memory, which a random sample has on average only.
        """
        if self.seen > AGAIN * self.sorted:
            n, self.sorted = min(self.seen, self.h.size), self.seen
            keys = (self.r, self.a, self.h) if self.task.features else (self.x_next, self.r, self.a, self.x, self.h)
            self.order = np.lexsort(tuple(key[:n] for key in keys))
        places = (np.arange(self.batch * STEPS) + self.rng.random()) * (self.order.size / (self.batch * STEPS))
        i = self.order[places.astype(np.int64).reshape(-1, STEPS).T.ravel()]  # every step has a share of everything
        h, r, ended = self.h[i], self.r[i], self.ended[i]
        after = np.minimum(h + 1, self.task.H - 1)
        x_next = self.x_next[i]
        mask = self.mask[i] if self.available is None else self.available[after, x_next]
        ends = (part[after] / self.step for part in (self.lo, self.hi, self.least, self.most))
        return Batch(
            self._scaled(self.x[i]), h, self.a[i], r / self.scale, ended, self._scaled(x_next), after, mask,
            (self.lo[h] - r) / self.step, *ends,
        )  # fmt: skip

    stored = (
        "x", "x_next", "h", "a", "r", "ended", "mask", "first_x", "first_mask", "centre", "spread", "lo", "hi",
        "least", "most", "poorest", "richest", "excess", "reached", "curve", "aimed", "returns", "trials",
    )  # fmt: skip
    numbers = ("low", "high", "step", "d", "scale", "target", "value")

    def state(self) -> dict[str, Any]:
        """Return the network, the replay memory and the counters as plain arrays."""
        flat = super().state() | {name: getattr(self, name) for name in ("rewards", "order", *self.numbers)}
        counts = {name: getattr(self, name) for name in COUNTS}
        return flat | counts | {"M": self.network.M} | add_prefix("net_", self.network.state())

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        stream = self.rng.bit_generator.state
        self._build(whole(int(state["M"]), "M", 2))
        self.rng.bit_generator.state = stream  # building draws weights
        super().restore(state)
        self.rewards, self.order = np.array(state["rewards"], np.float64), np.array(state["order"], np.int64)
        for name in self.numbers:
            setattr(self, name, float(state[name]))
        for name in COUNTS:
            setattr(self, name, int(state[name]))
        self.network.restore(strip_prefix("net_", state))
        self.network.ratio = self.step / self.d if self.cvar else 0.0
        self._renew()


class Exploring(Policy):
    """Another policy with the targets of several episodes, and random actions at their rates, drawn from the learner's stream.

    A random action is repeated for a random number of stages, at most `longest`, where it is allowed.
    """

    kind = "exploring"

    def __init__(
        self, policy: Policy, targets: FloatArray, epsilon: FloatArray, rng: np.random.Generator,
        available: BoolArray | None, longest: int = 1,
    ) -> None:  # fmt: skip
        self.policy, self.targets, self.epsilon, self.rng, self.available = policy, targets, epsilon, rng, available
        self.H, self.S, self.longest = policy.H, policy.S, longest
        self.episodes = slice(0, 0)  # those that are being played
        self.action, self.repeat = np.zeros((2, targets.size), np.int64)  # a random action, and its further stages

    def start(self, u: float | None = None) -> float:
        """Return the first need of the next episode, which is its target."""
        self.episodes = slice(self.episodes.stop, self.episodes.stop + 1)
        return float(self.targets[self.episodes][0])

    def act(self, h: int, s: Any, memory: Any, mask: BoolArray | None = None) -> int:
        """Return a random allowed action, or that of the policy."""
        one = None if mask is None else mask[None]
        return int(self.act_many(h, np.asarray(s)[None], np.array([memory]), one)[0])

    def next(self, memory: Any, h: int, s: Any, action: int, reward: float, s_next: Any) -> Any:
        """Return the remaining need after the reward."""
        return self.policy.next(memory, h, s, action, reward, s_next)

    def start_many(self, u: FloatArray) -> Any:
        """Return the first needs of the next episodes."""
        self.episodes = slice(self.episodes.stop, self.episodes.stop + u.size)
        return self.targets[self.episodes].copy()

    def act_many(self, h: int, s: Any, memory: Any, mask: BoolArray | None = None) -> IntArray:
        """Return the actions of all episodes that are being played."""
        policy: Any = self.policy
        best = policy.act_many(h, s, memory) if mask is None else policy.act_many(h, s, memory, mask)
        if self.available is not None:
            mask = self.available[h, s]
        action, repeat = self.action[self.episodes], self.repeat[self.episodes]  # views
        begin = (self.rng.random(best.size) < self.epsilon[self.episodes]) & (repeat == 0)
        order = self.rng.random((best.size, policy.A if mask is None else mask.shape[1]))
        drawn = (order if mask is None else np.where(mask, order, -1.0)).argmax(axis=1)
        action[begin], repeat[begin] = drawn[begin], np.minimum(self.rng.zipf(REPEAT, begin.sum()), self.longest)
        going = repeat > 0
        repeat[going] -= 1
        if mask is not None:
            going &= mask[np.arange(best.size), action]
        return np.where(going, action, best)

    def next_many(self, memory: Any, h: int, s: Any, a: IntArray, reward: FloatArray, s_next: Any) -> Any:
        """Return the needs after one more stage."""
        return self.policy.next_many(memory, h, s, a, reward, s_next)
