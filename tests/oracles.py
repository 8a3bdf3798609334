"""Slow, obvious truths about small problems, in exact fractions; nothing here imports a planner.

`small_mdps()` draws problems for Hypothesis and `random_mdp(rng)` the same problems for loops of thousands: few states,
coarse rewards (whole, decimal, negative) and probabilities that are small counts over their sum, so that ties are common.
`achievable_laws(mdp)` is every return law that some deterministic history-dependent policy attains.
"""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from bqrl.laws.law import Law
from bqrl.mdp.model import MDP

ExactLaw = tuple[tuple[Fraction, Fraction], ...]  # increasing values with positive probabilities that sum to 1

UNITS = (1.0, 0.1, 0.25, 1 / 3)
COUNTS = ((1,), (1, 1), (1, 1), (1, 3), (2, 3), (1, 9), (1, 1, 1), (1, 1, 2), (5, 1), (1, 2, 7))
LEVELS = tuple(
    Fraction(k, n) for n, ks in ((10, (1, 3, 5, 7, 9)), (4, (1, 3)), (3, (1, 2)), (6, (1, 5)), (12, (5, 7))) for k in ks
)  # common atoms
MAX_LAWS = 1_000


# -- problems -------------------------------------------------------------------------------------------------------


@st.composite
def small_mdps(draw, **sizes):
    """Small problems of every kind, see `_build`."""
    return _build(lambda low, high: draw(st.integers(low, high)), **sizes)


def random_mdp(rng: np.random.Generator, **sizes) -> MDP:
    """The same problems from a NumPy generator."""
    return _build(lambda low, high: int(rng.integers(low, high + 1)), **sizes)


def _build(whole, states=3, actions=2, horizon=4, plain=False) -> MDP:
    """A problem from whole(low, high), the only source of choice.

    Stationary or not; rewards by (s, a), by (s, a, s_next) or random; sometimes masked actions, successors of probability
    zero, or a law over first states. `plain` leaves these three out and fixes the start at 0.
    """
    S, H = max(whole(1, states), whole(1, states)), whole(1, horizon)
    A = actions if whole(0, 9) else 1
    K = H if whole(0, 1) else 1
    unit, shift = UNITS[whole(0, len(UNITS) - 1)], whole(0, 2)
    widest = 3 if H <= 2 else 2  # outcomes a row: the number of laws explodes

    def reward():
        return (whole(0, 3) - shift) * unit

    def counts():
        found = COUNTS[whole(0, len(COUNTS) - 1)]
        return found if len(found) <= widest else (1, 1)

    def first():
        if plain or S == 1 or whole(0, 3):
            return 0 if plain else whole(0, S - 1)
        weights = np.array([whole(0, 2) for _ in range(S)], float)
        return weights / weights.sum() if weights.any() else 0

    def masked(a):
        return not plain and a > 0 and whole(0, 5) == 0

    if whole(0, 3) == 0:  # random rewards: several outcomes may share a successor
        listed = []
        for k in range(K):
            for s in range(S):
                for a in range(A):
                    if masked(a):
                        continue
                    shares = counts()
                    for share in shares:
                        line = (s, a, whole(0, S - 1), share / sum(shares), reward())
                        listed.append((k, *line) if K > 1 else line)
        return MDP(listed, start=first(), horizon=H)

    P, exists = np.zeros((K, S, A, S)), np.ones((K, S, A), bool)
    for k in range(K):
        for s in range(S):
            for a in range(A):
                shares = counts()
                for share in shares:
                    P[k, s, a, whole(0, S - 1)] += share / sum(shares)
                if masked(a):
                    P[k, s, a], exists[k, s, a] = 0.0, False
    depth = (H, K, 1)[whole(0, 2)]  # a stationary kernel may have rewards that change by stage
    by_outcome = whole(0, 1)
    R = np.array(
        [
            [[[reward() for _ in range(S if by_outcome else 1)] for _ in range(A)] for _ in range(S)]
            for _ in range(depth)
        ]
    )
    R = np.broadcast_to(R, (H, S, A, S))
    support = None
    if not plain and whole(0, 4) == 0:
        support = np.array(
            [[[[whole(0, 3) == 0 for _ in range(S)] for _ in range(A)] for _ in range(S)] for _ in range(K)]
        )
        support &= exists[..., None]
    return MDP(P if K > 1 else P[0], R, first(), H, available=exists, support=support)


# -- an MDP in fractions --------------------------------------------------------------------------------------------


def fraction(x: float) -> Fraction:
    """The simplest fraction within 1e-12 of x."""
    for digits in range(1, 13):
        near = Fraction(x).limit_denominator(10**digits)
        if abs(near - Fraction(x)) <= Fraction(1, 10**12):
            return near
    return Fraction(x)


def exact_outcomes(mdp: MDP, h: int, s: int, a: int) -> list[tuple[int, Fraction, Fraction]]:
    """(successor, probability, reward in the money of stage 0) of the outcomes that can happen."""
    successors, probabilities, rewards = mdp.outcomes(h, s, a)
    worth = fraction(mdp.discount) ** h
    found = [
        (int(t), fraction(p), worth * fraction(r))
        for t, p, r in zip(successors, probabilities, rewards, strict=True)
        if p > 0
    ]
    assert not found or sum(p for _, p, _ in found) == 1
    return found


def achievable_laws(mdp: MDP, cap: int = MAX_LAWS) -> list[ExactLaw] | None:
    """Every return law that some deterministic history-dependent policy attains; None where more than `cap` arise.

    After each outcome (reward, successor) the policy may continue as it likes: the laws of a row are all the ways of
    picking one continuation law for each outcome.
    """
    after: list[set[ExactLaw] | None] = [{((Fraction(0), Fraction(1)),)}] * mdp.S
    for h in range(mdp.H - 1, -1, -1):
        here: list[set[ExactLaw] | None] = [None] * mdp.S
        for s in np.flatnonzero(mdp.reachable[h]):
            laws: set[ExactLaw] = set()
            for a in np.flatnonzero(mdp.available[0 if mdp.stationary else h, s]):
                found = _combinations([(after[t], p, r) for t, p, r in exact_outcomes(mdp, h, int(s), int(a))], cap)
                if found is None:
                    return None
                laws |= found
            here[s] = laws
        after = here
    found = _combinations([(after[s], fraction(mdp.mu[s]), Fraction(0)) for s in np.flatnonzero(mdp.mu)], cap)
    return None if found is None else sorted(found)


def _combinations(parts, cap):
    """All sums over the parts (laws, weight, shift) of one law each, weighted and shifted."""
    partial = {()}
    for laws, weight, shift in parts:
        if len(partial) * len(laws) > 10 * cap:
            return None
        partial = {_plus(sofar, law, weight, shift) for sofar in partial for law in laws}
        if len(partial) > cap:
            return None
    return partial


def _plus(sofar, law, weight, shift):
    mass = dict(sofar)
    for x, p in law:
        mass[x + shift] = mass.get(x + shift, 0) + weight * p
    return tuple(sorted(mass.items()))


def to_law(law: ExactLaw) -> Law:
    """The law in floating point."""
    return Law([float(x) for x, _ in law], [float(p) for _, p in law])


# -- objectives -----------------------------------------------------------------------------------------------------


def exact_mean(law: ExactLaw) -> Fraction:
    """E G."""
    return sum((x * p for x, p in law), Fraction(0))


def exact_quantile(law: ExactLaw, tau: Fraction) -> Fraction:
    """inf{x : P(G <= x) >= tau}."""
    mass = Fraction(0)
    for x, p in law:
        mass += p
        if mass >= tau:
            return x
    raise AssertionError("the masses sum to 1")


def exact_objective(law: ExactLaw, tau: Fraction, beta: Fraction = Fraction(0)) -> Fraction:
    """The tau-quantile; with beta > 0 its average over the levels tau - beta .. tau."""
    if beta == 0:
        return exact_quantile(law, tau)
    total, before = Fraction(0), Fraction(0)
    for x, p in law:
        total += x * max(min(tau, before + p) - max(tau - beta, before), 0)
        before += p
    return total / beta


def best_objective(laws: list[ExactLaw], tau: Fraction, beta: Fraction = Fraction(0)) -> Fraction:
    """The largest objective value of all laws."""
    return max(exact_objective(law, tau, beta) for law in laws)


def mixture_optimum(laws: list[ExactLaw], tau: float, beta: float) -> float:
    """The largest buffered quantile of a mixture of the laws, by linear programming.

    beta * Q^beta = max_z min_{y <= z} { tau z - (tau - beta) y - E clip(z - G, 0, z - y) }, z and y over the returns: for
    every z one programme over the weights of the mixture, which enter the expectation linearly.
    """
    from scipy.optimize import linprog

    tau, beta = float(tau), float(beta)
    points = np.array(sorted({float(x) for law in laws for x, _ in law}))
    pmf = np.zeros((len(laws), points.size))
    for i, law in enumerate(laws):
        for x, p in law:
            pmf[i, np.searchsorted(points, float(x))] += float(p)
    best = points[0]
    for z in points:
        y = points[points <= z]
        costs = np.clip(z - points[None, :], 0.0, (z - y)[:, None]) @ pmf.T  # (y, laws)
        above = np.c_[costs, np.full(y.size, beta)]  # beta t + E clip(...) <= tau z - (tau - beta) y
        solved = linprog(
            np.r_[np.zeros(len(laws)), -1.0], above, tau * z - (tau - beta) * y,
            np.r_[np.ones(len(laws)), 0.0][None], [1.0], [(0, None)] * len(laws) + [(None, None)],
        )  # fmt: skip
        assert solved.success, solved.message
        best = max(best, -solved.fun)
    return float(best)
