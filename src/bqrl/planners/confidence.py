"""What is uncertain about a kernel, and how optimism uses it: l1 radii, buffer schedules, candidate kernels.

The confidence set of the paper (Equation confset) is a ball around every row of the empirical kernel,

    || P_h(. | s, a) - P_hat_h(. | s, a) ||_1 <= f(n) = c sqrt( log(2 S A T H / delta) / max(1, n) ),
    c = max{ 2, sqrt(2 log(S A T H (2^S - 2) / delta)) } / sqrt(log(2 S A T H / delta)),

with n the visits of the row. `radius` gives it, `practical_radius` the same with a tunable multiplier in place of c.
Deviation: c grows like sqrt(S), so it is not universal; with `support` the number k of a row's possible successors
stands for S, which is enough, and a row with one possible successor has radius 0.
Deviation: given N = n the draws are not independent in adaptive data; a union over n <= T for every (h, s, a), or over
n <= T H for every (s, a) where the counts of all stages are pooled, proves the same constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bqrl.laws.functionals import MASS_TOL
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.candidates_loops import fill_candidates


def log_term(S: int, A: int, T: int, H: int, delta: float) -> float:
    """log(2 S A T H / delta)."""
    for name, number in (("S", S), ("A", A), ("T", T), ("H", H)):
        if number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie strictly between 0 and 1, got {delta}")
    return math.log(2.0 * S * A * T * H / delta)


def confidence_constant(S: int, A: int, T: int, H: int, delta: float, support: ArrayLike | None = None) -> Any:
    """The smallest constant c that the paper allows; with `support` the number of successors k of each row replaces S.

    With one successor 2^k - 2 = 0 and only the 2 is left: finite, though the radius of such a row is 0.
    """
    level = log_term(S, A, T, H, delta)
    k = np.asarray(S if support is None else support, dtype=np.float64)
    if np.any(k < 1):
        raise ValueError(f"support must be at least 1 in every row, got {k.min():g}")
    several = np.maximum(k, 2.0)
    subsets = several * math.log(2.0) + np.log1p(-(2.0 ** (1.0 - several)))  # log(2^k - 2), also for large k
    wide = np.where(k > 1, np.sqrt(2.0 * np.maximum(level - math.log(2.0) + subsets, 0.0)), 0.0)
    c = np.maximum(2.0, wide) / math.sqrt(level)
    return float(c) if c.ndim == 0 else c


def radius(
    visits: ArrayLike, S: int, A: int, T: int, H: int, delta: float, support: ArrayLike | None = None
) -> FloatArray:
    """l1 radii of rows visited `visits` times (paper, Equation confset); 0 where `support` is 1."""
    c = confidence_constant(S, A, T, H, delta, support)
    width = practical_radius(visits, c, S, A, T, H, delta)
    return width if support is None else np.where(np.asarray(support) == 1, 0.0, width)


def practical_radius(visits: ArrayLike, c_conf: Any, S: int, A: int, T: int, H: int, delta: float) -> FloatArray:
    """The radius of Algorithm 3: c_conf sqrt(log(2 S A T H / delta) / max(1, n))."""
    if np.any(np.asarray(c_conf) < 0):
        raise ValueError(f"c_conf must not be negative, got {c_conf}")
    return np.asarray(c_conf * np.sqrt(log_term(S, A, T, H, delta) / np.maximum(1, np.asarray(visits))))


# -- buffers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Buffer:
    """beta_t as a function of the episode t = 0, 1, ...; made by `log_buffer`, `power_buffer` or `constant_buffer`."""

    kind: str
    start: float  # beta_0
    rate: float = 0.0

    def __call__(self, t: Any) -> Any:
        """beta_t, of one episode or of an array of them."""
        if self.kind == "log":
            beta = self.start / np.log(math.e + t)
        else:
            beta = self.start * np.power(t + 1.0, -self.rate)
        return beta if isinstance(t, np.ndarray) else float(beta)


def log_buffer(tau: float) -> Buffer:
    """The paper's schedule beta_t = tau / log(e + t)."""
    return Buffer("log", _positive(tau, "tau"))


def power_buffer(tau: float, a: float) -> Buffer:
    """beta_t = tau (t + 1)^-a: clears any margin in polynomial time, at the price of T^a in the regret's statistical term."""
    if not a >= 0.0:
        raise ValueError(f"the power a must not be negative, or the buffer grows, got {a}")
    return Buffer("power", _positive(tau, "tau"), float(a))


def constant_buffer(beta: float) -> Buffer:
    """beta_t = beta."""
    return Buffer("constant", _positive(beta, "beta"))


def _positive(number: float, name: str) -> float:
    if not 0.0 < number <= 1.0:
        raise ValueError(f"{name} must lie in (0, 1], got {number}")
    return float(number)


def check_schedule(schedule: Callable[[Any], Any] | Sequence[float], tau: float, T: int) -> FloatArray:
    """beta_0 .. beta_{T-1} of a function or a list; ValueError unless they stay in (0, tau] and never grow."""
    beta = np.array([schedule(t) for t in range(T)] if callable(schedule) else schedule, dtype=np.float64)
    if beta.shape != (T,):
        raise ValueError(f"the buffer schedule must give one number an episode ({T}), got {beta.shape}")
    outside = ~((beta > 0.0) & (beta <= tau + MASS_TOL))
    if outside.any():
        t = int(outside.argmax())
        raise ValueError(f"the buffer of episode {t} is {beta[t]:g}; it must lie in (0, tau] = (0, {tau:g}]")
    grows = np.diff(beta) > 0.0
    if grows.any():
        t = int(grows.argmax())
        raise ValueError(f"the buffer grows from {beta[t]:g} to {beta[t + 1]:g} at episode {t + 1}; it must never grow")
    return np.minimum(beta, tau)


# -- candidate kernels ----------------------------------------------------------------------------------------------


def candidate_kernels(
    mdp: MDP, probability: FloatArray, half_radius: FloatArray, retained: FloatArray, uniforms: FloatArray
) -> FloatArray:
    """Candidates of Algorithm 3, shape (2 + k, nnz): the empirical kernel, a directed one, k random ones.

    `probability` (nnz,) is the empirical kernel on the outcomes of `mdp`; `half_radius` (K, S, A) or flat is half of each
    row's l1 radius; rows that are known keep their probabilities. In the directed kernel every row moves mass to the
    outcome of the largest reward plus `retained` value (H + 1, S) of the successor, taken from the least upwards. A random
    kernel does so with a random receiver and donors in cyclic order from a random place: `uniforms` (k, K*S*A, 2), drawn
    by the caller, say which. Each candidate lies in the ball of every row and within the known support.
    Deviation: the paper does not say how its perturbations are drawn. Where one kernel serves all stages, the directed one
    adds up what the stages would favour.
    """
    rows, half = mdp.row_start.size - 1, np.asarray(half_radius, dtype=np.float64).reshape(-1)
    for name, given, wanted in (
        ("probability", np.shape(probability), mdp.successor.shape),
        ("half_radius", half.shape, (rows,)),
        ("retained", np.shape(retained), (mdp.H + 1, mdp.S)),
        ("uniforms", np.shape(uniforms)[-2:], (rows, 2)),
    ):
        if given != wanted:
            raise ValueError(f"{name} must have shape {wanted} here, got {given}")
    out = np.empty((2 + uniforms.shape[0], mdp.successor.size))
    fill_candidates(
        mdp.row_start, mdp.successor, mdp.reward, mdp.discount, mdp.S * mdp.A, mdp.known.reshape(-1), probability, half,
        retained, uniforms, out,
    )  # fmt: skip
    return out
