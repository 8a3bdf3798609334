"""CVaR, also with the mean, of a problem with affine coordinates: the optimum lies between those of two finite chains.

    (1 - w) E G + w CVaR_tau(G)  =  max_z { z - E u(z - G) },   u(n) = (1 - w) n + (w / tau) n^+.

Both chains have returns that differ from the true ones by spreads whose mean is zero (`bqrl.mdp.grid_step`). A spread of mean
zero changes E u by no more than the curvature of u allows, so the bracket closes with the square of the spacing:

  Lower chain: given its path, the true return is that of the chain plus d_0 + ... + d_{H-1}, where each d_h has mean zero given
  the others, |d_h| <= m_h and variance <= v_h. The sweep minimises E phi(need at the end), with phi at least E u(n - d_0 - ...)
  for all such spreads: if phi(n + s) <= c + p s + k s^2 for all |s| <= m_h, with k >= 0, then E phi(n + d_h) <= c + k v_h.
  Upper chain: its return is the true one plus such spreads, whatever the policy. The sweep minimises E f, with f so far below u
  that the spreads cannot lift it above: if f(n + s) <= u(n) + p s + k (s^2 - v_h) for all |s| <= m_h, then E f(n + d_h) <=
  u(n). Any slope p and curvature k >= 0 may be chosen for each n (k < 0 with s^2 in place of s^2 - v_h).

Needs live on columns of one width around the mean that is still expected. The lower chain rounds rewards down; the upper chain
draws between two columns, one more spread. Beyond the columns u is bounded by its two slopes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_array

from bqrl.errors import SizeError
from bqrl.loops.clipped import clipped_stage
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray
from bqrl.mdp.grid import Rounded, whole_steps
from bqrl.mdp.grid_affine import Chain, build_chain
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP
from bqrl.mdp.table import Table
from bqrl.planners.terminal import MeanCVaR
from bqrl.policies.on_grid import GridPolicy
from bqrl.policies.target import TargetPolicy, action_dtype

REACH = 4.0  # standard deviations of the return that the columns cover on both sides
POINTS = 4_000
CURVATURES = (0.0, 0.01, 0.03, 0.1, 0.25, 0.5)  # tried for phi, in units of the change of slope per deviation
SCALES = (2.0, 2.5, 3.0, 4.0, 6.0)  # tried for f: distances, in deviations, from which slope and curvature are taken


class AffinePlan(NamedTuple):
    """Both ends of the bracket, the policy of the lower chain, and that chain as a model."""

    value: float
    upper: float
    policy: GridPolicy
    mdp: MDP


def plan_affine(model: GridModel, goal: MeanCVaR, points: int | None, max_bytes: float) -> AffinePlan:
    """Return the plan for a weighted sum of mean and CVaR."""
    assert model.linear is not None
    assert model.slopes is not None
    ends = [
        build_chain(model.function, model.grid, model.laws[0], model.linear, model.slopes, model.discount, side)
        for side in ("lower", "upper")
    ]
    low, high = (_Sweep(model, chain, goal) for chain in ends)
    spreads = [
        (m, v) for chain in ends for h in range(model.H) for m, v in chain.spreads(model.slopes, h, model.discount)
    ]
    expected, deviation = low.outlook()
    reach = REACH * (deviation + float(np.sqrt(sum(v for _, v in spreads)))) + max(m for m, _ in spreads)
    columns = _columns(model, expected, reach, points or POINTS)
    cells = model.lower.S * int(columns.size[0])
    kinds = max(chain.row_start.size for chain in ends) * int(columns.size[0])
    needed = cells * (32 + model.H * np.dtype(action_dtype(model.lower.A)).itemsize) + 16 * kinds
    if needed > max_bytes:
        raise SizeError(
            f"max_bytes must hold the values and actions of {cells} cells, {needed / 1e9:.3g} GB, got {max_bytes / 1e9:.3g} GB; "
            "use fewer grid points or points=", needed=needed, limit=max_bytes, name="max_bytes",
        )  # fmt: skip
    worth, actions = low.run(columns)
    i = int(worth.argmax())
    policy = TargetPolicy(columns, actions, float(columns.points(0)[i]), extra=0)
    bound, _ = high.run(columns)
    upper = max(float(bound.max()), high.beyond(columns))
    mdp = _chain_model(model, ends[0])
    return AffinePlan(float(worth[i]), max(upper, float(worth[i])), GridPolicy(policy, model, ends[0]), mdp)


class _Sweep:
    """The sweep on one chain."""

    def __init__(self, model: GridModel, chain: Chain, goal: MeanCVaR) -> None:
        self.model, self.chain, self.below = model, chain, chain.key is not None
        self.S, self.A, self.H, self.gamma = model.lower.S, model.lower.A, model.H, model.discount
        self.slopes = 1.0 - goal.weight, 1.0 - goal.weight + goal.weight / goal.tau
        self.kernel = csr_array(
            (chain.probability, chain.place, chain.row_start), shape=(chain.row_start.size - 1, self.S)
        )
        self.mean = np.add.reduceat(chain.probability * chain.reward, chain.row_start[:-1])[chain.kind] + chain.extra
        self.far = 0.0  # by how much the terminal cost is lowered at most
        self.bounds: list[tuple[FloatArray, FloatArray]] = []

    def outlook(self) -> tuple[FloatArray, float]:
        """Return the mean that the best policy for the mean still expects at each stage, and the deviation of its return."""
        chain, S, A = self.chain, self.S, self.A
        value, variance = np.zeros((self.H + 1, S)), np.zeros(S)
        choices = []
        for h in range(self.H - 1, -1, -1):
            onward = self.gamma**h * chain.reward + value[h + 1][chain.place]
            first, second = (self._average(x) for x in (onward, onward**2 + variance[chain.place]))
            mean = (self.gamma**h * chain.extra + first[chain.kind]).reshape(S, A)
            rows = np.arange(S) * A + mean.argmax(axis=1)
            value[h], kinds = mean.reshape(-1)[rows], chain.kind[rows]
            variance = second[kinds] - first[kinds] ** 2
            choices.append(kinds)
        mu, expected = self.model.lower.mu, np.zeros(self.H + 1)
        total = float(mu @ (variance + value[0] ** 2)) - float(mu @ value[0]) ** 2
        for h in range(self.H):
            expected[h] = float(mu @ value[h])
            mu = self.kernel[choices[self.H - 1 - h]].T @ mu
        return expected, float(np.sqrt(max(total, 0.0)))

    def _average(self, x: FloatArray) -> FloatArray:
        """Return the mean of a number per outcome, by kind of row."""
        return np.add.reduceat(self.chain.probability * x, self.chain.row_start[:-1])

    def run(self, columns: Rounded) -> tuple[FloatArray, list[ActionArray]]:
        """Return what every target proves, and the actions of every stage."""
        chain, S, A, step = self.chain, self.S, self.A, columns.width
        after = np.tile(self._terminal(columns), (S, 1))
        actions: list[ActionArray] = []
        top = low = np.zeros(S)
        for h in range(self.H - 1, -1, -1):
            shift, between = self._steps(self.gamma**h * chain.reward, step)
            row_shift, row_between = self._steps(self.gamma**h * chain.extra, step)
            row_shift -= int(columns.lowest[h] - columns.lowest[h + 1])
            reach = int(np.abs(row_shift).max()) + 1
            margin = int(np.abs(shift).max()) + reach + 1
            padded = self._padded(after, columns, h + 1, margin, (low, top))
            charge = self.slopes[1] * chain.charge
            value, action = np.empty((S, int(columns.size[h]))), np.empty((S, int(columns.size[h])), action_dtype(A))
            clipped_stage(
                (chain.row_start, chain.place, chain.probability, shift, between), (chain.kind, row_shift, row_between),
                charge if self.below else -charge, A, padded, margin, reach, value, action,
            )  # fmt: skip
            after = value
            actions.append(action)
            mean = self.gamma**h * self.mean
            low, top = (
                (slope * mean + charge + (self.kernel @ onward)[chain.kind]).reshape(S, A).max(axis=1)
                for slope, onward in zip(self.slopes, (low, top), strict=True)
            )
        self.ends = float(self.model.lower.mu @ low), float(self.model.lower.mu @ top)
        return columns.points(0) - self.model.lower.mu @ after, actions[::-1]

    def _steps(self, worth: FloatArray, step: float) -> tuple[IntArray, FloatArray]:
        """Return rewards in whole steps, and in the upper chain the probability of one step more."""
        if self.below:
            return whole_steps(worth, 0.0, step, up=False).astype(np.int64), np.zeros(worth.size)
        steps = np.floor(worth / step)
        return steps.astype(np.int64), np.clip(worth / step - steps, 0.0, 1.0)

    def beyond(self, columns: Rounded) -> float:
        """Return an upper bound on what targets outside the columns can prove."""
        first, *_, last = columns.points(0)
        low, top = self.ends
        return float(max((1.0 - self.slopes[0]) * first + low, (1.0 - self.slopes[1]) * last + top))

    def _terminal(self, columns: Rounded) -> FloatArray:
        """Return phi or f on the columns of the last stage."""
        n, model, step = columns.points(self.H), self.model, columns.width
        found = np.where(n < 0.0, self.slopes[0], self.slopes[1]) * n
        assert model.slopes is not None
        spreads = [each for h in range(self.H) for each in self.chain.spreads(model.slopes, h, self.gamma)]
        if self.below:
            for m, v in spreads:
                found = raised(found, step, m, v, self.slopes)
            return np.asarray(np.maximum.accumulate(found))  # a larger need never costs less, also after rounding
        spreads += [(step, step**2 / 4.0)] * (2 * self.H + 1)  # draws between columns: for rewards and the target
        lowest = lowered(found, step, spreads, self.slopes)
        self.far = max(0.0, float((found - lowest).max()))
        return lowest

    def _padded(
        self, after: FloatArray, columns: Rounded, h: int, margin: int, bounds: tuple[FloatArray, FloatArray]
    ) -> FloatArray:  # fmt: skip
        """Return the values with `margin` columns on both sides; for the upper chain `bounds` are its best means."""
        C = after.shape[1]
        padded = np.empty((self.S, C + 2 * margin))
        padded[:, margin : margin + C] = after
        steps = np.arange(1, margin + 1) * columns.width
        if self.below:
            padded[:, :margin] = after[:, :1] - self.slopes[0] * steps[::-1]
            padded[:, margin + C :] = after[:, -1:] + self.slopes[1] * steps
        else:
            first, *_, last = columns.points(h)
            padded[:, :margin] = self.slopes[0] * (first - steps[::-1]) - bounds[0][:, None] - self.far
            padded[:, margin + C :] = self.slopes[1] * (last + steps) - bounds[1][:, None] - self.far
        return padded


def raised(u: FloatArray, step: float, m: float, v: float, slopes: tuple[float, float]) -> FloatArray:
    """Return at least the largest E u(n + d) over spreads d of mean zero with |d| <= m and variance <= v."""
    if v == 0.0:
        return u
    W = int(np.ceil(m / step))
    s = np.arange(-W, W + 1) * step
    windows = np.lib.stride_tricks.sliding_window_view(_continued(u, step, W, slopes), 2 * W + 1)
    slope = (windows[:, -1] - windows[:, 0]) / (2.0 * W * step)
    least = np.full(u.size, np.inf)
    for k in np.array(CURVATURES) * (slopes[1] - slopes[0]) / np.sqrt(v):
        c = (windows - slope[:, None] * s - k * s * s).max(axis=1) + k * step**2 / 4.0  # u is linear between columns
        least = np.minimum(least, c + k * v)
    return least


def lowered(u: FloatArray, step: float, spreads: list[tuple[float, float]], slopes: tuple[float, float]) -> FloatArray:
    """Return a function f with E f(n + d_1 + d_2 + ...) <= u(n) for every n and all spreads d_i within their bounds."""
    found = []
    for scale in SCALES:
        f = u
        for m, v in spreads:
            f = _lowered(f, step, m, v, slopes, scale)
        found.append(f)
    return max(found, key=lambda f: float(f.sum()))


def _lowered(u: FloatArray, step: float, m: float, v: float, slopes: tuple[float, float], scale: float) -> FloatArray:
    """Return such a function for one spread with |d| <= m and variance <= v."""
    if v == 0.0:
        return u
    W, apart = int(np.ceil(m / step)) + 1, max(1, round(scale * np.sqrt(v) / step))
    long = _continued(u, step, W + apart, slopes)
    n, right, left = long[apart:-apart], long[2 * apart :], long[: -2 * apart]
    p, k = (right - left) / (2.0 * apart * step), (right + left - 2.0 * n) / (2.0 * (apart * step) ** 2)
    up, down = np.maximum(k, 0.0), np.minimum(k, 0.0)

    def change(x: FloatArray) -> FloatArray:
        d = np.abs(np.diff(x, prepend=x[0], append=x[-1]))
        return np.maximum(d[1:], d[:-1])

    between = 2.0 * change(p) / step + 4.0 * np.abs(k) + 4.0 * (change(up) + change(down)) * (m + step) / step
    base = n - up * v - (between + 2.0 * up) * step**2 / 8.0  # for needs between the columns
    least = np.full(u.size, np.inf)
    for j in range(-W, W + 1):
        here, t = slice(W + j, W + j + u.size), -j * step
        least = np.minimum(least, base[here] + p[here] * t + k[here] * t * t)
    return least


def _continued(u: FloatArray, step: float, n: int, slopes: tuple[float, float]) -> FloatArray:
    """Return `u` with `n` further columns on both sides."""
    steps = np.arange(1, n + 1) * step
    return np.concatenate([u[0] - slopes[0] * steps[::-1], u, u[-1] + slopes[1] * steps])


def _columns(model: GridModel, expected: FloatArray, reach: float, points: int) -> Rounded:
    """Return columns of one width around the mean that is still expected."""
    reach = max(reach, 1e-6 * (1.0 + float(np.abs(expected).max())))
    width = 2.0 * reach / points
    lowest: IntArray = np.floor((expected - reach) / width).astype(np.int64)
    return Rounded(
        H=model.H, size=np.full(model.H + 1, points + 2), units=np.zeros((1, 0), np.int64), discount=model.discount,
        width=width, lowest=lowest, offset=np.zeros(model.H + 1), base=np.zeros(model.H), bound=model.H * width,
    )  # fmt: skip


def _chain_model(model: GridModel, chain: Chain) -> MDP:
    """Return the lower chain as a model."""
    sizes = np.diff(chain.row_start)[chain.kind]  # of the rows
    start = np.r_[0, np.cumsum(sizes)]
    at = np.arange(start[-1]) + np.repeat(chain.row_start[chain.kind] - start[:-1], sizes)
    table = Table(
        S=model.lower.S, A=model.lower.A, K=1, row_start=start, successor=chain.place[at].astype(np.int32),
        probability=chain.probability[at], reward=(chain.reward[at] + np.repeat(chain.extra, sizes))[None, :],
    )  # fmt: skip
    names = {name: getattr(model.lower, name) for name in ("state_names", "action_names", "state_values")}
    return MDP.from_table(table, model.H, model.lower.mu, model.discount, **names)
