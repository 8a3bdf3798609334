"""Facts about plans and promises: small records in `plan.notes`, which planners make and `results/words.py` puts into words.

Programs look at the type and the fields of a fact; people read `plan.remarks`. A new kind of fact is one record here and one
function in `results/words.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from bqrl.laws.objectives import Objective


class Fact:
    """One remark on a result."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Bracketed(Fact):
    """Value and upper bound are a bracket, computed on rounded returns."""

    points: int  # of the grid
    by_choice: bool = False  # the caller requested the grid; otherwise no exact grid fits
    lattice: bool = False  # the planner requires a lattice; otherwise any exact grid serves
    law_error: float | None = None  # bound on the error of the policy's law; 0 if it is exact, None if not stated


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedReturns(Fact):
    """The returns are rounded to a grid."""

    points: int
    error: float  # the largest change of a return
    up: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundedLaw(Fact):
    """No exact grid of returns fits, so the law of the policy has a rounding error."""

    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class OnStateGrid(Fact):
    """Value and upper bound are proven for continuous states; the law is that of the policy in the lower finite model."""

    points: int  # of the grid of states
    error: float  # by how much returns may differ from those of the grid; 0 if the bracket comes from an order
    may_leave: tuple[bool, bool]  # runs that leave the grid count as a miss in the lower, as a win in the upper model
    averaged: bool = False  # the rewards of the finite models are means, so only the mean of the law has a meaning


@dataclass(frozen=True, slots=True, kw_only=True)
class StoppedRefining(Fact):
    """The grid of states was not refined further, because the next models would be too large."""

    gap: float  # the width that was reached


@dataclass(frozen=True, slots=True, kw_only=True)
class NeutralWins(Fact):
    """On this grid no policy is proven better than the risk-neutral one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied(Fact):
    """A probability equals a level up to rounding, so the answer is not proven."""

    decidable: bool = False  # arithmetic="rational" decides the tie
    averaged: bool = False  # one of the levels of a buffered quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredInSingle(Fact):
    """The probabilities of falling short were stored in 32 bits, as asked for."""

    error: float  # bound on their relative error


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidedInFractions(Fact):
    """Exact fractions show that the shortfall is below the level."""

    shortfall: Fraction
    level: Fraction


@dataclass(frozen=True, slots=True, kw_only=True)
class BestMean(Fact):
    """The mean among all policies with a guarantee that keep a share of the largest margin."""

    mean: float
    gap: float  # to the proven bound on the mean of these policies; 0 if the mean is the best
    best: float  # the best mean of all policies
    guarantee: float
    margin: float = 0.0  # the share of the largest margin
    safest: float  # the mean of the policy with the largest margin
    mixture: bool = False  # a random draw between two policies comes closer to the bound


@dataclass(frozen=True, slots=True, kw_only=True)
class LowTail(Fact):
    """The runs below the guarantee are far worse than the worst runs of the risk-neutral policy; expected.py says when."""

    tau: float
    cvar: float  # mean of the worst share tau of runs; an upper bound if the law is bracketed
    neutral: float  # the same for the risk-neutral policy; a lower bound if its law is bracketed


@dataclass(frozen=True, slots=True, kw_only=True)
class BufferBelowMargin(Fact):
    """The buffer is below the margin, so the optimum is the quantile itself."""

    margin: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NoFinerGrid(Fact):
    """The bracket does not shrink to the requested gap: randomized policies are better than deterministic ones."""

    gap: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NearRandomized(Fact):
    """A deterministic policy comes close to the bound for randomized policies."""

    gap: float  # 0 if it attains the bound


@dataclass(frozen=True, slots=True, kw_only=True)
class BestDeterministic(Fact):
    """The value is proven for deterministic policies, up to a gap."""

    randomized: float  # the value of the best randomized policy
    gap: float = 0.0  # no deterministic policy exceeds the value by more


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFound(Fact):
    """A rule without memory, found by a local search."""

    best: bool  # no policy with memory is better
    value: float
    upper: float  # no policy with memory has more


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOrder(Fact):
    """The order of states and actions that the thresholds of a rule follow."""

    states: str  # "as given", "by number" or "in the order of the model"
    actions: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Guaranteed(Fact):
    """What holds under every kernel in the ball."""

    value: float
    objective: Objective  # for other objectives than a quantile, this policy was evaluated robustly


@dataclass(frozen=True, slots=True, kw_only=True)
class Promised(Fact):
    """What an estimate promises with its confidence."""

    value: float  # -inf if there is no promise
    objective: Objective
    confidence: float
    episodes: int  # of the log
    assumptions: tuple[str, ...]
    no_data: bool = False  # the declarations alone guarantee it
    start_estimated: bool = False  # the law of the first state comes from the log
    declare: str = ""  # the declaration that would help if there is no promise: "start", "reward_range" or neither
    old: float = -math.inf  # the promise of the old policy, the one that wrote the log; -inf if there is none
    old_assumptions: tuple[str, ...] = ()  # of that promise

    @property
    def keep_old(self) -> bool:
        """Whether the old policy has the higher promise."""
        return self.old > self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class SamePromise(Fact):
    """A policy other than the robust plan is handed out: it keeps the same promise and is worth more in the empirical model."""

    name: str  # of the policy
    objective: Objective
    value: float  # of the policy in the empirical model
    robust: float  # of the robust plan in the empirical model
    useless: bool  # every policy keeps the promise, or there is none
    highest: float | None = None  # the highest promise, if less was asked for


@dataclass(frozen=True, slots=True, kw_only=True)
class WorthMore(Fact):
    """The plug-in plan is worth more in the empirical model than the new plan, but promises less."""

    objective: Objective
    value: float  # of the plug-in plan in the empirical model
    chosen: float  # of the new plan in the empirical model
    promise: float | None  # None if it is useless


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift(Fact):
    """The logged actions change along the log, so the old policy has no promise."""

    p_value: float  # of the permutation test


@dataclass(frozen=True, slots=True, kw_only=True)
class LowersPromise(Fact):
    """A declaration lowers the promise."""

    declaration: str
    objective: Objective
    value: float  # the promise with it
    without: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStates(Fact):
    """The log records no successor for steps in these states, so the worst is assumed to follow."""

    states: tuple[str, ...]  # names
    steps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownStart(Fact):
    """The law of the first state is not known well enough for a promise at this level."""

    mass: float


@dataclass(frozen=True, slots=True, kw_only=True)
class UntriedState(Fact):
    """No action was ever tried in a state that is entered."""

    state: str
    stage: int | None  # from 1; None if the stages are pooled
    probability: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingToLearn(Fact):
    """Even the empirical model, taken as the true one, promises no more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UncertainRow(Fact):
    """The row whose uncertainty costs most."""

    state: str
    action: str
    stage: int | None  # from 1; None if the stages are pooled
    observations: int  # more than its visits if rows share noise
    visits: int
    radius: float
    outcomes: int  # different outcomes seen
    among: int  # number of uncertain rows, if this row has less than half of the cost; otherwise 0
