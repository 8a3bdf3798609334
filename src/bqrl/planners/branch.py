"""The best deterministic policy for a buffered quantile, by branching over histories.

A node of the search fixes the actions after some histories. After all other (open) histories, each width d may use its own
policy, with cost J_d (see buffered.py). No policy that agrees with the fixed actions therefore exceeds

    max_z min_d { beta z + (tau - beta) d - sum over open histories of probability * J_d(h, s, z - collected) } / beta.

The search branches on the open history where using one policy for all decisive widths loses the most, with one child per
action. Nodes with the same bounds and the same open histories are merged. Each node is completed to a policy, which is
evaluated exactly. The search ends when no remaining node can exceed the best value found, or after a given number of nodes.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from bqrl.laws.rows import buffered_rows
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.policies.labels import LabelPolicy, label_graph
from bqrl.policies.protocol import Policy

MAX_NODES = 20_000
MAX_MOVES = 2_000_000  # transitions between (state, sum) pairs
MAX_CELLS = 20_000_000  # pairs times widths times targets
SAME_VALUE = 1e-10  # nodes whose bounds differ by less than this, relative to the largest width, may be equal
MAX_WIDTHS = 100  # if the lattice has more widths, only those near the decisive width are bounded
History = tuple[int, ...]  # first state, sum, second state, sum, ...


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Layers:
    """The reachable pairs (state, sum collected) of each stage 0..H, and the transition probabilities between them."""

    columns: Lattice
    state: list[IntArray]
    steps: list[IntArray]  # collected so far, in steps of the lattice
    moves: list[csr_array]  # per stage (pairs * A, pairs of the next stage)
    available: list[BoolArray]  # per stage (pairs, A)

    @property
    def lowest(self) -> float:
        """The return of zero steps."""
        return float(self.columns.offset[0] - self.columns.offset[-1])

    def units(self, h: int, reward: float) -> int:
        """Return a reward of stage `h` in steps."""
        offset = self.columns.offset
        worth = self.columns.discount**h * reward - (offset[h] - offset[h + 1])
        return int(np.rint(worth / self.columns.step))


def layers(mdp: MDP, columns: Lattice) -> Layers | None:
    """Return all pairs and the transitions between them; None if there are too many."""
    state, steps = [np.flatnonzero(mdp.mu)], [np.zeros(np.count_nonzero(mdp.mu), np.int64)]
    moves, available, size = [], [], 0
    for h in range(mdp.H):
        stage, units = mdp.stage(h), columns.stage_units(mdp, h)
        q = (state[h][:, None] * mdp.A + np.arange(mdp.A)).ravel()
        size += int((stage.row_start[q + 1] - stage.row_start[q]).sum())
        if size > MAX_MOVES:
            return None
        row, i = stage.outcomes_of(q)
        after = np.column_stack([stage.successor[i], np.repeat(steps[h], mdp.A)[row] + units[i]])
        pairs, child = np.unique(after, axis=0, return_inverse=True)
        moves.append(csr_array((stage.probability[i], (row, child.ravel())), shape=(q.size, len(pairs))))
        available.append(stage.available[state[h]])
        state.append(pairs[:, 0].astype(np.int64))
        steps.append(pairs[:, 1].astype(np.int64))
    return Layers(columns=columns, state=state, steps=steps, moves=moves, available=available)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Completion:
    """One policy for a target and its decisive widths, and its loss against the best policy of each width."""

    loss: list[FloatArray]  # per stage (pairs,)
    action: list[IntArray]  # per stage (pairs,)
    onward: list[csr_array]  # per stage (pairs of the next stage, pairs): transition probabilities under these actions


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    """A node of the search: the fixed actions and the open histories."""

    cost: FloatArray  # (widths * targets,) cost of the fixed part plus the smallest cost of the open part
    settled: Any  # the fixed actions, as a linked list of (rest of the list, history, action)
    ended: FloatArray  # (last pairs,) probability of the histories whose actions are all fixed
    histories: list[History]
    chance: FloatArray  # probability of each open history
    stage: IntArray  # its stage
    pair: IntArray  # its pair (state, sum)

    def digest(self, unit: float, all_widths: bool) -> bytes:
        """Return a key that is equal for equivalent nodes; costs are compared after rounding to multiples of `unit`.

        With all widths of the lattice, the costs determine the ended histories; otherwise the key includes these.
        """
        order = np.lexsort((self.chance, self.pair, self.stage))
        rest = [np.round(self.cost / unit), self.stage[order], self.pair[order], np.round(self.chance[order], 12)]
        if not all_widths:
            rest.append(np.round(self.ended, 12))
        return blake2b(b"".join(part.tobytes() for part in rest), digest_size=16).digest()


@dataclass(slots=True, eq=False, kw_only=True)
class BranchSearch:
    """A best-first search; `value` and `best` describe the best policy found so far."""

    mdp: MDP
    layers: Layers
    tau: float
    beta: float
    targets: FloatArray
    widths: FloatArray  # in units of the rewards
    value: float
    all_widths: bool  # whether these are all widths of the lattice
    best: tuple[Node, Completion] | None = None  # None: the policy from which the search started
    nodes: int = 0
    least: list[FloatArray] = field(init=False)  # J per stage (pairs, widths * targets)
    completions: dict[tuple[int, int], Completion] = field(default_factory=dict)
    returns: FloatArray = field(init=False)  # in increasing order
    place: IntArray = field(init=False)  # index of each last pair in `returns`

    def __post_init__(self) -> None:
        """Compute the bounds of all pairs, backwards from the last stage."""
        steps, self.place = np.unique(self.layers.steps[-1], return_inverse=True)
        self.returns = self.layers.lowest + self.layers.columns.step * steps.astype(np.float64)
        short = np.clip(self.targets - self.returns[self.place][:, None, None], 0.0, self.widths[None, :, None])
        self.least = [short.reshape(len(short), -1)]
        for h in range(self.mdp.H - 1, -1, -1):
            self.least.insert(0, self._after(h, self.least[0]).min(axis=1))

    def _after(self, h: int, values: FloatArray) -> FloatArray:
        """Return the expected values after each action (pairs, A, ...); infinite if the action is not available."""
        expected = (self.layers.moves[h] @ values).reshape(-1, self.mdp.A, values.shape[1])
        expected[~self.layers.available[h]] = np.inf
        return np.asarray(expected)

    def bound(self, cost: FloatArray) -> tuple[float, int, int]:
        """Return the bound of a node with this cost, and the indices of its target and its width."""
        shape = (self.widths.size, self.targets.size)
        line = self.beta * self.targets + (self.tau - self.beta) * self.widths[:, None] - cost.reshape(shape)
        ceiling = np.minimum(line.min(axis=0) / self.beta, self.targets)
        z = int(ceiling.argmax())
        return float(ceiling[z]), z, int(line[:, z].argmin())

    def run(self, gap: float, max_nodes: int) -> float:
        """Search until no policy can exceed `value` by more than `gap`, or for `max_nodes` nodes; return the remaining bound."""
        first = np.flatnonzero(self.mdp.mu)
        chances = self.mdp.mu[first]
        root = Node(
            cost=chances @ self.least[0], settled=None, ended=np.zeros(self.layers.state[-1].size),
            histories=[(s,) for s in first.tolist()], chance=chances, stage=np.zeros(first.size, np.int64),
            pair=np.arange(first.size),
        )  # fmt: skip
        number, seen = count(), set()
        queue = [(-self.bound(root.cost)[0], next(number), root)]
        while queue:
            if -queue[0][0] <= self.value + gap or self.nodes >= max_nodes:
                return max(-queue[0][0], self.value)
            node = heapq.heappop(queue)[2]
            self.nodes += 1
            _, z, d = self.bound(node.cost)
            completion = self.completion(z, d)
            self._complete(node, completion)
            if not node.histories:
                continue
            for child in self._children(node, self._history_to_branch_on(node, completion)):
                ceiling = self.bound(child.cost)[0]
                if ceiling <= self.value + gap:
                    continue
                key = child.digest(SAME_VALUE * self.beta * float(self.widths[-1]), self.all_widths)
                if key not in seen:
                    seen.add(key)
                    heapq.heappush(queue, (-ceiling, next(number), child))
        return self.value

    def completion(self, z: int, d: int) -> Completion:
        """Return the policy with the smallest loss at width `d` and its neighbours, for target `z`."""
        if (z, d) in self.completions:
            return self.completions[z, d]
        near = [k for k in (d - 1, d, d + 1) if 0 <= k < self.widths.size]
        cells = [k * self.targets.size + z for k in near]
        loss = [np.zeros(self.layers.state[-1].size)]
        action: list[IntArray] = []
        onward: list[csr_array] = []
        for h in range(self.mdp.H - 1, -1, -1):
            lost = (self._after(h, self.least[h + 1][:, cells]) - self.least[h][:, None, cells]).max(axis=2)
            lost += self._after(h, loss[0][:, None])[:, :, 0]
            chosen = lost.argmin(axis=1)
            rows = np.arange(chosen.size)
            loss.insert(0, lost[rows, chosen])
            action.insert(0, chosen)
            onward.insert(0, self.layers.moves[h][rows * self.mdp.A + chosen].T.tocsr())
        self.completions[z, d] = Completion(loss=loss, action=action, onward=onward)
        return self.completions[z, d]

    def _complete(self, node: Node, completion: Completion) -> None:
        """Evaluate the completed policy of a node, and keep it if it is the best so far."""
        mass = [np.zeros(state.size) for state in self.layers.state]
        for h in np.unique(node.stage).tolist():
            here = node.stage == h
            np.add.at(mass[h], node.pair[here], node.chance[here])
        for h, onward in enumerate(completion.onward):
            mass[h + 1] += onward @ mass[h]
        mass[-1] += node.ended
        pmf = np.bincount(self.place, mass[-1], self.returns.size)
        value = float(buffered_rows(self.returns, pmf[None], self.tau, self.beta)[0])
        if value > self.value:
            self.value, self.best = value, (node, completion)

    def _history_to_branch_on(self, node: Node, completion: Completion) -> int:
        """Return the index of the open history with the largest loss, or of the most likely one if no history has a loss."""
        losses = np.empty(node.chance.size)
        for h in np.unique(node.stage).tolist():
            here = node.stage == h
            losses[here] = node.chance[here] * completion.loss[h][node.pair[here]]
        return int(losses.argmax() if losses.max() > 1e-15 * self.widths[-1] else node.chance.argmax())

    def _children(self, node: Node, k: int) -> list[Node]:
        """Return the nodes that also fix the action after open history `k`, one node per action."""
        chance, h, pair, history = float(node.chance[k]), int(node.stage[k]), int(node.pair[k]), node.histories[k]
        moves, found = self.layers.moves[h], []
        rest = np.delete(np.arange(node.chance.size), k)
        others = node.histories[:k] + node.histories[k + 1 :]
        for a in np.flatnonzero(self.layers.available[h][pair]).tolist():
            row = slice(*moves.indptr[pair * self.mdp.A + a :][:2])
            after, p = moves.indices[row].astype(np.int64), moves.data[row]
            cost = node.cost + chance * (p @ self.least[h + 1][after] - self.least[h][pair])
            settled, ended, opened = (node.settled, history, a), node.ended, after
            if h + 1 == self.mdp.H:
                ended, opened = ended.copy(), after[:0]
                ended[after] += chance * p
            sums, states = self.layers.steps[h + 1][opened].tolist(), self.layers.state[h + 1][opened].tolist()
            histories = others + [(*history, u, t) for u, t in zip(sums, states, strict=True)]
            child = Node(
                cost=cost, settled=settled, ended=ended, histories=histories,
                chance=np.r_[node.chance[rest], chance * p[: opened.size]],
                stage=np.r_[node.stage[rest], np.full(opened.size, h + 1)], pair=np.r_[node.pair[rest], opened],
            )  # fmt: skip
            found.append(child)
        return found

    def policy(self) -> LabelPolicy:
        """Return the best policy found, as a label graph."""
        assert self.best is not None
        node, completion = self.best
        settled, link = {}, node.settled
        while link is not None:
            link, history, action = link
            settled[history] = action
        stages = zip(self.layers.state, self.layers.steps, completion.action, strict=False)
        action = [dict(zip(zip(s.tolist(), u.tolist(), strict=True), a.tolist(), strict=True)) for s, u, a in stages]
        return label_graph(Settled(layers=self.layers, settled=settled, action=action), self.mdp)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Settled(Policy):
    """A policy that plays the fixed actions, and the actions of a completion after all other histories.

    Its memory is (history, sum); the history is None once the policy has left the fixed part.
    """

    layers: Layers
    settled: dict[History, int]
    action: list[dict[tuple[int, int], int]]  # per stage, by state and sum

    def start(self, u: float | None = None) -> tuple[History | None, int]:
        """Return the empty history and the sum 0."""
        return (), 0

    def act(self, h: int, s: int, memory: tuple[History | None, int]) -> int:
        """Return the fixed action if there is one, else the action of the completion."""
        history, steps = memory
        if history is not None and (*history, s) in self.settled:
            return self.settled[*history, s]
        return self.action[h][s, steps]

    def next(
        self, memory: tuple[History | None, int], h: int, s: int, action: int, reward: float, s_next: int
    ) -> tuple[History | None, int]:
        """Return the history and the sum after an outcome."""
        history, steps = memory
        steps += self.layers.units(h, reward)
        if history is None or (*history, s) not in self.settled:
            return None, steps
        return (*history, s, steps), steps


def begin(
    mdp: MDP, columns: Lattice, tau: float, beta: float, targets: FloatArray, swept: list[float], width: float,
    value: float,
) -> BranchSearch | None:  # fmt: skip
    """Return the search, starting from a policy of value `value`; None if the problem is too large.

    `targets` are the targets whose bound exceeds the value, `width` is the decisive width (in steps), and `swept` are
    further widths to bound. If the lattice has few widths, all are bounded; otherwise those near the decisive width.
    """
    graph = layers(mdp, columns)
    if graph is None:
        return None
    size, known = int(columns.size[0]), {d for d in swept if d > 0.0}
    whole = {float(d) for d in range(1, size)}
    near = whole if size <= MAX_WIDTHS else {d for d in whole if abs(d - width) <= 10.0}
    pairs = sum(state.size for state in graph.state) * targets.size
    widths = near | known if pairs * len(near | known) <= MAX_CELLS else known
    if pairs * len(widths) > MAX_CELLS:
        return None
    scaled = np.array(sorted(widths)) * columns.step
    return BranchSearch(
        mdp=mdp, layers=graph, tau=tau, beta=beta, targets=targets, widths=scaled, value=value, all_widths=whole <= widths
    )  # fmt: skip
