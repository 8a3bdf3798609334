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
from bqrl.policies.envelope import WEIGHTS, features, rising, scores, values

DECAY, SQUARE_DECAY, TINY = 0.9, 0.999, 1e-8  # of Adam
ROWS = 4  # states and stages select rows of weights, which begin as if they had this many inputs
PARTS = ("weights", "averaged", "first", "second")


class Batch(NamedTuple):
    """Transitions to learn from; M needs each. `known` holds costs of needs that are settled and nan for the others."""

    x: Any  # (b,) states or (b, features)
    h: IntArray  # (b,)
    action: IntArray  # (b,)
    reward: FloatArray  # (b,) in units of the scale of the means
    ended: BoolArray  # (b,)
    x_next: Any
    h_next: IntArray  # (b,)
    mask: BoolArray  # (b, A) allowed actions after the transition
    position: FloatArray  # (b, M) column of the need that is left, in the grid of the next stage
    above: FloatArray  # (b, M) cost to add because the need that is left lies above the grid
    known: FloatArray  # (b, M)


class Network:
    """Shortfalls and means for every action and need; `averaged` is the slowly moving copy that targets and policies use."""

    def __init__(
        self, rng: np.random.Generator, S: int, features: int, H: int, A: int, M: int, *, width: int, weight: float,
        polyak: float, device: str,
    ) -> None:  # fmt: skip
        self.torch, self.A, self.M = import_torch(), A, M
        self.weight, self.polyak, self.device, self.steps = weight, polyak, check_device(self.torch, device), 0
        self.ratio = 0.0  # step of the grid divided by the width of the cost; 0 for the shortfall
        shapes = {
            "input": (features or S, width), "stage": (H, width), "hidden": (width, width), "hidden_bias": (width,),
            "needs": (A, width, M), "needs_bias": (A, M), "means": (A, width, M), "means_bias": (A, M),
        }  # fmt: skip
        fan = {"input": features or ROWS, "stage": ROWS}
        start = {}
        for name in WEIGHTS:
            bound = 1.0 / np.sqrt(fan.get(name, width))
            start[name] = rng.uniform(-bound, bound, shapes[name]).astype(np.float32)
        self._set({part: start if part in ("weights", "averaged") else _zeros(start) for part in PARTS})

    def _set(self, parts: dict[str, dict[str, Any]]) -> None:
        """Take over the arrays of the four parts as tensors."""
        for part in PARTS:
            tensors = {name: self._tensor(np.array(parts[part][name])) for name in WEIGHTS}
            setattr(self, part, tensors)
        for tensor in self.weights.values():
            tensor.requires_grad_(True)

    def grow(self, M: int) -> None:
        """Add needs above the largest; at first each costs as much more as the last one."""
        more = [(0, 0), (0, 0), (0, M - self.M)]
        self.M = M

        def wider(name: str, array: Any) -> Any:
            return np.pad(array, more[-array.ndim :], "edge") if name.startswith(("needs", "means")) else array

        self._set({part: {name: wider(name, array) for name, array in self.arrays(part).items()} for part in PARTS})

    weights: dict[str, Any]
    averaged: dict[str, Any]
    first: dict[str, Any]
    second: dict[str, Any]

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
        return cost.transpose(0, 1), means.transpose(0, 1)

    def _best(self, cost: Any, means: Any, mask: Any) -> Any:
        """Return the best allowed action for every need."""
        found = scores(self.torch, cost, means, mask[:, :, None], self.weight, self.ratio)
        return found.min(1).indices  # several times faster than argmin

    def update(self, batch: Batch, rate: float) -> None:
        """Take one step of Adam: the cost of each need moves towards that of the need that is left after the reward."""
        with self._one_thread():
            self._update(batch, rate)

    def _update(self, batch: Batch, rate: float) -> None:
        torch = self.torch
        order = np.argsort(batch.action, kind="stable")  # one matrix product per action, on its rows only
        rows = np.bincount(batch.action, minlength=self.A).tolist()
        b: Any = Batch(*(self._tensor(np.asarray(part)[order]) for part in batch))
        with torch.no_grad():
            x_next, h_next, mask, which = self._distinct(batch, order)
            chosen = self._best(*self._values(self.weights, x_next, h_next), mask)[:, None]
            after, means = (part.gather(1, chosen)[:, 0][which] for part in self._values(self.averaged, x_next, h_next))
            position = b.position.float()
            cost = (interpolate(after, position) + b.above.float()).clip(max=1.0)
            cost = torch.where(b.known.isnan(), cost, b.known.float())
            mean = interpolate(means, position).masked_fill(b.ended[:, None], 0.0) + b.reward.float()[:, None]
            if self.ratio > 0.0:  # the logits are those of slopes
                cost = (cost.diff(dim=1) / self.ratio).clip(0.0, 1.0)
        w = self.weights
        z = features(w, b.x, b.h).split(rows)
        raw, means = (
            torch.cat(
                [
                    torch.addmm(bias, part, matrix)
                    for part, matrix, bias in zip(z, w[name].unbind(), w[f"{name}_bias"].unbind(), strict=True)
                ]
            )
            for name in ("needs", "means")
        )
        logits = rising(torch, raw, self.ratio)[:, int(self.ratio > 0.0) :]
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, cost)
        loss = loss + torch.nn.functional.mse_loss(means, mean)
        self._adam(torch.autograd.grad(loss, [w[name] for name in WEIGHTS]), rate)

    def _distinct(self, batch: Batch, order: IntArray) -> tuple[Any, Any, Any, Any]:
        """Return what follows the transitions, and the row of each transition in it; equal states are evaluated once."""
        x, h, mask = (np.asarray(part)[order] for part in (batch.x_next, batch.h_next, batch.mask))
        first, which = np.arange(len(x)), np.arange(len(x))
        if x.ndim == 1:
            _, first, which = np.unique(x * len(self.weights["stage"]) + h, return_index=True, return_inverse=True)
        return *(self._tensor(part[first]) for part in (x, h, mask)), self._tensor(which)

    def _adam(self, gradients: Any, rate: float) -> None:
        self.steps += 1
        rate = rate * np.sqrt(1.0 - SQUARE_DECAY**self.steps) / (1.0 - DECAY**self.steps)
        with self.torch.no_grad():
            for name, gradient in zip(WEIGHTS, gradients, strict=True):
                self.first[name].lerp_(gradient, 1.0 - DECAY)
                self.second[name].mul_(SQUARE_DECAY).addcmul_(gradient, gradient, value=1.0 - SQUARE_DECAY)
                self.weights[name].addcdiv_(self.first[name], self.second[name].sqrt() + TINY, value=-rate)
                self.averaged[name].lerp_(self.weights[name], self.polyak)

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
        self._set({part: {name: stored_array(parts[part], name, now[name]) for name in WEIGHTS} for part in PARTS})
        self.steps = int(state["steps"])


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


def _zeros(arrays: dict[str, Any]) -> dict[str, Any]:
    return {name: np.zeros_like(array) for name, array in arrays.items()}
