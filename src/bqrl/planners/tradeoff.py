"""The price of certainty: the best mean for every guarantee, with a proven upper bound.

For a level tau and a guarantee x, by Lagrangian duality over the constraint P(G < x) < tau,

    best mean  <=  min over m >= 0 of { max over policies of (E[G] - m P(G < x)) + m tau }.

The inner maximum is one sweep with terminal cost m 1{n > 0} and weight 1 on the mean, for every x at once: column x of the
root gives the value, the mean and hence the shortfall of its policy. A few dozen multipliers therefore give the whole curve,
for every level. Only these root values are kept; a policy is recomputed when it is requested. The next multiplier is the
secant of the guarantee at which the bound can still fall most. They end where no bound can fall, which is also where `at_least`
finds no better policy; on large problems after thirty sweeps, and some more for the best guarantee alone.

The mean of another outcome of the model can take the place of the mean return: the sweeps then carry its expected amounts,
while the needs still follow the reward. A mean that is minimised is maximised with the opposite sign.

For CVaR in place of the quantile, the sweeps maximise (1 - w) E[G] + w CVaR for weights w (see terminal.py), and the bound
for a CVaR of at least c is min over w of (V(w) - w c) / (1 - w); likewise for a buffered quantile, whose V(w) is bounded.

Without an exact grid, policies come from returns rounded down, which proves their guarantees, and bounds from returns rounded
up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from bqrl.checks import bad_type, bad_value, exact_text, number, whole
from bqrl.display import Charted, format_number
from bqrl.errors import ArgumentError, GridError
from bqrl.laws.law import Law, reaches, size_of
from bqrl.laws.objectives import Buffered, Objective, Quantile, check_objective
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.find_grid import cut_to_possible, lattice, rounded_grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.outcomes import REWARD, check_known
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.expected import best_mean
from bqrl.planners.plan import Plan
from bqrl.planners.room import MAX_BYTES, check_memory, exact_grid
from bqrl.planners.sweep import Sweep, best_column, rounding_error, sweep, sweep_work
from bqrl.planners.terminal import MeanCVaR, cost_sweep, plan_mean_cvar
from bqrl.planners.widths import clipped_cost
from bqrl.policies.forward import expected_rewards
from bqrl.policies.protocol import Policy

SWEEPS = 30  # for all guarantees of a large problem
WIDTHS = 4  # of the buffer, for one weight of a buffered quantile
FINISHING = 20  # further ones for its best guarantee
QUICK_WORK = 2.0 / 1.5e-9  # outcomes times columns of all sweeps of a small problem: two seconds on two cores of 2024
TRADE_POINTS = 5000  # of a rounded grid
TINY_WEIGHT = 1e-6  # of CVaR beside the mean: among the policies with the best mean, one with a large CVaR
SETTLED = 1e-9  # bounds within this share of the size of the returns are final; multipliers this close are equal


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Roots:
    """The root values of sweeps with several multipliers: for every target of a grid, what its policy gives.

    `above` holds the targets and values of the sweeps on returns rounded up; without rounding they are those of the grid.
    """

    mdp: MDP
    grid: Grid
    targets: FloatArray  # (X,)
    multipliers: FloatArray  # (K,) increasing, from 0 (the risk-neutral policy) to inf (the smallest shortfall)
    shortfall: FloatArray  # (K, X) P(G < x) of the policy of each target, or slightly more
    mean: FloatArray  # (K, X) its mean
    above: FloatArray  # (Y,) targets of the bounds
    value: FloatArray  # (K, Y) the largest E[G] - m P(G < y); inf for the multiplier inf
    size: float  # of the means
    gain: FloatArray | None = None  # (H, S*A) expected amounts in place of the rewards

    def with_multiplier(self, multiplier: float, high: Grid | None) -> Roots:
        """Add the sweep of one more multiplier."""
        done = sweep(self.mdp, self.grid, np.array([0.0, multiplier]), weight=1.0, gain=self.gain)
        n = self.targets.size
        assert done.mean is not None
        mean, value = done.mean[:n], -done.root[:n]
        error = 2.0 * rounding_error(self.mdp) * (self.size / multiplier + 1.0)  # of a difference of means
        short = np.clip((mean - value) / multiplier + error, 0.0, 1.0)
        if high is not None:
            cost = np.array([0.0, multiplier])
            above = sweep(self.mdp, high, cost, weight=1.0, gain=self.gain, policy=False)
            value = -above.root[: self.above.size]
        at = int(np.searchsorted(self.multipliers, multiplier))
        return replace(
            self, multipliers=np.insert(self.multipliers, at, multiplier), shortfall=np.insert(self.shortfall, at, short, 0),
            mean=np.insert(self.mean, at, mean, 0), value=np.insert(self.value, at, value, 0),
        )  # fmt: skip

    def upper(self, tau: float) -> FloatArray:
        """Return the bound on the mean for every target: it never rises with the target."""
        finite = np.isfinite(self.multipliers)
        bound = (self.value[finite] + (tau * self.multipliers[finite])[:, None]).min(axis=0)
        bound = np.minimum.accumulate(bound)
        if self.above is self.targets:
            return bound
        return bound[np.maximum(np.searchsorted(self.above, self.targets, side="right") - 1, 0)]

    def best(self, tau: float) -> tuple[IntArray, IntArray, FloatArray]:
        """Return for every target the multiplier and the target of the best policy found, and its mean; -inf if none.

        A policy that reaches a higher target reaches this one, too.
        """
        mean = np.where(reaches(self.shortfall, tau), self.mean, -np.inf)
        k, columns = mean.argmax(axis=0), np.arange(self.targets.size)
        own = mean[k, columns]
        place = columns.copy()
        for x in range(place.size - 2, -1, -1):
            if own[place[x + 1]] > own[x]:
                place[x] = place[x + 1]
        return k[place], place, own[place]

    def policy(self, k: int, place: int) -> Policy:
        """Return the policy of one multiplier and target, from one more sweep."""
        multiplier = float(self.multipliers[k])
        if multiplier == 0.0:
            return best_mean(self.mdp, self.gain)[1]
        finite = np.isfinite(multiplier)
        cost = np.array([0.0, multiplier if finite else 1.0])
        return sweep(self.mdp, self.grid, cost, weight=float(finite), gain=self.gain).policy(float(self.targets[place]))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Tradeoff(Charted):
    """The best mean for every guarantee; made by `tradeoff`.

    `rows()` lists the guarantees from that of the risk-neutral policy to the best one. `trade.policy(guarantee=x)` is the policy
    of a row, and `solve(mdp, tau, at_least=x)` finds the best one for exactly this guarantee.

    Attributes
    ----------
    mdp : MDP
        The problem.
    objective : Objective
        What is guaranteed: a quantile or CVaR.
    guarantee : ndarray of shape (n,)
        The guarantees in increasing order.
    mean : ndarray of shape (n,)
        The mean of the best policy found for each: of the return, or of `outcome`.
    bound : ndarray of shape (n,)
        A proven bound on this mean for all policies with the guarantee: an upper bound, or with `minimise` a lower bound. In
        `rows()` it is called "mean_upper" or "mean_lower".
    shortfall : ndarray of shape (n,)
        This policy falls short of the guarantee with at most this probability.
    exact : bool
        False if returns are rounded; guarantees and bounds are then proven, too, but further apart.
    sweeps : int
        Number of sweeps.
    outcome : str
        The outcome whose mean is traded; "reward" is the return.
    minimise : bool
        Whether a lower mean of the outcome is better.

    Examples
    --------
    >>> import bqrl
    >>> trade = bqrl.tradeoff("SafeOrRisky", tau=0.1)
    >>> [(row["guarantee"], round(row["mean"], 2)) for row in trade.rows()][-2:]
    [(11.0, 16.28), (12.0, 16.03)]
    """

    mdp: MDP
    objective: Quantile | Buffered
    guarantee: FloatArray
    mean: FloatArray
    bound: FloatArray
    shortfall: FloatArray
    exact: bool
    sweeps: int
    recompute: Callable[[int], Policy]
    roots: Roots | None = None
    outcome: str = REWARD
    minimise: bool = False

    def __post_init__(self) -> None:
        for name in ("guarantee", "mean", "bound", "shortfall"):
            object.__setattr__(self, name, read_only(getattr(self, name)))

    def rows(self) -> list[dict[str, float]]:
        """Return one row per guarantee: the best mean found, its proven bound, and the probability of falling short."""
        columns = ("guarantee", "mean", self.bound_name, "shortfall")
        numbers = (self.guarantee, self.mean, self.bound, self.shortfall)
        return [dict(zip(columns, row, strict=True)) for row in zip(*(x.tolist() for x in numbers), strict=True)]

    @property
    def bound_name(self) -> str:
        """Name of the bound in the rows."""
        return "mean_lower" if self.minimise else "mean_upper"

    def place(self, guarantee: float) -> int:
        """Return the row of a guarantee: the first that guarantees at least as much."""
        wanted = number(guarantee, "guarantee")
        slack = 1e-9 * size_of(self.guarantee)
        i = int(np.searchsorted(self.guarantee, wanted - slack))
        if i == self.guarantee.size:
            best = format_number(float(self.guarantee[-1]), 12, -1)
            raise bad_value("guarantee", guarantee, f"be at most {best}, the best guarantee", exact_text(wanted))
        return i

    def policy(self, guarantee: float) -> Policy:
        """Return the policy of the first row that guarantees at least `guarantee`; computed when called."""
        return self.recompute(self.place(guarantee))

    def at(self, tau: float) -> Tradeoff:
        """Return the curve at another level from the same sweeps; its bounds are proven but may be wider."""
        if self.roots is None:
            raise ArgumentError("another level requires the trade-off of a quantile, got CVaR", name="tau", value=tau)
        return _curve(self.roots, Quantile(tau), self.sweeps, self.exact, self.outcome, self.minimise)

    def __repr__(self) -> str:
        ends = f"{self.guarantee[0]:.6g} to {self.guarantee[-1]:.6g}"
        return f"Tradeoff({self.objective.label}: {self.guarantee.size} guarantees from {ends}, {self.sweeps} sweeps)"


def tradeoff(
    mdp: MDP | str, objective: Objective | float | None = None, *, tau: float | None = None, outcome: str = REWARD,
    minimise: bool = False, sweeps: int | None = None, points: int | None = None, max_bytes: float = MAX_BYTES,
) -> Tradeoff:  # fmt: skip
    """Return the best mean for every guarantee at a level, with proven upper bounds: the price of certainty.

    Parameters
    ----------
    mdp : MDP or str
        The problem, or its name as for `solve`.
    objective : Objective or float
        What is guaranteed: `Quantile(tau)`, `CVaR(tau)`, a buffered quantile (on a lattice), or a level, as is `tau`.
    tau : float
        Quantile level in (0, 1).
    outcome : str
        The outcome of the model whose mean is traded for the guarantee, by default the return itself. The guarantee always
        concerns the return. CVaR and buffered quantiles can only be traded for the mean return.
    minimise : bool
        Whether a lower mean of the outcome is better, as for costs; by default a higher one is.
    sweeps : int, optional
        Largest number of sweeps; fewer if the bounds do not fall any more. By default as many as two seconds allow, but at
        least 30 and for the best guarantee alone 20 more.
    points, max_bytes
        As for `guarantee_curve`.

    Returns
    -------
    Tradeoff

    Examples
    --------
    >>> import bqrl
    >>> trade = bqrl.tradeoff(bqrl.envs.make("AssetSelling"), tau=0.1)
    >>> round(24 * trade.guarantee[-1]), round(float(trade.mean[-1]), 3)
    (19, 0.86)
    """
    problem, goal = check_mdp(mdp), check_objective(objective, tau)
    check_known((REWARD, *problem.outcome_names), outcome)
    if not isinstance(minimise, bool):
        raise bad_type("minimise", minimise, "be True or False")
    sweeps = None if sweeps is None else whole(sweeps, "sweeps", 2)
    points = None if points is None else whole(points, "points", 2)
    max_bytes = number(max_bytes, "max_bytes", 0.0, ends="(]")
    if isinstance(goal, Buffered):
        if outcome != REWARD or minimise:
            rule = "be a quantile for another outcome than the mean return"
            raise bad_value("objective", goal, rule, goal.label)
        if goal.beta == goal.tau:
            return _cvar_tradeoff(problem, goal, sweeps or SWEEPS, points, max_bytes)
        if points is not None:
            raise bad_value("points", points, "be omitted for a buffered quantile, whose trade-off is exact")
        return _buffered_tradeoff(problem, goal, sweeps or 2 * SWEEPS, max_bytes)
    if not isinstance(goal, Quantile):
        raise bad_value("objective", goal, "be a quantile, buffered or not", goal.label)
    grid, high = exact_grid(problem, max_bytes, or_rounded=True) if points is None else None, None
    exact = grid is not None
    if grid is None:
        grid, high = (rounded_grid(problem, points or TRADE_POINTS, up=up) for up in (False, True))
        check_memory(problem, grid, max_bytes)
    gain = None
    if outcome != REWARD or minimise:
        amounts = [problem.discount**h * expected_rewards(problem, h, outcome).reshape(-1) for h in range(problem.H)]
        gain = np.array(amounts) * (-1.0 if minimise else 1.0)
    roots, done = _first_roots(problem, grid, high, gain), 2
    work = sweep_work(problem, grid)
    quick = QUICK_WORK / work / (1 if high is None else 2)
    most = max(SWEEPS, int(quick)) if sweeps is None else sweeps
    for count, last in ((most, False), (most + FINISHING if sweeps is None else 0, True)):
        while done < count and (multiplier := _next_multiplier(roots, goal.tau, last)) is not None:
            roots, done = roots.with_multiplier(multiplier, high), done + 1
    return _curve(roots, goal, done, exact, outcome, minimise)


def _first_roots(mdp: MDP, grid: Grid, high: Grid | None, gain: FloatArray | None) -> Roots:
    """Return the roots of the two ends: the policy with the best mean, and the smallest shortfall."""
    safest, (best, neutral), targets = sweep(mdp, grid, gain=gain), best_mean(mdp, gain), grid.points(0)
    law, n = law_bracket(mdp, neutral)[0], targets.size
    assert safest.mean is not None
    short = np.array([law.shortfall(x) for x in targets.tolist()])
    above = targets if high is None else high.points(0)
    return Roots(
        mdp=mdp, grid=grid, targets=targets, multipliers=np.array([0.0, np.inf]), above=above,
        shortfall=np.stack([short, safest.root[:n]]), mean=np.stack([np.full(n, best), safest.mean[:n]]),
        value=np.stack([np.full(above.size, best), np.full(above.size, np.inf)]), gain=gain,
        size=size_of(targets) if gain is None else max(float(np.abs(gain).max(axis=1).sum()), 1e-300),
    )  # fmt: skip


def _next_multiplier(roots: Roots, tau: float, last: bool) -> float | None:
    """Return the secant multiplier of the target (or the `last` one) whose bound can still fall most; None if no bound can.

    Between a policy that reaches the target and one that does not, the bound cannot fall below the line through both. If the
    latter falls short with exactly the probability tau, its mean is the bound, and only the mean of the former can still rise.
    """
    n = int(best_column(roots.shortfall[-1], tau)) + 1
    short, mean, columns = roots.shortfall[:, :n], roots.mean[:, :n], np.arange(n)
    feasible = reaches(short, tau)
    first = feasible.argmax(axis=0)  # multipliers increase, so shortfalls fall
    before = np.maximum(first - 1, 0)
    low, high = short[first, columns], short[before, columns]
    gain, cost = mean[before, columns] - mean[first, columns], high - low
    open_still = (first > 0) & (gain > 0.0) & (cost > 0.0)
    slope = np.divide(gain, cost, out=np.zeros(n), where=open_still)
    line = mean[first, columns] + slope * (tau - low)
    line = np.where(high <= tau + SETTLED, mean[first, columns], line)
    left = np.where(open_still, roots.upper(tau)[:n] - line, 0.0)
    if last:
        left[:-1] = 0.0
    tried = roots.multipliers[1:-1]
    for x in np.argsort(-left, kind="stable")[: 4 * tried.size + 4].tolist():
        if left[x] <= SETTLED * roots.size:
            return None
        if np.all(np.abs(tried - slope[x]) > SETTLED * slope[x]):
            return float(slope[x])
    return None


def _curve(roots: Roots, goal: Quantile, sweeps: int, exact: bool, outcome: str, minimise: bool) -> Tradeoff:
    """Return the curve at one level: of several targets with the same mean and bound only the highest."""
    n = int(best_column(roots.shortfall[-1], goal.tau)) + 1
    k, place, mean = roots.best(goal.tau)
    k, place, mean = k[:n], place[:n], mean[:n]
    upper = np.maximum(roots.upper(goal.tau)[:n], mean)
    same, sign = SETTLED * roots.size, -1.0 if minimise else 1.0
    kept = np.flatnonzero(np.r_[(np.abs(np.diff(mean)) > same) | (np.abs(np.diff(upper)) > same), True])
    guarantee = roots.targets[kept] if exact else cut_to_possible(roots.mdp, roots.targets[kept])
    return Tradeoff(
        mdp=roots.mdp, objective=goal, guarantee=guarantee, mean=sign * mean[kept] + 0.0, bound=sign * upper[kept] + 0.0,
        outcome=outcome, minimise=minimise,
        shortfall=roots.shortfall[k[kept], place[kept]], exact=exact, sweeps=sweeps, roots=roots,
        recompute=lambda i: roots.policy(int(k[kept[i]]), int(place[kept[i]])),
    )  # fmt: skip


def _cvar_tradeoff(mdp: MDP, goal: Buffered, sweeps: int, points: int | None, max_bytes: float) -> Tradeoff:
    """Return the trade-off between the mean and CVaR: the corners of the convex hull of what policies attain.

    Between two neighbouring corners lies a further one if the sweep whose weight makes both equal finds a better policy.
    """
    found = dict[float, Plan]()  # by weight

    def plan(weight: float) -> tuple[float, float]:
        if weight not in found:
            found[weight] = plan_mean_cvar(mdp, MeanCVaR(goal.tau, weight), points=points, max_bytes=max_bytes)
        return goal(found[weight].law), found[weight].mean

    open_still, size = [(TINY_WEIGHT, 1.0)], size_of(np.array([*plan(1.0), *plan(TINY_WEIGHT)]))
    while open_still and len(found) < sweeps:
        left, right = open_still.pop(0)
        (c, mean), (more, less) = plan(left), plan(right)
        if more - c <= SETTLED * size or mean - less <= SETTLED * size:
            continue
        slope = (mean - less) / (more - c)
        weight = slope / (1.0 + slope)
        line = (1.0 - weight) * mean + weight * c
        plan(weight)
        if found[weight].value > line + SETTLED * size:
            open_still += [(left, weight), (weight, right)]
    order = sorted(found)
    points_of = np.array([plan(weight) for weight in order])
    weights, bound = np.array(order[:-1]), np.array([found[w].upper for w in order[:-1]], float)
    upper = ((bound[:, None] - weights[:, None] * points_of[None, :, 0]) / (1.0 - weights[:, None])).min(axis=0)
    upper = np.maximum(upper, points_of[:, 1])
    # A corner may be found with several weights, and one with a lower CVaR and a lower mean is none.
    first = np.r_[True, np.diff(np.maximum.accumulate(points_of[:, 0])) > SETTLED * size]
    kept = np.flatnonzero(first)
    return Tradeoff(
        mdp=mdp, objective=goal, guarantee=points_of[kept, 0], mean=points_of[kept, 1], bound=upper[kept],
        shortfall=np.array([found[order[i]].law.shortfall(points_of[i, 0]) for i in kept.tolist()]),
        exact=all(one.exact for one in found.values()), sweeps=len(found), recompute=lambda i: found[order[kept[i]]].policy,
    )  # fmt: skip


def _buffered_tradeoff(mdp: MDP, goal: Buffered, sweeps: int, max_bytes: float) -> Tradeoff:
    """Return the trade-off between the mean and a buffered quantile Q, on the lattice of returns.

    With F(z, d) of buffered.py, (1 - w) E[G] + w Q is max over z of the minimum over d of (1 - w) E[G] + w F(z, d) / beta. One
    sweep per width d maximises the latter over policies for every z, so any widths give a bound. Here they lie between those
    that matter for the two ends. Q is not concave, so every policy found counts, and the next weight is that at which the
    neighbours furthest apart are equal.
    """
    grid = lattice(mdp)
    if grid is None:
        raise GridError("the trade-off of a buffered quantile requires returns on a lattice; use CVaR or a quantile")
    check_memory(mdp, grid, max_bytes, sweeps=2)
    tau, beta, z = goal.tau, goal.beta, grid.points(0)
    safest, (best, neutral) = plan_buffered(mdp, tau, beta, max_bytes=max_bytes), best_mean(mdp)
    law = law_bracket(mdp, neutral)[0]
    found: list[tuple[float, float, Law, Policy]] = [(goal(law), best, law, neutral)]
    size = size_of(z)
    if safest.value > found[0][0] + SETTLED * size:
        found.append((safest.value, safest.mean, safest.law, safest.policy))
    spans = [
        max(1.0, (one.quantile(tau) - one.quantile(tau - beta)) / grid.step) for _, _, one, _ in (found[0], found[-1])
    ]
    widths = np.unique(np.geomspace(spans[0], spans[1], WIDTHS).round()).tolist()
    bounds = dict[float, float]()  # of the weighted sums, by weight
    while (len(bounds) + 1) * len(widths) <= sweeps:
        open_still = []
        for one, two in pairwise(found):
            more, less = two[0] - one[0], one[1] - two[1]
            if all(abs(less / (less + more) - weight) > SETTLED for weight in bounds):
                open_still.append((more * less, less / (less + more), one, two))
        if not open_still:
            break
        _, weight, *ends = max(open_still, key=lambda each: each[0])
        unit, swept = weight * grid.step / beta, list[Sweep]()
        lines = [weight * z + (1.0 - weight) * best]  # at width 0
        for d in widths:
            cost = unit * clipped_cost(d)
            swept.append(cost_sweep(mdp, grid, cost, weight=1.0 - weight))
            lines.append(weight * z + (tau - beta) * d * unit - swept[-1].root[: z.size])
        own = np.min(lines, axis=0)
        bounds[weight] = float(own.max())
        targets = {float(z[own.argmax()]), *(law.quantile(tau) for _, _, law, _ in ends)}
        for policy in (done.policy(target) for done in swept for target in sorted(targets)):
            law = law_bracket(mdp, policy)[0]
            found.append((goal(law), law.exact_mean, law, policy))
        found.sort(key=lambda each: each[:2])
        # the best mean of those with a higher value
        means = np.maximum.accumulate([-np.inf, *(mean for _, mean, _, _ in reversed(found))])[-2::-1]
        found = [one for one, behind in zip(found, means.tolist(), strict=True) if one[1] > behind + SETTLED * size]
    values, means = (np.array([one[k] for one in found]) for k in (0, 1))
    upper = np.minimum.reduce([np.full(values.size, best), *((v - w * values) / (1.0 - w) for w, v in bounds.items())])
    return Tradeoff(
        mdp=mdp, objective=goal, guarantee=values, mean=means, bound=np.maximum(upper, means),
        shortfall=np.array([law.shortfall(value) for value, _, law, _ in found]), exact=True,
        sweeps=len(bounds) * len(widths), recompute=lambda i: found[i][3],
    )  # fmt: skip
