"""Policies of a network that scores every action for every need at once; acting needs NumPy only.

The network maps an observation and a stage to A x M costs J(h, x, a, n) on a grid of M needs n, and to means m of the return
still to come, one per action and group of needs. The cost is the shortfall W, the probability of ending short of the need, or
E max(n - G, 0) / d.

    z       = relu(relu(input(x) + stage(h)) @ hidden),    m = z @ means
    W       = cumulative sum of softmax(z @ needs, 0)         masses of the return between the needs, the last above them
    J       = softplus of the first of z @ needs + ratio * cumulative sum of the sigmoids of the others
              ratio = step / d: slopes lie in [0, 1], and J(lowest) is what is lost below the lowest need
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
# Offsets of the first cost and of the logits of slopes: at first costs are near 0 and rise slowly.
LEAST, RISE = -8.0, -2.0
FAR = 10.0  # observations count as at most this many standard deviations from their mean
TIE = 0.02  # W (1 - W) from which the mean does not count
Weights = Mapping[str, Any]


def features(weights: Weights, x: Any, h: Any) -> Any:
    """Return the last hidden layer (rows, width); `x` holds indices of states, or rows of features, `h` one stage per row.

    Each stage has a row of weights; if the states are numbered, each pair of a stage and a state.
    """
    if x.ndim == 1:
        seen, h = weights["input"][x], h * len(weights["input"]) + x
    else:
        seen = x @ weights["input"]
    return ((seen + weights["stage"][h]).clip(0.0) @ weights["hidden"] + weights["hidden_bias"]).clip(0.0)


def costs(xp: Any, raw: Any, ratio: float) -> Any:
    """Return the costs of the needs from the raw outputs (..., M).

    `xp` is the module of the arrays, NumPy or PyTorch, so that training and acting share one formula.
    """
    if ratio == 0.0:  # the outputs are logits of masses of the return, beside a last one of 0
        top = xp.amax(raw, -1, keepdims=True).clip(0.0)
        mass = xp.exp(raw - top)
        return mass.cumsum(-1) / (mass.sum(-1) + xp.exp(-top[..., 0]))[..., None]
    slopes = xp.sigmoid(raw + RISE) if hasattr(xp, "sigmoid") else 1.0 / (1.0 + xp.exp(-(raw + RISE).clip(-60.0)))
    slopes[..., 0] = xp.log1p(xp.exp((raw[..., 0] + LEAST).clip(None, 60.0))) / ratio
    return ratio * slopes.cumsum(-1)


def values(xp: Any, weights: Weights, x: Any, h: Any, ratio: float) -> tuple[Any, Any]:
    """Return costs (A, rows, M) and means (A, rows, groups) of all actions and needs: a matrix product per action."""
    z = features(weights, x, h)
    cost = costs(xp, z @ weights["needs"] + weights["needs_bias"][:, None], ratio)
    return cost, z @ weights["means"] + weights["means_bias"][:, None]


def group_size(M: int, means_bias: Any) -> int:
    """Return how many of the M needs share a column of the means."""
    return -(-M // int(means_bias.shape[1]))


def weight_shapes(inputs: int, stages: int, A: int, M: int, K: int, width: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights of a network with M needs and K columns of the means."""
    return {
        "input": (inputs, width), "stage": (stages, width), "hidden": (width, width), "hidden_bias": (width,),
        "needs": (A, width, M), "needs_bias": (A, M), "means": (A, width, K), "means_bias": (A, K),
    }  # fmt: skip


def scores(xp: Any, cost: Any, means: Any, mask: Any, weight: float, ratio: float) -> Any:
    """Return what the chosen action minimises, (rows, A, ...): the cost less the weighted mean; infinite if not allowed.

    For a shortfall W the mean counts fully where the least W is 0 or 1 and not at all where W (1 - W) is above TIE, so that no
    probability is given away for it.
    """
    cost = xp.where(mask, cost, xp.inf)
    if ratio == 0.0:
        least = xp.amin(cost, 1, keepdims=True)
        weight = weight * (1.0 - least * (1.0 - least) / TIE).clip(0.0)
    return cost - weight * means


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
    >>> shapes = {"input": (2, 8), "stage": (3, 8), "hidden": (8, 8), "needs": (2, 8, 5), "means": (2, 8, 5)}
    >>> weights = {name: np.zeros(shape) for name, shape in shapes.items()}
    >>> weights |= {"hidden_bias": np.zeros(8), "needs_bias": np.array([[1.0] * 5, [0.0] * 5]), "means_bias": np.zeros((2, 5))}
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
        self.A, self.group = len(self.weights["needs_bias"]), group_size(self.M, self.weights["means_bias"])

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
        every = values(np, self.weights, scaled, np.full(len(scaled), h), self.ratio)
        rows, columns = np.arange(len(scaled)), self.grid.column(h, memory, 0)
        cost, means = every[0][:, rows, columns].T, every[1][:, rows, columns // self.group].T
        allowed = np.ones_like(cost, bool) if mask is None else mask
        return scores(np, cost, means, allowed, self.weight, self.ratio).argmin(axis=1)

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
    A = floats_of(arrays, "weights_needs_bias", (None, M)).shape[0]
    require(A > 0, "weights_needs_bias", "have a row per action", A)
    K = floats_of(arrays, "weights_means_bias", (A, None)).shape[1]
    require(0 < K <= M, "weights_means_bias", f"have 1 to {M} columns", K)
    shapes = weight_shapes(centre.size, grid.H, A, M, K, width)
    weights = {name: floats_of(arrays, f"weights_{name}", shapes[name]) for name in WEIGHTS}
    require(bool(np.all(whole_numbers_of(arrays, "size", (grid.H + 1,))[:-1] == M)), "size", f"be {M} at all stages", M)
    weight, ratio = floats_of(arrays, "numbers_policy", (2,)).tolist()
    require(ratio >= 0.0, "numbers_policy", "hold a weight and a ratio that is not negative", [weight, ratio])
    return EnvelopePolicy(weights, grid, number_of(arrays, "target"), weight, centre, spread, ratio)
