"""Policies of a network that scores every action for every need at once; acting needs NumPy only.

The network maps an observation and a stage to A x M costs J(h, x, a, n) on a grid of M needs n, and to A x M means m of the
return still to come. The cost is the shortfall W, the probability of ending short of the need, or E max(n - G, 0) / d.

    z       = relu(relu(input(x) + stage(h)) @ hidden),    m = z @ means
    W       = sigmoid(cumulative sum of softplus(z @ needs))            rises with the need
    J       = ratio * cumulative sum of sigmoid(z @ needs)              ratio = step / d: slopes lie in [0, 1], and J(lowest) = 0
    action  = argmin over a of the cost minus weight * m

Once a target is safe or lost, all actions have the same cost, and the mean decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bqrl.errors import PolicyError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray, floats_of, number_of, read_only, require, whole_numbers_of
from bqrl.mdp.grid import Lattice, grid_from_arrays
from bqrl.policies.protocol import Policy

WEIGHTS = ("input", "stage", "hidden", "hidden_bias", "needs", "needs_bias", "means", "means_bias")
FIRST, RISE = -2.0, -2.0  # offsets of the logits: at first the smallest need is almost safe, and costs rise slowly
FAR = 10.0  # observations count as at most this many standard deviations from their mean
Weights = Mapping[str, Any]


def heads(xp: Any, weights: Weights, x: Any, h: Any, A: int, ratio: float) -> tuple[Any, Any]:
    """Return logits, of the shortfalls if `ratio` is 0 and else of the slopes of the cost, and means: both (rows, A, M).

    `xp` is the module of the arrays, NumPy or PyTorch, so that training and acting share one formula. `x` holds indices of
    states, or rows of features; `h` one stage per row.
    """
    seen = weights["input"][x] if x.ndim == 1 else x @ weights["input"]
    z = ((seen + weights["stage"][h]).clip(0.0) @ weights["hidden"] + weights["hidden_bias"]).clip(0.0)
    logits = (z @ weights["needs"] + weights["needs_bias"]).reshape(len(x), A, -1) + RISE
    if ratio == 0.0:
        rise = xp.logaddexp(logits[..., 1:], xp.zeros_like(logits[..., 1:]))  # softplus
        logits = xp.concatenate([logits[..., :1] + FIRST, rise], -1).cumsum(-1)
    return logits, (z @ weights["means"] + weights["means_bias"]).reshape(len(x), A, -1)


def costs(xp: Any, logits: Any, ratio: float) -> Any:
    """Return the costs of the needs."""
    share = 1.0 / (1.0 + xp.exp(-logits.clip(-60.0, 60.0)))
    if ratio == 0.0:
        return share
    rise = xp.concatenate([xp.zeros_like(share[..., :1]), share[..., 1:]], -1)
    return (ratio * rise.cumsum(-1)).clip(0.0, 1.0)


def need_grid(lowest: FloatArray, step: float, M: int, discount: float = 1.0) -> Lattice:
    """Return the grid of M needs per stage, in steps above the lowest need of each of the H stages."""
    H = len(lowest)
    return Lattice(
        H=H, size=np.r_[np.full(H, M), 1], units=np.zeros((1, 0), np.int64), discount=discount, width=float(step),
        lowest=np.zeros(H + 1, np.int64), offset=read_only(np.r_[lowest, 0.0]),
    )  # fmt: skip


class EnvelopePolicy(Policy):
    """Action by stage, observation and the amount still needed, chosen by a network; made by the learner "envelope".

    The memory is the remaining need, as for `TargetPolicy`: the target minus the rewards so far. States are observations, rows
    of numbers; `act` takes the mask of allowed actions as an additional argument.

    Attributes
    ----------
    target : float
        The return that the policy tries to reach; the first memory.
    grid : Lattice
        The needs of the network at each stage.
    weights : dict of str to ndarray
        The network.
    centre, spread : ndarray of shape (features,)
        Observations are shifted and scaled by these.
    weight : float
        Weight of the mean in the choice of actions.
    ratio : float
        Step of the grid divided by the width of the cost; 0 for the shortfall.

    Examples
    --------
    >>> shapes = {"input": (2, 8), "stage": (3, 8), "hidden": (8, 8), "needs": (8, 10), "means": (8, 10)}
    >>> weights = {name: np.zeros(shape) for name, shape in shapes.items()}
    >>> weights |= {"hidden_bias": np.zeros(8), "needs_bias": np.r_[np.ones(5), np.zeros(5)], "means_bias": np.zeros(10)}
    >>> policy = EnvelopePolicy(weights, need_grid(np.zeros(3), 1.0, 5), 4.0, 0.02, np.zeros(2), np.ones(2))
    >>> need = policy.start()
    >>> policy.act(0, [-1.0, 0.5], need), policy.next(need, 0, None, 1, 2.5, None)
    (1, 1.5)
    """

    kind = "envelope"

    def __init__(
        self, weights: Weights, grid: Lattice, target: float, weight: float, centre: FloatArray, spread: FloatArray,
        ratio: float = 0.0,
    ) -> None:  # fmt: skip
        self.weights = {name: read_only(np.asarray(weights[name], np.float32)) for name in WEIGHTS}
        self.grid, self.target, self.weight, self.ratio = grid, float(target), float(weight), float(ratio)
        self.centre, self.spread = read_only(centre), read_only(spread)
        self.H, self.M = len(self.weights["stage"]), int(grid.size[0])
        self.A = self.weights["needs_bias"].size // self.M

    def start(self, u: float | None = None) -> float:
        """Return the first need, which is the target."""
        return self.target

    def act(self, h: int, s: Any, memory: Any, mask: BoolArray | None = None) -> int:
        """Return the action for an observation and the remaining need."""
        seen = np.asarray(s, np.float64).reshape(1, -1)
        if seen.shape[1] != self.centre.size or not 0 <= h < self.H:
            got = f"{seen.shape[1]} numbers at stage {h}"
            rule = f"an observation of {self.centre.size} numbers at a stage from 0 to {self.H - 1}"
            raise PolicyError(f"expected {rule}, got {got}", stage=h)
        return int(self.act_many(h, seen, np.array([memory]), None if mask is None else mask[None])[0])

    def next(self, memory: Any, h: int, s: Any, action: int, reward: float, s_next: Any) -> float:
        """Return the remaining need after the reward."""
        return float(memory - reward)

    def start_many(self, u: FloatArray) -> Any:
        """Return the first needs of many episodes."""
        return np.full(u.shape, self.target)

    def act_many(self, h: int, s: Any, memory: Any, mask: BoolArray | None = None) -> IntArray:
        """Return the actions of many episodes, for observations of shape (episodes, features)."""
        scaled = standardise(s, self.centre, self.spread)
        logits, means = heads(np, self.weights, scaled, np.full(len(scaled), h), self.A, self.ratio)
        every = costs(np, logits, self.ratio) - self.weight * means
        cost = np.take_along_axis(every, self.grid.column(h, memory, 0)[:, None, None], axis=2)[..., 0]
        return np.where(mask, cost, np.inf).argmin(axis=1) if mask is not None else cost.argmin(axis=1)

    def next_many(self, memory: Any, h: int, s: Any, a: IntArray, reward: FloatArray, s_next: Any) -> Any:
        """Return the needs after one more stage."""
        return memory - reward

    def arrays(self) -> dict[str, Any]:
        """Return the network and its grid of needs."""
        flat = {f"weights_{name}": array for name, array in self.weights.items()}
        flat |= {"target": np.array(self.target), "numbers_policy": np.array([self.weight, self.ratio])}
        return flat | {"centre": self.centre, "spread": self.spread, **self.grid.arrays()}

    def __repr__(self) -> str:
        return f"EnvelopePolicy(target={self.target:g}, H={self.H}, {self.centre.size} features, {self.M} needs)"


def standardise(observations: Any, centre: FloatArray, spread: FloatArray) -> Any:
    """Return observations in standard deviations from their mean, cut at FAR, in single precision."""
    return np.clip((np.asarray(observations) - centre) / spread, -FAR, FAR).astype(np.float32)


def read_envelope(arrays: dict[str, Any]) -> EnvelopePolicy:
    """Return the policy that saved arrays describe; raise FileFormatError if sizes do not fit together."""
    grid = grid_from_arrays(arrays)
    require(isinstance(grid, Lattice), "kind", "be a lattice", grid.kind)
    assert isinstance(grid, Lattice)
    M = int(grid.size[0])
    centre = floats_of(arrays, "centre", (None,))
    spread = floats_of(arrays, "spread", (centre.size,))
    require(bool(np.all(spread > 0.0)), "spread", "be positive", spread)
    width = floats_of(arrays, "weights_hidden", (None, None)).shape[0]
    outputs = floats_of(arrays, "weights_needs_bias", (None,)).size
    require(outputs > 0 and outputs % M == 0, "weights_needs_bias", f"have a multiple of {M} entries", outputs)
    shapes = {
        "input": (centre.size, width), "stage": (grid.H, width), "hidden": (width, width), "hidden_bias": (width,),
        "needs": (width, outputs), "needs_bias": (outputs,), "means": (width, outputs), "means_bias": (outputs,),
    }  # fmt: skip
    weights = {name: floats_of(arrays, f"weights_{name}", shapes[name]) for name in WEIGHTS}
    require(bool(np.all(whole_numbers_of(arrays, "size", (grid.H + 1,))[:-1] == M)), "size", f"be {M} at all stages", M)
    weight, ratio = floats_of(arrays, "numbers_policy", (2,)).tolist()
    require(ratio >= 0.0, "numbers_policy", "hold a weight and a ratio that is not negative", [weight, ratio])
    return EnvelopePolicy(weights, grid, number_of(arrays, "target"), weight, centre, spread, ratio)
