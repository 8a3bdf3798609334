"""How fragile a quantile is: the left plateau of every policy, and the margin of the best one.

    rho_pi = tau - P(G_pi < Q_tau(G_pi)),    rho_tau = min over deterministic policies of rho_pi       (Definition 2)
    rho*   = tau - W_0(start, x*) = rho_pi of the optimal policy with the smallest shortfall

A buffer beta <= rho_pi changes nothing for pi. The paper lets the buffer sink below rho_tau; only the optimal policy has to
be clear of it (see `regret`), so rho* >= rho_tau does, and one sweep gives it at any size.

P(G < x) is below tau exactly for x <= Q_tau(G), and it grows with x, so

    rho_tau = tau - max{ P_pi(G < x) : pi deterministic, x real, P_pi(G < x) < tau }.

So the frontier of whole laws is not needed, only the numbers P_pi(G < x) that policies attain: from (h, s) with need n
a row attains every sum of p_i v_i with v_i attained from its outcome i. These sets may still grow exponentially.
Policies are those that see states, actions and, where rewards are random, rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bqrl.laws.functionals import reaches
from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import Policy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import check_levels
from bqrl.planners.rational import read_rows
from bqrl.planners.target import exact_grid, guarantee_curve
from bqrl.theory.checks import problem, whole

SAME = 1e-14  # probabilities closer than this are one number
MAX_VALUES = 200_000  # numbers kept for one stage, and made in adding up two sets
MAX_CELLS = 300_000  # (stage, state, need) cells whose sets are followed one by one


def optimal_margin(mdp: MDP, tau: float) -> float:
    """rho* = tau - W_0(start, x*), from one sweep; never smaller than `plateau(mdp, tau)`.

    >>> import bqrl
    >>> round(optimal_margin(bqrl.envs.make("AssetSelling"), 0.1), 5)
    0.01541
    """
    tau, _ = check_levels(tau, 0.0)
    curve = guarantee_curve(problem(mdp))
    if not curve.exact:
        raise ValueError("the margin needs returns on an exact grid; round the rewards or drop the discount")
    return curve.margin(tau).below


def plateau(mdp: MDP, tau: float, policy: Policy | None = None, *, max_values: int = MAX_VALUES) -> float:
    """rho_tau (Definition 2): how far tau can fall before the quantile of some deterministic policy does.

    With `policy` the plateau of that policy alone. Exact; ValueError where more than `max_values` numbers would have to be
    kept, which is the rule beyond small problems: `plateau_bounds` brackets it there.
    """
    tau, _ = check_levels(tau, 0.0)
    problem(mdp)
    if policy is not None:
        law = evaluate(mdp, policy)
        if not isinstance(law, Law):
            raise ValueError("the plateau of a policy needs its exact law; round the rewards or drop the discount")
        return law.margin(tau).below
    found = attainable_shortfalls(mdp, max_values=whole(max_values, "max_values", 1))
    return tau - _largest_below(found.by_target, tau)


@dataclass(frozen=True, slots=True)
class PlateauBounds:
    """A bracket of rho_tau and the reasons of its ends."""

    lower: float
    upper: float
    reason: str


def plateau_bounds(mdp: MDP, tau: float, *, keep: int = 32) -> PlateauBounds:
    """A bracket of rho_tau at any size that a sweep can take, with its reasons.

    At most `keep` of the attained probabilities are followed from each (stage, state, need), the smallest and largest among
    them. Each is attained by some policy, which proves the upper end: it is never above rho*. Where even the largest
    P(G < x) is below tau the lower end follows from it; elsewhere from arithmetic: all P(G < x) are multiples of 1 / N,
    with N the product of the stages' common denominators, so tau - P(G < x) > 0 is at least 1 / lcm(N, q) for tau = p / q.
    That is a proof and often a tiny number: where many probabilities are attained, some come close to any tau.
    """
    tau, _ = check_levels(tau, 0.0)
    keep = whole(keep, "keep", 2)
    columns = exact_grid(problem(mdp))
    if columns is None:
        raise ValueError("the plateau needs returns on an exact grid; round the rewards or drop the discount")
    if columns.cells * mdp.S > MAX_CELLS:
        upper, low, followed = optimal_margin(mdp, tau), 0.0, "rho* itself, the optimal policy's"
    else:
        found = attainable_shortfalls(mdp, keep=keep)
        upper = tau - _largest_below(found.by_target, tau)
        if found.complete:
            return PlateauBounds(upper, upper, "exact: every attainable P(G < x) was followed")
        followed = f"of a policy found by following {keep} probabilities per need"
        # Targets that every policy, or none, misses with probability below tau need no arithmetic.
        torn = any(reaches(float(v[0]), tau) and not reaches(float(v[-1]), tau) for v in found.by_target)
        low = 0.0 if torn else upper
    if low > 0.0:
        return PlateauBounds(low, upper, f"upper end: {followed}; lower end: no P(G < x) can lie between")
    N = common_denominator(mdp)
    least = float(Fraction(1, math.lcm(N, Fraction(repr(tau)).denominator)))
    digits = f"1/{N}" if N < 10**9 else f"about 1e-{math.ceil(math.log10(N))}"
    return PlateauBounds(
        min(least, upper), upper, f"upper end: {followed}; lower end: every P(G < x) is a multiple of {digits}"
    )


def common_denominator(mdp: MDP) -> int:
    """N such that every event of an episode has a probability k / N under any deterministic policy.

    Probabilities are read as the fractions a person means, 0.1 as 1/10.
    """
    N = math.lcm(*(p.denominator for p in read_rows(mdp.mu, np.array([0, mdp.S]))))
    for h in range(mdp.H):
        stage = mdp.stage(h)
        if h == 0 or not mdp.stationary:
            divisor = np.array([p.denominator for p in read_rows(stage.probability, stage.row_start)], dtype=object)
        met = np.repeat(np.repeat(mdp.reachable[h], mdp.A), np.diff(stage.row_start))
        N *= math.lcm(*set(divisor[met]))
    return N


@dataclass(frozen=True, slots=True, eq=False)
class Shortfalls:
    """The numbers P_pi(G < x) over deterministic policies, increasing, for every target x."""

    targets: FloatArray
    by_target: list[FloatArray]
    complete: bool  # False: some were left out


def attainable_shortfalls(mdp: MDP, *, max_values: int = MAX_VALUES, keep: int | None = None) -> Shortfalls:
    """Every P_pi(G < x), or with `keep` at most that many from each (stage, state, need), both extremes among them."""
    columns = exact_grid(mdp)
    if columns is None:
        raise ValueError("the plateau needs returns on an exact grid; round the rewards or drop the discount")
    sets = _Sets(max_values, keep)
    here: list[list[FloatArray]]
    after: list[list[FloatArray]] = [[np.zeros(1), np.ones(1)]] * mdp.S
    for h in range(mdp.H - 1, -1, -1):
        stage, last = mdp.stage(h), int(columns.size[h + 1])
        shift, jumps = columns.moves(mdp, h)
        here, kept = [[]] * mdp.S, 0
        known: dict[tuple[int, bytes, bytes, bytes], FloatArray] = {}  # rows that agree attain the same
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
                        known[key] = sets.combine(
                            [(q, after[i][j]) for q, i, j in zip(p, t, land, strict=True) if q > 0.0]
                        )
                    rows.append(known[key])
                here[s].append(sets.merge(np.concatenate(rows)))
                kept += here[s][-1].size
                sets.check(kept)
        after = here
    starts = np.flatnonzero(mdp.mu).tolist()
    by_target = [sets.combine([(mdp.mu[s], after[s][c]) for s in starts]) for c in range(int(columns.size[0]))]
    return Shortfalls(columns.points(0), by_target, not sets.thinned)


class _Sets:
    """Finite sets of probabilities as increasing arrays, merged, thinned to `keep`, never beyond a budget."""

    def __init__(self, max_values: int, keep: int | None) -> None:
        self.max_values, self.keep, self.thinned = max_values, keep, False

    def combine(self, parts: list[tuple[float, FloatArray]]) -> FloatArray:
        """All sums of p_i v_i with one v_i from each part."""
        total = np.zeros(1)
        for p, values in parts:
            self.check(total.size * values.size)
            total = self.merge(np.add.outer(total, p * values).ravel())
        return total

    def merge(self, values: FloatArray) -> FloatArray:
        """Sorted distinct values, at most `keep` of them, spread evenly between the extremes."""
        values = np.sort(values)
        values = values[np.r_[True, np.diff(values) > SAME]]
        if self.keep is not None and values.size > self.keep:
            self.thinned = True
            values = values[np.linspace(0, values.size - 1, self.keep).round().astype(np.int64)]
        return values

    def check(self, size: int) -> None:
        if self.keep is None and size > self.max_values:
            raise ValueError(
                f"the plateau needs more than {self.max_values} numbers here; plateau_bounds(mdp, tau) brackets it"
            )


def _largest_below(by_target: list[FloatArray], tau: float) -> float:
    every = np.concatenate(by_target)
    return float(every[reaches(every, tau)].max())
