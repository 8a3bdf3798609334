"""The network of the learner "envelope" and its training in PyTorch, which is imported when a network is made.

All randomness comes from the learner's stream. On the CPU every call runs on one thread, so that the same seed gives the same
bits whatever the number of threads.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import bad_value
from bqrl.learners.protocol import add_prefix, stored_array, strip_prefix
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.grid import SNAP
from bqrl.policies.envelope import LEAST, RISE, WEIGHTS, features, group_size, scores, values, weight_shapes

ROWS = 4  # states and stages select rows of weights, which begin as if they had this many inputs
MEANS = 32  # fewest columns of the means, if there are as many needs; a column serves a group of needs
SHARP = 1e6  # slope of the cost of a quantile at the end, per step of the grid
PARTS = ("weights", "averaged", "exp_avg", "exp_avg_sq")  # the last two belong to Adam


class Batch(NamedTuple):
    """Transitions to learn from."""

    x: Any  # (b,) states or (b, features)
    h: IntArray  # (b,)
    action: IntArray  # (b,)
    reward: FloatArray  # (b,) in units of the scale of the means
    ended: BoolArray  # (b,)
    x_next: Any
    h_next: IntArray  # (b,)
    mask: BoolArray  # (b, A) allowed actions after the transition
    left: FloatArray  # (b,) what the smallest need leaves, in steps of the grid; so are the next four
    low: FloatArray  # (b,) ends of the grid of the next stage
    high: FloatArray
    least: FloatArray  # (b,) least and most return that was seen from the next stage on
    most: FloatArray


class Network:
    """Shortfalls and means for every action and need; `averaged` is the slowly moving copy that targets and policies use."""

    def __init__(
        self, rng: np.random.Generator, S: int, features: int, H: int, A: int, M: int, *, width: int, weight: float,
        polyak: float, device: str,
    ) -> None:  # fmt: skip
        self.torch, self.A, self.M = import_torch(), A, M
        self.weight, self.polyak, self.device, self.steps = weight, polyak, check_device(self.torch, device), 0
        self.ratio = 0.0  # step of the grid divided by the width of the cost; 0 for the shortfall
        shapes = weight_shapes(features or S, H if features else H * S, A, M, -(-M // max(1, M // MEANS)), width)
        fan = {"input": features or ROWS, "stage": ROWS}
        start = {}
        for name in WEIGHTS:
            bound = 1.0 / np.sqrt(fan.get(name, width))
            start[name] = rng.uniform(-bound, bound, shapes[name]).astype(np.float32)
        zeros = {name: np.zeros_like(array) for name, array in start.items()}
        self._set({"weights": start, "averaged": start, "exp_avg": zeros, "exp_avg_sq": zeros})

    def _set(self, parts: dict[str, dict[str, Any]]) -> None:
        """Take over the arrays of the four parts as tensors."""
        for part in PARTS:
            setattr(self, part, {name: self._tensor(np.array(parts[part][name])) for name in WEIGHTS})
        self.adam = self.torch.optim.Adam([self.weights[name].requires_grad_(True) for name in WEIGHTS], fused=True)
        for name, tensor in self.weights.items():
            self.adam.state[tensor] = {part: getattr(self, part)[name] for part in PARTS[2:]}
            self.adam.state[tensor]["step"] = self.torch.tensor(float(self.steps), device=self.device)

    def grow(self, M: int) -> None:
        """Add needs above the largest; the costs of the others stay as they are.

        The mass above the largest need is shared equally by the new needs and what lies above them. With slopes, each new need
        costs as much more as the last one.
        """
        sizes = {"needs": M, "means": -(-M // group_size(self.M, self.weights["means_bias"]))}
        shared = np.float32(np.log1p(M - self.M))
        self.M = M

        def wider(part: str, name: str, array: Any) -> Any:
            more = sizes.get(name.removesuffix("_bias"), array.shape[-1]) - array.shape[-1]
            widths = [(0, 0)] * (array.ndim - 1) + [(0, more)]
            if self.ratio > 0.0 or part not in PARTS[:2] or not name.startswith("needs"):
                return np.pad(array, widths, "edge")
            return np.pad(array + shared if name == "needs_bias" else array, widths)

        self._set(
            {part: {name: wider(part, name, array) for name, array in self.arrays(part).items()} for part in PARTS}
        )

    weights: dict[str, Any]
    averaged: dict[str, Any]
    exp_avg: dict[str, Any]
    exp_avg_sq: dict[str, Any]

    def _tensor(self, array: Any) -> Any:
        return self.torch.as_tensor(array, device=self.device)

    @contextmanager
    def _one_thread(self) -> Iterator[None]:
        """Run PyTorch on one thread."""
        threads = self.torch.get_num_threads()
        self.torch.set_num_threads(1)
        try:
            yield
        finally:
            self.torch.set_num_threads(threads)

    def greedy(self, x: Any, h: IntArray, mask: BoolArray) -> tuple[IntArray, FloatArray]:
        """Return the best action and its cost for every need, both (rows, M), from the averaged weights."""
        with self._one_thread(), self.torch.no_grad():
            cost, means = self._values(self.averaged, self._tensor(x), self._tensor(h))
            best = self._best(cost, means, self._tensor(mask))
            cost = cost.gather(1, best[:, None])[:, 0]
        return best.cpu().numpy(), cost.cpu().numpy().astype(np.float64)

    def _values(self, weights: dict[str, Any], x: Any, h: Any) -> tuple[Any, Any]:
        """Return costs and means, both (rows, A, M)."""
        cost, means = values(self.torch, weights, x, h, self.ratio)
        group = group_size(self.M, weights["means_bias"])
        means = means.repeat_interleave(group, 2)[..., : self.M] if group > 1 else means
        return cost.transpose(0, 1), means.transpose(0, 1)

    def _best(self, cost: Any, means: Any, mask: Any) -> Any:
        """Return the best allowed action for every need."""
        found = scores(self.torch, cost, means, mask[:, :, None], self.weight, self.ratio)
        return found.min(1).indices  # several times faster than argmin

    def update(self, batch: Batch, rate: float, steps: int = 1) -> None:
        """Take steps of Adam, each with one part of the batch: the cost of a need moves towards that of the need that is left."""
        parts = np.array_split(np.arange(batch.action.size), steps)
        order = np.concatenate([part[np.argsort(batch.action[part], kind="stable")] for part in parts])
        sorted_batch = Batch(*(np.asarray(part)[order] for part in batch))
        with self._one_thread():
            cost, mean = self._targets(sorted_batch)
            for part in parts:
                i = slice(part[0], part[-1] + 1)
                x, h = self._tensor(sorted_batch.x[i]), self._tensor(sorted_batch.h[i])
                rows = np.bincount(sorted_batch.action[i], minlength=self.A).tolist()
                self._step(x, h, rows, cost[i], mean[i], rate)

    def _targets(self, batch: Batch) -> tuple[Any, Any]:
        """Return the masses, or the first cost and the slopes of the others, and the means that the outputs move towards."""
        torch = self.torch
        with torch.no_grad():
            first, which = self._distinct(batch)
            x_next, h_next, mask = (self._tensor(part[first]) for part in (batch.x_next, batch.h_next, batch.mask))
            chosen = self._best(*self._values(self.weights, x_next, h_next), mask)[:, None]
            after, means = (part.gather(1, chosen)[:, 0][which] for part in self._values(self.averaged, x_next, h_next))
            position, above, known = self.backup(batch)
            cost = interpolate(after, position) + above
            cost = torch.where(known.isnan(), cost, known)
            group = group_size(self.M, self.weights["means_bias"])
            mean = interpolate(means, position[:, ::group]).masked_fill(self._tensor(batch.ended)[:, None], 0.0)
            mean = mean + self._tensor(batch.reward).float()[:, None]
            if self.ratio > 0.0:
                return torch.cat([cost[:, :1], (cost.diff(dim=1) / self.ratio).clip(0.0, 1.0)], 1), mean
            ends = torch.zeros_like(cost[:, :1])
            return torch.cat([ends, cost.clip(max=1.0).cummax(1).values, ends + 1.0], 1).diff(dim=1), mean

    def backup(self, batch: Batch) -> tuple[Any, Any, Any]:
        """Return, for every need, its column at the next stage, the cost of what lies above the grid, and its cost if settled.

        All are (rows, M); the last is nan where the network has to tell.
        """
        torch, steep = self.torch, self.ratio or SHARP
        start, low, high, least, most = (self._tensor(part)[:, None] for part in batch[-5:])
        left = start + torch.arange(self.M, device=self.device)
        at_end = (steep * (left - SNAP)).clip(0.0, None if self.ratio > 0.0 else 1.0)
        known = torch.where(left <= least + SNAP, 0.0, torch.nan)
        known = torch.where(self._tensor(batch.ended)[:, None], at_end, known)
        position = (left.minimum(high) - low).clip(0.0)
        return position.float(), (steep * (left - most - SNAP)).clip(0.0).float(), known.float()

    def _step(self, x: Any, h: Any, rows: list[int], cost: Any, mean: Any, rate: float) -> None:
        """Take one step of Adam; `rows` counts the transitions of each action, which follow each other."""
        torch, w = self.torch, self.weights
        z = features(w, x, h).split(rows)  # one matrix product per action, on its rows only
        raw, means = (
            torch.cat([torch.addmm(*one) for one in zip(w[f"{name}_bias"].unbind(), z, w[name].unbind(), strict=True)])
            for name in ("needs", "means")
        )
        loss = torch.nn.functional.mse_loss(means, mean)
        if self.ratio > 0.0:
            first = torch.nn.functional.softplus(raw[:, 0] + LEAST)
            loss = loss + torch.nn.functional.mse_loss(first, cost[:, 0])
            loss = loss + torch.nn.functional.binary_cross_entropy_with_logits(raw[:, 1:] + RISE, cost[:, 1:])
        else:
            loss = loss + torch.nn.functional.cross_entropy(torch.nn.functional.pad(raw, (0, 1)), cost)
        self.adam.zero_grad()
        loss.backward()
        self.adam.param_groups[0]["lr"] = rate
        self.adam.step()
        self.steps += 1
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.values()), list(w.values()), self.polyak)

    def _distinct(self, batch: Batch) -> tuple[IntArray, IntArray]:
        """Return rows with distinct next states, and the place of each row's next state among them."""
        if batch.x_next.ndim == 2:
            return np.arange(len(batch.x_next)), np.arange(len(batch.x_next))
        key = batch.x_next * len(self.weights["stage"]) + batch.h_next
        return np.unique(key, return_index=True, return_inverse=True)[1:]

    def arrays(self, part: str) -> dict[str, Any]:
        """Return the arrays of one part, such as the averaged weights."""
        return {name: tensor.detach().cpu().numpy() for name, tensor in getattr(self, part).items()}

    def state(self) -> dict[str, Any]:
        """Return everything as plain arrays."""
        flat: dict[str, Any] = {"steps": self.steps}
        for part in PARTS:
            flat |= add_prefix(f"{part}_", {name: array.copy() for name, array in self.arrays(part).items()})
        return flat

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        parts = {part: strip_prefix(f"{part}_", state) for part in PARTS}
        now = self.arrays("weights")
        self.steps = int(state["steps"])
        self._set({part: {name: stored_array(parts[part], name, now[name]) for name in WEIGHTS} for part in PARTS})


def interpolate(values: Any, position: Any) -> Any:
    """Return the values at real columns, linear between neighbours; both (rows, M)."""
    low = position.floor().clip(0, values.shape[1] - 1)
    share = position - low
    low = low.long()
    high = (low + 1).clip(max=values.shape[1] - 1)
    return values.gather(1, low) * (1.0 - share) + values.gather(1, high) * share


def import_torch() -> Any:
    """Return PyTorch, or raise ImportError with the remedy."""
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise ImportError("the learner 'envelope' needs PyTorch; install it with: pip install \"bqrl[deep]\"") from None


def check_device(torch: Any, device: Any) -> str:
    """Return the name of a device on which a tensor can be made; ArgumentError otherwise."""
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, TypeError, ValueError) as fault:
        reason = (str(fault).strip().splitlines() or ["no reason given"])[0]
        rule = "be a device of PyTorch on this machine"
        raise bad_value("device", device, rule, f"{device!r} ({reason})", remedy="use device='cpu'") from None
    return str(device)
