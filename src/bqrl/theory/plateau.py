"""Root-level left-plateau threshold (Definition 2), and the margin of the optimal policy.

    rho_pi  = tau - P(G_pi < Q_tau(G_pi))
    rho_tau = min over deterministic policies of rho_pi                                    (Definition 2)
    rho*    = tau - W_0(start, x*) = rho_pi of the optimal policy with the smallest shortfall

A buffer beta <= rho_pi does not change the value of pi. The paper requires the buffer to fall below rho_tau. It suffices
that it falls below rho* >= rho_tau (see `regret`), which one sweep computes.

P(G < x) is below tau if and only if x <= Q_tau(G), and P(G < x) does not decrease in x. Hence

    rho_tau = tau - max{ P_pi(G < x) : pi deterministic, x real, P_pi(G < x) < tau },

so the shortfall probabilities P_pi(G < x) determine rho_tau, and the return laws themselves are not needed. From stage h,
state s and need n, a row with outcome probabilities p_i attains every sum of p_i v_i, where v_i is any number attained after
its outcome i. A state attains the numbers that its rows attain. These sets contain far fewer numbers than there are return
laws, but they too may grow exponentially with the horizon. Policies observe states, actions and, if rewards are random,
rewards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bqrl.checks import whole
from bqrl.errors import SizeError
from bqrl.laws.law import reaches
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.rational import read_rows
from bqrl.policies.protocol import Policy
from bqrl.theory.inputs import as_level, columns_of, exact_curve, exact_law, reachable_outcomes

# Sums of the same products in different orders differ by less than this. Numbers are merged at every stage, and the errors of
# merging add up; the tolerance is therefore below MASS_TOL, which decides every comparison with tau.
SAME = 1e-14
MAX_VALUES = 200_000  # limit on the numbers stored per stage, and on those formed when two sets are added
MAX_CELLS = 300_000  # limit on (stage, state, need) cells for which sets of probabilities are computed


def optimal_margin(mdp: MDP, tau: float) -> float:
    """Return the margin of the optimum, rho* = tau - W_0(start, x*), which replaces rho_tau of Definition 2.

    Parameters
    ----------
    mdp, tau : see `bqrl.theory`

    Returns
    -------
    float
        rho*, never smaller than `plateau(mdp, tau)`.

    Examples
    --------
    >>> import bqrl
    >>> round(optimal_margin(bqrl.envs.make("AssetSelling"), 0.1), 5)
    0.01541
    """
    tau = as_level(tau)
    return exact_curve(mdp, "the margin").margin(tau).below


def plateau(mdp: MDP, tau: float, policy: Policy | None = None, *, max_values: int = MAX_VALUES) -> float:
    """Return the plateau rho_tau of a problem (Definition 2), or rho_pi of one policy.

    Parameters
    ----------
    mdp, tau : see `bqrl.theory`
    policy : Policy, optional
        If given, return rho_pi of this policy instead of the minimum over all deterministic policies.
    max_values : int
        Limit on the numbers stored per stage. Most problems with more than a few states and stages exceed it, and a SizeError
        is raised; `plateau_bounds` then brackets rho_tau.

    Returns
    -------
    float
        How far the level can fall below tau before the quantile of some deterministic policy (or of `policy`) changes.

    Examples
    --------
    >>> from bqrl import theory
    >>> round(plateau(theory.hard_instance(0.5, 0.05), 0.5), 12)
    0.05
    """
    tau = as_level(tau)
    mdp = check_mdp(mdp)
    if policy is not None:
        return exact_law(mdp, policy, "the plateau of a policy").margin(tau).below
    found = attainable_shortfalls(mdp, max_values=max_values)
    return tau - _largest_below(found.by_target, tau)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlateauBounds:
    """A bracket of rho_tau; both ends are proven."""

    lower: float
    upper: float
    reason: str  # how each end was proven


def plateau_bounds(mdp: MDP, tau: float, *, keep: int = 32) -> PlateauBounds:
    """Return a bracket of the plateau rho_tau of Definition 2, for any problem that one sweep can solve.

    At most `keep` attainable probabilities are stored per (stage, state, need). Each of them is attained by a policy, which
    proves the upper end; the upper end is never larger than rho*. If no target has attainable P(G < x) on both sides of
    tau, the lower end equals the upper end. Otherwise the lower end follows from arithmetic: every P(G < x) is a multiple of
    1 / N, where N is the product of the common denominators of the stages, so a positive tau - P(G < x) is at least
    1 / lcm(N, q) for tau = p / q. This bound is valid but often tiny: if many probabilities are attainable, some are close
    to any tau.

    Parameters
    ----------
    mdp, tau : see `bqrl.theory`
    keep : int
        Number of probabilities stored per (stage, state, need), at least 2.

    Returns
    -------
    PlateauBounds

    Examples
    --------
    >>> import bqrl
    >>> bounds = plateau_bounds(bqrl.envs.make("AssetSelling"), 0.1)
    >>> 0 < bounds.lower < bounds.upper < 1e-4
    True
    """
    tau, keep = as_level(tau), whole(keep, "keep", 2)
    mdp = check_mdp(mdp)
    columns = columns_of(mdp, "the plateau")
    if columns.cells * mdp.S > MAX_CELLS:
        upper, undecided, source = optimal_margin(mdp, tau), True, "rho*, attained by the optimal policy"
    else:
        found = attainable_shortfalls(mdp, keep=keep)
        upper = tau - _largest_below(found.by_target, tau)
        if found.complete:
            return PlateauBounds(lower=upper, upper=upper, reason="exact: every attainable P(G < x) was computed")
        source = f"attained by a policy, found among {keep} probabilities per need"
        # A target needs no arithmetic if all policies, or no policy, miss it with probability below tau.
        undecided = any(reaches(float(v[0]), tau) and not reaches(float(v[-1]), tau) for v in found.by_target)
    lower, proof = upper, "no P(G < x) lies between"
    if undecided:
        N = common_denominator(mdp)
        unit = f"1/{N}" if N < 10**9 else f"about 1e-{math.ceil(math.log10(N))}"
        lower = min(upper, float(Fraction(1, math.lcm(N, Fraction(repr(tau)).denominator))))
        proof = f"every P(G < x) is a multiple of {unit}"
    return PlateauBounds(lower=lower, upper=upper, reason=f"upper end: {source}; lower end: {proof}")


def common_denominator(mdp: MDP) -> int:
    """Return N such that every event of an episode has a probability k / N; 0.1 is read as 1/10."""
    N = math.lcm(*(p.denominator for p in read_rows(mdp.mu, np.array([0, mdp.S]))))
    for h in range(mdp.H):
        stage = mdp.stage(h)
        if h == 0 or not mdp.stationary:
            divisor = np.array([p.denominator for p in read_rows(stage.probability, stage.row_start)], dtype=object)
        N *= math.lcm(*set(divisor[reachable_outcomes(mdp, h)]))
    return N


def _largest_below(by_target: Sequence[FloatArray], tau: float) -> float:
    """Return the largest attainable P(G < x) below tau."""
    every = np.concatenate(by_target)
    return float(every[reaches(every, tau)].max())


# -- attainable shortfall probabilities -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shortfalls:
    """Attainable probabilities of ending below each target."""

    targets: FloatArray  # the targets x
    by_target: tuple[FloatArray, ...]  # for each target, P_pi(G < x) of all deterministic policies, in increasing order
    complete: bool  # whether all attainable numbers are listed


def attainable_shortfalls(mdp: MDP, *, max_values: int = MAX_VALUES, keep: int | None = None) -> Shortfalls:
    """Return every P_pi(G < x) that a deterministic policy attains; SizeError beyond `max_values` numbers per stage.

    With `keep`, only a sample of at most `keep` numbers per (stage, state, need) is kept, including the smallest and the
    largest; `max_values` then has no effect.
    """
    mdp = check_mdp(mdp)
    columns = columns_of(mdp, "the set of shortfall probabilities")
    limit = whole(max_values, "max_values", 1)
    sets = _Sets(limit, None if keep is None else whole(keep, "keep", 2))
    after: list[list[FloatArray]] = [[np.zeros(1), np.ones(1)]] * mdp.S
    for h in range(mdp.H - 1, -1, -1):
        after = _attained_numbers(mdp, h, columns, after, sets)
    starts = np.flatnonzero(mdp.mu).tolist()
    by_target = [sets.combine([(mdp.mu[s], after[s][c]) for s in starts]) for c in range(int(columns.size[0]))]
    return Shortfalls(
        targets=read_only(columns.points(0)),
        by_target=tuple(read_only(values) for values in by_target),
        complete=not sets.thinned,
    )


def _attained_numbers(
    mdp: MDP, h: int, columns: Grid, after: list[list[FloatArray]], sets: _Sets
) -> list[list[FloatArray]]:
    """Return the attained numbers of every state and need of stage h, given those of stage h + 1."""
    stage, last = mdp.stage(h), int(columns.size[h + 1])
    shift, jumps = columns.moves(mdp, h)
    here: list[list[FloatArray]] = [[]] * mdp.S
    stored = 0
    known: dict[tuple[int, bytes, bytes, bytes], FloatArray] = {}  # equal rows attain equal sets
    for s in np.flatnonzero(mdp.reachable[h]).tolist():
        here[s] = []
        for c in range(int(columns.size[h]) + 1):
            rows = []
            for a in np.flatnonzero(stage.available[s]).tolist():
                row = slice(stage.row_start[s * mdp.A + a], stage.row_start[s * mdp.A + a + 1])
                p, u, t = stage.probability[row], shift[row], stage.successor[row]
                key = (c, p.tobytes(), u.tobytes(), t.tobytes())
                if key not in known:
                    land = jumps[u, c] if jumps.size else np.clip(c + u, 0, last)
                    known[key] = sets.combine([(q, after[i][j]) for q, i, j in zip(p, t, land, strict=True) if q > 0.0])
                rows.append(known[key])
            here[s].append(sets.merge(np.concatenate(rows)))
            stored += here[s][-1].size
            sets.check(stored)
    return here


class _Sets:
    """Operations on finite sets of probabilities, stored as increasing arrays, within a budget."""

    def __init__(self, max_values: int, keep: int | None) -> None:
        self.max_values, self.keep, self.thinned = max_values, keep, False

    def combine(self, parts: list[tuple[float, FloatArray]]) -> FloatArray:
        """Return all sums of p_i v_i with one v_i from each part."""
        total = np.zeros(1)
        for p, values in parts:
            self.check(total.size * values.size)
            total = self.merge(np.add.outer(total, p * values).ravel())
        return total

    def merge(self, values: FloatArray) -> FloatArray:
        """Return the sorted distinct values; at most `keep` of them, evenly spaced in rank."""
        values = np.sort(values)
        values = values[np.r_[True, np.diff(values) > SAME]]
        if self.keep is not None and values.size > self.keep:
            self.thinned = True
            values = values[np.linspace(0, values.size - 1, self.keep).round().astype(np.int64)]
        return values

    def check(self, size: int) -> None:
        """Raise SizeError if `size` numbers exceed the budget."""
        if self.keep is None and size > self.max_values:
            message = f"the exact plateau must stay within max_values={self.max_values} numbers, got {size}"
            remedy = "raise max_values or use plateau_bounds(mdp, tau)"
            raise SizeError(f"{message}; {remedy}", needed=size, limit=self.max_values, name="max_values")
