"""Confidence sets of kernels, buffer schedules, and candidate kernels, as optimistic learners use them.

The confidence set of the paper (Equation confset) is a ball around every row of the empirical kernel,

    || P_h(. | s, a) - P_hat_h(. | s, a) ||_1 <= f(n) = c sqrt( log(2 S A T H / delta) / max(1, n) ),
    c = max{ 2, sqrt(2 log(S A T H (2^S - 2) / delta)) } / sqrt(log(2 S A T H / delta)),

where n counts the visits to the row. `radius` computes f(n); in `practical_radius` a tunable multiplier replaces c.
Deviation: c grows like sqrt(S), so it is not universal. With `support`, the number k of possible successors of the row
replaces S, which is sufficient; a row with one possible successor has radius 0.
Deviation: if data are collected adaptively, the draws are not independent given N = n. A union bound over n <= T for every
(h, s, a), or over n <= T H for every (s, a) if the counts of all stages are pooled, gives the same constant.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bqrl.checks import bad_value, number, numbers
from bqrl.laws.law import MASS_TOL
from bqrl.loops.candidates import Outcomes, fill_candidates
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP


def log_term(S: int, A: int, T: int, H: int, delta: float) -> float:
    """Return log(2 S A T H / delta)."""
    for name, value in (("S", S), ("A", A), ("T", T), ("H", H)):
        number(value, name, 1.0)
    delta = number(delta, "delta", 0.0, 1.0, "()")
    return math.log(2.0 * S * A * T * H / delta)


def confidence_constant(S: int, A: int, T: int, H: int, delta: float, support: ArrayLike | None = None) -> Any:
    """Return the smallest constant c that the paper allows.

    Parameters
    ----------
    S, A, T, H : int
        Numbers of states, actions, episodes and stages.
    delta : float
        Probability in (0, 1) with which some ball may fail to contain the true row.
    support : array_like of int, optional
        Number k of possible successors of each row, which replaces S. If k = 1, 2^k - 2 is 0 and the maximum in c is 2;
        the radius of such a row is 0.

    Returns
    -------
    float or ndarray
        The constant; one constant per row if `support` is an array.

    Examples
    --------
    >>> round(confidence_constant(S=2, A=2, T=100, H=3, delta=0.1), 4)
    1.4142
    """
    level = log_term(S, A, T, H, delta)
    k = numbers(S if support is None else support, "support", 1.0)
    several = np.maximum(k, 2.0)
    subsets = several * math.log(2.0) + np.log1p(-(2.0 ** (1.0 - several)))  # log(2^k - 2), also for large k
    wide = np.where(k > 1, np.sqrt(2.0 * np.maximum(level - math.log(2.0) + subsets, 0.0)), 0.0)
    c = np.maximum(2.0, wide) / math.sqrt(level)
    return float(c) if c.ndim == 0 else c


def most_outcomes(mdp: MDP) -> int:
    """Return the largest number of outcomes (s', reward) of a row, or of classes of events if rows share noise.

    For a learner that knows which outcomes are possible, this is the largest `support`. Random rewards can make it exceed S.
    """
    classes = [np.unique(first).size for first in mdp.noise.classes] if mdp.noise is not None else []
    return max([int(np.diff(mdp.row_start).max()), *classes])


def radius(
    visits: ArrayLike, S: int, A: int, T: int, H: int, delta: float, support: ArrayLike | None = None
) -> FloatArray:
    """Return the l1 radii of the confidence set (paper, Equation confset).

    Parameters
    ----------
    visits : array_like
        Number of visits to each row.
    S, A, T, H : int
        Numbers of states, actions, episodes and stages.
    delta : float
        Probability in (0, 1) with which some ball may fail to contain the true row.
    support : array_like of int, optional
        Number of possible successors of each row, which replaces S; a row with one successor has radius 0.

    Returns
    -------
    ndarray
        The radius of each row.

    Examples
    --------
    >>> radius([1, 100], S=2, A=2, T=100, H=3, delta=0.1).round(3)
    array([4.491, 0.449])
    """
    c = confidence_constant(S, A, T, H, delta, support)
    width = practical_radius(visits, c, S, A, T, H, delta)
    return width if support is None else np.where(np.asarray(support) == 1, 0.0, width)


def practical_radius(visits: ArrayLike, c_conf: Any, S: int, A: int, T: int, H: int, delta: float) -> FloatArray:
    """Return the radius of Algorithm 3: c_conf sqrt(log(2 S A T H / delta) / max(1, n))."""
    visited = np.maximum(1.0, numbers(visits, "visits", 0.0))
    return np.asarray(numbers(c_conf, "c_conf", 0.0) * np.sqrt(log_term(S, A, T, H, delta) / visited))


# -- buffers --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A buffer schedule beta_t for episodes t = 0, 1, ...; see `log_buffer`, `power_buffer` and `constant_buffer`."""

    kind: str
    start: float  # beta_0
    rate: float = 0.0

    def __call__(self, t: Any) -> Any:
        """Return beta_t for one episode or for an array of episodes."""
        if self.kind == "log":
            beta = self.start / np.log(math.e + t)
        else:
            beta = self.start * np.power(t + 1.0, -self.rate)
        return beta if isinstance(t, np.ndarray) else float(beta)


def log_buffer(tau: float) -> Buffer:
    """Return the schedule of the paper, beta_t = tau / log(e + t).

    Parameters
    ----------
    tau : float
        The buffer of episode 0, in (0, 1].

    Returns
    -------
    Buffer
        The schedule, called with an episode.

    Examples
    --------
    >>> log_buffer(0.1)(0)
    0.1
    """
    return Buffer(kind="log", start=number(tau, "tau", 0.0, 1.0, "(]"))


def power_buffer(tau: float, a: float) -> Buffer:
    """Return the schedule beta_t = tau (t + 1)^-a.

    It falls below any margin after polynomially many episodes. In return, the statistical term of the regret grows by a
    factor T^a.

    Parameters
    ----------
    tau : float
        The buffer of episode 0, in (0, 1].
    a : float
        The exponent, at least 0.

    Returns
    -------
    Buffer
        The schedule, called with an episode.

    Examples
    --------
    >>> power_buffer(0.1, 0.5)(3)
    0.05
    """
    return Buffer(kind="power", start=number(tau, "tau", 0.0, 1.0, "(]"), rate=number(a, "a", 0.0))


def constant_buffer(beta: float) -> Buffer:
    """Return the schedule beta_t = beta.

    Parameters
    ----------
    beta : float
        The buffer of every episode, in (0, 1].

    Returns
    -------
    Buffer
        The schedule, called with an episode.

    Examples
    --------
    >>> constant_buffer(0.1)(7)
    0.1
    """
    return Buffer(kind="constant", start=number(beta, "beta", 0.0, 1.0, "(]"))


def check_schedule(schedule: Callable[[Any], Any] | Sequence[float], tau: float, T: int) -> FloatArray:
    """Return beta_0 .. beta_{T-1} from a function or a list; ArgumentError unless all lie in (0, tau] and none increases."""
    beta = np.array([schedule(t) for t in range(T)] if callable(schedule) else schedule, dtype=np.float64)
    if beta.shape != (T,):
        raise bad_value("buffer", schedule, f"have one number per episode ({T})", f"shape {beta.shape}")
    outside = ~((beta > 0.0) & (beta <= tau + MASS_TOL))
    if outside.any():
        t = int(outside.argmax())
        raise bad_value("buffer", float(beta[t]), f"be in (0, tau] = (0, {tau:g}]", f"{beta[t]:g} in episode {t}")
    increases = np.diff(beta) > 0.0
    if increases.any():
        t = int(increases.argmax())
        raise bad_value(
            "buffer", float(beta[t + 1]), "not increase", f"{beta[t]:g} and then {beta[t + 1]:g} in episode {t + 1}"
        )
    return np.minimum(beta, tau)


# -- candidate kernels ----------------------------------------------------------------------------------------------


def candidate_kernels(
    mdp: MDP, probability: FloatArray, half_radius: FloatArray, retained: FloatArray, uniforms: FloatArray
) -> FloatArray:
    """Return the candidate kernels of Algorithm 3, shape (2 + k, nnz): the empirical, a directed and k random kernels.

    `probability` (nnz,) is the empirical kernel on the outcomes of `mdp`. `half_radius`, of shape (K, S, A) or flat, is
    half the l1 radius of each row. Known rows keep their probabilities. In the directed kernel, every row moves mass to
    the outcome with the largest sum of reward and `retained` value (H + 1, S) of the successor; the outcomes with the
    smallest sums give mass first. In a random kernel, a random outcome receives mass and the others give it in cyclic
    order from a random position; `uniforms` (k, K*S*A, 2), which the caller draws, determine both. The rows of every
    candidate lie in their balls and have the known support.
    Deviation: the paper does not specify how its perturbations are drawn. If all stages share one kernel, the directed
    kernel uses the sum of the preferences over the stages.
    """
    rows, half = mdp.row_start.size - 1, np.asarray(half_radius, dtype=np.float64).reshape(-1)
    for name, given, wanted in (
        ("probability", np.shape(probability), mdp.successor.shape),
        ("half_radius", half.shape, (rows,)),
        ("retained", np.shape(retained), (mdp.H + 1, mdp.S)),
        ("uniforms", np.shape(uniforms)[-2:], (rows, 2)),
    ):
        if given != wanted:
            raise bad_value(name, given, f"have shape {wanted}", given)
    out = np.empty((2 + uniforms.shape[0], mdp.successor.size))
    outcomes = Outcomes(
        start=mdp.row_start, successor=mdp.successor, reward=mdp.reward, known=mdp.known.reshape(-1), discount=mdp.discount,
        per_stage=mdp.S * mdp.A,
    )  # fmt: skip
    fill_candidates(outcomes, probability, half, retained, uniforms, out)
    return out
